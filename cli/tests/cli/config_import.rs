//! `berth config import`: which files it reads and writes, and what it prints.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value as Json;
use tempfile::TempDir;

const NOVA: &str = "[DEFAULT]\nhost = gpu-1\ndebug = True\ntransport_url = rabbit://nova:CANARY-rabbit@192.0.2.1/\n\
                    [placement]\npassword = CANARY-placement\n";

/// A folder with a nova.conf and a folder of further files.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let further = folder.path().join("conf.d");
    fs::create_dir(&further).unwrap();
    fs::write(folder.path().join("nova.conf"), NOVA).unwrap();
    for (name, host) in [
        ("20.conf", "gpu-20"),
        ("10.conf", "gpu-10"),
        ("99.txt", "none"),
        (".30.conf", "none"),
    ] {
        fs::write(further.join(name), format!("[DEFAULT]\nhost = {host}\n")).unwrap();
    }
    folder
}

fn import(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(["config", "import", "nova.conf", "conf.d"])
        .args(["--output", "berth.toml", "--secrets", "secrets"])
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .output()
        .unwrap()
}

fn printed(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    format!("{}{errors}", String::from_utf8_lossy(&output.stdout))
}

#[test]
fn an_import_writes_the_configuration_and_a_private_file_for_each_secret() {
    let folder = folder();
    let output = import(folder.path(), &[]);
    let shown = printed(&output);
    assert_eq!(output.status.code(), Some(0), "{shown}");
    assert!(
        shown.contains("conf.d/20.conf:2: [DEFAULT] host -> host"),
        "{shown}"
    );
    let toml = fs::read_to_string(folder.path().join("berth.toml")).unwrap();
    assert!(toml.contains("host = \"gpu-20\""), "{toml}");
    assert!(
        !shown.contains("CANARY") && !toml.contains("CANARY"),
        "{shown}{toml}"
    );
    let secret = folder.path().join("secrets/placement.password");
    assert_eq!(fs::read_to_string(&secret).unwrap(), "CANARY-placement\n");
    let mode = fs::metadata(&secret).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(
        toml.contains(&format!(
            "password_file = {:?}",
            secret.canonicalize().unwrap()
        )),
        "{toml}"
    );
}

#[test]
fn a_file_that_exists_is_replaced_with_the_option_replace_only() {
    let folder = folder();
    let file = folder.path().join("berth.toml");
    fs::write(&file, "# mine\n").unwrap();
    let output = import(folder.path(), &[]);
    let shown = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(
        shown.contains("berth.toml") && shown.contains("--replace"),
        "{shown}"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "# mine\n");
    assert!(!folder.path().join("secrets").exists());
    let output = import(folder.path(), &["--replace"]);
    assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
    assert!(fs::read_to_string(&file).unwrap().contains("gpu-20"));
}

#[test]
fn a_dry_run_writes_nothing_and_prints_the_report_as_json() {
    let folder = folder();
    let output = import(folder.path(), &["--dry-run", "-f", "json"]);
    let shown = printed(&output);
    let document: Json = serde_json::from_slice(&output.stdout).expect(&shown);
    assert_eq!(document["written"], false);
    assert_eq!(
        document["report"]["meaningless"][0]["option"],
        "[DEFAULT] debug"
    );
    assert!(!shown.contains("CANARY"), "{shown}");
    assert!(!folder.path().join("berth.toml").exists() && !folder.path().join("secrets").exists());
}

#[test]
fn a_wrong_line_is_named_and_not_shown() {
    let folder = folder();
    fs::write(folder.path().join("nova.conf"), "[DEFAULT]\nCANARY\n").unwrap();
    let output = import(folder.path(), &[]);
    let shown = printed(&output);
    assert_eq!(output.status.code(), Some(78), "{shown}");
    assert!(
        shown.contains("nova.conf:2: there is no '=' or ':'"),
        "{shown}"
    );
    assert!(!shown.contains("CANARY"), "{shown}");
    assert!(!folder.path().join("berth.toml").exists());
}
