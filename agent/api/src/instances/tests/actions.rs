//! Tests of the action route: each action, its responses and its errors.

use std::sync::Arc;

use berth_agent_images::InstancesPath;
use berth_agent_instances::fault_harness::{
    FaultHarness, SimulatedFailure, SimulatedHypervisor, SimulatedResources, base, instances,
    with_disks,
};
use berth_agent_instances::{BuildContext, BuildOptions, Guests, ReconcileOutcome};
use berth_agent_journal::GuestRequest;
use berth_agent_journal::samples::{guest, request};
use berth_client::UpgradedConnection;
use berth_virt::guest_spec::{CpuModel, HostPath};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::instances::routes;
use crate::instances::tests::send;

/// An agent with one running guest and kernels in `/images`.
struct Bench {
    stage: FaultHarness,
    guests: Guests<SimulatedHypervisor, SimulatedResources>,
    router: axum::Router,
}

impl Bench {
    async fn with(request: GuestRequest) -> Self {
        Self::on(FaultHarness::new().await, request).await
    }

    async fn on(stage: FaultHarness, request: GuestRequest) -> Self {
        stage.bind(1, &[1, 2]);
        let guests = stage.guests().with_build_context(BuildContext {
            options: BuildOptions {
                instances: instances(),
                cpu_model: CpuModel::Default,
                kernel_directories: vec![HostPath::new("/images").unwrap()],
            },
            provider_trees: Arc::new(|_| None),
            device_conditions: None,
        });
        guests.create(&request).await.unwrap();
        let end = guests.reconcile_instance(guest(1)).await;
        assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
        let router = routes(&guests);
        Self {
            stage,
            guests,
            router,
        }
    }

    async fn act(&self, action: &Value) -> (u16, Value) {
        let path = format!("/v1/guests/{}/action", guest(1));
        send(&self.router, "POST", &path, action.to_string()).await
    }

    #[track_caller]
    fn accepted(&self, (status, body): (u16, Value), shown: &str) {
        assert_eq!((status, &body["status"]), (202, &json!(shown)), "{body}");
        assert_eq!(
            body["devices"],
            json!(["PCI function 0000:01:00.0", "PCI function 0000:02:00.0"]),
            "the guest keeps its devices"
        );
    }

    #[track_caller]
    fn refused(&self, (status, body): (u16, Value), code: &str, sentence: &str) {
        let expected = match code {
            "bad_request" => 400,
            "not_found" => 404,
            "held" => 503,
            _ => 409,
        };
        assert_eq!(
            (status, &body["error"]["code"]),
            (expected, &json!(code)),
            "{body}"
        );
        let message = body["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(sentence), "{message}");
    }

    fn root_is(&self, letter: char) -> bool {
        let file = self.stage.file(&format!("/instances/{}/disk", guest(1)));
        file.is_some_and(|text| text.contains(&base(letter)))
    }
}

/// The JSON of an image.
fn named(letter: char) -> Value {
    let checksum = format!("sha256:{}", letter.to_string().repeat(64));
    json!({"location": {"path": format!("/images/{letter}.raw")}, "checksum": checksum, "format": "raw"})
}

#[tokio::test]
async fn a_guest_is_paused_and_goes_on() {
    let bench = Bench::with(with_disks()).await;
    let paused = bench.act(&json!({"action": "pause"})).await;
    bench.accepted(paused, "paused");
    assert!(bench.stage.devices_of_running_guest(1).is_empty());
    // A repeated action has no effect.
    let again = bench.act(&json!({"action": "pause"})).await;
    bench.accepted(again, "paused");
    let active = bench.act(&json!({"action": "unpause"})).await;
    bench.accepted(active, "active");
    assert_eq!(bench.stage.devices_of_running_guest(1).len(), 2);
    for action in ["soft_reboot", "hard_reboot", "stop", "start"] {
        let shown = if action == "stop" {
            "stopped"
        } else {
            "active"
        };
        let done = bench.act(&json!({"action": action})).await;
        bench.accepted(done, shown);
    }
}

#[tokio::test]
async fn a_guest_is_rescued_from_an_image_or_a_kernel_and_comes_back_to_its_own() {
    for system in [
        json!({"action": "rescue", "image": named('b')}),
        json!({"action": "rescue", "kernel": {"kernel": "/images/vmlinuz", "command_line": "rescue"}, "grace_seconds": 1}),
    ] {
        let bench = Bench::with(with_disks()).await;
        let rescued = bench.act(&system).await;
        bench.accepted(rescued, "rescued");
        assert_eq!(
            bench.stage.devices_of_running_guest(1).len(),
            2,
            "with its devices"
        );
        let again = bench.act(&system).await;
        bench.accepted(again, "rescued");
        let rebuild = json!({"action": "rebuild", "image": named('c')});
        bench.refused(bench.act(&rebuild).await, "state", "unrescue it first");
        let back = bench.act(&json!({"action": "unrescue"})).await;
        bench.accepted(back, "active");
        let unrescue = bench.act(&json!({"action": "unrescue"})).await;
        bench.refused(unrescue, "state", "is not rescued");
    }
}

#[tokio::test]
async fn a_guest_is_rebuilt_from_another_image_with_its_devices() {
    let bench = Bench::with(with_disks()).await;
    assert!(bench.root_is('a'));
    let rebuild = json!({"action": "rebuild", "image": named('b'), "preserve_ephemeral": true});
    let rebuilt = bench.act(&rebuild).await;
    bench.accepted(rebuilt, "active");
    assert!(bench.root_is('b'));
    assert_eq!(bench.stage.devices_of_running_guest(1).len(), 2);
    // A stopped guest stays off.
    let stopped = bench.act(&json!({"action": "stop"})).await;
    bench.accepted(stopped, "stopped");
    let again = json!({"action": "rebuild", "image": named('c')});
    let rebuilt = bench.act(&again).await;
    bench.accepted(rebuilt, "stopped");
    // With the flavor's extra specs, the image's properties describe the devices.
    let mut image = named('b');
    image["properties"] = json!({"hw_disk_bus": "sata"});
    let with_specs =
        json!({"action": "rebuild", "image": image, "extra_specs": {"hw:boot_menu": "true"}});
    let rebuilt = bench.act(&with_specs).await;
    bench.accepted(rebuilt, "stopped");
    let documents = &bench.stage.world().documents;
    let machine = &documents.values().next().unwrap().machine;
    assert!(machine.boot_menu && machine.disk_bus == Some(berth_model::DiskBus::Sata));
}

#[tokio::test]
async fn what_devices_do_not_allow_is_refused_and_the_guest_runs_on() {
    let bench = Bench::with(with_disks()).await;
    for (action, sentence) in [
        (json!({"action": "suspend"}), "0000:01:00.0"),
        (
            json!({"action": "live_migrate", "destination": "compute2"}),
            "be moved while it runs",
        ),
    ] {
        bench.refused(bench.act(&action).await, "hypervisor", sentence);
        assert_eq!(bench.stage.devices_of_running_guest(1).len(), 2, "{action}");
    }
    let (_, shown) = send(
        &bench.router,
        "GET",
        &format!("/v1/guests/{}", guest(1)),
        "",
    )
    .await;
    assert_eq!(shown["status"], "active");
    // A guest without devices can be suspended, but not migrated.
    let plain = Bench::with(request(1, &[])).await;
    let (status, suspended) = plain.act(&json!({"action": "suspend"})).await;
    assert_eq!((status, &suspended["status"]), (202, &json!("stopped")));
    let moved = json!({"action": "live_migrate", "destination": "compute2"});
    plain.refused(plain.act(&moved).await, "hypervisor", "to another host");
}

#[tokio::test]
async fn an_action_that_makes_no_sense_is_refused_with_its_field() {
    let bench = Bench::with(with_disks()).await;
    let kernel = json!({"kernel": "/etc/shadow"});
    for (action, sentence) in [
        (
            json!({"action": "rescue"}),
            "needs either an image or a kernel",
        ),
        (
            json!({"action": "rescue", "image": named('b'), "kernel": {"kernel": "/images/vmlinuz"}}),
            "needs either an image or a kernel",
        ),
        (
            json!({"action": "rescue", "kernel": kernel}),
            "image_directories of the agent's configuration (currently: /images)",
        ),
        (json!({"action": "rebuild"}), "image"),
        (
            json!({"action": "rebuild", "image": {"location": {"path": "/images/b.raw"}, "format": "raw",
                "properties": {"hw_firmware_type": "uefi"}}}),
            "hw_firmware_type: the guest keeps its machine here",
        ),
        (
            json!({"action": "rebuild", "extra_specs": {}, "image": {"location": {"path": "/images/b.raw"}, "format": "raw",
                "checksum": format!("sha256:{}", "a".repeat(64)), "properties": {"hw_disk_bus": "ide"}}}),
            "hw_disk_bus: a q35 has no IDE bus",
        ),
        (
            json!({"action": "rebuild", "image": {"location": {"url": "ftp://host/x"}, "format": "raw"}}),
            "http",
        ),
        (
            json!({"action": "live_migrate", "destination": ""}),
            "destination",
        ),
        (json!({"action": "pause", "hard": true}), "hard"),
    ] {
        bench.refused(bench.act(&action).await, "bad_request", sentence);
    }
    let path = "/v1/guests/5c965fc9-a7cd-4d38-8ccb-d8821db50d03/action";
    let unknown = send(&bench.router, "POST", path, r#"{"action": "pause"}"#).await;
    bench.refused(unknown, "not_found", "no guest");
    // A guest with its own disk configuration has no root disk to rebuild.
    let plain = Bench::with(request(1, &[1, 2])).await;
    let rebuild = json!({"action": "rebuild", "image": named('b')});
    plain.refused(plain.act(&rebuild).await, "resource", "no root disk");
}

#[tokio::test]
async fn an_image_that_cannot_be_had_leaves_the_guest_as_it_was_and_a_start_that_fails_is_tried_again()
 {
    let bench = Bench::with(with_disks()).await;
    let rescue = json!({"action": "rescue", "image": named('b')});
    bench.stage.add_failure(SimulatedFailure::NoImage);
    bench.refused(
        bench.act(&rescue).await,
        "resource",
        "its checksum does not match",
    );
    assert_eq!(
        bench.stage.devices_of_running_guest(1).len(),
        2,
        "the guest was not changed"
    );
    bench.stage.clear_failures();
    bench.stage.add_failure(SimulatedFailure::StartFails);
    bench.refused(bench.act(&rescue).await, "held", "will be retried");
    let busy = bench.act(&json!({"action": "stop"})).await;
    bench.refused(busy, "busy", "rescue");
    bench.stage.clear_failures();
    let end = bench.guests.reconcile_instance(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
}

#[tokio::test]
async fn a_guests_console_is_shown_from_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let instances = InstancesPath::new(HostPath::new(folder.path().to_str().unwrap()).unwrap());
    let plain = request(1, &[1, 2]);
    let mut spec = plain.spec().clone();
    spec.console_log = instances.console_log(guest(1)).unwrap();
    let log = spec.console_log.as_path().to_owned();
    std::fs::create_dir(log.parent().unwrap()).unwrap();
    let arqs = plain.arqs().iter().copied().collect();
    let asked = GuestRequest::new(plain.node().clone(), arqs, spec).unwrap();
    let bench = Bench::on(FaultHarness::new().await.below(instances), asked).await;
    let path = format!("/v1/guests/{}/console", guest(1));
    let console = async |query: &str| {
        let request = axum::http::Request::get(format!("{path}{query}"));
        let request = request.body(axum::body::Body::empty()).unwrap();
        let answer = tower::ServiceExt::oneshot(bench.router.clone(), request);
        let answer = answer.await.unwrap();
        let kind = answer.headers()["content-type"]
            .to_str()
            .unwrap()
            .to_owned();
        let status = answer.status().as_u16();
        let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await;
        let text = String::from_utf8(body.unwrap().to_vec()).unwrap();
        (status, kind, text)
    };
    let plain_text = |text: &str| (200, "text/plain".to_owned(), text.to_owned());
    assert_eq!(
        console("").await,
        plain_text(""),
        "the console log is empty"
    );
    std::fs::write(&log, "one\ntwo\nlogin: ").unwrap();
    assert_eq!(console("").await, plain_text("one\ntwo\nlogin: "));
    assert_eq!(console("?lines=2").await, plain_text("two\nlogin: "));
    for query in ["?lines=-1", "?lines=many", "?bytes=1"] {
        let (status, _, text) = console(query).await;
        assert_eq!(status, 400, "{query}: {text}");
        assert!(text.contains("lines, a whole number"), "{text}");
    }
    // Nothing else of the host is shown under its name.
    std::fs::remove_file(&log).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &log).unwrap();
    let (status, _, text) = console("").await;
    assert_eq!(status, 403, "{text}");
    assert!(!text.contains("root:"), "{text}");
    let path = "/v1/guests/5c965fc9-a7cd-4d38-8ccb-d8821db50d03/console";
    let (status, unknown) = send(&bench.router, "GET", path, "").await;
    assert_eq!(status, 404, "{unknown}");
}

#[tokio::test]
async fn a_console_is_opened_for_a_request_that_switches_to_it() {
    let bench = Bench::with(request(1, &[1, 2])).await;
    let path = format!("/v1/guests/{}/console", guest(1));
    for (kind, status, code) in [
        ("vnc", 409, "no_console"),
        ("serial", 409, "no_console"),
        ("spice", 404, "not_found"),
    ] {
        let (found, body) = send(&bench.router, "GET", &format!("{path}/{kind}"), "").await;
        assert_eq!(
            (found, &body["error"]["code"]),
            (status, &json!(code)),
            "{body}"
        );
    }
    let screen = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = screen.local_addr().unwrap();
    bench.stage.world().screens = Some(address);
    let (status, body) = send(&bench.router, "GET", &format!("{path}/vnc"), "").await;
    let expected = json!({"kind": "vnc", "host": "127.0.0.1", "port": address.port()});
    assert_eq!((status, body), (200, expected));
    let open = async || {
        let request = axum::http::Request::get(format!("{path}/vnc"));
        let request = request.header("connection", "upgrade");
        let request = request.header("upgrade", "berth-console");
        let request = request.body(axum::body::Body::empty()).unwrap();
        let answer = tower::ServiceExt::oneshot(bench.router.clone(), request);
        answer.await.unwrap()
    };
    let mut consoles = Vec::new();
    for _ in 0..8 {
        let answer = open().await;
        assert_eq!(answer.status(), 101);
        let connection = answer.extensions().get::<UpgradedConnection>();
        consoles.push(connection.and_then(UpgradedConnection::take).unwrap());
        let (mut guest, _) = screen.accept().await.unwrap();
        guest.write_all(b"RFB 003.008\n").await.unwrap();
    }
    let mut greeting = [0; 12];
    consoles[7].read_exact(&mut greeting).await.unwrap();
    assert_eq!(&greeting, b"RFB 003.008\n");
    assert_eq!(
        open().await.status(),
        409,
        "it has its maximum number of connections"
    );
    drop(consoles);
    assert_eq!(open().await.status(), 101);
}

/// A change of a valid body.
type Change = fn(&mut Value);

/// A caller that may create guests may not read the host's files through them.
#[tokio::test]
async fn no_file_of_the_host_is_shown_or_opened_by_naming_it_in_a_guest() {
    let bench = Bench::with(with_disks()).await;
    let whole = |change: Change| {
        let mut body = serde_json::to_value(request(2, &[])).unwrap();
        change(&mut body);
        body.to_string()
    };
    let disk = |path: &str, base: Value| json!({"path": path, "base": base});
    let cases: [(&str, Change); 6] = [
        ("console_log", |body| {
            body["spec"]["console_log"] = json!("/etc/shadow");
        }),
        ("console_log", |body| {
            let other = format!("/instances/{}/disk", guest(1));
            body["spec"]["console_log"] = json!(other);
        }),
        ("disks.config_drive", |body| {
            body["spec"]["disks"]["config_drive"] = json!("/etc/shadow");
        }),
        ("disks", |body| {
            body["spec"]["disks"]["root"] = json!({"path": "/dev/sda", "base": null});
        }),
        ("boot.kernel", |body| {
            body["spec"]["boot"] = json!({"kernel": {"kernel": "/etc/shadow", "ramdisk": null,
                "command_line": ""}});
        }),
        ("boot.ramdisk", |body| {
            body["spec"]["boot"] = json!({"kernel": {"kernel": "/images/vmlinuz",
                "ramdisk": "/etc/shadow", "command_line": ""}});
        }),
    ];
    let console = format!("/v1/guests/{}/console", guest(2));
    for (field, change) in cases {
        let asked = send(&bench.router, "POST", "/v1/guests", whole(change)).await;
        bench.refused(asked, "file", field);
        let (status, _) = send(&bench.router, "GET", &console, "").await;
        assert_eq!(status, 404, "nothing is stored");
    }
    let based = disk(
        "/images/two.qcow2",
        json!({"path": "/etc/shadow", "format": "raw"}),
    );
    let mut body = serde_json::to_value(request(2, &[])).unwrap();
    body["spec"]["disks"]["root"] = based;
    let asked = send(&bench.router, "POST", "/v1/guests", body.to_string()).await;
    bench.refused(asked, "file", "disks.base");
    // A guest in a journal of an earlier version is not shown and not continued.
    let mut old = request(2, &[]).spec().clone();
    old.console_log = HostPath::new("/etc/passwd").unwrap();
    let old = GuestRequest::new(request(2, &[]).node().clone(), Vec::new(), old).unwrap();
    bench.stage.journaled(&old).await;
    let shown = send(&bench.router, "GET", &console, "").await;
    assert_eq!(shown.0, 403, "{shown:?}");
    let end = bench.guests.reconcile_instance(guest(2)).await;
    assert!(
        matches!(&end, ReconcileOutcome::Undone { reason } if reason.contains("/etc/passwd")),
        "{end:?}"
    );
}

#[tokio::test]
async fn an_action_by_an_id_is_done_once_and_an_id_that_is_none_is_refused() {
    let bench = Bench::with(with_disks()).await;
    let rebuild = json!({"action": "rebuild", "image": named('b')}).to_string();
    let action = format!("/v1/guests/{}/action", guest(1));
    let mut crossings = Vec::new();
    for id in ["req-1.7", "req-1.7", "req-2.8"] {
        let before = bench.stage.history().len();
        let path = format!("{action}?id={id}");
        let done = send(&bench.router, "POST", &path, rebuild.clone()).await;
        bench.accepted(done, "active");
        let crossed = bench.stage.history().split_off(before);
        let writes = crossed.iter().filter(|line| line.contains(" write "));
        crossings.push(writes.count() > 0);
    }
    assert_eq!(crossings, [true, false, true]);
    for query in ["id=", "id=a%20b", "other=1"] {
        let path = format!("{action}?{query}");
        let (status, refused) = send(&bench.router, "POST", &path, rebuild.clone()).await;
        assert_eq!(
            (status, &refused["error"]["code"]),
            (400, &json!("bad_query"))
        );
    }
}
