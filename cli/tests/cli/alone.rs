//! What acts on a node without serving keeps an agent away meanwhile, and lets a running one be.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use berth_agent_api::SocketLock;

const MACHINE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../drivers/fake/machines/pcpu.toml"
);

/// Each command that acts, with the address that nothing listens on as Placement where it needs one.
const ACTING: [&[&str]; 3] = [
    &["agent", "--once", "--deadline", "1s"],
    &["up", "--once"],
    &["placement", "migrate-compute-inventory"],
];

fn berth(state: &Path, arguments: &[&str]) -> Output {
    let config = tempfile::NamedTempFile::new().unwrap();
    Command::new(env!("CARGO_BIN_EXE_berth"))
        .env_clear()
        .arg("--config")
        .arg(config.path())
        .args(["--machine", MACHINE, "--state-dir"])
        .arg(state)
        .args(arguments)
        .env("BERTH__PLACEMENT__AUTH_TYPE", "none")
        .env("BERTH__PLACEMENT__ENDPOINT", "http://127.0.0.1:9")
        .env("BERTH__HOST", "node-1")
        .output()
        .unwrap()
}

#[test]
fn commands_that_change_a_node_are_refused_with_73_while_an_agent_runs() {
    let folder = tempfile::tempdir().unwrap();
    let agent = SocketLock::take(&folder.path().join("agent.sock")).unwrap();
    for arguments in ACTING {
        let ended = berth(folder.path(), arguments);
        let output = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(73), "{arguments:?}: {output}");
        assert!(
            output.contains("agent.sock.lock"),
            "{arguments:?}: {output}"
        );
    }
    assert!(!folder.path().join("compute_id").exists());
    drop(agent);
    let upgraded = berth(folder.path(), ACTING[2]);
    let output = String::from_utf8_lossy(&upgraded.stderr);
    assert_eq!(upgraded.status.code(), Some(0), "{output}");
}

#[test]
fn a_state_folder_that_cannot_be_created_is_74_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("file/state");
    fs::write(folder.path().join("file"), "").unwrap();
    let ended = berth(&state, ACTING[0]);
    let output = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(74), "{output}");
    let named = format!("cannot use the state folder {}", state.display());
    assert!(output.contains(&named), "{output}");
}

#[test]
fn read_only_commands_create_no_state_folder() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let ended = berth(&state, &["reshape", "plan"]);
    let output = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(69), "{output}");
    assert!(!state.exists(), "{output}");
}
