//! What the documentation tells people to type, typed: the guide's first steps, the README's `openstack` commands, and the commands
//! that `berth up` prints.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use berth_tests::berth::{BerthHome, RunningBerth, program};
use berth_tests::peer::checkout;
use berth_tests::port::free_port;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::cloud::{Cloud, operator, password, served};
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

/// The commands of the README's walk: the lines of the block beneath its heading.
fn walk() -> Vec<String> {
    let page = fs::read_to_string(checkout().join("README.md")).expect("the page");
    let (_, section) = page
        .split_once("\n## Ask it by `openstack`\n")
        .expect("its heading");
    let (_, block) = section.split_once("```\n").expect("a block");
    let (block, _) = block.split_once("```").expect("its end");
    block.lines().map(str::to_owned).collect()
}

/// A file of images with the one that `make run` makes.
fn images(home: &BerthHome) -> String {
    let image = home.path("berth-guest.raw");
    fs::write(&image, served()).expect("a file");
    let text = format!(
        "[[image]]\nname = \"berth-guest\"\nid = \"9a17439a-85d0-4c53-a3d3-0f68a2eac898\"\nfile = \"{}\"\ndisk_format = \"raw\"\n",
        image.display()
    );
    let file = home.write("images.toml", &text).expect("a file");
    file.display().to_string()
}

/// The node of `make run` is one with a fake machine here, on which guests' consoles are silent.
#[test]
fn the_readmes_openstack_commands_do_what_it_says_word_for_word() {
    let home = BerthHome::new().expect("a home");
    let images = images(&home);
    let images = [("BERTH__COMPUTE_SERVICE__IMAGES_FILE", images.as_str())];
    let mut cloud = Cloud::start("readme-up", &images);
    let mut operator = operator(&cloud.state());
    let commands = walk();
    let [install, login, commands @ ..] = commands.as_slice() else {
        panic!("{commands:?}");
    };
    // The peers are this client, and the operator here has logged in.
    let pinned = fs::read_to_string(checkout().join("tests/peers/requirements.txt"));
    let pinned = pinned.expect("what the peers are");
    let (_, packages) = install.split_once("/bin/pip install ").expect("a pip");
    for package in packages.split(' ') {
        assert!(pinned.contains(&format!("\n{package}==")), "{package}");
    }
    assert_eq!(login, ". target/run/guest/openrc");
    assert!(commands.len() > 12, "{commands:?}");
    for command in commands {
        let words = command.strip_prefix("openstack ").expect("the client");
        if words.starts_with("console log show") {
            let shown = operator.json("server show web");
            let id = shown["id"].as_str().expect("an id");
            let log = cloud.state().join(format!("instances/{id}/console.log"));
            fs::write(log, "berth-guest: ready\n").expect("the guest's folder is there");
        }
        let said = operator.done(words);
        let verb: Vec<&str> = words.split(' ').take(3).collect();
        let (shows, becomes) = match verb.join(" ").as_str() {
            "hypervisor list" | "resource provider list" => ("readme-up", None),
            "compute service list" => ("nova-compute", None),
            "accelerator device profile" => ("PGPU", None),
            "flavor create tiny" => ("accel:device_profile='gpu'", None),
            "server create web" => ("ACTIVE", None),
            "server show web" => ("readme-up", None),
            "accelerator arq list" => ("Bound", None),
            "console log show" => ("berth-guest: ready", None),
            "server stop web" => ("", Some("SHUTOFF")),
            "server start web" | "server reboot web" => ("", Some("ACTIVE")),
            "server delete web" => ("", None),
            _ => panic!("what is {command} to show?"),
        };
        assert!(said.contains(shows), "{command}: {said}");
        // Who types is not that quick.
        if let Some(status) = becomes {
            operator.until("web", status);
        }
    }
    assert_eq!(operator.json("server list"), json!([]));
    let end = Instant::now() + PATIENCE;
    while operator.json("accelerator arq list") != json!([]) {
        assert!(Instant::now() < end, "its requests do not go");
        thread::sleep(Duration::from_millis(100));
    }
    let password = password(&cloud.state());
    let told = cloud.host.up.stdout() + &cloud.host.up.stderr();
    assert!(!told.contains(&password), "nobody is told the password");
    cloud.host.kill_and_start_again();
}

fn there_is(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output();
    found.is_ok_and(|output| output.status.success())
}
