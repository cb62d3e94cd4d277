//! What the service manager, health and metrics show while Placement stops and returns, the configuration is reloaded,
//! and the program is stopped.

use std::time::Duration;

use berth_tests::berth::RunningBerth;
use berth_tests::fault_proxy::{FaultProxy, ProxyFault, ProxyRule};
use nix::sys::signal::Signal;

use crate::program::hypervisor::{Hypervisor, PATIENCE};
use crate::program::placement_api::{Api, way};

/// The guest "single" of the machine with eight GPUs.
const SINGLE: &str = "f2e3fac2-308a-5bb4-a8d7-292d9a96eb01";

#[track_caller]
fn until(agent: &mut RunningBerth, what: &str, holds: impl FnMut() -> bool) {
    if let Err(error) = agent.wait_until(PATIENCE, holds) {
        panic!("{what}: {error}");
    }
}

fn health(node: &Hypervisor) -> u16 {
    node.ask("/healthz").map_or(0, |it| it.status.as_u16())
}

#[test]
fn an_unreachable_placement_is_awaited_and_reported_at_start_and_later() {
    let api = Api::lease();
    let proxy = FaultProxy::start(&api.placement.url()).expect("a proxy");
    proxy.add_rule(ProxyRule::new(ProxyFault::DropBefore));
    let mut node = Hypervisor::new("pcpu", "away-1", &way(&proxy.url()));
    node.home.set_env("WATCHDOG_USEC", "400000");
    let manager = node.managed();
    let mut agent = node.start(&["agent"]);
    let away = "placement did not answer";
    until(&mut agent, "it says what it waits for", || {
        manager.status().contains(away)
    });
    assert!(
        manager.status().starts_with("starting: "),
        "{}",
        manager.status()
    );
    until(&mut agent, "it is not well", || health(&node) == 503);
    assert!(!manager.has_received("READY=1"), "{:?}", manager.received());
    let extended = |line: &String| line.starts_with("EXTEND_TIMEOUT_USEC=");
    assert!(
        manager.received().iter().any(extended),
        "{:?}",
        manager.received()
    );
    assert_eq!(
        node.metric("berth_plan_state{state=\"in_sync\"}"),
        Some(0.0)
    );
    let errors = "berth_health_messages{severity=\"error\"}";
    until(&mut agent, "the metric shows it, too", || {
        node.metric(errors) == Some(1.0)
    });

    proxy.heal();
    // An operator who knows that it is back does not wait for the pause to end.
    assert_eq!(node.run(&["agent", "tick"]).code, 0);
    until(&mut agent, "it is ready", || {
        manager.has_received("READY=1")
    });
    let inventories = proxy.count("PUT", "/resource_providers/{uuid}/inventories");
    assert_eq!(inventories, 1, "the first inventory landed before");
    until(&mut agent, "it is well", || health(&node) == 200);
    assert!(
        manager.status().starts_with("in sync"),
        "{}",
        manager.status()
    );
    assert_eq!(
        node.metric("berth_plan_state{state=\"in_sync\"}"),
        Some(1.0)
    );
    assert_eq!(node.metric(errors), Some(0.0));

    proxy.add_rule(ProxyRule::new(ProxyFault::DropBefore));
    until(&mut agent, "it names the service that is down", || {
        manager.status().contains(away)
    });
    until(&mut agent, "it is not well", || health(&node) == 503);
    assert_eq!(node.metric(errors), Some(1.0));
    let petted = manager.count("WATCHDOG=1");
    until(&mut agent, "its loop continues", || {
        manager.count("WATCHDOG=1") > petted + 1
    });
    assert_eq!(manager.count("READY=1"), 1, "once ready, always ready");
    proxy.heal();
    assert_eq!(node.run(&["agent", "tick"]).code, 0);
    until(&mut agent, "it is well again", || health(&node) == 200);
    until(&mut agent, "it reports it", || {
        manager.status().starts_with("in sync")
    });

    let ended = agent.stop(PATIENCE).expect("it ends");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(manager.count("STOPPING=1"), 1);
}

#[test]
fn a_hangup_loads_a_valid_configuration_and_keeps_the_old_one_if_it_is_invalid() {
    let api = Api::lease();
    let mut node = Hypervisor::new("pcpu", "reload-1", &api.way());
    let manager = node.managed();
    let mut agent = node.start(&["agent"]);
    until(&mut agent, "it is ready", || {
        manager.has_received("READY=1")
    });
    let root = node.root();
    let reserved = || {
        let rows = api.inventory(&root);
        let memory = rows.iter().find(|(class, ..)| class == "MEMORY_MB");
        memory.map(|(_, _, reserved)| *reserved)
    };
    assert_eq!(reserved(), Some(512));

    node.configure(&api.way(), "reserved_host_memory_mb = 1024");
    agent.signal(Signal::SIGHUP);
    until(&mut agent, "the new value is reported", || {
        reserved() == Some(1024)
    });
    until(&mut agent, "it is ready again", || {
        manager.count("READY=1") == 2
    });
    assert_eq!(manager.count("RELOADING=1"), 1);
    let messages = manager.received();
    let reloading = messages.iter().position(|line| line == "RELOADING=1");
    let next = messages.get(reloading.expect("it was reported") + 1);
    assert!(next.is_some_and(|line| line.starts_with("MONOTONIC_USEC=")));

    node.configure(&api.way(), "reserved_host_memory_mb = \"all of it\"");
    agent.signal(Signal::SIGHUP);
    until(&mut agent, "the refusal is said", || {
        manager.status().contains("reserved_host_memory_mb")
    });
    until(&mut agent, "it is ready again", || {
        manager.count("READY=1") == 3
    });
    assert!(agent.stderr().contains("berth.toml:"), "{}", agent.stderr());
    let well = node.ask("/healthz").expect("an answer").text();
    assert!(well.contains("config-reload-failed"), "{well}");
    assert_eq!(reserved(), Some(1024), "the one before is in force");

    node.configure(&api.way(), "");
    agent.signal(Signal::SIGHUP);
    until(&mut agent, "the default is reported", || {
        reserved() == Some(512)
    });
    until(&mut agent, "all is well", || {
        manager.status() == "in sync: node reload-1"
    });
    assert_eq!(agent.stop(PATIENCE).expect("it ends").code, 0);
}

#[test]
fn a_stop_during_a_reshape_lets_it_finish() {
    let api = Api::lease();
    let mut node = Hypervisor::new("eight-gpu-flat", "stopped-1", &api.way());
    assert_eq!(node.once().code, 0);
    let root = node.root();
    api.claim(SINGLE, &[(&root, "VGPU", 1), (&root, "VCPU", 8)]);
    node.edit("vgpu = \"root\"", "vgpu = \"per-gpu\"");
    let proxy = FaultProxy::start(&api.placement.url()).expect("a proxy");
    let slow = ProxyFault::DelayBefore(Duration::from_secs(2));
    proxy.add_rule(ProxyRule::new(slow).on("POST", "/reshaper"));
    node.configure(&way(&proxy.url()), "");
    let manager = node.managed();
    let mut agent = node.start(&["agent"]);
    until(&mut agent, "the reshape is on its way", || {
        proxy.count("POST", "/reshaper") == 1
    });
    agent.signal(Signal::SIGTERM);
    until(&mut agent, "the stop is reported at once", || {
        manager.has_received("STOPPING=1")
    });
    let done = |proxy: &FaultProxy| {
        let trace = proxy.trace();
        trace
            .iter()
            .any(|it| it.path == "/reshaper" && it.status == Some(204))
    };
    assert!(!done(&proxy), "the reshape takes longer than the signal");
    let ended = agent.wait(PATIENCE).expect("it ends");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(done(&proxy), "{:?}", proxy.trace());
    assert_eq!(api.names(&root).len(), 9);
    let vgpu = (
        "stopped-1_pci_0000_04_00_0".to_owned(),
        "VGPU".to_owned(),
        1,
    );
    assert!(api.held(SINGLE).contains(&vgpu), "{:?}", api.held(SINGLE));
}

#[test]
fn the_last_status_names_the_reason_of_the_end() {
    let api = Api::lease();
    let mut node = Hypervisor::new("eight-gpu-flat", "last-words-1", &api.way());
    let manager = node.managed();
    let mut agent = node.start(&["agent"]);
    until(&mut agent, "it is ready", || {
        manager.has_received("READY=1")
    });
    node.edit("vgpu = \"root\"", "vgpu = \"per-gpu\"");
    assert_eq!(agent.wait(PATIENCE).expect("it ends").code, 75);
    assert!(
        manager.status().contains("must be reshaped"),
        "{:?}",
        manager.received()
    );
    assert!(manager.has_received("STOPPING=1"));
}

#[test]
fn a_missing_service_manager_is_reported_and_not_needed() {
    let api = Api::lease();
    let mut node = Hypervisor::new("pcpu", "unmanaged-1", &api.way());
    let nowhere = node.home.path("nowhere");
    node.home.set_env("NOTIFY_SOCKET", nowhere.clone());
    let once = node.once();
    assert_eq!(once.code, 0, "{}", once.stderr);
    let nowhere = nowhere.display().to_string();
    for words in [&nowhere, "NOTIFY_SOCKET", "systemctl start berth-agent"] {
        assert!(once.stderr.contains(words), "{words}: {}", once.stderr);
    }
}
