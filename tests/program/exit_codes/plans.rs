//! The exit code of a plan shows the pending change, and a plan is executed exactly or refused.

use serde_json::json;

use crate::program::hypervisor::{Hypervisor, PATIENCE};
use crate::program::placement_api::{Api, way};

use super::{SINGLE, STORAGE, expect};

#[test]
fn the_exit_code_of_a_plan_shows_the_pending_change_and_a_plan_is_executed_exactly_or_refused() {
    let api = Api::lease();
    let mut node = Hypervisor::new("eight-gpu-flat", "plan-1", &api.way());
    let plan = ["reshape", "plan", "--detailed-exitcode"];
    let nothing_yet = node.run(&plan);
    expect(&nothing_yet, 2, &[]);
    assert!(nothing_yet.stdout.contains("VGPU: none -> 64"));
    expect(&node.once(), 0, &[]);
    expect(&node.run(&plan), 0, &[]);
    let root = node.root();
    api.claim(SINGLE, &[(&root, "VGPU", 1), (&root, "VCPU", 8)]);
    node.edit("vgpu = \"root\"", "vgpu = \"per-gpu\"");

    let file = node.home.path("plan.json").display().to_string();
    let reviewed = node.run(&["reshape", "plan", "--detailed-exitcode", "--out", &file]);
    expect(&reviewed, 75, &[]);
    assert!(reviewed.stdout.contains(SINGLE), "{}", reviewed.stdout);
    assert_eq!(api.names(&root), ["plan-1"], "a plan changes nothing");

    // One generation moves: an operator's trait.
    api.add_trait(&root, "CUSTOM_RACK_7");
    let follow = ["agent", "--once", "--expect-plan", &file];
    let moved = node.run(&follow);
    expect(&moved, 76, &["no longer valid", "reshape plan --out"]);
    assert_eq!(api.names(&root), ["plan-1"]);
    assert_eq!(api.held(SINGLE).len(), 2);

    expect(&node.run(&["reshape", "plan", "--out", &file]), 0, &[]);
    expect(&node.run(&follow), 0, &[]);
    assert_eq!(api.names(&root).len(), 9);
    let vgpu = ("plan-1_pci_0000_04_00_0".to_owned(), "VGPU".to_owned(), 1);
    assert!(api.held(SINGLE).contains(&vgpu), "{:?}", api.held(SINGLE));
    expect(&node.run(&plan), 0, &[]);
    // Its facts are gone.
    expect(&node.run(&follow), 76, &["no longer valid"]);
}

#[test]
fn a_reshape_that_no_rule_allows_is_76_in_the_plan_and_at_the_start() {
    let api = Api::lease();
    let mut node = Hypervisor::new("eight-gpu-flat", "refused-1", &api.way());
    expect(&node.once(), 0, &[]);
    let root = node.root();
    api.shared_storage(STORAGE, &root, 1000);
    api.claim(SINGLE, &[(&root, "VGPU", 1), (STORAGE, "DISK_GB", 100)]);
    // From now on Placement refuses the guest's disk in one piece from any client.
    api.storage_inventory(STORAGE, &json!({"total": 1000, "max_unit": 10}));
    node.edit("vgpu = \"root\"", "vgpu = \"per-gpu\"");
    let words = ["DISK_GB", SINGLE, "max_unit"];
    for arguments in [
        &["reshape", "plan"][..],
        &["reshape", "plan", "--detailed-exitcode"],
    ] {
        expect(&node.run(arguments), 76, &words);
    }
    let agent = node.start(&["agent"]).wait(PATIENCE).expect("it ends");
    expect(&agent, 76, &words);
    assert_eq!(api.names(&root), ["refused-1"], "half-made children");
    assert_eq!(api.held(SINGLE).len(), 2);
}

#[test]
fn a_file_that_is_no_plan_is_refused_by_its_name() {
    let mut node = Hypervisor::new("pcpu", "node-1", &way("http://127.0.0.1:9"));
    let file = node.home.path("plan.json").display().to_string();
    let follow = ["agent", "--once", "--expect-plan", &file];
    expect(&node.run(&follow), 74, &[&file]);
    let plan = |nodes: serde_json::Value| json!({"api": "v1", "nodes": nodes}).to_string();
    let one = |generations: serde_json::Value| json!({"pending": "reshape", "text": "x", "generations": generations});
    for text in [
        String::new(),
        "\u{0}".to_owned(),
        "[]".to_owned(),
        "{\"nodes\": 3}".to_owned(),
        "[".repeat(100_000),
        plan(json!({"": one(json!({}))})),
        plan(json!({"node-1": one(json!({"no-uuid": 1}))})),
        plan(json!({"node-1": one(json!({"5a0f1f5e-27a6-4a57-9f1c-0b1d8c1c7a01": "1"}))})),
    ] {
        node.home.write("plan.json", &text).expect("a file");
        expect(&node.run(&follow), 78, &["plan"]);
    }
    // Neither is read: they have no end.
    let fifo = node.home.path("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    for endless in ["/dev/zero", &fifo.display().to_string()] {
        let follow = ["agent", "--once", "--expect-plan", endless];
        expect(&node.run(&follow), 74, &[endless, "not a regular file"]);
    }
}

#[test]
fn a_plan_of_three_nodes_is_executed_and_one_without_a_node_is_refused() {
    let api = Api::lease();
    let mut node = Hypervisor::new("three-node-cluster", "cluster-1", &api.way());
    let file = node.home.path("plan.json").display().to_string();
    let plan = ["reshape", "plan", "--out", &file];
    let follow = ["agent", "--once", "--expect-plan", &file];
    expect(&node.run(&plan), 0, &[]);
    let whole = std::fs::read_to_string(&file).expect("a plan");
    let mut less: serde_json::Value = serde_json::from_str(&whole).expect("JSON");
    let nodes = less["nodes"].as_object_mut().expect("nodes");
    assert_eq!(nodes.len(), 3);
    let gone = nodes.keys().next().expect("a node").clone();
    nodes.remove(&gone);
    node.home
        .write("plan.json", &less.to_string())
        .expect("a file");
    expect(&node.run(&follow), 76, &["has no plan for node", &gone]);
    let roots = |api: &Api| {
        api.get("/resource_providers")["resource_providers"]
            .as_array()
            .map(Vec::len)
    };
    assert_eq!(roots(&api), Some(0));
    node.home.write("plan.json", &whole).expect("a file");
    expect(&node.run(&follow), 0, &[]);
    assert_eq!(roots(&api), Some(3));
}
