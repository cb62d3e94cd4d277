//! Tests of an operator's hook: its input, and what happens to it.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use berth_hook::{Hook, HookError};

use crate::script_process::{DEADLINES, is_gone, number};

fn hook(folder: &tempfile::TempDir, script: &str) -> Hook {
    let [text, program] = ["text", "hook"].map(|name| folder.path().join(name));
    std::fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&text, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(&text, &program).unwrap();
    Hook {
        name: "reset hook",
        program,
        deadline: Duration::from_secs(60),
    }
}

async fn asked(script: &str) -> Result<(), HookError> {
    let folder = tempfile::tempdir().unwrap();
    hook(&folder, script)
        .ask([("BERTH_DEVICE_ADDRESS", "0000:81:00.0")])
        .await
}

#[tokio::test]
async fn it_knows_what_it_is_asked_and_nothing_of_our_environment() {
    asked("[ \"$BERTH_DEVICE_ADDRESS\" = 0000:81:00.0 ] && [ -z \"$CARGO\" ] && [ \"$PWD\" = / ]")
        .await
        .unwrap();
}

#[tokio::test]
async fn one_that_other_users_can_change_is_not_run_by_root() {
    let folder = tempfile::tempdir().unwrap();
    let hook = hook(&folder, "exit 0");
    let set = |mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&hook.program, permissions).unwrap();
    };
    hook.ask([("A", "")]).await.unwrap();
    // It was changed after the start of its caller.
    set(0o777);
    let asked = hook.ask([("A", "")]).await;
    let is_refused = matches!(asked, Err(HookError::Untrusted { .. }));
    assert_eq!(is_refused, berth_files::enforces_trust(), "{asked:?}");
    set(0o755);
    hook.ask([("A", "")]).await.unwrap();
}

#[tokio::test]
async fn its_reason_is_its_first_line_and_the_sentence_has_the_last_of_its_output() {
    let error = asked("echo >&2; printf 'XID\\t79:\\007 fell off\\nsecond\\n' >&2; exit 3")
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "XID 79: fell off");
    let sentence = error.to_string();
    assert!(sentence.contains("exit status: 3"), "{sentence}");
    assert!(
        sentence.ends_with(": XID 79: fell off second"),
        "{sentence}"
    );
    let silent = asked("exit 4").await.unwrap_err().reason();
    assert!(silent.contains("exit status: 4"), "{silent}");
    let endless = asked("head -c 3000000 /dev/zero | tr '\\0' x >&2; exit 1").await;
    assert_eq!(endless.unwrap_err().reason().len(), 400);
}

#[tokio::test]
async fn one_that_cannot_be_started_or_is_killed_did_not_say_yes() {
    let folder = tempfile::tempdir().unwrap();
    let mut gone = hook(&folder, "exit 0");
    gone.program = folder.path().join("nowhere");
    let error = gone.ask([("A", "")]).await.unwrap_err();
    assert!(error.reason().contains("cannot be started"), "{error}");
    let killed = asked("kill -9 $$").await.unwrap_err().reason();
    assert!(killed.contains("signal: 9"), "{killed}");
}

#[tokio::test]
async fn one_that_does_not_go_when_it_is_ended_is_late_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    // It leaves the group that is ended, as one in the middle of a call to a dead device outlasts a kill.
    let leaves =
        "setpgrp(0, getpgrp(getppid())); open(F, \">\", shift); print F $$; close F; sleep 1000";
    let mut hook = hook(
        &folder,
        &format!("exec perl -e '{leaves}' {}", started.display()),
    );
    for deadline in DEADLINES {
        hook.deadline = deadline;
        let error = hook.ask([("A", "")]).await.unwrap_err();
        assert!(matches!(error, HookError::Late { .. }), "{error}");
        if let Some(pid) = number(&started) {
            return is_gone(pid).await;
        }
    }
    panic!("it never began");
}

/// A hook with a script that starts a long-running process and writes its process id to a file.
fn hook_that_stays(folder: &tempfile::TempDir) -> (Hook, std::path::PathBuf) {
    let started = folder.path().join("started");
    let script = format!("sleep 1000 & echo $! > {}; wait", started.display());
    (hook(folder, &script), started)
}

#[tokio::test]
async fn at_its_deadline_all_that_it_started_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (mut hook, started) = hook_that_stays(&folder);
    for deadline in DEADLINES {
        hook.deadline = deadline;
        let error = hook.ask([("A", "")]).await.unwrap_err();
        assert!(matches!(error, HookError::Late { .. }), "{error}");
        let late = format!("timed out after {}s", deadline.as_secs());
        assert!(error.reason().contains(&late), "{error}");
        if let Some(pid) = number(&started) {
            return is_gone(pid).await;
        }
    }
    panic!("it never began");
}

#[tokio::test]
async fn when_nobody_wants_it_all_that_it_started_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (hook, started) = hook_that_stays(&folder);
    let begun = async {
        loop {
            if let Some(pid) = number(&started) {
                return pid;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let pid = tokio::select! {
        ended = hook.ask([("A", "")]) => panic!("{ended:?}"),
        pid = begun => pid,
    };
    is_gone(pid).await;
}
