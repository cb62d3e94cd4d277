//! The states that a scheduling request gets: fresh, in order, and only read where they changed.

use std::sync::Arc;

use berth_hosts::{HostsOptions, ServiceStatus, ServiceUpdate};
use serde_json::json;

use super::service::{Service, node, node_body, node_with};

#[tokio::test]
async fn states_come_in_the_order_in_which_they_are_asked_for() {
    let service = Service::with_hosts(3).await;
    let asked = [node(3), node(9), node(1), node(3)];
    let states = service.hosts.states(&asked).await.unwrap();
    let names: Vec<&str> = states.iter().map(|state| state.nodename.as_str()).collect();
    assert_eq!(names, ["node3", "node1"]);
    assert_eq!(
        (states[0].host.as_str(), states[0].cell.as_str()),
        ("host3", "cell1")
    );
    assert!(service.hosts.states(&[]).await.unwrap().is_empty());
    assert_eq!(
        service.hosts.nodes().await.unwrap(),
        [node(1), node(2), node(3)]
    );
}

#[tokio::test]
async fn a_state_is_parsed_once_and_shared_until_it_changes() {
    let service = Service::with_hosts(1).await;
    let state = async || service.hosts.states(&[node(1)]).await.unwrap().remove(0);
    let mut first = state().await;
    let mut again = state().await;
    // States are shared while their ages differ by less than a second.
    while first
        .service
        .last_seen_age_s
        .zip(again.service.last_seen_age_s)
        .is_some_and(|(one, other)| other - one >= 1.0)
    {
        first = again;
        again = state().await;
    }
    assert!(Arc::ptr_eq(&first, &again));
    service
        .report("host1", &[node_with(1, json!({"vcpus_used": 9}))])
        .await;
    let changed = service.hosts.states(&[node(1)]).await.unwrap().remove(0);
    assert_eq!((first.vcpus_used, changed.vcpus_used), (2, 9));
    // As it was: the same name, and the same state.
    service.report("host1", &[node_body(1)]).await;
    let back = service.hosts.states(&[node(1)]).await.unwrap().remove(0);
    assert_eq!(back.vcpus_used, 2);
}

#[tokio::test]
async fn changes_outside_of_the_state_are_read_each_time() {
    let service = Service::with_hosts(1).await;
    // What another process has of the same database.
    let held = service.hosts.states(&[node(1)]).await.unwrap().remove(0);
    let now = async || service.hosts.states(&[node(1)]).await.unwrap().remove(0);
    assert!(!now().await.service.disabled);
    service.was_seen("host1", 3_600).await;
    let age = now().await.service.last_seen_age_s.unwrap();
    assert!((3_590.0..4_000.0).contains(&age), "{age}");
    let update = |status, forced_down, cell: Option<&str>| ServiceUpdate {
        status,
        forced_down,
        cell: cell.map(str::to_owned),
    };
    let disabled = ServiceStatus::Disabled {
        reason: Some("why".to_owned()),
    };
    let hosts = &service.hosts;
    hosts
        .update_service("host1", update(Some(disabled), Some(true), Some("cell2")))
        .await
        .unwrap();
    let state = now().await;
    assert!(state.service.disabled && state.service.forced_down);
    assert_eq!(
        (
            state.service.disabled_reason.as_deref(),
            state.cell.as_str()
        ),
        (Some("why"), "cell2")
    );
    let enabled = update(Some(ServiceStatus::Enabled), Some(false), None);
    hosts.update_service("host1", enabled).await.unwrap();
    let agents = json!({"service": {"version": "0.1.0", "disabled_reason": "too hot"}, "nodes": [node_body(1)]});
    service.reports("host1", agents).await;
    let state = now().await;
    assert!(state.service.disabled, "by the agent");
    assert_eq!(state.service.disabled_reason.as_deref(), Some("too hot"));
    // A node that went over to another host is that host's, though its state is the same.
    service.was_seen("host1", 3_600).await;
    service.report("host2", &[node_body(1)]).await;
    assert_eq!(now().await.host, "host2");
    assert_eq!(
        (held.host.as_str(), held.service.disabled),
        ("host1", false),
        "a request keeps what it was given"
    );
}

#[tokio::test]
async fn no_more_is_remembered_than_is_allowed_and_all_is_answered() {
    let service = Service::with_hosts(20).await;
    let small = HostsOptions {
        cached_nodes: 7,
        ..HostsOptions::default()
    };
    let hosts = service.hosts_with(small);
    let all: Vec<_> = (1..=20).map(node).collect();
    for _ in 0..3 {
        let states = hosts.states(&all).await.unwrap();
        assert_eq!(states.len(), 20);
    }
}

#[tokio::test]
async fn a_state_that_cannot_be_read_keeps_no_other_host_from_its_guests() {
    let service = Service::with_hosts(2).await;
    service.hosts.states(&[node(1), node(2)]).await.unwrap();
    service
        .change(
            "UPDATE compute_nodes SET body = '{\"later\": 1}', revision = 'x' WHERE host = 'host1'",
        )
        .await;
    let states = service.hosts.states(&[node(1), node(2)]).await.unwrap();
    assert_eq!(states.len(), 1);
    assert_eq!(states[0].host, "host2");
    service
        .report("host1", &[node_with(1, json!({"vcpus": 1}))])
        .await;
    assert_eq!(
        service
            .hosts
            .states(&[node(1), node(2)])
            .await
            .unwrap()
            .len(),
        2
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_requests_never_see_an_older_state_than_reported_before() {
    let service = Service::with_hosts(4).await;
    let nodes: Vec<_> = (1..=4).map(node).collect();
    let mut readers = tokio::task::JoinSet::new();
    let last_reported = Arc::new(std::sync::atomic::AtomicI64::new(0));
    for _ in 0..4 {
        let (service, nodes, last_reported) =
            (service.clone(), nodes.clone(), Arc::clone(&last_reported));
        readers.spawn(async move {
            loop {
                let before = last_reported.load(std::sync::atomic::Ordering::SeqCst);
                let states = service.hosts.states(&nodes).await.unwrap();
                assert_eq!(states.len(), 4);
                assert!(states.iter().all(|state| state.num_io_ops >= before));
                if before == 40 {
                    break;
                }
            }
        });
    }
    for round in 1..=40_i64 {
        for n in 1..=4 {
            let fields = json!({"num_io_ops": round});
            service
                .report(&format!("host{n}"), &[node_with(n, fields)])
                .await;
        }
        last_reported.store(round, std::sync::atomic::Ordering::SeqCst);
    }
    readers.join_all().await;
}
