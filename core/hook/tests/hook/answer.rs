//! Tests of a program that answers a document, and of programs that do not.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use berth_hook::{Hook, HookError, HookInput};

use crate::script_process::{DEADLINES, is_gone, is_there, number};

const MOST: usize = 100_000;

/// What a script answers to a document within a time.
async fn answered(script: &str, document: &[u8], deadline: Duration) -> Result<Vec<u8>, HookError> {
    let folder = tempfile::tempdir().unwrap();
    let [text, program] = ["text", "hook"].map(|name| folder.path().join(name));
    std::fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&text, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(&text, &program).unwrap();
    let hook = Hook {
        name: "plugin",
        program,
        deadline,
    };
    let asked = HookInput {
        arguments: &["--one", "two"],
        document,
        most: MOST,
    };
    hook.answer(asked).await
}

#[tokio::test]
async fn one_that_is_open_for_writing_is_started_once_it_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("hook");
    std::fs::write(&program, "#!/bin/sh\nprintf yes\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let hook = Hook {
        name: "plugin",
        program: program.clone(),
        deadline: LONG,
    };
    let asked = HookInput {
        arguments: &[],
        document: b"",
        most: MOST,
    };
    let open = std::fs::OpenOptions::new().append(true).open(program);
    let close = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        drop(open.unwrap());
    };
    let (answer, ()) = tokio::join!(hook.answer(asked), close);
    assert_eq!(answer.unwrap(), b"yes");
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn it_reads_the_document_and_its_answer_is_what_it_writes() {
    let large = vec![b'x'; 99_000];
    for (script, document, expected) in [
        ("cat", &b"hello"[..], &b"hello"[..]),
        ("cat", &large, &large),
        ("printf '%s' \"$1 $2\"", b"", b"--one two"),
        ("printf deaf", &large, b"deaf"),
        ("printf deaf; exec <&-; sleep 0.1", &large, b"deaf"),
        ("echo noise >&2; printf yes", b"", b"yes"),
        ("exit 0", b"", b""),
    ] {
        let got = answered(script, document, LONG).await.unwrap();
        assert!(got == expected, "{script}: {} bytes", got.len());
    }
}

#[tokio::test]
async fn one_that_ends_otherwise_than_with_0_has_not_answered() {
    let error = answered("echo yes; echo 'no power' >&2; exit 3", b"", LONG)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "no power");
    let error = answered("kill -9 $$", b"", LONG).await.unwrap_err();
    assert!(error.to_string().contains("signal: 9"), "{error}");
}

#[tokio::test]
async fn one_that_writes_without_end_is_ended() {
    for script in ["yes", "yes & wait", "yes & yes"] {
        let error = answered(script, b"", LONG).await.unwrap_err();
        assert!(
            matches!(error, HookError::TooLong { most: MOST, .. }),
            "{error}"
        );
        assert!(
            error
                .to_string()
                .ends_with("wrote more than 100000 bytes and was killed")
        );
    }
}

/// The program is too late, and that which wrote its number into the file is gone soon.
async fn is_late_and_ended(script: &str, started: &std::path::Path) {
    is_gone(is_late(script, started).await).await;
}

/// The program is too late; the number of what wrote it into the file.
async fn is_late(script: &str, started: &std::path::Path) -> u32 {
    for deadline in DEADLINES {
        let error = answered(script, b"", deadline).await.unwrap_err();
        assert!(matches!(error, HookError::Late { .. }), "{error}");
        if let Some(pid) = number(started) {
            return pid;
        }
    }
    panic!("it never began");
}

#[tokio::test]
async fn one_that_hangs_is_ended_with_all_that_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let script = format!("sleep 1000 & echo $! > {}; wait", started.display());
    is_late_and_ended(&script, &started).await;
}

/// The two marks by which a program is found at the end, each alone: its environment if its parent is gone, and its
/// parent if the environment is cleared.
#[tokio::test]
async fn one_that_hangs_is_ended_with_what_left_its_group() {
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let file = started.display();
    for script in [
        format!("setsid sh -c 'echo $$ > {file}; exec sleep 1000' & wait"),
        format!("setsid setsid -f sh -c 'echo $$ > {file}; exec sleep 1000'; sleep 1000"),
        format!("env -i PATH=$PATH setsid sh -c 'echo $$ > {file}; exec sleep 1000' & wait"),
        // It holds no pipe, so nothing waits for it but the program.
        format!("setsid sh -c 'echo $$ > {file}; exec sleep 1000' <&- >&- 2>&- & sleep 1000"),
    ] {
        let _ = std::fs::remove_file(&started);
        is_late_and_ended(&script, &started).await;
    }
}

/// A process without both marks continues, but nothing waits for it, even if it holds open files of ours.
#[tokio::test]
async fn one_that_nothing_can_end_holds_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let file = started.display();
    let script = format!(
        "env -i PATH=$PATH setsid -f sh -c 'echo $$ > {file}; exec sleep 1000'; while [ ! -s {file} ]; do :; done; printf yes"
    );
    let pid = is_late(&script, &started).await;
    assert!(is_there(pid));
    // Its output is lost: its pipes have no reader.
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(pid.try_into().unwrap()),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
}
