//! A build that fails on the first host, at any of its steps, is done on the next one in the cell, and nothing is left
//! on the first: two hosts with their own agents, and all services.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_conductor::journal::BootGoal;
use berth_tests::guest_cloud::{
    AgentReachability, GuestCloud, GuestMishap, NODE, SECOND, guest, request,
};
use serde_json::Value;
use tokio::time::sleep;

/// Where the first host's build fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BuildFailure {
    /// After the claim: its devices cannot be bound.
    AfterClaim,
    /// In the agent, which gets the guest once its devices are bound.
    InAgent(GuestMishap),
}

/// The cases, each with the reported reason.
const CASES: [(BuildFailure, &str); 4] = [
    (BuildFailure::AfterClaim, "is disabled"),
    (
        BuildFailure::InAgent(GuestMishap::NotPrepared),
        "bind to vfio-pci failed",
    ),
    (
        BuildFailure::InAgent(GuestMishap::NotDefined),
        "refused virDomainDefineXML",
    ),
    (
        BuildFailure::InAgent(GuestMishap::NotStarted),
        "refused virDomainCreate",
    ),
];

/// Runs a test in a cloud of two hosts; its clock is stopped while a task works.
fn in_a_cloud(story: impl AsyncFnOnce(&GuestCloud)) {
    in_this_cloud(GuestCloud::of_two, story);
}

fn in_this_cloud(made: impl AsyncFnOnce() -> GuestCloud, story: impl AsyncFnOnce(&GuestCloud)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let _inside = runtime.enter();
    let tasks = tokio::task::LocalSet::new();
    runtime.block_on(tasks.run_until(async {
        let cloud = made().await;
        story(&cloud).await;
        cloud.end();
    }));
}

/// Begins or ends the failure on a host.
async fn set(cloud: &GuestCloud, host: &str, fails: BuildFailure, begins: bool) {
    match fails {
        BuildFailure::AfterClaim => {
            let word = if begins { "disable" } else { "enable" };
            let devices = cloud.ask("GET", "/v2/devices", Value::Null).await;
            for device in devices["devices"].as_array().into_iter().flatten() {
                if device["hostname"] == host {
                    let path = format!("/v2/devices/{}/{word}", device["uuid"].as_str().unwrap());
                    cloud.ask("POST", &path, Value::Null).await;
                }
            }
        }
        BuildFailure::InAgent(mishap) => {
            let node = cloud.nodes.iter().find(|node| node.name == host).unwrap();
            node.hardware.meets(begins.then_some(mishap));
        }
    }
}

/// Waits until the conductor has nothing more to do with a guest.
async fn decided(cloud: &GuestCloud, n: u32) -> BootGoal {
    for _ in 0..3600 {
        match cloud.boot_goal(guest(n)).await {
            Some(boot_goal @ (BootGoal::Active | BootGoal::Failed { .. })) => return boot_goal,
            _ => sleep(Duration::from_secs(1)).await,
        }
    }
    panic!("guest {n} is neither there nor refused after an hour")
}

async fn gone(cloud: &GuestCloud, n: u32) {
    cloud.conductor().await.delete(guest(n)).await.unwrap();
    cloud.wait_until_gone(n).await;
}

/// The names of the providers that a guest holds anything of.
async fn held_of(cloud: &GuestCloud, n: u32) -> BTreeSet<String> {
    let held = cloud.placement().allocations(guest(n)).await.unwrap();
    let held = held.map(|held| held.resources).unwrap_or_default();
    let providers = cloud.worlds(None).await.placement.providers;
    held.keys()
        .map(|(provider, _)| providers[provider].name.clone())
        .collect()
}

/// The hosts for which a guest's accelerator requests are bound, each as often as one is.
async fn bound_for(cloud: &GuestCloud, n: u32) -> Vec<String> {
    let path = format!("/v2/accelerator_requests?instance={}", guest(n));
    let arqs = cloud.ask("GET", &path, Value::Null).await;
    let arqs = arqs["arqs"].as_array().cloned().unwrap_or_default();
    arqs.iter()
        .map(|arq| {
            assert_eq!(arq["state"], "Bound", "{arq}");
            arq["hostname"].as_str().unwrap().to_owned()
        })
        .collect()
}

/// The guest is on the second host, wholly, and the first one has nothing of it.
async fn is_on_the_second_alone(cloud: &GuestCloud, n: u32) {
    let held = held_of(cloud, n).await;
    assert!(!held.is_empty(), "it holds what it was built with");
    for provider in &held {
        assert!(provider.starts_with(SECOND), "{held:?}");
    }
    assert_eq!(bound_for(cloud, n).await, [SECOND]);
    for node in cloud.nodes.iter() {
        let expected = match node.name {
            SECOND => BTreeSet::from([guest(n)]),
            _ => BTreeSet::new(),
        };
        assert_eq!(node.remembered().await, expected, "{}", node.name);
        assert_eq!(node.guests().await, expected, "{}", node.name);
    }
}

#[test]
fn a_build_that_fails_after_its_claim_its_bind_or_its_define_is_done_on_the_next_host_and_the_first_is_clean()
 {
    for (fails, told) in CASES {
        in_a_cloud(async |cloud| {
            set(cloud, NODE, fails, true).await;
            let conductor = cloud.conductor().await;
            conductor.create(&request(1, "gpu")).await.unwrap();
            assert_eq!(decided(cloud, 1).await, BootGoal::Active, "{fails:?}");
            let record = conductor.show(guest(1)).await.unwrap();
            // The first host has two more devices: another host comes before them.
            let [failed] = record.failures.as_slice() else {
                panic!("{fails:?}: {:?}", record.failures);
            };
            assert_eq!(failed.node.as_deref(), Some(NODE), "{fails:?}");
            assert!(failed.reason.contains(told), "{fails:?}: {failed}");
            assert_eq!(
                record.placement().unwrap().node.as_str(),
                SECOND,
                "{fails:?}"
            );
            is_on_the_second_alone(cloud, 1).await;
            set(cloud, NODE, fails, false).await;
            assert_eq!(cloud.rests(None).await, Vec::<String>::new(), "{fails:?}");
            // And once the first is well again it is the better one.
            conductor.create(&request(2, "gpu")).await.unwrap();
            assert_eq!(decided(cloud, 2).await, BootGoal::Active, "{fails:?}");
            assert_eq!(bound_for(cloud, 2).await, [NODE], "{fails:?}");
            for n in [1, 2] {
                gone(cloud, n).await;
            }
            assert_eq!(cloud.rests(None).await, Vec::<String>::new(), "{fails:?}");
        });
    }
}

#[test]
fn where_every_host_fails_the_request_fails_with_the_reason_of_each_and_nothing_is_left() {
    for (fails, why) in CASES {
        in_a_cloud(async |cloud| {
            for host in [NODE, SECOND] {
                set(cloud, host, fails, true).await;
            }
            let conductor = cloud.conductor().await;
            conductor.create(&request(1, "gpu")).await.unwrap();
            let BootGoal::Failed {
                reason,
                user_message,
            } = decided(cloud, 1).await
            else {
                panic!("{fails:?}: it cannot be built");
            };
            let user_message = user_message.unwrap();
            for (attempt, host) in [(1, NODE), (2, SECOND)] {
                let of_host = format!("attempt {attempt} on {host}: ");
                let rest = reason.split_once(&of_host).map(|(_, rest)| rest);
                let rest = rest.unwrap_or_else(|| panic!("{fails:?}: {reason}"));
                let of_attempt = rest.split("; attempt").next().unwrap();
                assert!(of_attempt.contains(why), "{fails:?}: {reason}");
                assert!(!user_message.contains(host), "{fails:?}: {user_message}");
            }
            assert!(
                user_message.starts_with("Exceeded maximum number of retries"),
                "{user_message}"
            );
            assert_eq!(held_of(cloud, 1).await, BTreeSet::new(), "{fails:?}");
            assert_eq!(bound_for(cloud, 1).await, Vec::<String>::new(), "{fails:?}");
            for node in cloud.nodes.iter() {
                assert_eq!(node.remembered().await, BTreeSet::new(), "{fails:?}");
                assert_eq!(node.guests().await, BTreeSet::new(), "{fails:?}");
            }
            for host in [NODE, SECOND] {
                set(cloud, host, fails, false).await;
            }
            assert_eq!(cloud.rests(None).await, Vec::<String>::new(), "{fails:?}");
        });
    }
}

#[test]
fn a_guest_runs_on_the_second_host_if_the_first_agent_is_unreachable_after_the_claim_and_leaves_nothing_there()
 {
    in_a_cloud(async |cloud| {
        cloud.nodes[0].agent_is(AgentReachability::Away);
        let conductor = cloud.conductor().await;
        conductor.create(&request(1, "gpu")).await.unwrap();
        assert_eq!(decided(cloud, 1).await, BootGoal::Active);
        let record = conductor.show(guest(1)).await.unwrap();
        let [failed] = record.failures.as_slice() else {
            panic!("{:?}", record.failures);
        };
        assert_eq!(failed.node.as_deref(), Some(NODE));
        assert!(failed.reason.contains("refuses connections"), "{failed}");
        assert_eq!(failed.user_message(), "the selected host did not answer");
        is_on_the_second_alone(cloud, 1).await;
        cloud.nodes[0].agent_is(AgentReachability::There);
        assert_eq!(cloud.rests(None).await, Vec::<String>::new());
        is_on_the_second_alone(cloud, 1).await;
        gone(cloud, 1).await;
        assert_eq!(cloud.rests(None).await, Vec::<String>::new());
    });
}

/// A server of this name, once it is so.
async fn server(cloud: &GuestCloud, name: &str, status: &str) -> Value {
    for _ in 0..3600 {
        let servers = cloud.servers_named(name).await.unwrap();
        match servers.as_slice() {
            [server] if server["status"] == status => return server.clone(),
            [_] => sleep(Duration::from_secs(1)).await,
            others => panic!("one was asked for: {others:?}"),
        }
    }
    panic!("{name} is not {status} after an hour")
}

#[test]
fn a_server_with_a_failed_first_host_is_active_on_the_second_and_its_actions_show_both() {
    in_this_cloud(GuestCloud::with_api, async |cloud| {
        cloud.hardware.meets(Some(GuestMishap::NotDefined));
        let made = cloud.ask_for_server("web").await.unwrap();
        assert_eq!(made.status, 202, "{made:?}");
        let shown = server(cloud, "web", "ACTIVE").await;
        assert_eq!(shown["OS-EXT-SRV-ATTR:host"], SECOND, "{shown}");
        let id = shown["id"].as_str().unwrap();
        let actions = format!("/servers/{id}/os-instance-actions");
        let route = "/v2.1/servers/{id}/os-instance-actions";
        // The boot may be over before its action is.
        sleep(Duration::from_secs(5)).await;
        let listed = cloud.asks("GET", route, &actions, None).await.unwrap().body;
        let request = listed["instanceActions"][0]["request_id"].as_str().unwrap();
        let path = format!("{actions}/{request}");
        let reply = cloud.asks("GET", route, &path, None).await.unwrap().body;
        let events = reply["instanceAction"]["events"].as_array().unwrap();
        let of: Vec<_> = events
            .iter()
            .map(|it| (it["host"].as_str(), it["result"].as_str()))
            .collect();
        let expected = [(Some(SECOND), Some("Success")), (Some(NODE), Some("Error"))];
        assert_eq!(of, expected, "{reply}");
        let why = events[1]["traceback"].as_str().unwrap();
        assert!(why.contains("refused virDomainDefineXML"), "{why}");
        assert_eq!(cloud.nodes[0].guests().await, BTreeSet::new());
        assert_eq!(cloud.nodes[1].guests().await.len(), 1);
        cloud.hardware.meets(None);
        assert_eq!(cloud.rests(None).await, Vec::<String>::new());
    });
}

#[test]
fn a_server_that_no_host_can_build_has_a_fault_and_operators_see_the_reason_of_each_host() {
    in_this_cloud(GuestCloud::with_api, async |cloud| {
        for node in cloud.nodes.iter() {
            node.hardware.meets(Some(GuestMishap::NotStarted));
        }
        cloud.ask_for_server("web").await.unwrap();
        let shown = server(cloud, "web", "ERROR").await;
        let message = shown["fault"]["message"].as_str().unwrap();
        assert!(
            message.starts_with("Exceeded maximum number of retries"),
            "{message}"
        );
        let why = shown["fault"]["details"].as_str().unwrap();
        for host in [NODE, SECOND] {
            assert!(why.contains(&format!("on {host}: ")), "{why}");
            assert!(!message.contains(host), "{message}");
        }
        for hypervisors in ["virDomain", "refused"] {
            assert!(!message.contains(hypervisors), "{message}");
        }
        for node in cloud.nodes.iter() {
            assert_eq!(node.guests().await, BTreeSet::new());
            node.hardware.meets(None);
        }
        assert_eq!(cloud.rests(None).await, Vec::<String>::new());
    });
}
