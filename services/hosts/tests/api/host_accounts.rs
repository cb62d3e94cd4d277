//! Which account speaks for which host.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use berth_http::{LookUpProviderRoot, ProviderLookup, ProviderRoot};
use serde_json::json;
use uuid::Uuid;

use super::service::{Reply, Service, node, node_body, node_with, state};

#[tokio::test]
async fn a_host_reports_its_own_state_and_no_other_host_s() {
    let service = Service::start().await;
    let body = || Some(state(&[node_body(1)]));
    let own = service
        .ask("host/gpu-01", "PUT", "/gpu-01/state", body())
        .await;
    assert_eq!(own.status, 200, "{own:?}");
    let seen = Some(json!({"state": own.state()}));
    for (who, path, body, words) in [
        (
            "host/gpu-02",
            "/gpu-01/state",
            body(),
            "The account of host gpu-02 does not speak for host gpu-01.",
        ),
        (
            "host/gpu-02",
            "/gpu-01/seen",
            seen.clone(),
            "The account of host gpu-02 does not speak for host gpu-01.",
        ),
        (
            "host/gpu-02",
            "/evil/state",
            body(),
            "The account of host gpu-02 does not speak for host evil.",
        ),
        ("service", "/gpu-01/state", body(), "log in as host/gpu-01"),
        (
            "service",
            "/gpu-01/seen",
            seen.clone(),
            "log in as host/gpu-01",
        ),
    ] {
        let refused = service.ask(who, "PUT", path, body).await;
        assert_eq!(refused.status, 403, "{who} {path}: {refused:?}");
        assert!(refused.message().contains(words), "{refused:?}");
    }
    // Who would not pass for any host learns nothing of hosts.
    let member = service.ask("alice", "PUT", "/gpu-01/state", body()).await;
    assert_eq!(member.status, 403);
    assert!(!member.message().contains("gpu-01"), "{member:?}");
    for path in ["/gpu-02", "/gpu-01"] {
        let refused = service.ask("host/gpu-01", "DELETE", path, None).await;
        assert_eq!(refused.status, 403, "an operator removes hosts");
    }
    let seen = service
        .ask("host/gpu-01", "PUT", "/gpu-01/seen", seen)
        .await;
    assert_eq!(seen.status, 200, "{seen:?}");
    let listed = service.get("").await;
    assert_eq!(
        listed.body["hosts"].as_array().map(Vec::len),
        Some(1),
        "{listed:?}"
    );
}

/// What the account of a host tells of nodes with these numbers and names.
async fn report(service: &Service, host: &str, nodes: &[(u128, &str)]) -> Reply {
    let named = |(n, name): &(u128, &str)| node_with(*n, json!({ "hypervisor_hostname": name }));
    let body = state(&nodes.iter().map(named).collect::<Vec<_>>());
    let (account, path) = (format!("host/{host}"), format!("/{host}/state"));
    service.ask(&account, "PUT", &path, Some(body)).await
}

#[tokio::test]
async fn a_host_reports_no_node_with_the_name_of_another_host_or_of_its_node() {
    let service = Service::start().await;
    for (host, nodes) in [
        ("compute1", [(1_u128, "compute1")]),
        ("compute3", [(3, "compute3")]),
        ("rack", [(4, "rack-7")]),
    ] {
        let reply = report(&service, host, &nodes).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    for (name, other) in [
        ("compute3", "compute3"),
        ("rack-7", "rack"),
        ("rack", "rack"),
    ] {
        for nodes in [vec![(1_u128, name)], vec![(1, "compute1"), (2, name)]] {
            let refused = report(&service, "compute1", &nodes).await;
            assert_eq!(refused.status, 409, "{name}: {refused:?}");
            let sentence = format!(
                "compute node {name} of host compute1 has the name of host {other} or of a node of it"
            );
            assert!(refused.message().contains(&sentence), "{refused:?}");
        }
        let newcomer = report(&service, "compute9", &[(9, name)]).await;
        assert_eq!(newcomer.status, 409, "{name}: {newcomer:?}");
    }
    assert_eq!(service.get("/compute9/state").await.status, 404);
    let shown = service.get("/compute1/state").await;
    assert_eq!(shown.body["nodes"][0]["hypervisor_hostname"], "compute1");
    // A host may have several nodes, and their names may change.
    for nodes in [
        [(1, "compute1"), (2, "blade")],
        [(1, "blade"), (2, "compute1")],
    ] {
        let reply = report(&service, "compute1", &nodes).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }
}

#[tokio::test]
async fn a_node_belongs_to_the_host_that_reported_it_first_until_an_operator_removes_that_host() {
    let service = Service::start().await;
    let first = report(&service, "compute3", &[(3, "compute3")]).await;
    assert_eq!(first.status, 200, "{first:?}");
    let steal = async || report(&service, "compute1", &[(3, "compute1")]).await;
    let forced_down = Some(json!({"forced_down": true}));
    for down in [false, true] {
        service.was_seen("compute3", 3_600).await;
        if down {
            let forced = service
                .ask("admin", "PUT", "/compute3/service", forced_down.clone())
                .await;
            assert_eq!(forced.status, 200, "{forced:?}");
        }
        let refused = steal().await;
        assert_eq!(refused.status, 409, "{refused:?}");
        for words in [
            "the account of host compute1 cannot take it",
            "openstack compute service delete",
            &format!("compute node {} belongs to host compute3", node(3)),
        ] {
            assert!(refused.message().contains(words), "{words}: {refused:?}");
        }
    }
    let seen = Some(json!({"state": first.state()}));
    let seen = service
        .ask("host/compute3", "PUT", "/compute3/seen", seen)
        .await;
    assert_eq!(seen.status, 200, "it is still its own: {seen:?}");
    let removed = service.ask("admin", "DELETE", "/compute3", None).await;
    assert_eq!(removed.status, 204, "{removed:?}");
    let taken = steal().await;
    assert_eq!(taken.status, 200, "{taken:?}");
    let late = report(&service, "compute3", &[(3, "compute3")]).await;
    assert_eq!(late.status, 409, "{late:?}");
}

/// Roots of trees by the UUID of a provider in them; `Err` where Placement does not answer.
#[derive(Default)]
struct Providers(Mutex<BTreeMap<Uuid, FoundRoot>>);

type FoundRoot = Result<(Uuid, &'static str), ()>;

impl LookUpProviderRoot for Providers {
    fn provider_root(&self, provider: Uuid) -> ProviderLookup<'_> {
        let found = self.0.lock().unwrap().get(&provider).copied();
        Box::pin(async move {
            match found {
                Some(Err(())) => Err("connection refused".into()),
                Some(Ok((uuid, name))) => Ok(Some(ProviderRoot {
                    uuid,
                    name: name.to_owned(),
                })),
                None => Ok(None),
            }
        })
    }
}

#[tokio::test]
async fn a_host_reports_only_nodes_that_are_its_resource_providers_from_the_first_report_on() {
    let providers = Arc::new(Providers::default());
    let set = |n, root| {
        providers.0.lock().unwrap().insert(node(n), root);
    };
    set(1, Ok((node(1), "compute1")));
    set(2, Ok((node(2), "compute1_blade")));
    set(3, Ok((node(3), "compute3")));
    set(10, Ok((node(10), "compute10")));
    // A child of compute1.
    set(11, Ok((node(1), "compute1")));
    set(4, Err(()));
    let service = Service::start().await.with_providers(providers.clone());
    // compute3 has reported nothing yet, and its UUID is in Placement for all to read.
    for (n, name, provider) in [
        (3, "compute1", "compute3"),
        (3, "compute3", "compute3"),
        (10, "compute1", "compute10"),
        (11, "compute1", "compute1"),
        (1, "compute3", "compute1"),
        (1, "compute3.", "compute1"),
        (1, "Compute1", "compute1"),
        (2, "blade", "compute1_blade"),
    ] {
        for nodes in [vec![(n, name)], vec![(2, "compute1_blade"), (n, name)]] {
            if nodes.len() == 2 && n == 2 {
                continue;
            }
            let stolen = report(&service, "compute1", &nodes).await;
            assert_eq!(stolen.status, 409, "{stolen:?}");
            let sentence = format!(
                "compute node {name} of host compute1 has the UUID of resource provider {provider} in Placement"
            );
            assert!(stolen.message().contains(&sentence), "{stolen:?}");
        }
    }
    let early = report(&service, "compute1", &[(5, "compute1")]).await;
    assert_eq!(early.status, 409, "{early:?}");
    let sentence = format!(
        "compute node {} of host compute1 has no resource provider in Placement yet: report it when it has one",
        node(5)
    );
    assert!(early.message().contains(&sentence), "{early:?}");
    let unknown = report(&service, "compute1", &[(4, "compute1")]).await;
    assert_eq!(unknown.status, 503, "{unknown:?}");
    let sentence = format!("Cannot look up resource provider {} in Placement.", node(4));
    assert!(unknown.message().contains(&sentence), "{unknown:?}");
    let state = service.get("/compute1/state").await;
    assert_eq!(state.status, 404, "nothing was written");
    let nodes = [(1, "compute1"), (2, "compute1_blade")];
    let own = report(&service, "compute1", &nodes).await;
    assert_eq!(own.status, 200, "{own:?}");
    let owner = report(&service, "compute3", &[(3, "compute3")]).await;
    assert_eq!(owner.status, 200, "{owner:?}");
    // A node that the host has reported already needs no lookup, unless it has another name.
    set(1, Err(()));
    let again = report(&service, "compute1", &[(1, "compute1")]).await;
    assert_eq!(again.status, 200, "{again:?}");
    let renamed = report(&service, "compute1", &[(1, "compute4")]).await;
    assert_eq!(renamed.status, 503, "{renamed:?}");
    // After an operator has removed the host, neither its node nor its name is free for others.
    let removed = service.ask("admin", "DELETE", "/compute3", None).await;
    assert_eq!(removed.status, 204, "{removed:?}");
    set(1, Ok((node(1), "compute1")));
    for taken in [(3, "compute1"), (3, "compute3"), (1, "compute3")] {
        let stolen = report(&service, "compute1", &[taken]).await;
        assert_eq!(stolen.status, 409, "{stolen:?}");
    }
}
