//! A disk that is full, or becomes full under a running service.

use std::io::Write as _;
use std::path::Path;

use berth_tests::berth::{Outcome, program};
use berth_tests::exchange::HttpCall;
use berth_tests::process::{Process, Program, exit_code};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::program::hypervisor::{Hypervisor, PATIENCE};
use crate::program::placement_api::Api;

use super::expect;

/// Starts `berth` with a private file system of this size for `state`.
fn start_on_a_small_disk(node: &Hypervisor, size: &str, arguments: &[&str]) -> Process {
    let mount = format!(
        "mount -t tmpfs -o {size},mode=0755 none {} && exec \"$@\"",
        node.home.state_dir().display()
    );
    Program::new("unshare")
        .args(["--mount", "sh", "-c", &mount, "sh"])
        .arg(program().expect("berth is built"))
        .args(["--config", &node.home.config_file().display().to_string()])
        .args(arguments)
        // Another service may have the usual port.
        .env("BERTH__API__LISTEN", "none")
        .start_with_outputs(&node.home.path("out"), &node.home.path("err"))
        .expect("it starts")
}

fn on_a_small_disk(node: &Hypervisor, size: &str, arguments: &[&str]) -> Outcome {
    let mut process = start_on_a_small_disk(node, size, arguments);
    let status = process.wait(PATIENCE).expect("it ends");
    let read = |name| std::fs::read_to_string(node.home.path(name)).unwrap_or_default();
    Outcome {
        code: exit_code(status),
        stdout: read("out"),
        stderr: read("err"),
    }
}

#[test]
fn a_full_disk_under_a_running_placement_is_reported_and_survived() {
    let listen = "[placement_service]\nlisten = \"127.0.0.1:0\"\nauth_strategy = \"noauth2\"";
    let node = Hypervisor::new("pcpu", "node-1", listen);
    let mut up = start_on_a_small_disk(&node, "size=2m", &["up"]);
    let well = || node.ask("/healthz").is_some_and(|it| it.status == 200);
    up.wait_until(PATIENCE, well).expect("it is well");
    // Its own view of the folder, seen from outside.
    let state = node.home.state_dir().display().to_string();
    let state = Path::new("/proc").join(format!("{}/root{state}", up.pid()));
    let url = std::fs::read_to_string(state.join("placement.endpoint")).expect("an endpoint");
    let mut made = 0;
    let mut make = || {
        made += 1;
        HttpCall::post(format!("{}/resource_providers", url.trim()))
            .header("x-auth-token", "admin")
            .json(&json!({"name": format!("provider-{made}")}))
            .send()
            .expect("an answer")
            .status
            .as_u16()
    };
    let mut fill = std::fs::File::create(state.join("fill")).expect("a file");
    while fill.write_all(&[0; 4096]).is_ok() {}
    let refused = (0..200).map(|_| make()).find(|status| *status >= 500);
    assert_eq!(refused, Some(500), "a full disk takes no row");
    let log = || std::fs::read_to_string(node.home.path("err")).unwrap_or_default();
    assert!(
        log().contains("disk with the database is full"),
        "{}",
        log()
    );
    drop(fill);
    std::fs::remove_file(state.join("fill")).expect("room again");
    assert_eq!(make(), 201, "{}", log());
    up.signal(Signal::SIGTERM);
    let ended = up.wait(PATIENCE).expect("it ends");
    assert_eq!(exit_code(ended), 0, "{}", log());
}

#[test]
fn an_agent_that_cannot_store_its_disabled_state_exits_with_74() {
    let mut node = Hypervisor::new("pcpu", "node-1", "");
    let mut up = start_on_a_small_disk(&node, "size=2m", &["up"]);
    let well = || node.ask("/healthz").is_some_and(|it| it.status == 200);
    up.wait_until(PATIENCE, well).expect("it is well");
    let state = node.home.state_dir().display().to_string();
    let state = Path::new("/proc").join(format!("{}/root{state}", up.pid()));
    let mut fill = std::fs::File::create(state.join("fill")).expect("a file");
    while fill.write_all(&[0; 4096]).is_ok() {}
    let disable = ["agent", "disable", "--reason", "x"];
    expect(&node.run(&disable), 74, &["disabled.json", "full", "hint:"]);
    drop(fill);
    std::fs::remove_file(state.join("fill")).expect("room again");
    expect(&node.run(&disable), 0, &[]);
    up.signal(Signal::SIGTERM);
    assert_eq!(exit_code(up.wait(PATIENCE).expect("it ends")), 0);
}

#[test]
fn a_full_disk_is_74_and_names_the_file() {
    for size in ["size=8k", "size=64k", "size=200k"] {
        let node = Hypervisor::new("pcpu", "node-1", "");
        let full = on_a_small_disk(&node, size, &["up"]);
        expect(&full, 74, &[&node.home.state_dir().display().to_string()]);
    }
    let api = Api::lease();
    let mut node = Hypervisor::new("pcpu", "full-1", &api.way());
    // Room for the folder alone.
    let full = on_a_small_disk(&node, "nr_inodes=1", &["agent", "--once"]);
    expect(&full, 74, &[&node.home.state_dir().display().to_string()]);
    assert_eq!(
        api.get("/resource_providers")["resource_providers"],
        json!([])
    );
    // Room again, and it is as if nothing had been.
    expect(&node.once(), 0, &[]);
}
