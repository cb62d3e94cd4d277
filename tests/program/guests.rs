//! `berth up` from a device profile to a running guest and its deletion, through kills: everything in one process,
//! driven by commands.

use std::time::Duration;
use std::{fs, thread};

use berth_tests::berth::RunningBerth;
use berth_tests::exchange::HttpCall;
use serde_json::Value;

use crate::program::exit_codes::write;
use crate::program::hypervisor::{Hypervisor, PATIENCE};

/// A machine with accelerators on which `berth up` runs, and a kernel that guests may name.
pub(crate) struct Host {
    pub(crate) node: Hypervisor,
    pub(crate) up: RunningBerth,
    kernel: String,
}

impl Host {
    fn start(name: &str) -> Self {
        Self::start_with(name, &[])
    }

    /// With further variables in its environment.
    pub(crate) fn start_with(name: &str, environment: &[(&str, &str)]) -> Self {
        Self::start_with_images(name, environment, None)
    }

    /// The same, where guests may name the images of one more folder, too.
    pub(crate) fn start_with_images(
        name: &str,
        environment: &[(&str, &str)],
        folder: Option<&str>,
    ) -> Self {
        let mut node = Hypervisor::new("accelerators", name, "");
        for (variable, value) in environment {
            node.home.set_env(variable, value);
        }
        let images = node.home.path("images");
        fs::create_dir(&images).expect("a folder");
        let kernel = images.join("vmlinuz").display().to_string();
        fs::write(&kernel, "a kernel, as far as a fake machine looks").expect("a file");
        node.home
            .open_to_everybody(&[("PLACEMENT_SERVICE", "127.0.0.1:0")]);
        let mut folders = images.display().to_string();
        if let Some(folder) = folder {
            folders = format!("{folders},{folder}");
        }
        node.home
            .set_env("BERTH__IMAGE_CACHE__IMAGE_DIRECTORIES", folders);
        node.home.set_env("BERTH__RECONCILE_INTERVAL", "1");
        // A kill between the accelerator service's answer and the conductor's journal leaves unknown requests.
        node.home
            .set_env("BERTH__ACCELERATOR_SERVICE__UNBOUND_REQUEST_GRACE", "15");
        if !fs::read_to_string(node.home.path("machine.toml"))
            .expect("a machine")
            .contains("COMPUTE_ACCELERATORS")
        {
            node.edit(
                "traits = [\"HW_CPU_X86_AVX2\"]",
                "traits = [\"HW_CPU_X86_AVX2\", \"COMPUTE_ACCELERATORS\"]",
            );
        }
        let mut up = node.start(&["up"]);
        node.wait_until_healthy(&mut up);
        Self { node, up, kernel }
    }

    /// SIGKILL, and another life over the same state.
    pub(crate) fn kill_and_start_again(&mut self) {
        self.up.kill();
        self.up = self.node.start(&["up"]);
        self.node.wait_until_healthy(&mut self.up);
    }

    #[track_caller]
    pub(crate) fn done(&mut self, arguments: &[&str]) -> String {
        let outcome = self.node.run(arguments);
        let log = self.up.stderr();
        assert_eq!(outcome.code, 0, "{arguments:?}: {}\n{log}", outcome.stderr);
        outcome.stdout
    }

    #[track_caller]
    fn listed(&mut self, arguments: &[&str]) -> Vec<Value> {
        let arguments = [arguments, &["-f", "json"]].concat();
        let text = self.done(&arguments);
        let value: Value = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"));
        // A list stands by itself, or under its noun.
        let list = value
            .as_object()
            .and_then(|object| object.values().find_map(Value::as_array));
        let list = list.or_else(|| value.as_array());
        list.unwrap_or_else(|| panic!("{arguments:?}: {text}"))
            .clone()
    }

    pub(crate) fn create(&mut self, name: &str) {
        let kernel = self.kernel.clone();
        self.done(&[
            "guest",
            "create",
            name,
            "--vcpus",
            "1",
            "--ram",
            "256",
            "--kernel",
            &kernel,
            "--device-profile",
            "gpu",
        ]);
    }

    /// Asks again and again until what is listed is so.
    pub(crate) fn until(
        &mut self,
        arguments: &[&str],
        wanted: impl Fn(&[Value]) -> bool,
    ) -> Vec<Value> {
        let begun = std::time::Instant::now();
        loop {
            let listed = self.listed(arguments);
            if wanted(&listed) {
                return listed;
            }
            let log = self.up.stderr();
            assert!(
                begun.elapsed() < PATIENCE,
                "{arguments:?}: {listed:?}\n{log}"
            );
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// What Placement has of allocations of this consumer.
    fn allocations(&self, consumer: &str) -> Value {
        let endpoint = self.node.home.state_dir().join("placement.endpoint");
        let endpoint = fs::read_to_string(endpoint).expect("up says where Placement is");
        let url = format!("{}/allocations/{consumer}", endpoint.trim());
        let answer = HttpCall::get(url).header("x-auth-token", "admin").send();
        answer.expect("Placement answers").json()["allocations"].clone()
    }

    /// How many devices guests can have.
    fn devices(&mut self) -> usize {
        self.listed(&["device", "list"]).len()
    }

    /// Nothing of any guest is anywhere.
    fn assert_nothing_left(&mut self, consumers: &[String], devices: usize) {
        self.until(&["guest", "list"], <[Value]>::is_empty);
        self.until(&["accelerator", "request", "list"], <[Value]>::is_empty);
        for consumer in consumers {
            assert_eq!(
                self.allocations(consumer),
                serde_json::json!({}),
                "{consumer}"
            );
        }
        self.until(&["device", "list"], |all| {
            all.iter()
                .filter(|device| device["state"] == "free")
                .count()
                == devices
        });
        assert_eq!(self.node.home.fake_guests(), Vec::<Value>::new());
        let output = self.done(&["reconcile", "--dry-run"]);
        assert!(output.contains("nothing differs"), "{output}");
    }
}

fn uuid(guest: &Value) -> String {
    guest["uuid"].as_str().expect("a UUID").to_owned()
}

#[test]
fn a_guest_boots_from_a_profile_with_its_device_through_kills_and_its_delete_leaves_nothing() {
    let mut host = Host::start("guests-1");
    let devices = host.devices();
    host.done(&[
        "accelerator",
        "profile",
        "create",
        "gpu",
        "--group",
        "resources:PGPU=1",
    ]);
    let mut consumers = Vec::new();
    // The kill falls at another step of the boot, and of the delete, each time.
    for (round, pause) in [0, 30, 80, 150, 250, 400].into_iter().enumerate() {
        let name = format!("job-{round}");
        host.create(&name);
        thread::sleep(Duration::from_millis(pause));
        host.kill_and_start_again();
        let guests = host.until(&["guest", "list"], |guests| {
            guests.iter().any(|guest| guest["status"] == "active")
        });
        let [guest] = guests.as_slice() else {
            panic!("one guest was asked for: {guests:?}");
        };
        consumers.push(uuid(guest));
        let devices_of = guest["devices"].to_string();
        assert!(devices_of.contains("PCI function"), "{guest}");
        let held = host.allocations(&consumers[round]).to_string();
        assert!(held.contains("PGPU"), "{held}");
        host.until(&["accelerator", "request", "list"], |all| {
            all.len() == 1 && all[0]["state"] == "Bound"
        });
        // It is there after one more life, with its device.
        host.kill_and_start_again();
        host.until(&["guest", "list"], |guests| {
            guests.iter().all(|guest| guest["status"] == "active")
        });
        host.done(&["guest", "delete", &name]);
        thread::sleep(Duration::from_millis(pause / 4));
        host.kill_and_start_again();
        host.assert_nothing_left(&consumers, devices);
    }
    assert_eq!(host.up.stop(PATIENCE).expect("it ends").code, 0);
}

#[test]
fn more_guests_than_devices_are_refused_with_the_reason_and_a_profile_in_use_stays() {
    let mut host = Host::start("guests-2");
    let devices = host.devices();
    host.done(&[
        "accelerator",
        "profile",
        "create",
        "gpu",
        "--group",
        "resources:PGPU=1",
    ]);
    for name in ["one", "two"] {
        host.create(name);
    }
    host.until(&["guest", "list"], |guests| {
        guests.len() == 2 && guests.iter().all(|guest| guest["status"] == "active")
    });
    let kernel = host.kernel.clone();
    let refused = host.node.run(&[
        "guest",
        "create",
        "three",
        "--vcpus",
        "1",
        "--ram",
        "256",
        "--kernel",
        &kernel,
        "--device-profile",
        "gpu",
        "--wait",
    ]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("PGPU"), "{}", refused.stderr);
    // A guest that could not start is refused before anything is created for it.
    let absent = format!("{kernel}-6.12");
    let size = ["--vcpus", "1", "--ram", "256", "--wait"];
    let create = ["guest", "create", "four", "--kernel", &absent];
    let refused = host.node.run(&[&create[..], &size].concat());
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    let expected = format!("boot.kernel: file {absent} does not exist on this host");
    assert!(refused.stderr.contains(&expected), "{}", refused.stderr);
    let in_use = host.node.run(&["accelerator", "profile", "delete", "gpu"]);
    assert_eq!(in_use.code, 1, "{}", in_use.stderr);
    let guests = host.listed(&["guest", "list"]);
    for guest in &guests {
        host.done(&["guest", "delete", &uuid(guest), "--wait"]);
    }
    let consumers: Vec<String> = guests.iter().map(uuid).collect();
    host.assert_nothing_left(&consumers, devices);
    host.done(&["accelerator", "profile", "delete", "gpu"]);
    assert_eq!(host.up.stop(PATIENCE).expect("it ends").code, 0);
}

#[test]
fn a_guest_with_lost_allocations_gets_them_back_with_its_device() {
    let mut host = Host::start("guests-7");
    let groups = ["gpu", "--group", "resources:PGPU=1"];
    host.done(&[&["accelerator", "profile", "create"][..], &groups].concat());
    host.create("one");
    let guests = host.until(&["guest", "list"], |guests| {
        guests.iter().any(|guest| guest["status"] == "active")
    });
    let guest = uuid(&guests[0]);
    let before = host.allocations(&guest);
    let endpoint = host.node.home.state_dir().join("placement.endpoint");
    let endpoint = fs::read_to_string(endpoint).expect("up says where Placement is");
    let url = format!("{}/allocations/{guest}", endpoint.trim());
    let ask = HttpCall::new(http::Method::DELETE, url).header("x-auth-token", "admin");
    assert_eq!(ask.send().expect("an answer").status, 204);
    let lost = host.listed(&["reconcile", "--dry-run"]);
    let codes: Vec<_> = lost.iter().map(|it| &it["code"]).collect();
    assert_eq!(codes, ["allocation_missing"]);
    let audited = host.listed(&["placement", "audit"]);
    let one: Vec<_> = audited
        .iter()
        .filter(|it| it["consumer"] == guest.as_str())
        .collect();
    assert_eq!(one.len(), 1, "{audited:?}");
    assert_eq!(one[0]["remedy"], "berth placement heal-allocations");
    host.done(&["placement", "heal-allocations", "--guest", &guest]);
    let now = host.allocations(&guest);
    // What a guest's disk takes is not seen at the hypervisor.
    let of_class = |allocations: &serde_json::Value, class: &str| -> Vec<String> {
        let providers = allocations.as_object().expect("an object").iter();
        let of = providers.filter(|(_, of)| of["resources"].get(class).is_some());
        of.map(|(provider, of)| format!("{provider}: {}", of["resources"][class]))
            .collect()
    };
    for class in ["PGPU", "VCPU", "MEMORY_MB"] {
        assert_eq!(of_class(&now, class), of_class(&before, class), "{class}");
    }
    let output = host.done(&["reconcile", "--dry-run"]);
    assert!(output.contains("nothing differs"), "{output}");
    assert_eq!(host.up.stop(PATIENCE).expect("it ends").code, 0);
}

#[test]
fn an_unreadable_guest_in_a_journal_is_reported_until_it_is_readable() {
    let mut host = Host::start("guests-5");
    host.done(&[
        "accelerator",
        "profile",
        "create",
        "gpu",
        "--group",
        "resources:PGPU=1",
    ]);
    host.create("one");
    host.until(&["guest", "list"], |guests| {
        guests.iter().any(|guest| guest["status"] == "active")
    });
    let manager = host.node.managed();
    for file in ["guests.db", "conductor.db"] {
        host.up.kill();
        let journal = host.node.home.state_dir().join(file);
        write(&journal, "UPDATE guest SET course = '?' || course");
        host.up = host.node.start(&["up"]);
        let is_reported = || {
            host.node.ask("/healthz").is_some_and(|answer| {
                let text = answer.text();
                answer.status == 503
                    && ["state-files", file, "unreadable record"]
                        .iter()
                        .all(|word| text.contains(word))
            }) && manager.status().contains("unreadable record")
        };
        host.up
            .wait_until(PATIENCE, is_reported)
            .expect("it is reported");
        if file == "conductor.db" {
            let listed = host.node.run(&["guest", "list", "-f", "value"]);
            assert!(listed.stdout.contains(file), "{listed:?}");
        }
        host.up.kill();
        write(&journal, "UPDATE guest SET course = ltrim(course, '?')");
        host.up = host.node.start(&["up"]);
        host.node.wait_until_healthy(&mut host.up);
        host.until(&["guest", "list"], |guests| {
            guests.iter().any(|guest| guest["status"] == "active")
        });
    }
    assert_eq!(host.up.stop(PATIENCE).expect("it ends").code, 0);
}

#[test]
fn a_second_service_on_the_port_is_reported_by_its_option() {
    let own = [
        ("BERTH__ACCELERATOR_SERVICE__LISTEN", "127.0.0.1:0"),
        ("BERTH__ACCELERATOR_SERVICE__AUTH_STRATEGY", "noauth2"),
    ];
    let first = Host::start_with("guests-3", &own);
    let endpoint = first.node.home.state_dir().join("accelerator.endpoint");
    let endpoint = fs::read_to_string(endpoint).expect("up says where it is");
    let address = endpoint.trim().trim_start_matches("http://").to_owned();
    let mut second = Hypervisor::new("accelerators", "guests-4", "");
    second
        .home
        .open_to_everybody(&[("ACCELERATOR_SERVICE", &address)]);
    let ended = second.run(&["up"]);
    assert_eq!(ended.code, 73, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("[accelerator_service] listen"),
        "{}",
        ended.stderr
    );
    assert_eq!(first.up.stop(PATIENCE).expect("it ends").code, 0);
}

#[test]
fn a_guest_gets_both_functions_of_a_xilinx_card_by_a_profile_of_one_gate_array() {
    let mut host = Host::start("guests-6");
    let devices = host.devices();
    host.node.edit(
        "[[node.guest]]",
        "[[node.device]]\naddress = \"0000:d8:00.0\"\nvendor = \"10ee\"\nproduct = \"5001\"\ntype = \"FPGA\"\n\
         traits = [\"CUSTOM_FPGA_XILINX\"]\nfunctions = [\"0000:d8:00.0\", \"0000:d8:00.1\"]\ntogether = true\n\n[[node.guest]]",
    );
    // One device, two handles; neither is given out before it was cleaned.
    let of_card = |all: &[Value]| -> Vec<Value> {
        let is_its = |device: &&Value| device["name"].to_string().contains("0000:d8:00.");
        all.iter().filter(is_its).cloned().collect()
    };
    host.until(&["device", "list"], |all| {
        let card = of_card(all);
        card.len() == 2 && card.iter().all(|it| it["state"] == "free")
    });
    // Cyborg's own example of such a profile.
    let group = "resources:FPGA=1,trait:CUSTOM_FPGA_XILINX=required";
    host.done(&["accelerator", "profile", "create", "gpu", "--group", group]);
    host.create("one");
    let guests = host.until(&["guest", "list"], |guests| {
        guests.iter().any(|guest| guest["status"] == "active")
    });
    let consumer = uuid(&guests[0]);
    let bound = host.listed(&["accelerator", "request", "list"]);
    assert!(
        bound.len() == 2 && bound.iter().all(|it| it["state"] == "Bound"),
        "{bound:?}"
    );
    let given = guests[0]["devices"].to_string();
    for function in ["0000:d8:00.0", "0000:d8:00.1"] {
        assert!(given.contains(function), "{given}");
    }
    let held = host.allocations(&consumer);
    let held: Vec<&Value> = held
        .as_object()
        .into_iter()
        .flat_map(|of| of.values())
        .collect();
    let units = held
        .iter()
        .map(|it| it["resources"]["FPGA"].as_u64().unwrap_or(0));
    assert_eq!(units.sum::<u64>(), 1, "{held:?}");
    let output = host.done(&["reconcile", "--dry-run"]);
    assert!(output.contains("nothing differs"), "{output}");
    // No guest gets half of a card.
    let kernel = host.kernel.clone();
    let size = ["--vcpus", "1", "--ram", "256", "--kernel", &kernel];
    let create = [
        "guest",
        "create",
        "two",
        "--device-profile",
        "gpu",
        "--wait",
    ];
    let refused = host.node.run(&[&create[..], &size].concat());
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("FPGA"), "{}", refused.stderr);
    for name in ["one", "two"] {
        host.done(&["guest", "delete", name, "--wait"]);
    }
    host.assert_nothing_left(&[consumer], devices + 2);
    assert_eq!(host.up.stop(PATIENCE).expect("it ends").code, 0);
}
