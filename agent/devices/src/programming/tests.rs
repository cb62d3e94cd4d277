use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::*;

const PROGRAMMING: &str = "5c965fc9-a7cd-4d38-8ccb-d8821db50d03";

fn script(folder: &Path, text: &str) -> Hook {
    let program = folder.join("hook");
    std::fs::write(&program, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    Hook {
        name: "program hook",
        program,
        deadline: Duration::from_secs(60),
    }
}

fn target() -> OfferedHandle {
    OfferedHandle::Function("0000:84:00.1".parse().unwrap())
}

async fn run(hook: &Hook, program: &Program) -> Result<(), String> {
    crate::programming::run(hook, PROGRAMMING.parse().unwrap(), program, &target()).await
}

#[tokio::test]
async fn the_hook_gets_the_device_and_the_program_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let observation = folder.path().join("seen");
    let hook = script(
        folder.path(),
        &format!("env | sort > {}", observation.display()),
    );
    for (program, line) in [
        (
            Program::BitstreamId("image".to_owned()),
            "BERTH_BITSTREAM_ID=image",
        ),
        (
            Program::FunctionId("aes 256".to_owned()),
            "BERTH_FUNCTION_ID=aes 256",
        ),
    ] {
        assert_eq!(run(&hook, &program).await, Ok(()));
        let observation = std::fs::read_to_string(&observation).unwrap();
        let ours = observation
            .lines()
            .filter(|line| line.starts_with("BERTH_"));
        // `BERTH_HOOK_` variables are set for every hook.
        let observation: Vec<&str> = ours
            .filter(|line| !line.starts_with("BERTH_HOOK_"))
            .collect();
        let programming = format!("BERTH_PROGRAMMING={PROGRAMMING}");
        let mut expected = [
            line,
            "BERTH_DEVICE=0000:84:00.1",
            "BERTH_DEVICE_ADDRESS=0000:84:00.1",
            programming.as_str(),
        ];
        expected.sort_unstable();
        assert_eq!(observation, expected);
    }
}

#[tokio::test]
async fn a_failing_hanging_or_missing_hook_does_not_program() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::FunctionId("f".to_owned());
    let no = script(folder.path(), "echo 'wrong  shell' >&2\nexit 3");
    let refused = run(&no, &program).await.unwrap_err();
    assert!(
        refused.contains("exit status: 3") && refused.contains(": wrong shell"),
        "{refused}"
    );
    let never = Hook {
        deadline: Duration::from_millis(50),
        ..script(folder.path(), "sleep 1000 & wait")
    };
    let refused = run(&never, &program).await.unwrap_err();
    assert!(refused.contains("timed out after"), "{refused}");
    let absent = Hook {
        program: folder.path().join("absent"),
        ..never
    };
    let refused = run(&absent, &program).await.unwrap_err();
    assert!(refused.contains("cannot be started"), "{refused}");
}
