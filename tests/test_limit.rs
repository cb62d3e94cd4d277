//! Tests of the time limit that packaging/scripts/run_tests.py gives to each test.

use std::env;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use berth_tests::limit::Limit;
use berth_tests::peer::checkout;
use berth_tests::scratch::Scratch;
use berth_tests::wait::LIMIT;
use serde_json::json;

#[test]
#[ignore = "never ends; another test runs it"]
fn planted_one_that_never_ends() {
    loop {
        std::thread::park();
    }
}

#[test]
#[ignore = "another test runs it"]
fn planted_two_that_passes() {}

/// Runs tests of a program, one second each.
fn run(program: &Path, arguments: &[&str], logs: &Scratch) -> Output {
    run_with(program, arguments, logs, &[])
}

fn run_with(
    program: &Path,
    arguments: &[&str],
    logs: &Scratch,
    environment: &[(&str, &Path)],
) -> Output {
    let message = json!({
        "executable": program,
        "manifest_path": checkout().join("tests/Cargo.toml"),
        "profile": {"test": true},
        "target": {"name": "planted"},
    });
    let mut runner = Command::new(checkout().join("packaging/scripts/run_tests.py"))
        .args(arguments)
        .env("TEST_LIMIT", "1")
        .env("TEST_QUIET", "0.5")
        .env("RUST_TEST_THREADS", "1")
        .env("CARGO_TARGET_DIR", logs.path())
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("Python runs");
    let _limit = Limit::of(&runner, LIMIT);
    let mut input = runner.stdin.take().expect("a pipe");
    writeln!(input, "{message}").expect("it reads");
    drop(input);
    runner.wait_with_output().expect("it ends")
}

#[track_caller]
fn assert_only_the_first_failed(ran: &Output, first: &str, passed: &str) {
    let (output, errors) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert!(!ran.status.success(), "{output}\n{errors}");
    assert!(output.contains("2 tests, 1 failed"), "{output}\n{errors}");
    assert!(
        output.contains(&format!("test {passed} ... ok")),
        "{output}"
    );
    let sentence = format!("{first}: it ran for more than 1 s and was ended; ");
    assert!(errors.contains(&sentence), "{errors}");
}

#[test]
fn a_hanging_test_fails_alone_with_a_report() {
    let logs = Scratch::new().expect("a directory");
    let this = env::current_exe().expect("this program");
    let ran = run(&this, &["planted_", "--ignored"], &logs);
    let name = |test: &str| format!("{}::{test}", module_path!().split_once("::").unwrap().1);
    let first = name("planted_one_that_never_ends");
    assert_only_the_first_failed(&ran, &first, &name("planted_two_that_passes"));
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(errors.contains("its thread is sleeping"), "{errors}");
}

/// If several tests run at once, libtest names only those that have run for a minute.
#[test]
fn a_test_that_is_known_to_run_for_a_minute_is_over_its_limit() {
    let scratch = Scratch::new().expect("a directory");
    let program = scratch.join("program");
    write_script(
        &program,
        "#!/bin/sh
case \"$*\" in
*--list*) printf 'hangs: test\\npasses: test\\n' ;;
*--exact*) echo 'test passes ... ok' ;;
*) echo 'test hangs has been running for over 60 seconds'; exec sleep 1000 ;;
esac
",
    );
    let ran = run(&program, &[], &scratch);
    assert_only_the_first_failed(&ran, "hangs", "passes");
}

#[test]
fn a_test_that_fails_next_to_others_runs_once_more_alone() {
    let scratch = Scratch::new().expect("a directory");
    let program = scratch.join("program");
    write_script(
        &program,
        "#!/bin/sh
case \"$*\" in
*--list*--exact*) printf 'slow: test\\n' ;;
*--list*) printf 'other: test\\nslow: test\\n' ;;
*--exact*) echo 'test slow ... ok' ;;
*) echo 'test other ... ok'; echo 'test slow ... FAILED'; exit 101 ;;
esac
",
    );
    let ran = run(&program, &[], &scratch);
    let output = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{output}");
    assert!(output.contains("2 tests, 0 failed"), "{output}");
    let line = "PASSED when run again alone: ./planted: slow\n";
    assert!(output.contains(line), "{output}");
    let ran = run_with(&program, &[], &scratch, &[("TEST_AGAIN", Path::new("0"))]);
    assert!(!ran.status.success());
}

#[test]
fn what_runs_for_long_is_named_meanwhile() {
    let scratch = Scratch::new().expect("a directory");
    let program = scratch.join("program");
    write_script(
        &program,
        "#!/bin/sh
case \"$*\" in
*--list*) printf 'first: test\\nlast: test\\n' ;;
*) echo 'test first ... ok'; sleep 3; echo 'test last ... ok' ;;
esac
",
    );
    let ran = run(&program, &[], &scratch);
    let output = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{output}");
    let begun = output.find("test: 1 programs, ").expect("the number");
    let running = "     0 of 1 programs have ended; running: ";
    let running = output.find(running).expect("a line meanwhile");
    let ended = output
        .find("(1 of 1 programs)\n")
        .expect("a line at the end");
    assert!(begun < running && running < ended, "{output}");
    assert!(output.contains("/planted (1 of 2 tests)\n"), "{output}");
}

#[test]
fn a_test_that_writes_to_the_output_is_not_taken_for_one_that_hangs() {
    let scratch = Scratch::new().expect("a directory");
    let (program, times) = (scratch.join("program"), scratch.join("times"));
    write_script(
        &program,
        "#!/bin/sh
case \"$*\" in
*--list*) printf 'talks: test\\nshouts: test\\nlast: test\\n' ;;
*)
    printf 'test talks ... '; sleep 0.2; echo 'a table'; echo ok
    printf 'test shouts ... a table\\nok\\n'
    printf 'test last ... '; sleep 0.5; echo ok; sleep 1
    ;;
esac
",
    );
    let ran = run_with(&program, &[], &scratch, &[("TEST_TIMES", &times)]);
    let output = String::from_utf8_lossy(&ran.stdout);
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{output}\n{errors}");
    let times = fs::read_to_string(times).expect("times");
    let measured = times.lines().filter_map(|line| line.rsplit('\t').next());
    assert_eq!(measured.collect::<Vec<_>>(), ["talks", "shouts", "last"]);
}

fn write_script(path: &Path, text: &str) {
    fs::write(path, text).expect("a script");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its mode");
}

#[test]
fn a_program_that_passed_runs_again_only_after_a_change() {
    let scratch = Scratch::new().expect("a directory");
    let (program, repository) = (scratch.join("program"), scratch.join("repository"));
    let script = "#!/bin/sh
case \"$*\" in
*--list*) echo 'passes: test' ;;
*) echo run >>runs; echo 'test passes ... ok' ;;
esac
";
    write_script(&program, script);
    fs::create_dir(&repository).expect("a directory");
    let git = Command::new("git")
        .arg("init")
        .current_dir(&repository)
        .output();
    assert!(git.expect("git runs").status.success());
    fs::write(repository.join(".git/info/exclude"), "/target\n").expect("a file");
    let peers = repository.join("target/peers");
    fs::create_dir_all(&peers).expect("a directory");
    let message = json!({
        "executable": program,
        "manifest_path": scratch.join("Cargo.toml"),
        "profile": {"test": true},
        "target": {"name": "planted"},
    });
    let messages = scratch.join("messages");
    fs::write(&messages, message.to_string()).expect("a file");
    let runs_after = |text: &str| {
        fs::write(repository.join("read_by_the_test"), text).expect("a file");
        let mut runner = Command::new(checkout().join("packaging/scripts/run_tests.py"))
            .current_dir(&repository)
            .env("CARGO_TARGET_DIR", scratch.join("target"))
            .env_remove("TEST_CACHE")
            .env_remove("TEST_TIMES")
            .env_remove("BLESS")
            .stdin(fs::File::open(&messages).expect("the file"))
            .stdout(Stdio::null())
            .spawn()
            .expect("Python runs");
        let _limit = Limit::of(&runner, LIMIT);
        assert!(runner.wait().expect("it ends").success());
        let runs = fs::read_to_string(scratch.join("runs")).expect("it ran");
        runs.lines().count()
    };
    assert_eq!(runs_after("a"), 1);
    assert_eq!(runs_after("a"), 1, "nothing changed");
    assert_eq!(runs_after("b"), 2);
    assert_eq!(runs_after("b"), 2, "nothing changed");
    fs::write(peers.join("made-by-a-test"), "").expect("a file");
    assert_eq!(runs_after("b"), 2, "no peer changed");
    fs::write(peers.join("stamp"), "").expect("a file");
    assert_eq!(runs_after("b"), 3, "the peers were installed again");
}
