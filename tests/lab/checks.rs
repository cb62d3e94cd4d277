//! Tests of the lab's own checks: without a host to ask, none of them may pass.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn host() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("lab/host")
}

/// Runs a shell script with the checks' functions; their waits return immediately.
fn shell(words: &str) -> Output {
    let scratch = tempfile::tempdir().expect("a folder");
    let script = format!(
        ". '{0}/checks.sh'; within() {{ shift; \"$@\"; }}; {words}",
        host().display()
    );
    let ran = Command::new("bash")
        .args(["-c", &script])
        .env("WORDS", scratch.path())
        .env("HOST", host())
        .output();
    ran.expect("bash runs")
}

#[test]
fn a_failed_query_is_neither_yes_nor_no() {
    for (words, status) in [
        ("says b echo abc", 0),
        ("says x echo abc", 1),
        ("says . true", 1),
        ("says . false", 2),
        ("says b not-a-program", 2),
        ("not says x echo abc", 0),
        ("not says b echo abc", 1),
        ("not says x false", 1),
        ("not says '(' echo abc", 1),
        ("not not-a-program", 1),
        ("says_nothing true", 0),
        ("says_nothing echo", 0),
        ("says_nothing echo abc", 1),
        ("says_nothing false", 2),
    ] {
        let ran = shell(words);
        assert_eq!(ran.status.code(), Some(status), "{words}: {ran:?}");
    }
}

#[test]
fn without_an_answer_a_check_does_not_pass() {
    let programs = tempfile::tempdir().expect("a folder");
    for name in ["berth", "virsh", "curl", "pgrep", "find", "ls", "lspci"] {
        let path = programs.path().join(name);
        fs::write(&path, "#!/bin/sh\nexit 69\n").expect("a program");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it can be run");
    }
    let path = programs.path().display();
    let ran = shell(&format!(
        "PATH={path}:$PATH; . \"$HOST/node.sh\"; nothing_is_left"
    ));
    let output = String::from_utf8_lossy(&ran.stdout);
    let of = |word: &str| output.lines().filter(|line| line.contains(word)).count();
    assert_eq!((of(" ok "), of(" FAILED ")), (0, 9), "{output}");
}

#[test]
fn no_check_holds_because_its_command_fails() {
    let mut seen = 0;
    for file in fs::read_dir(host()).expect("a folder").flatten() {
        let text = fs::read_to_string(file.path()).expect("a script");
        for line in text
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'))
        {
            let in_check = line.trim_start().starts_with("check ");
            let silent = in_check && line.contains("-z \"$(");
            let piped = line.contains("\"! ") || line.contains("{ ! ");
            let name = file.file_name();
            assert!(!silent && !piped, "{}: {line}", name.display());
            seen += usize::from(in_check);
        }
    }
    assert!(seen > 80, "{seen} checks");
}
