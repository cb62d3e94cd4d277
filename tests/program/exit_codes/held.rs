//! Resources that another process uses: exit code 73 with its name.

use crate::program::hypervisor::PATIENCE;
use crate::program::placement_api::way;

use super::{expect, up};

#[test]
fn a_resource_in_use_is_73_and_its_user_is_named() {
    let (mut node, up) = up("pcpu");
    let database = node.home.state_dir().join("placement.sqlite");
    let database = database.display().to_string();
    let folder = node.home.state_dir().display().to_string();
    expect(&node.run(&["up"]), 73, &[&folder]);
    let url = format!("sqlite:{database}");
    let serve = ["placement", "serve", "--database", &url];
    expect(&node.run(&serve), 73, &[&database]);
    for upgrade in [
        &["placement", "migrate-compute-inventory"][..],
        &["placement", "migrate-compute-inventory", "--dry-run"],
    ] {
        expect(&node.run(upgrade), 73, &[&database]);
    }
    // Another database, the same agent.
    let endpoint = std::fs::read_to_string(node.home.state_dir().join("placement.endpoint"))
        .expect("up says where its Placement is");
    node.configure(&way(endpoint.trim()), "");
    expect(&node.run(&["agent"]), 73, &["agent.sock"]);
    let listen = endpoint.trim().trim_start_matches("http://");
    let other = format!("sqlite:{}", node.home.path("other.sqlite").display());
    let serve = [
        "placement",
        "serve",
        "--database",
        &other,
        "--listen",
        listen,
    ];
    expect(&node.run(&serve), 73, &[listen]);
    expect(&up.stop(PATIENCE).expect("it ends"), 0, &[]);
}

#[test]
fn a_second_up_in_a_folder_names_the_first_and_leaves_it_alone() {
    let (mut node, mut up) = up("pcpu");
    let folder = node.home.state_dir().display().to_string();
    let pid = format!("pid {}", up.pid());
    // Nothing else of the two is the same.
    let own = node.home.path("second");
    std::fs::create_dir_all(&own).expect("a folder");
    let url = |name: &str| format!("sqlite:{}/{name}.sqlite", own.display());
    for (option, value) in [
        ("PLACEMENT_SERVICE__CONNECTION", url("placement")),
        ("ACCELERATOR_SERVICE__CONNECTION", url("accelerator")),
        (
            "AGENT__ADMIN_SOCKET",
            own.join("agent.sock").display().to_string(),
        ),
    ] {
        node.home.set_env(&format!("BERTH__{option}"), value);
    }
    expect(&node.run(&["up"]), 73, &[&folder, &pid, "--state-dir"]);
    let socket = node.home.path("agent.sock").display().to_string();
    node.home.set_env("BERTH__AGENT__ADMIN_SOCKET", socket);
    assert!(!up.has_ended(), "{}", up.stderr());
    for command in [
        &["agent", "status"][..],
        &["provider", "tree"],
        &["guest", "list"],
    ] {
        expect(&node.run(command), 0, &[]);
    }
    expect(&up.stop(PATIENCE).expect("it ends"), 0, &[]);
}

#[test]
fn a_second_agent_leaves_the_state_folder_of_the_first_alone() {
    let (mut node, up) = up("pcpu");
    let unfinished = node.home.state_dir().join(".berth-of-the-first");
    std::fs::write(&unfinished, "half").expect("a file");
    let endpoint = std::fs::read_to_string(node.home.state_dir().join("placement.endpoint"))
        .expect("up says where its Placement is");
    node.configure(&way(endpoint.trim()), "");
    expect(&node.run(&["agent"]), 73, &["agent.sock"]);
    assert!(unfinished.exists(), "the owner of the lock removes it");
    expect(&up.stop(PATIENCE).expect("it ends"), 0, &[]);
}
