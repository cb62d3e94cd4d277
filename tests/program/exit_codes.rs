//! Every exit code that scripts and units depend on, from the program itself. 70, a bug, cannot be caused from outside;
//! the panic hook has its own test.

mod disk;
mod held;
mod plans;

use std::path::Path;
use std::time::Duration;

use berth_store::{Location, SqlError, SqlOptions, SqlStore, Transaction, Work};
use berth_tests::berth::Outcome;
use berth_tests::port::free_port;

use crate::program::hypervisor::{Hypervisor, PATIENCE};
use crate::program::placement_api::{Api, way};

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
        .open_to_everybody(&[("PLACEMENT_SERVICE", "127.0.0.1:0")]);
    let mut up = node.start(&["up"]);
    node.wait_until_healthy(&mut up);
    (node, up)
}

#[test]
fn a_refusal_of_the_running_agent_is_1_and_an_unreachable_agent_69() {
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
    expect(&away, 69, &["agent.sock", "hint:"]);
    expect(&node.run(&["provider", "tree"]), 69, &["127.0.0.1:0"]);
}

#[test]
fn an_invalid_database_is_refused_and_nothing_is_created() {
    let mut node = Hypervisor::new("pcpu", "node-1", "");
    let mut serve = |url: &str| node.run(&["placement", "serve", "--database", url]);
    let folder = tempfile::tempdir().expect("a folder");
    let typo = folder.path().join("typo");
    let url = format!("sqlite:{}/placement.sqlite", typo.display());
    let named = typo.display().to_string();
    expect(&serve(&url), 74, &[&named, "does not exist"]);
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
            let words = [
                "p.sqlite does not exist, or has no tables",
                "the database that the service uses",
            ];
            expect(&node.run(&[&upgrade[..], more].concat()), 74, &words);
        }
        let made = std::fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(made, usize::from(content.is_some()));
    }
}

#[test]
fn a_database_that_lost_a_table_is_74_and_the_table_is_not_recreated() {
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
fn a_database_of_another_release_is_78_for_every_service() {
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
    node.wait_until_healthy(&mut up);
    expect(&up.stop(PATIENCE).expect("it ends"), 0, &[]);
}

/// Runs one SQL statement directly on the database, as a user with a shell could.
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
        let store = store.expect("it is free");
        store.write(&Script(sql)).await.expect("it can be done");
        store.close().await;
    });
}

#[test]
fn a_silent_agent_is_69_after_the_time_limit() {
    let mut node = Hypervisor::new("pcpu", "node-1", "");
    let socket = node.home.path("silent.sock");
    let silent = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let shown = socket.display().to_string();
    node.home
        .set_env("BERTH__AGENT__ADMIN_SOCKET", shown.clone());
    let status = node.run(&["agent", "status", "--timeout", "1"]);
    expect(&status, 69, &[&shown, "no answer within 1s", "hint:"]);
    expect(
        &node.run(&["agent", "status", "--timeout", "0"]),
        64,
        &["--timeout"],
    );
    drop(silent);
}

#[test]
fn up_prints_the_next_steps_only_once_it_works() {
    let mut node = Hypervisor::new("pcpu", "node-1", "");
    node.home
        .write("machine.toml", "nodes = 3")
        .expect("a file");
    let machine = node.home.path("machine.toml").display().to_string();
    let up = node.run(&["--machine", &machine, "up"]);
    expect(&up, 78, &["machine.toml"]);
    assert!(!up.stdout.contains("next:"), "{}", up.stdout);
}

#[test]
fn an_invalid_state_folder_is_74() {
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
    node.wait_until_healthy(&mut agent);
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
fn placement_down_past_the_deadline_is_69_and_is_named() {
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
fn an_invalid_configuration_is_78_for_every_command() {
    let mut node = Hypervisor::new("pcpu", "node-1", "");
    // Nothing says where Placement is.
    expect(
        &node.run(&["agent", "--once"]),
        78,
        &["[placement]", "hint:"],
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
