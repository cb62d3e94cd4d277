//! Tests of server lists: projects, filters, order, pages.

use berth_conductor::journal::BootGoal;
use serde_json::json;

use super::cloud::{HOST, IMAGE};
use super::service::{Reply, Service};

async fn service() -> Service {
    let service = Service::start().await;
    service.flavor("f", json!({"vcpus": 2})).await;
    service.flavor("g", json!({"vcpus": 2})).await;
    service
}

fn names(reply: &Reply) -> Vec<&str> {
    assert_eq!(reply.status, 200, "{reply:?}");
    let servers = reply.body["servers"].as_array().unwrap().iter();
    servers.map(|it| it["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn servers_are_found_by_what_is_asked_of_them() {
    let service = service().await;
    let one = service
        .running(json!({"name": "web-1", "tags": ["a", "b"]}))
        .await;
    let two = service
        .running(json!({"name": "web-2", "tags": ["b"], "flavorRef": "g"}))
        .await;
    service.cloud.agent.set_guest(two, "stopped", "shut off");
    service.server(json!({"name": "db", "tags": ["c"]})).await;
    service
        .ask_for("bob", "2.82", json!({"name": "theirs"}))
        .await;
    for (query, expected) in [
        ("", vec!["db", "web-2", "web-1"]),
        ("?name=web", vec!["web-2", "web-1"]),
        ("?name=^web-1$", vec!["web-1"]),
        ("?name=w.b-[2-9]", vec!["web-2"]),
        ("?status=active", vec!["web-1"]),
        ("?status=ACTIVE&status=SHUTOFF", vec!["web-2", "web-1"]),
        ("?status=BUILD", vec!["db"]),
        ("?status=suspended", vec![]),
        ("?flavor=g", vec!["web-2"]),
        (&format!("?image={IMAGE}&limit=1"), vec!["db"]),
        ("?image=00000000-0000-4000-8000-000000000000", vec![]),
        ("?tags=b", vec!["web-2", "web-1"]),
        ("?tags=a,b", vec!["web-1"]),
        ("?tags-any=a,c", vec!["db", "web-1"]),
        ("?not-tags=a,b", vec!["db", "web-2"]),
        ("?not-tags-any=b,c", vec![]),
        ("?ip=192.0.2.1", vec![]),
        (
            "?changes-since=2020-01-01T00:00:00Z",
            vec!["db", "web-2", "web-1"],
        ),
        ("?changes-before=2020-01-01T00:00:00Z", vec![]),
        ("?locked=true", vec![]),
        (
            "?sort_key=display_name&sort_dir=asc",
            vec!["db", "web-1", "web-2"],
        ),
        (
            "?sort_key=vm_state&sort_dir=desc&sort_key=display_name&sort_dir=asc",
            vec!["web-2", "db", "web-1"],
        ),
        ("?host=nowhere", vec!["db", "web-2", "web-1"]),
    ] {
        let found = service
            .get("alice", "2.82", &format!("/servers{query}"))
            .await;
        assert_eq!(names(&found), expected, "{query}");
        let found = service
            .get("alice", "2.82", &format!("/servers/detail{query}"))
            .await;
        assert_eq!(names(&found), expected, "{query}");
    }
    for (query, expected) in [
        ("", vec![]),
        ("?all_tenants=1", vec!["theirs", "db", "web-2", "web-1"]),
        (&format!("?all_tenants&host={HOST}"), vec!["web-2", "web-1"]),
        ("?all_tenants=1&project_id=project-of-bob", vec!["theirs"]),
        ("?all_tenants=1&power_state=1", vec!["web-1"]),
        ("?all_tenants=1&vm_state=stopped", vec!["web-2"]),
        (&format!("?all_tenants=1&uuid={one}"), vec!["web-1"]),
        ("?all_tenants=1&deleted=true", vec![]),
    ] {
        let found = service
            .get("admin", "2.82", &format!("/servers{query}"))
            .await;
        assert_eq!(names(&found), expected, "{query}");
    }
    // project_id is only a filter with all_tenants.
    let own = json!({"name": "own"});
    service.ask_for("admin", "2.82", own).await;
    let found = service
        .get("admin", "2.82", "/servers?project_id=project-of-bob")
        .await;
    assert_eq!(names(&found), ["own"]);
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused() {
    let service = service().await;
    for (token, query, status) in [
        ("alice", "all_tenants=1", 403),
        ("alice", "all_tenants=maybe", 400),
        ("alice", "colour=red", 400),
        ("alice", "sort_key=colour", 400),
        ("alice", "sort_key=host", 403),
        ("alice", "status=nonsense", 400),
        ("alice", "sort_dir=up", 400),
        ("alice", "name=(", 400),
        ("alice", "changes-since=yesterday", 400),
        ("alice", "limit=-1", 400),
        ("alice", "marker=x", 400),
        ("alice", "locked=maybe", 400),
        ("admin", "uuid=x", 400),
        ("admin", "power_state=on", 400),
    ] {
        let refused = service
            .get(token, "2.82", &format!("/servers?{query}"))
            .await;
        assert_eq!(refused.status, status, "{query}: {refused:?}");
    }
    let early = service.get("alice", "2.74", "/servers?colour=red").await;
    assert_eq!(early.status, 200);
}

#[tokio::test]
async fn servers_come_in_pages() {
    let service = service().await;
    for name in ["a", "b", "c"] {
        service.server(json!({ "name": name })).await;
    }
    let first = service
        .get("alice", "2.82", "/servers/detail?limit=2")
        .await;
    assert_eq!(names(&first), ["c", "b"]);
    let next = first.body["servers_links"][0]["href"].as_str().unwrap();
    let next = next.split("/v2.1").nth(1).unwrap();
    let last = service.get("alice", "2.82", next).await;
    assert_eq!(names(&last), ["a"]);
    assert!(last.body.get("servers_links").is_none());
}

#[tokio::test]
async fn a_list_of_many_asks_conductor_and_agent_once() {
    let service = service().await;
    for number in 0..20 {
        let uuid = service.running(json!({"name": format!("s{number}")})).await;
        if number == 0 {
            let reason = "none".to_owned();
            let goal = BootGoal::Failed {
                reason,
                user_message: None,
            };
            service.cloud.set_goal(uuid, &goal).await;
        }
    }
    let all = service.get("alice", "2.82", "/servers/detail").await;
    let servers = all.body["servers"].as_array().unwrap();
    let active = servers.iter().filter(|it| it["status"] == "ACTIVE").count();
    assert_eq!((servers.len(), active), (20, 19));
    assert_eq!(servers[19]["status"], "ERROR");
}
