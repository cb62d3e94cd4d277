//! Which account speaks for which host.

use serde_json::json;

use super::service::{Service, node_body, state};

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
