//! Agents of other hosts over TLS with certificates, called by commands and by the conductor.

use std::fs;

use crate::authority::{Authority, Pair};
use berth_tests::berth::BerthHome;
use berth_tests::port::free_port;
use serde_json::Value;

use crate::program::accelerator_service::{bound, report, serve};
use crate::program::hypervisor::{Hypervisor, PATIENCE};
use crate::program::placement_api::{Api, way};

/// A node with an agent that serves callers with the authority's certificates; returns the root of its API.
pub(crate) fn listening(node: &mut Hypervisor, authority: &Authority) -> String {
    let port = free_port().expect("a port");
    let server = authority.server();
    for (key, value) in [
        ("LISTEN", format!("127.0.0.1:{port}")),
        ("TLS_CERT", server.certificate.display().to_string()),
        ("TLS_KEY", server.key.display().to_string()),
        ("CLIENT_CA", authority.own.certificate.display().to_string()),
    ] {
        node.home.set_env(&format!("BERTH__AGENT__{key}"), value);
    }
    format!("https://127.0.0.1:{port}")
}

/// The options of a command for this agent.
fn options(url: &str, authority: &Authority, client: &Pair) -> Vec<String> {
    let file = |path: &std::path::Path| path.display().to_string();
    vec![
        "--agent".to_owned(),
        url.to_owned(),
        "--agent-cacert".to_owned(),
        file(&authority.own.certificate),
        "--agent-cert".to_owned(),
        file(&client.certificate),
        "--agent-key".to_owned(),
        file(&client.key),
    ]
}

#[test]
fn commands_reach_another_hosts_agent_with_a_certificate_and_fail_clearly_without() {
    let api = Api::lease();
    let mut node = Hypervisor::new("accelerators", "elsewhere-1", &way(&api.placement.url()));
    let ours = Authority::new(&node.home.path("pki"), "ours");
    let others = Authority::new(&node.home.path("pki"), "others");
    let url = listening(&mut node, &ours);
    let mut agent = node.start(&["agent"]);
    node.wait_until_healthy(&mut agent);

    // The command's own host has no agent.
    let mut desk = Hypervisor::new("pcpu", "desk", &way("http://127.0.0.1:1"));
    let client = ours.client();
    let with = options(&url, &ours, &client);
    let mut ask = |words: &[&str], with: &[String]| {
        let words: Vec<&str> = words
            .iter()
            .copied()
            .chain(with.iter().map(String::as_str))
            .collect();
        desk.run(&words)
    };
    let devices = ask(&["device", "list", "-f", "json"], &with);
    assert_eq!(devices.code, 0, "{}", devices.stderr);
    let devices: Value = serde_json::from_str(&devices.stdout).expect("JSON");
    let name = devices["items"][0]["name"].as_str().expect("a device");
    let quarantine = [
        "device",
        "quarantine",
        name,
        "--reason",
        "it is loud",
        "-f",
        "json",
    ];
    let quarantine = ask(&quarantine, &with);
    assert_eq!(quarantine.code, 0, "{}", quarantine.stderr);
    let output: Value = serde_json::from_str(&quarantine.stdout).expect("JSON");
    assert_eq!(output["items"][0]["device"], name, "{output}");
    let shown = ask(
        &["device", "show", name, "-f", "value", "-c", "state"],
        &with,
    );
    assert_eq!(shown.stdout.trim(), "quarantined", "{}", shown.stderr);
    let guests = ask(&["guest", "list", "-f", "value"], &with);
    assert_eq!(
        (guests.code, guests.stdout.as_str()),
        (0, ""),
        "{}",
        guests.stderr
    );

    // The same by the configuration.
    let cacert = ours.own.certificate.display().to_string();
    let bare = ["--agent".to_owned(), url.clone()];
    let without = ask(&["guest", "list"], &bare);
    assert_eq!(without.code, 78, "{}", without.stderr);
    assert!(
        without.stderr.contains("[agent_client]"),
        "{}",
        without.stderr
    );
    for (option, value) in [
        ("CAFILE", cacert.clone()),
        ("CERTFILE", client.certificate.display().to_string()),
        ("KEYFILE", client.key.display().to_string()),
    ] {
        let key = format!("BERTH__AGENT_CLIENT__{option}");
        desk.home.set_env(&key, value);
    }
    let mut ask = |words: &[&str], with: &[String]| {
        let words: Vec<&str> = words
            .iter()
            .copied()
            .chain(with.iter().map(String::as_str))
            .collect();
        desk.run(&words)
    };
    let listed = ask(&["device", "list", "-f", "value", "-c", "name"], &bare);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    assert!(listed.stdout.contains(name));

    // A certificate of another authority is refused, and so is an agent with one.
    let untrusted = options(&url, &ours, &others.client());
    let refused = ask(&["guest", "list"], &untrusted);
    assert_eq!(refused.code, 69, "{}", refused.stderr);
    let unbelieved = options(&url, &others, &client);
    for command in ["guest", "device"] {
        let refused = ask(&[command, "list"], &unbelieved);
        assert!([69, 78].contains(&refused.code), "{}", refused.stderr);
        assert!(
            refused.stderr.contains(&url["https://".len()..]),
            "{}",
            refused.stderr
        );
    }
    for wrong in [
        "http://127.0.0.1:1",
        "https://",
        "https://host/v1",
        "compute2",
    ] {
        let refused = ask(
            &["device", "list"],
            &["--agent".to_owned(), wrong.to_owned()],
        );
        assert_eq!(refused.code, 64, "{wrong}: {}", refused.stderr);
        assert!(
            refused.stderr.contains("https://HOST:PORT"),
            "{}",
            refused.stderr
        );
    }
    agent.stop(PATIENCE).expect("it ends");
}

#[test]
fn the_conductor_boots_a_guest_on_another_host_over_tls_and_its_delete_leaves_nothing() {
    let mut here = Hypervisor::new("pcpu", "elsewhere-here", "");
    let authority = Authority::new(&here.home.path("pki"), "ours");
    let mut there = Hypervisor::new("pcpu", "elsewhere-there", &way("http://127.0.0.1:1"));
    let url = listening(&mut there, &authority);
    let client = authority.client();
    let scheduler = format!("127.0.0.1:{}", free_port().expect("a port"));
    for (key, value) in [
        ("AUTH_TYPE", "admin_token".to_owned()),
        ("ENDPOINT_OVERRIDE", format!("http://{scheduler}")),
        ("TOKEN", "admin".to_owned()),
    ] {
        there
            .home
            .set_env(&format!("BERTH__CONDUCTOR__{key}"), value);
    }
    for (key, value) in [
        (
            "CONDUCTOR_SERVICE__AGENTS",
            format!("elsewhere-there={url}"),
        ),
        (
            "AGENT_CLIENT__CAFILE",
            authority.own.certificate.display().to_string(),
        ),
        (
            "AGENT_CLIENT__CERTFILE",
            client.certificate.display().to_string(),
        ),
        ("AGENT_CLIENT__KEYFILE", client.key.display().to_string()),
    ] {
        here.home.set_env(&format!("BERTH__{key}"), value);
    }
    here.home.open_to_everybody(&[
        ("COMPUTE_SERVICE", &scheduler),
        ("PLACEMENT_SERVICE", "127.0.0.1:0"),
        ("ACCELERATOR_SERVICE", "127.0.0.1:0"),
    ]);
    let mut up = here.start(&["up"]);
    here.wait_until_healthy(&mut up);
    let placement = fs::read_to_string(here.home.state_dir().join("placement.endpoint"));
    there.configure(
        &way(placement.expect("up says where Placement is").trim()),
        "",
    );
    let mut agent = there.start(&["--log-level", "debug", "agent"]);
    there.wait_until_healthy(&mut agent);

    // Events about binds go to the agent of their host, not to that next to the service.
    let file = here.home.state_dir().join("accelerator.endpoint");
    let root = fs::read_to_string(file).expect("up says where the accelerator service is");
    let service = format!("{}/v2", root.trim());
    report(&service, "elsewhere-there");
    let arq = bound(&service, "elsewhere-there");
    agent
        .wait_for_log(PATIENCE, &arq)
        .expect("it gets the event");

    let create = |name: &'static str, node: &'static str| {
        [
            "guest", "create", name, "--vcpus", "1", "--ram", "64", "--node", node, "--wait",
        ]
    };
    let far = here.run(&create("far", "elsewhere-there"));
    assert_eq!(far.code, 0, "{}\n{}", far.stderr, up.stderr());
    let near = here.run(&create("near", "elsewhere-here"));
    assert_eq!(near.code, 0, "{}\n{}", near.stderr, up.stderr());
    let names = |node: &mut Hypervisor| {
        let listed = node.run(&["guest", "list", "-f", "value", "-c", "name", "-c", "status"]);
        listed.stdout
    };
    let why = here.run(&["scheduler", "explain", "--request", "far"]);
    assert_eq!(why.code, 0, "{}", why.stderr);
    assert!(
        why.stdout.contains("elsewhere-there was selected in cell1"),
        "{}",
        why.stdout
    );
    assert_eq!(names(&mut there), "far active\n");
    assert!(names(&mut here).contains("near active"));
    agent
        .wait_for_log(PATIENCE, "CN=conductor")
        .expect("who came in is in the log");
    let gone = here.run(&["guest", "delete", "far", "--wait"]);
    assert_eq!(gone.code, 0, "{}\n{}", gone.stderr, up.stderr());
    assert_eq!(names(&mut there), "");

    // A boot waits for an agent that is down, and reports it.
    agent.stop(PATIENCE).expect("it ends");
    let held = create("held", "elsewhere-there");
    let held = here.run(&[&held[..], &["--timeout", "3s"]].concat());
    assert_eq!(held.code, 69, "{}", held.stderr);
    assert!(
        held.stderr.contains("the boot continues"),
        "{}",
        held.stderr
    );
    up.stop(PATIENCE).expect("it ends");
}

#[test]
fn the_accelerator_service_reports_binds_to_the_agent_of_their_host() {
    const HOST: &str = "localhost";
    let api = Api::lease();
    let mut node = Hypervisor::new("pcpu", HOST, &way(&api.placement.url()));
    let authority = Authority::new(&node.home.path("pki"), "ours");
    let url = listening(&mut node, &authority);
    let mut agent = node.start(&["--log-level", "debug", "agent"]);
    node.wait_until_healthy(&mut agent);

    let client = authority.client();
    let mut home = BerthHome::new().expect("a home");
    let text = format!(
        "state_path = \"@HOME@/state\"\n[accelerator_service]\nlisten = \"127.0.0.1:0\"\n\
             external_events_endpoint = \"{}/v2.1\"\n[agent_client]\ncafile = \"{}\"\n",
        url.replace("127.0.0.1", "{host}"),
        authority.own.certificate.display(),
    );
    home.configure(&text).expect("a configuration");
    let config = home.config_file().display().to_string();
    let refused = home.run(["--config", &config, "accelerator", "serve"]);
    let refused = refused.expect("it ends");
    assert_eq!(refused.code, 78, "{}", refused.stderr);
    assert!(refused.stderr.contains("certfile"), "{}", refused.stderr);

    let (certificate, key) = (client.certificate.display(), client.key.display());
    let text = format!("{text}certfile = \"{certificate}\"\nkeyfile = \"{key}\"\n");
    home.configure(&text).expect("a configuration");
    let (service, url) = serve(&mut home);
    report(&url, HOST);
    let arq = bound(&url, HOST);
    agent
        .wait_for_log(PATIENCE, &arq)
        .expect("it gets the event");
    service.stop(PATIENCE).expect("it ends");
    agent.stop(PATIENCE).expect("it ends");
}
