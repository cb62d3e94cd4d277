//! Commands that talk to a running node or inspect its state.

use std::collections::BTreeSet;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::program::hypervisor::{Hypervisor, PATIENCE};
use crate::program::placement_api::Api;

#[track_caller]
fn done(node: &mut Hypervisor, arguments: &[&str]) -> String {
    let outcome = node.run(arguments);
    assert_eq!(outcome.code, 0, "{arguments:?}: {}", outcome.stderr);
    outcome.stdout
}

#[test]
fn each_node_of_a_cluster_is_seen_by_each_command() {
    let mut node = Hypervisor::new("three-node-cluster", "cluster-1", "");
    let mut up = node.start(&["up"]);
    node.wait_until_healthy(&mut up);
    let nodes = BTreeSet::from(["cluster-1", "cluster-2", "cluster-3"]);
    let listed = done(&mut node, &["agent", "status", "-f", "value", "-c", "node"]);
    assert_eq!(listed.lines().collect::<BTreeSet<_>>(), nodes);
    let plan = done(
        &mut node,
        &["reshape", "plan", "--detailed-exitcode", "-f", "json"],
    );
    let plan: Value = serde_json::from_str(&plan).expect("JSON");
    let planned = plan["nodes"].as_object().expect("an object");
    assert_eq!(
        planned.keys().map(String::as_str).collect::<BTreeSet<_>>(),
        nodes
    );
    assert!(
        planned.values().all(|of| of["pending"] == "in sync"),
        "{plan}"
    );
    let tree = done(&mut node, &["provider", "tree"]);
    assert!(nodes.iter().all(|name| tree.contains(name)), "{tree}");

    // After this change of one setting, the next start reshapes every node.
    node.edit("vgpu = \"root\"", "vgpu = \"per-gpu\"");
    assert_eq!(up.wait(PATIENCE).expect("it ends").code, 75);
    let output = done(&mut node, &["up", "--once"]);
    assert!(
        !output.contains("next:"),
        "no service is left to ask: {output}"
    );
    let dry_run = ["placement", "migrate-compute-inventory", "--dry-run"];
    let output = done(&mut node, &dry_run);
    assert_eq!(output.matches("nothing to do").count(), 3, "{output}");
}

#[test]
fn a_host_out_of_service_is_planned_as_one() {
    let api = Api::lease();
    let mut node = Hypervisor::new("pcpu", "disabled-1", &api.way());
    let mut agent = node.start(&["agent"]);
    node.wait_until_healthy(&mut agent);
    let root = node.root();
    let disabled = || {
        let traits = api.get(&format!("/resource_providers/{root}/traits"));
        traits.to_string().contains("COMPUTE_STATUS_DISABLED")
    };
    done(
        &mut node,
        &["agent", "disable", "--reason", "a fan is loud"],
    );
    assert!(disabled(), "the command waits for the pass");
    let status = done(&mut node, &["agent", "status"]);
    assert!(status.contains("a fan is loud"), "{status}");
    let plan = ["reshape", "plan", "--detailed-exitcode"];
    done(&mut node, &plan);
    assert_eq!(agent.stop(PATIENCE).expect("it ends").code, 0);
    // The same for a process that starts later.
    let once = node.once();
    assert_eq!(once.code, 0, "{}", once.stderr);
    assert!(disabled());
    let mut agent = node.start(&["agent"]);
    node.wait_until_healthy(&mut agent);
    let enabled = done(&mut node, &["agent", "enable", "-f", "json"]);
    let enabled: serde_json::Value = serde_json::from_str(&enabled).expect("JSON");
    assert_eq!(enabled["items"][0]["disabled"], false, "{enabled}");
    assert!(!disabled());
    let columns = ["-f", "value", "-c", "node", "-c", "result"];
    let ticked = done(&mut node, &[&["agent", "tick"][..], &columns].concat());
    assert!(ticked.ends_with(" in_sync\n"), "{ticked}");
    let again = ["agent", "disable", "--reason", "a fan", "--dry-run", "-f"];
    let foreseen = done(&mut node, &[&again[..], &["value"]].concat());
    assert!(
        foreseen.starts_with("false ") && foreseen.ends_with("would be disabled\n"),
        "{foreseen}"
    );
    assert_eq!(agent.stop(PATIENCE).expect("it ends").code, 0);
}

#[test]
fn options_that_a_reload_does_not_change_still_show_the_need_of_a_restart() {
    let api = Api::lease();
    let mut node = Hypervisor::new("pcpu", "differs-1", &api.way());
    let manager = node.managed();
    let mut agent = node.start(&["agent"]);
    let ready = |times: usize| move || manager.count("READY=1") == times;
    let mut is_ready = ready(2);
    node.wait_until_healthy(&mut agent);
    let way = format!("{}\ntimeout = 5.0", api.way());
    node.configure(&way, "reserved_host_memory_mb = 1024");
    let diff = ["config", "diff", "-f", "csv", "--no-header"];
    let before = done(&mut node, &diff);
    assert!(
        before.contains("reserved_host_memory_mb,512,1024,live"),
        "{before}"
    );
    assert!(
        before.contains("placement.timeout,,5.0,needs restart"),
        "{before}"
    );
    agent.signal(Signal::SIGHUP);
    agent
        .wait_until(PATIENCE, &mut is_ready)
        .expect("it is ready again");
    let after = done(&mut node, &diff);
    assert!(!after.contains("reserved_host_memory_mb"), "{after}");
    assert!(
        after.contains("placement.timeout,,5.0,needs restart"),
        "{after}"
    );
    assert_eq!(agent.stop(PATIENCE).expect("it ends").code, 0);
}
