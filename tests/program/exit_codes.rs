//! Every exit code that scripts and units branch on, from the program itself. 70, a bug, has no way to be made from
//! outside: the panic hook has a test beside it.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use berth_store::{Location, SqlError, SqlOptions, SqlStore, Transaction, Work};
use berth_tests::berth::{Outcome, program};
use berth_tests::exchange::Ask;
use berth_tests::process::{Process, Program, exit_code, free_port};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::hypervisor::{Hypervisor, PATIENCE};
use crate::placement_api::{Api, way};

/// The guest "single" of the machine with eight GPUs.
const SINGLE: &str = "f2e3fac2-308a-5bb4-a8d7-292d9a96eb01";
const STORAGE: &str = "5a0f1f5e-27a6-4a57-9f1c-0b1d8c1c7a01";

#[track_caller]
fn expect(outcome: &Outcome, code: i32, words: &[&str]) {
    let Outcome { stdout, stderr, .. } = outcome;
    assert_eq!(outcome.code, code, "{stdout}\n{stderr}");
    for word in words {
        assert!(stderr.contains(word), "{word}: {stderr}");
    }
    assert!(!stderr.contains("this is a bug"), "{stderr}");
}

/// `berth up` of a machine, on a port of its own, running and answering.
fn up(machine: &str) -> (Hypervisor, berth_tests::berth::RunningBerth) {
    let mut node = Hypervisor::new(machine, "node-1", "");
    node.home
        .set_env("BERTH__PLACEMENT_SERVICE__LISTEN", "127.0.0.1:0");
    let mut up = node.start(&["up"]);
    node.wait_until_well(&mut up);
    (node, up)
}

#[test]
fn a_refusal_of_the_running_agent_is_1_and_an_agent_that_is_away_69() {
    let (mut node, up) = up("pcpu");
    let refused = node.run(&["agent", "disable", "--reason", "two\nlines"]);
    expect(&refused, 1, &["reason"]);
    expect(
        &node.run(&["agent", "disable", "--reason", "x", "--dry-run"]),
        0,
        &[],
    );
    expect(&up.stop(PATIENCE).expect("it ends"), 0, &[]);
    let away = node.run(&["agent", "status"]);
    expect(&away, 69, &["agent.sock", "mend:"]);
    expect(&node.run(&["provider", "tree"]), 69, &["127.0.0.1:0"]);
}

#[test]
fn a_plan_tells_by_its_code_what_is_pending_and_is_followed_to_the_letter_or_refused() {
    let api = Api::lease();
    let mut node = Hypervisor::new("eight-gpu-flat", "plan-1", &api.way());
    let plan = ["reshape", "plan", "--detailed-exitcode"];
    let nothing_yet = node.run(&plan);
    expect(&nothing_yet, 2, &[]);
    assert!(nothing_yet.stdout.contains("VGPU: none -> 64"));
    expect(&node.once(), 0, &[]);
    expect(&node.run(&plan), 0, &[]);
    let root = node.root();
    api.claim(SINGLE, &[(&root, "VGPU", 1), (&root, "VCPU", 8)]);
    node.edit("vgpu = \"root\"", "vgpu = \"per-gpu\"");

    let file = node.home.path("plan.json").display().to_string();
    let reviewed = node.run(&["reshape", "plan", "--detailed-exitcode", "--out", &file]);
    expect(&reviewed, 75, &[]);
    assert!(reviewed.stdout.contains(SINGLE), "{}", reviewed.stdout);
    assert_eq!(api.names(&root), ["plan-1"], "a plan changes nothing");

    // One generation moves: an operator's trait.
    api.add_trait(&root, "CUSTOM_RACK_7");
    let follow = ["agent", "--once", "--expect-plan", &file];
    let moved = node.run(&follow);
    expect(&moved, 76, &["no longer holds", "reshape plan --out"]);
    assert_eq!(api.names(&root), ["plan-1"]);
    assert_eq!(api.held(SINGLE).len(), 2);

    expect(&node.run(&["reshape", "plan", "--out", &file]), 0, &[]);
    expect(&node.run(&follow), 0, &[]);
    assert_eq!(api.names(&root).len(), 9);
    let vgpu = ("plan-1_pci_0000_04_00_0".to_owned(), "VGPU".to_owned(), 1);
    assert!(api.held(SINGLE).contains(&vgpu), "{:?}", api.held(SINGLE));
    expect(&node.run(&plan), 0, &[]);
    // Its facts are gone.
    expect(&node.run(&follow), 76, &["no longer holds"]);
}

#[test]
fn a_reshape_that_no_rule_allows_is_76_in_the_plan_and_at_the_start() {
    let api = Api::lease();
    let mut node = Hypervisor::new("eight-gpu-flat", "refused-1", &api.way());
    expect(&node.once(), 0, &[]);
    let root = node.root();
    api.shared_storage(STORAGE, &root, 1000);
    api.claim(SINGLE, &[(&root, "VGPU", 1), (STORAGE, "DISK_GB", 100)]);
    // From now on Placement would not take the guest's disk again in one piece, whoever sends it.
    api.storage_inventory(STORAGE, &json!({"total": 1000, "max_unit": 10}));
    node.edit("vgpu = \"root\"", "vgpu = \"per-gpu\"");
    let words = ["DISK_GB", SINGLE, "max_unit"];
    for arguments in [
        &["reshape", "plan"][..],
        &["reshape", "plan", "--detailed-exitcode"],
    ] {
        expect(&node.run(arguments), 76, &words);
    }
    let agent = node.start(&["agent"]).wait(PATIENCE).expect("it ends");
    expect(&agent, 76, &words);
    assert_eq!(api.names(&root), ["refused-1"], "half-made children");
    assert_eq!(api.held(SINGLE).len(), 2);
}

#[test]
fn a_file_that_is_no_plan_is_refused_by_its_name() {
    let mut node = Hypervisor::new("pcpu", "node-1", &way("http://127.0.0.1:9"));
    let file = node.home.path("plan.json").display().to_string();
    let follow = ["agent", "--once", "--expect-plan", &file];
    expect(&node.run(&follow), 74, &[&file]);
    let plan = |nodes: serde_json::Value| json!({"api": "v1", "nodes": nodes}).to_string();
    let one = |generations: serde_json::Value| json!({"pending": "reshape", "text": "x", "generations": generations});
    for text in [
        String::new(),
        "\u{0}".to_owned(),
        "[]".to_owned(),
        "{\"nodes\": 3}".to_owned(),
        "[".repeat(100_000),
        plan(json!({"": one(json!({}))})),
        plan(json!({"node-1": one(json!({"no-uuid": 1}))})),
        plan(json!({"node-1": one(json!({"5a0f1f5e-27a6-4a57-9f1c-0b1d8c1c7a01": "1"}))})),
    ] {
        node.home.write("plan.json", &text).expect("a file");
        expect(&node.run(&follow), 78, &["plan"]);
    }
    // Neither is read: they have no end.
    let fifo = node.home.path("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    for endless in ["/dev/zero", &fifo.display().to_string()] {
        let follow = ["agent", "--once", "--expect-plan", endless];
        expect(&node.run(&follow), 74, &[endless, "not a regular file"]);
    }
}

#[test]
fn a_plan_of_three_nodes_is_followed_and_one_that_misses_a_node_is_refused() {
    let api = Api::lease();
    let mut node = Hypervisor::new("three-node-cluster", "cluster-1", &api.way());
    let file = node.home.path("plan.json").display().to_string();
    let plan = ["reshape", "plan", "--out", &file];
    let follow = ["agent", "--once", "--expect-plan", &file];
    expect(&node.run(&plan), 0, &[]);
    let whole = std::fs::read_to_string(&file).expect("a plan");
    let mut less: serde_json::Value = serde_json::from_str(&whole).expect("JSON");
    let nodes = less["nodes"].as_object_mut().expect("nodes");
    assert_eq!(nodes.len(), 3);
    let gone = nodes.keys().next().expect("a node").clone();
    nodes.remove(&gone);
    node.home
        .write("plan.json", &less.to_string())
        .expect("a file");
    expect(&node.run(&follow), 76, &["says nothing of node", &gone]);
    let roots = |api: &Api| {
        api.get("/resource_providers")["resource_providers"]
            .as_array()
            .map(Vec::len)
    };
    assert_eq!(roots(&api), Some(0));
    node.home.write("plan.json", &whole).expect("a file");
    expect(&node.run(&follow), 0, &[]);
    assert_eq!(roots(&api), Some(3));
}

#[test]
fn what_another_process_holds_is_73_and_named() {
    let (mut node, up) = up("pcpu");
    let database = node.home.state_dir().join("placement.sqlite");
    let database = database.display().to_string();
    let folder = node.home.state_dir().display().to_string();
    expect(&node.run(&["up"]), 73, &[&folder]);
    let url = format!("sqlite:{database}");
    let serve = ["placement", "serve", "--database", &url];
    expect(&node.run(&serve), 73, &[&database]);
    for upgrade in [
        &["placement", "migrate-compute-inventory"][..],
        &["placement", "migrate-compute-inventory", "--dry-run"],
    ] {
        expect(&node.run(upgrade), 73, &[&database]);
    }
    // Another database, the same agent.
    let endpoint = std::fs::read_to_string(node.home.state_dir().join("placement.endpoint"))
        .expect("up says where its Placement is");
    node.configure(&way(endpoint.trim()), "");
    expect(&node.run(&["agent"]), 73, &["agent.sock"]);
    let listen = endpoint.trim().trim_start_matches("http://");
    let other = format!("sqlite:{}", node.home.path("other.sqlite").display());
    let serve = [
        "placement",
        "serve",
        "--database",
        &other,
        "--listen",
        listen,
    ];
    expect(&node.run(&serve), 73, &[listen]);
    expect(&up.stop(PATIENCE).expect("it ends"), 0, &[]);
}

#[test]
fn a_database_that_cannot_be_meant_is_refused_and_nothing_is_made() {
    let mut node = Hypervisor::new("pcpu", "node-1", "");
    let mut serve = |url: &str| node.run(&["placement", "serve", "--database", url]);
    let folder = tempfile::tempdir().expect("a folder");
    let typo = folder.path().join("typo");
    let url = format!("sqlite:{}/placement.sqlite", typo.display());
    let named = typo.display().to_string();
    expect(&serve(&url), 74, &[&named, "is not there"]);
    assert!(!typo.exists());
    let url = format!("sqlite:{}/p.sqlite?mode=ro", folder.path().display());
    expect(&serve(&url), 78, &["no options behind a ?"]);
    expect(&serve("sqlite:"), 78, &["names no file"]);
    expect(&serve("sqlite:/dev/null"), 74, &["not a regular file"]);
    let path = folder.path().join("p.sqlite");
    let url = format!("sqlite:{}", path.display());
    for content in [None, Some("")] {
        if let Some(content) = content {
            std::fs::write(&path, content).expect("a file");
        }
        for more in [&[][..], &["--dry-run"]] {
            let upgrade = ["placement", "migrate-compute-inventory", "--database", &url];
            let words = ["there is no database at", "p.sqlite", "the service uses"];
            expect(&node.run(&[&upgrade[..], more].concat()), 74, &words);
        }
        let made = std::fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(made, usize::from(content.is_some()));
    }
}

#[test]
fn a_second_up_in_a_folder_names_the_first_and_leaves_it_alone() {
    let (mut node, mut up) = up("pcpu");
    let folder = node.home.state_dir().display().to_string();
    let pid = format!("pid {}", up.pid());
    // Nothing else of the two is the same.
    let own = node.home.path("second");
    std::fs::create_dir_all(&own).expect("a folder");
    let url = |name: &str| format!("sqlite:{}/{name}.sqlite", own.display());
    for (option, value) in [
        ("PLACEMENT_SERVICE__CONNECTION", url("placement")),
        ("ACCELERATOR_SERVICE__CONNECTION", url("accelerator")),
        (
            "AGENT__ADMIN_SOCKET",
            own.join("agent.sock").display().to_string(),
        ),
    ] {
        node.home.set_env(&format!("BERTH__{option}"), value);
    }
    expect(&node.run(&["up"]), 73, &[&folder, &pid, "--state-dir"]);
    let socket = node.home.path("agent.sock").display().to_string();
    node.home.set_env("BERTH__AGENT__ADMIN_SOCKET", socket);
    assert!(!up.has_ended(), "{}", up.stderr());
    for command in [
        &["agent", "status"][..],
        &["provider", "tree"],
        &["guest", "list"],
    ] {
        expect(&node.run(command), 0, &[]);
    }
    expect(&up.stop(PATIENCE).expect("it ends"), 0, &[]);
}

#[test]
fn a_database_that_lost_a_table_is_74_and_the_table_is_not_made_anew() {
    let (mut node, up) = up("pcpu");
    expect(&up.stop(PATIENCE).expect("it ends"), 0, &[]);
    let database = node.home.state_dir().join("placement.sqlite");
    write(&database, "DROP TABLE allocations");
    let url = format!("sqlite:{}", database.display());
    for arguments in [
        &["up"][..],
        &["placement", "serve", "--database", &url],
        &["placement", "migrate-compute-inventory"],
    ] {
        let words = ["lacks allocations", "restore it from a backup"];
        expect(&node.run(arguments), 74, &words);
    }
}

#[test]
fn what_another_release_wrote_is_78_whichever_service_it_is_of() {
    let (mut node, up) = up("pcpu");
    expect(&up.stop(PATIENCE).expect("it ends"), 0, &[]);
    for (file, other, ours) in [
        (
            "guests.db",
            "UPDATE guest_journal SET version = version + 97",
            "UPDATE guest_journal SET version = version - 97",
        ),
        (
            "conductor.db",
            "UPDATE conductor_journal SET version = version + 97",
            "UPDATE conductor_journal SET version = version - 97",
        ),
        (
            "accelerator.sqlite",
            "UPDATE accelerator_schema SET version = version + 97",
            "UPDATE accelerator_schema SET version = version - 97",
        ),
        (
            "placement.sqlite",
            "UPDATE alembic_version SET version_num = version_num || 'x'",
            "UPDATE alembic_version SET version_num = rtrim(version_num, 'x')",
        ),
    ] {
        let file = node.home.state_dir().join(file);
        let named = file.display().to_string();
        write(&file, other);
        expect(&node.run(&["up"]), 78, &["BERTH-E0311", &named]);
        write(&file, ours);
    }
    let mut up = node.start(&["up"]);
    node.wait_until_well(&mut up);
    expect(&up.stop(PATIENCE).expect("it ends"), 0, &[]);
}

/// One statement of SQL, as somebody with a shell would have run it.
pub(crate) fn write(database: &Path, sql: &'static str) {
    struct Script(&'static str);
    impl Work for Script {
        type Output = ();
        type Error = SqlError;

        async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
            tx.script(self.0).await
        }
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let location = Location::SqliteFile(database.to_owned());
        let store = SqlStore::open(&location, &SqlOptions::default()).await;
        let store = store.expect("nobody else has it");
        store.write(&Script(sql)).await.expect("it can be done");
        store.close().await;
    });
}

/// Starts `berth` where `state` is a file system of this size, seen by nobody else.
fn start_on_a_small_disk(node: &Hypervisor, size: &str, arguments: &[&str]) -> Process {
    let mount = format!(
        "mount -t tmpfs -o {size} none {} && exec \"$@\"",
        node.home.state_dir().display()
    );
    Program::new("unshare")
        .args(["--mount", "sh", "-c", &mount, "sh"])
        .arg(program().expect("berth is built"))
        .args(["--config", &node.home.config_file().display().to_string()])
        .args(arguments)
        // Another service may have the usual port.
        .env("BERTH__ACCELERATOR_SERVICE__LISTEN", "127.0.0.1:0")
        .start_with_outputs(&node.home.path("out"), &node.home.path("err"))
        .expect("it starts")
}

fn on_a_small_disk(node: &Hypervisor, size: &str, arguments: &[&str]) -> Outcome {
    let mut process = start_on_a_small_disk(node, size, arguments);
    let status = process.wait(PATIENCE).expect("it ends");
    let read = |name| std::fs::read_to_string(node.home.path(name)).unwrap_or_default();
    Outcome {
        code: exit_code(status),
        stdout: read("out"),
        stderr: read("err"),
    }
}

#[test]
fn a_disk_that_fills_up_under_a_running_placement_is_said_and_outlived() {
    let listen = "[placement_service]\nlisten = \"127.0.0.1:0\"";
    let node = Hypervisor::new("pcpu", "node-1", listen);
    let mut up = start_on_a_small_disk(&node, "size=2m", &["up"]);
    let well = || node.ask("/healthz").is_some_and(|it| it.status == 200);
    up.wait_until(PATIENCE, well).expect("it is well");
    // Its own view of the folder, seen from outside.
    let state = node.home.state_dir().display().to_string();
    let state = Path::new("/proc").join(format!("{}/root{state}", up.pid()));
    let url = std::fs::read_to_string(state.join("placement.endpoint")).expect("an endpoint");
    let mut made = 0;
    let mut make = || {
        made += 1;
        Ask::post(format!("{}/resource_providers", url.trim()))
            .header("x-auth-token", "admin")
            .json(&json!({"name": format!("provider-{made}")}))
            .send()
            .expect("an answer")
            .status
            .as_u16()
    };
    let mut fill = std::fs::File::create(state.join("fill")).expect("a file");
    while fill.write_all(&[0; 4096]).is_ok() {}
    let refused = (0..200).map(|_| make()).find(|status| *status >= 500);
    assert_eq!(refused, Some(500), "a full disk takes no row");
    let log = || std::fs::read_to_string(node.home.path("err")).unwrap_or_default();
    assert!(
        log().contains("disk with the database is full"),
        "{}",
        log()
    );
    drop(fill);
    std::fs::remove_file(state.join("fill")).expect("room again");
    assert_eq!(make(), 201, "{}", log());
    up.signal(Signal::SIGTERM);
    let ended = up.wait(PATIENCE).expect("it ends");
    assert_eq!(exit_code(ended), 0, "{}", log());
}

#[test]
fn an_agent_that_cannot_keep_that_it_is_disabled_says_74() {
    let listen = "[placement_service]\nlisten = \"127.0.0.1:0\"";
    let mut node = Hypervisor::new("pcpu", "node-1", listen);
    let mut up = start_on_a_small_disk(&node, "size=2m", &["up"]);
    let well = || node.ask("/healthz").is_some_and(|it| it.status == 200);
    up.wait_until(PATIENCE, well).expect("it is well");
    let state = node.home.state_dir().display().to_string();
    let state = Path::new("/proc").join(format!("{}/root{state}", up.pid()));
    let mut fill = std::fs::File::create(state.join("fill")).expect("a file");
    while fill.write_all(&[0; 4096]).is_ok() {}
    let disable = ["agent", "disable", "--reason", "x"];
    expect(&node.run(&disable), 74, &["disabled.json", "full", "mend:"]);
    drop(fill);
    std::fs::remove_file(state.join("fill")).expect("room again");
    expect(&node.run(&disable), 0, &[]);
    up.signal(Signal::SIGTERM);
    assert_eq!(exit_code(up.wait(PATIENCE).expect("it ends")), 0);
}

#[test]
fn an_agent_that_accepts_and_never_answers_is_69_after_the_time_given() {
    let mut node = Hypervisor::new("pcpu", "node-1", "");
    let socket = node.home.path("silent.sock");
    let silent = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let shown = socket.display().to_string();
    node.home
        .set_env("BERTH__AGENT__ADMIN_SOCKET", shown.clone());
    let status = node.run(&["agent", "status", "--timeout", "1"]);
    expect(&status, 69, &[&shown, "no answer within 1s", "mend:"]);
    expect(
        &node.run(&["agent", "status", "--timeout", "0"]),
        64,
        &["--timeout"],
    );
    drop(silent);
}

#[test]
fn up_says_what_is_next_only_once_it_works() {
    let listen = "[placement_service]\nlisten = \"127.0.0.1:0\"";
    let mut node = Hypervisor::new("pcpu", "node-1", listen);
    node.home
        .write("machine.toml", "nodes = 3")
        .expect("a file");
    let machine = node.home.path("machine.toml").display().to_string();
    let up = node.run(&["--machine", &machine, "up"]);
    expect(&up, 78, &["machine.toml"]);
    assert!(!up.stdout.contains("next:"), "{}", up.stdout);
}

#[test]
fn a_second_agent_leaves_the_state_folder_of_the_first_alone() {
    let (mut node, up) = up("pcpu");
    let unfinished = node.home.state_dir().join(".berth-of-the-first");
    std::fs::write(&unfinished, "half").expect("a file");
    let endpoint = std::fs::read_to_string(node.home.state_dir().join("placement.endpoint"))
        .expect("up says where its Placement is");
    node.configure(&way(endpoint.trim()), "");
    expect(&node.run(&["agent"]), 73, &["agent.sock"]);
    assert!(unfinished.exists(), "it is removed by who has the lock");
    expect(&up.stop(PATIENCE).expect("it ends"), 0, &[]);
}

#[test]
fn a_full_disk_is_74_and_says_what_could_not_be_written() {
    let listen = "[placement_service]\nlisten = \"127.0.0.1:0\"";
    for size in ["size=8k", "size=64k", "size=200k"] {
        let node = Hypervisor::new("pcpu", "node-1", listen);
        let full = on_a_small_disk(&node, size, &["up"]);
        expect(&full, 74, &[&node.home.state_dir().display().to_string()]);
    }
    let api = Api::lease();
    let mut node = Hypervisor::new("pcpu", "full-1", &api.way());
    // Room for the folder alone.
    let full = on_a_small_disk(&node, "nr_inodes=1", &["agent", "--once"]);
    expect(&full, 74, &[&node.home.state_dir().display().to_string()]);
    assert_eq!(
        api.get("/resource_providers")["resource_providers"],
        json!([])
    );
    // Room again, and it is as if nothing had been.
    expect(&node.once(), 0, &[]);
}

#[test]
fn a_state_folder_that_is_none_is_74() {
    let mut node = Hypervisor::new("pcpu", "node-1", &way("http://127.0.0.1:9"));
    node.home.write("file", "").expect("a file");
    let inside = node.home.path("file").join("state").display().to_string();
    for folder in [inside.as_str(), "/proc/berth"] {
        let agent = ["--state-dir", folder, "agent", "--once", "--deadline", "1s"];
        expect(&node.run(&agent), 74, &[folder]);
        expect(&node.run(&["--state-dir", folder, "up"]), 74, &[folder]);
    }
}

#[test]
fn a_machine_edited_while_the_agent_runs_is_75_and_the_next_start_reshapes() {
    let api = Api::lease();
    let mut node = Hypervisor::new("eight-gpu-flat", "edited-1", &api.way());
    let mut agent = node.start(&["agent"]);
    node.wait_until_well(&mut agent);
    let root = node.root();
    api.claim(SINGLE, &[(&root, "VGPU", 1), (&root, "VCPU", 8)]);
    node.edit("vgpu = \"root\"", "vgpu = \"per-gpu\"");
    let ended = agent.wait(PATIENCE).expect("it ends by itself");
    expect(&ended, 75, &["reshape", "edited-1", "next start"]);
    assert_eq!(api.names(&root), ["edited-1"], "a tick does not reshape");
    expect(&node.once(), 0, &[]);
    assert_eq!(api.names(&root).len(), 9);
    let (mut node, up) = up("eight-gpu-flat");
    node.edit("vgpu = \"root\"", "vgpu = \"per-gpu\"");
    expect(&up.wait(PATIENCE).expect("it ends"), 75, &["next start"]);
    let again = node.start(&["up", "--once"]).wait(PATIENCE);
    expect(&again.expect("it ends"), 0, &[]);
}

#[test]
fn placement_away_past_the_deadline_is_69_and_says_who_is_away() {
    let port = free_port().expect("a port");
    let mut node = Hypervisor::new("pcpu", "node-1", &way(&format!("http://127.0.0.1:{port}")));
    let started = std::time::Instant::now();
    let once = node.run(&["agent", "--once", "--deadline", "1s"]);
    expect(&once, 69, &[&port.to_string(), "refuses connections"]);
    assert!(started.elapsed() >= Duration::from_secs(1));
    for command in [&["provider", "tree"][..], &["reshape", "plan"]] {
        expect(&node.run(command), 69, &[&port.to_string()]);
    }
}

#[test]
fn a_configuration_that_cannot_be_is_78_for_every_command() {
    let mut node = Hypervisor::new("pcpu", "node-1", "");
    // Nothing says where Placement is.
    expect(
        &node.run(&["agent", "--once"]),
        78,
        &["[placement]", "mend:"],
    );
    node.configure("auth_typo = \"none\"", "");
    for command in [
        &["agent"][..],
        &["up"],
        &["reshape", "plan"],
        &["provider", "tree"],
        &["placement", "serve"],
        &["placement", "migrate-compute-inventory"],
        &["config", "check"],
    ] {
        expect(
            &node.run(command),
            78,
            &["berth.toml", "did you mean auth_type?"],
        );
    }
}
