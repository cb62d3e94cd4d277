//! Children that violate the protocol: each one is reported, killed with its process group, and restarted.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use berth_exec::{Backoff, Deadlines, ExecDriver};
use berth_model::{ConsumerUuid, Disposition};
use berth_virt::guest_spec::GuestDevice;
use berth_virt::{DeviceError, GuestError, HostEvent, ObserveError, VirtDriver as _, WantedDevice};
use tokio::time::sleep;
use uuid::Uuid;

/// The first process runs the body; each later one behaves well.
const PROLOGUE: &str = r#"#!/usr/bin/python3 -IS
import json, os, subprocess, sys, time

METHODS = ["observe", "guests", "destroy", "reset_device", "prepare_host"]
HELLO = {"protocol": 1, "driver": {"name": "rude", "version": "1"}, "methods": METHODS}
VIEW = {"hypervisor": {"kind": "x", "version": "1", "hostname": "h"},
        "nodes": [{"name": "n", "cpus": {"online": "0"}, "memory_mib": 1, "disk": "none"}]}

def send(message):
    text = message if isinstance(message, str) else json.dumps(message)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()

def answer(id, result):
    send({"jsonrpc": "2.0", "id": id, "result": result})

def asked():
    line = sys.stdin.readline()
    if not line:
        sys.exit()
    return json.loads(line)["id"]

def greet():
    answer(asked(), HELLO)

lives = len(open("lives").read()) if os.path.exists("lives") else 0
open("lives", "a").write("x")
if lives > 0:
    greet()
    while True:
        answer(asked(), VIEW)
"#;

fn driver_with(
    state: &Path,
    body: &str,
    change: impl FnOnce(&mut berth_exec::ExecOptions),
) -> ExecDriver {
    let program = state.join("driver");
    fs::write(&program, format!("{PROLOGUE}{body}")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut options = crate::options(&program, state);
    change(&mut options);
    ExecDriver::new(options)
}

fn driver(state: &Path, body: &str) -> ExecDriver {
    driver_with(state, body, |_| {})
}

#[tokio::test]
async fn each_rule_that_is_broken_is_reported_and_the_child_is_another_one_then() {
    let on_a_call = [
        ("sys.exit(3)", "exit status: 3"),
        (
            "print('no licence', file=sys.stderr); sys.exit(3)",
            "no licence",
        ),
        ("os.kill(os.getpid(), 11)", "signal: 11"),
        ("send('{')", "not JSON"),
        ("send('\\0\\0')", "not JSON"),
        ("send('[' * 10000)", "not JSON"),
        ("send([])", "it is no JSON object"),
        ("send({'id': id, 'result': VIEW})", "jsonrpc"),
        (
            "send({'jsonrpc': '2.0', 'id': id})",
            "neither result nor error",
        ),
        ("answer(id + 1, VIEW)", "answered the unknown call 3"),
        ("answer(str(id), VIEW)", "answered the unknown call"),
        ("answer(-1, VIEW)", "answered the unknown call"),
        ("answer(1, HELLO)", "answered call 1 a second time"),
        (
            "send({'jsonrpc': '2.0', 'id': None, 'error': {'code': -32700, 'message': 'what?'}})",
            "what?",
        ),
        (
            "send({'jsonrpc': '2.0', 'id': 9, 'method': 'observe'})",
            "which drivers may not send",
        ),
        (
            "send({'jsonrpc': '2.0', 'method': 'dance'})",
            "unknown notification \"dance\"",
        ),
        (
            "send({'jsonrpc': '2.0', 'method': 'changed', 'params': {'what': 'all'}})",
            "what: unknown variant",
        ),
        (
            "sys.stdout.write('x' * (100 << 20))",
            "more than 16777216 bytes",
        ),
        (
            "os.close(1); time.sleep(3600)",
            "closed its standard output",
        ),
        (
            "os.close(0); os.close(1); time.sleep(3600)",
            "closed its standard",
        ),
        (
            "[send({'jsonrpc': '2.0', 'method': 'changed', 'params': {'what': 'guests'}}) for _ in range(100000)]",
            "too many notifications",
        ),
        (
            "subprocess.Popen(['/bin/sleep', '3600']); sys.exit(4)",
            "exit status: 4",
        ),
        (
            "subprocess.Popen(['/bin/sleep', '3600'], start_new_session=True); sys.exit(4)",
            "exit status: 4",
        ),
    ];
    let at_the_start = [
        ("sys.exit(5)", "exit status: 5"),
        ("raise ValueError('no such card')", "no such card"),
        ("asked(); sys.exit(5)", "exit status: 5"),
        (
            "answer(asked(), {'protocol': 1})",
            "its answer to hello is invalid",
        ),
        (
            "answer(asked(), dict(HELLO, methods=[]))",
            "\"observe\", which every driver needs",
        ),
        (
            "send({'jsonrpc': '2.0', 'id': asked(), 'error': {'code': 1, 'message': 'not today'}})",
            "not today",
        ),
        ("send('hello')", "not JSON"),
    ];
    let bodies = on_a_call
        .map(|(does, message)| (format!("greet(); id = asked(); {does}\nasked()\n"), message));
    let starts = at_the_start.map(|(does, message)| (format!("{does}\nasked()\n"), message));
    for (body, message) in bodies.into_iter().chain(starts) {
        let state = tempfile::tempdir().unwrap();
        let driver = driver(state.path(), &body);
        let error = driver.observe().await.expect_err(&body);
        let text = error.to_string();
        assert!(text.contains(message), "{body}: {text}");
        if !message.contains("every driver needs") {
            assert_eq!(error.disposition(), Disposition::Retry, "{body}: {text}");
        }
        let view = driver
            .observe()
            .await
            .unwrap_or_else(|error| panic!("{body}: {error}"));
        assert_eq!(view.nodes.len(), 1);
        let lives = fs::read_to_string(state.path().join("lives")).unwrap();
        assert_eq!(lives.len(), 2, "{body}");
    }
}

#[tokio::test]
async fn a_call_whose_child_died_may_still_be_done() {
    let state = tempfile::tempdir().unwrap();
    let uuid = ConsumerUuid::from(Uuid::from_u128(1));
    let guests = driver(state.path(), "greet(); asked(); os.abort()");
    let error = guests.destroy(uuid).await.unwrap_err();
    assert_eq!(error.disposition(), Disposition::Retry);
    assert!(
        error.to_string().contains("may still be executed"),
        "{error}"
    );
    let state = tempfile::tempdir().unwrap();
    let devices = driver(state.path(), "greet(); asked(); os.abort()");
    let wanted = WantedDevice::of(GuestDevice::Mdev {
        uuid: Uuid::from_u128(1),
    });
    let error = devices.reset_device(&wanted).await.unwrap_err();
    assert_eq!(error.disposition(), Disposition::Retry);
    assert!(
        error.to_string().contains("may still be executed"),
        "{error}"
    );
}

#[tokio::test]
async fn silence_ends_with_the_deadline_and_the_child() {
    for body in ["greet(); asked(); time.sleep(3600)", "time.sleep(3600)"] {
        let state = tempfile::tempdir().unwrap();
        let patient = Deadlines::Each(Duration::from_secs(10));
        let driver = driver_with(state.path(), body, |options| options.deadlines = patient);
        let error = driver.observe().await.unwrap_err();
        assert_eq!(error.disposition(), Disposition::Retry);
        assert!(
            matches!(error, ObserveError::TimedOut { .. }),
            "{body}: {error}"
        );
        driver.observe().await.unwrap();
    }
}

#[tokio::test]
async fn what_a_child_forked_ends_with_it() {
    let state = tempfile::tempdir().unwrap();
    let body = "fork = subprocess.Popen(['/bin/sleep', '3600'])\n\
                open('fork', 'w').write(str(fork.pid))\ngreet(); asked(); send('{')\nasked()\n";
    let driver = driver(state.path(), body);
    driver.observe().await.unwrap_err();
    let pid = fs::read_to_string(state.path().join("fork")).unwrap();
    let begun = Instant::now();
    // Exited, or a zombie without a parent that waits for it.
    while fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(begun.elapsed() < Duration::from_mins(1), "{pid} runs");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_child_that_keeps_ending_is_started_later_each_time_and_says_when() {
    let state = tempfile::tempdir().unwrap();
    let program = state.path().join("driver");
    fs::write(&program, "#!/bin/sh\necho x >> lives\nexit 1\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut options = crate::options(&program, state.path());
    options.backoff = Backoff {
        first: Duration::from_hours(1),
        longest: Duration::from_hours(1),
        well_after: Duration::from_hours(1),
    };
    let driver = ExecDriver::new(options);
    let first = driver.observe().await.unwrap_err().to_string();
    assert!(first.contains("exit status: 1"), "{first}");
    for _ in 0..3 {
        let error = driver.observe().await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("exit status: 1") && text.contains("next restart in"),
            "{text}"
        );
        assert_eq!(error.disposition(), Disposition::Retry);
    }
    let lives = fs::read_to_string(state.path().join("lives")).unwrap();
    assert_eq!(lives.lines().count(), 1);
}

#[tokio::test]
async fn a_watcher_observes_again_when_a_child_died_between_calls() {
    use std::future::poll_fn;
    let state = tempfile::tempdir().unwrap();
    let body = "greet(); answer(asked(), VIEW); sys.exit(1)";
    let driver = driver(state.path(), body);
    let mut events = driver.watch();
    driver.observe().await.unwrap();
    let event = poll_fn(|context| events.as_mut().poll_next(context)).await;
    assert_eq!(event, Some(HostEvent::Unknown));
    driver.observe().await.unwrap();
}

#[tokio::test]
async fn a_program_that_cannot_run_is_a_mistake_in_the_configuration() {
    let state = tempfile::tempdir().unwrap();
    let text = state.path().join("text");
    fs::write(&text, "no program").unwrap();
    for program in [Path::new("/no/such/driver"), &text, Path::new("/")] {
        let driver = ExecDriver::new(crate::options(program, state.path()));
        let error = driver.observe().await.unwrap_err();
        assert_eq!(error.disposition(), Disposition::Fatal, "{error}");
        let text = error.to_string();
        assert!(text.contains("compute_driver: exec:/"), "{text}");
    }
}

#[tokio::test]
async fn another_version_of_the_protocol_is_a_mistake_in_the_configuration() {
    let state = tempfile::tempdir().unwrap();
    let driver = driver(state.path(), "answer(asked(), {'protocol': 7})\nasked()");
    let error = driver.observe().await.unwrap_err();
    assert_eq!(error.disposition(), Disposition::Fatal);
    assert!(error.to_string().contains("version 7"), "{error}");
}

#[tokio::test]
async fn what_a_driver_does_not_know_it_is_not_asked() {
    let state = tempfile::tempdir().unwrap();
    let body = "HELLO['methods'] = ['observe']\ngreet()\nwhile True:\n    answer(asked(), VIEW)\n";
    let driver = driver(state.path(), body);
    let guests = driver.guests().await;
    assert!(
        matches!(guests, Err(GuestError::NotSupported { .. })),
        "{guests:?}"
    );
    let suspended = driver.suspend(ConsumerUuid::from(Uuid::from_u128(1))).await;
    assert!(
        matches!(suspended, Err(GuestError::Unsupported { .. })),
        "{suspended:?}"
    );
    let device = GuestDevice::Mdev {
        uuid: Uuid::from_u128(1),
    };
    let checked = driver.check_device(&WantedDevice::of(device)).await;
    assert!(
        matches!(checked, Err(DeviceError::NotSupported { .. })),
        "{checked:?}"
    );
    assert!(driver.prepare_host().await.is_empty());
    driver.observe().await.unwrap();
}

#[tokio::test]
async fn answers_may_come_in_any_order_where_the_driver_takes_several_calls() {
    let state = tempfile::tempdir().unwrap();
    let body = "HELLO['concurrent_calls'] = 2\ngreet()\nids = [asked(), asked()]\n\
                [answer(id, VIEW) for id in reversed(ids)]\nasked()\n";
    let driver = driver(state.path(), body);
    let (one, other) = tokio::join!(driver.observe(), driver.observe());
    assert_eq!(one.unwrap(), other.unwrap());
}

#[tokio::test]
async fn a_wrong_answer_is_reported_by_its_path_and_the_child_lives() {
    let state = tempfile::tempdir().unwrap();
    let body = "greet()\nVIEW['nodes'][0]['gpus'] = [{'address': '0000:84:00.0'}, {'address': 'x'}]\n\
                answer(asked(), VIEW)\nVIEW['nodes'][0]['gpus'] = []\nanswer(asked(), VIEW)\nasked()\n";
    let driver = driver(state.path(), body);
    let error = driver.observe().await.unwrap_err();
    assert!(
        error.to_string().contains("nodes[0].gpus[1].address"),
        "{error}"
    );
    assert_eq!(error.disposition(), Disposition::Retry);
    driver.observe().await.unwrap();
    let lives = fs::read_to_string(state.path().join("lives")).unwrap();
    assert_eq!(lives.len(), 1);
}

#[tokio::test]
async fn the_child_ends_when_the_driver_is_let_go_and_sees_no_password() {
    let state = tempfile::tempdir().unwrap();
    let body = "greet()\nopen('environment', 'w').write(' '.join(os.environ))\n\
                answer(asked(), VIEW)\nsys.stdin.read()\nopen('over', 'w').close()\n";
    let driver = driver(state.path(), body);
    driver.observe().await.unwrap();
    drop(driver);
    let begun = Instant::now();
    while !state.path().join("over").exists() {
        assert!(
            begun.elapsed() < Duration::from_mins(1),
            "the child continues"
        );
        sleep(Duration::from_millis(20)).await;
    }
    let environment = fs::read_to_string(state.path().join("environment")).unwrap();
    assert!(environment.contains("PATH"), "{environment}");
    assert!(!environment.contains("CARGO"), "{environment}");
}
