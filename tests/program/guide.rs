//! What the documentation tells people to type, typed: the guide's first steps, and the commands that `berth up` prints.

use std::fs;
use std::path::Path;
use std::process::Command;

use berth_tests::berth::{BerthHome, RunningBerth, program};
use berth_tests::peer::checkout;
use berth_tests::process::free_port;
use nix::sys::signal::Signal;

use crate::hypervisor::PATIENCE;

/// A command of a page and the lines that it shows beneath.
struct Step {
    command: String,
    shown: Vec<String>,
}

/// The `console` blocks of a page.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let blocks = page.split("```console\n").skip(1);
    let lines = blocks.filter_map(|rest| rest.split_once("```"));
    for line in lines.flat_map(|(block, _)| block.lines()) {
        match line.strip_prefix("$ ") {
            Some(command) => steps.push(Step {
                command: command.to_owned(),
                shown: Vec::new(),
            }),
            None => steps
                .last_mut()
                .expect("a block begins with a command")
                .shown
                .push(line.to_owned()),
        }
    }
    steps
}

/// Runs a line in a shell and gives what it printed.
#[track_caller]
fn shell(line: &str, home: &BerthHome, listen: &str) -> String {
    let output = Command::new("bash")
        .args(["-e", "-c", line])
        .current_dir(checkout())
        .env("BERTH__PLACEMENT_SERVICE__LISTEN", listen)
        .env("BERTH__ACCELERATOR_SERVICE__LISTEN", "127.0.0.1:0")
        .env("BERTH__CONDUCTOR_SERVICE__LISTEN", "127.0.0.1:0")
        .env("BERTH__API__LISTEN", "none")
        .env("HOME", home.path(""))
        .output()
        .expect("bash runs");
    let (stdout, stderr) = (output.stdout, output.stderr);
    let stdout = String::from_utf8_lossy(&stdout).into_owned();
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(output.status.success(), "{line}\n{stdout}\n{stderr}");
    stdout
}

/// Waits until the agent of a running `berth up` is well.
fn wait_until_well(up: &mut RunningBerth, socket: &Path) {
    let probe = || {
        let ask = Command::new("curl")
            .args(["-sf", "http://localhost/healthz", "--unix-socket"])
            .arg(socket)
            .output();
        ask.is_ok_and(|output| output.status.success())
    };
    up.wait_until(PATIENCE, probe).expect("it is well");
}

#[test]
fn the_first_steps_do_what_the_page_says() {
    let page = fs::read_to_string(checkout().join("docs/guide/first-steps.md")).expect("the page");
    let mut home = BerthHome::new().expect("a home");
    let port = free_port().expect("a port");
    let listen = format!("127.0.0.1:{port}");
    home.set_env("BERTH__PLACEMENT_SERVICE__LISTEN", &listen);
    let berth = program().expect("berth is built").display().to_string();
    let (machine, state) = (home.path("machine.toml"), home.path("steps"));
    let here = |text: &str| {
        text.replace("/tmp/berth-machine.toml", &machine.display().to_string())
            .replace("/tmp/berth-first-steps", &state.display().to_string())
            .replace("127.0.0.1:8778", &listen)
            .replace("target/debug/berth", &berth)
    };
    let mut running: Option<RunningBerth> = None;
    let steps = steps(&page);
    assert!(steps.len() > 8, "the page has commands");
    for step in steps {
        if step.command.starts_with("cargo build") {
            continue;
        }
        let command = here(&step.command);
        if let Some(arguments) = command.strip_prefix(&format!("{berth} up ")) {
            if let Some(up) = running.take() {
                let ended = up.wait(PATIENCE).expect("the one before ends");
                assert_eq!(ended.code, 75, "{}", ended.stderr);
            }
            let arguments = ["up"].into_iter().chain(arguments.split(' '));
            let mut up = home.start(arguments).expect("berth starts");
            wait_until_well(&mut up, &state.join("agent.sock"));
            running = Some(up);
            continue;
        }
        if command.contains(" placement migrate-") {
            let up = running.as_mut().expect("it was started");
            up.wait_until(PATIENCE, || false)
                .expect_err("the edit ends it");
        }
        let printed = shell(&command, &home, &listen);
        for line in step.shown {
            assert!(printed.contains(&line), "{command}: {line}\n{printed}");
        }
    }
    let mut up = running.expect("the page ends with a running node");
    up.signal(Signal::SIGINT);
    assert_eq!(up.wait(PATIENCE).expect("Ctrl-C ends it").code, 0);
}

#[test]
fn each_command_that_up_prints_works_when_it_is_pasted() {
    let mut home = BerthHome::new().expect("a home");
    let listen = "127.0.0.1:0";
    home.set_env("BERTH__PLACEMENT_SERVICE__LISTEN", listen);
    // A folder that a shell would take for two words.
    let state = home.path("a state");
    let machine = checkout().join("drivers/fake/machines/pcpu.toml");
    let mut up = home
        .start([
            "up",
            "--state-dir",
            "a state",
            "--machine",
            &machine.display().to_string(),
        ])
        .expect("berth starts");
    wait_until_well(&mut up, &state.join("agent.sock"));
    let said = up.stdout();
    let (_, next) = said.split_once("next:\n").expect("it says what is next");
    let mut worked = 0;
    for line in next.lines().map(str::trim) {
        let needs_openstack = line.contains(" openstack ");
        if needs_openstack && !there_is("openstack") {
            let clouds = fs::read_to_string(state.join("clouds.yaml")).expect("a file");
            assert!(
                line.contains("clouds.yaml") && clouds.contains("  berth:\n"),
                "{line}"
            );
            continue;
        }
        let printed = shell(line, &home, listen);
        assert!(printed.contains("cpu-01"), "{line}: {printed}");
        worked += 1;
    }
    assert!(worked >= 3, "{said}");
    assert_eq!(up.stop(PATIENCE).expect("it ends").code, 0);
    assert!(!state.join("placement.endpoint").exists(), "it is no more");
}

fn there_is(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output();
    found.is_ok_and(|output| output.status.success())
}
