//! Tests of the history of servers.

use berth_conductor::journal::BootGoal;
use serde_json::{Value, json};
use uuid::Uuid;

use super::server_actions::{act, service};
use super::service::{Reply, Service};

/// Deletes a server and its guest. Returns the path of its history.
async fn gone(service: &Service, uuid: Uuid) -> String {
    let path = format!("/servers/{uuid}");
    service.ask("alice", "2.82", "DELETE", &path, None).await;
    service.cloud.forget_guest(uuid).await;
    service.settle().await;
    format!("{path}/os-instance-actions")
}

#[tokio::test]
async fn refusals_of_the_agent_are_shown_in_the_list_of_actions() {
    let service = service().await;
    let uuid = service.running(json!({})).await;
    service.cloud.agent.refuse_actions(Some((409, "devices")));
    assert_eq!(
        act(&service, "alice", uuid, json!({"pause": null}))
            .await
            .status,
        202
    );
    service.settle().await;
    let shown = service.shown("alice", "2.82", uuid).await;
    assert_eq!(
        (&shown["status"], &shown["OS-EXT-STS:task_state"]),
        (&json!("ACTIVE"), &Value::Null)
    );
    let path = format!("/servers/{uuid}/os-instance-actions");
    let reply = service.get("admin", "2.82", &path).await;
    let action = &reply.body["instanceActions"][0];
    assert_eq!(action["message"], "Error");
    let request = action["request_id"].as_str().unwrap();
    let one = service
        .get("admin", "2.82", &format!("{path}/{request}"))
        .await;
    let event = &one.body["instanceAction"]["events"][0];
    assert!(
        event["traceback"].as_str().unwrap().contains("on its way"),
        "{event}"
    );
}

#[tokio::test]
async fn what_was_done_with_a_server_that_is_gone_is_known() {
    let service = service().await;
    let uuid = service.server(json!({})).await;
    service.cloud.set_goal(uuid, &BootGoal::Active).await;
    let path = gone(&service, uuid).await;
    let reply = service.get("alice", "2.21", &path).await;
    assert_eq!(reply.body["instanceActions"][0]["action"], "delete");
    assert_eq!(service.get("alice", "2.20", &path).await.status, 404);
    assert_eq!(service.get("bob", "2.21", &path).await.status, 404);
}

#[tokio::test]
async fn a_server_that_goes_before_it_is_there_has_ended_its_creation_as_well() {
    let service = service().await;
    let uuid = service.server(json!({})).await;
    let path = gone(&service, uuid).await;
    let reply = service.get("alice", "2.82", &path).await;
    let request = reply.body["instanceActions"][1]["request_id"].as_str();
    let one = service
        .get("alice", "2.82", &format!("{path}/{}", request.unwrap()))
        .await;
    let event = &one.body["instanceAction"]["events"][0];
    assert_eq!(one.body["instanceAction"]["action"], "create");
    assert_eq!(event["result"], "Error");
    assert!(event["finish_time"].is_string(), "{event}");
}

#[tokio::test]
async fn actions_of_a_deleted_server_are_hidden_from_other_users() {
    let service = service().await;
    let uuid = service.server(json!({})).await;
    service.cloud.set_goal(uuid, &BootGoal::Active).await;
    let path = gone(&service, uuid).await;
    // A user of the project without the reader role.
    service
        .change("UPDATE compute_server_actions SET project_id = 'project-of-cyborg'")
        .await;
    assert_eq!(service.get("cyborg", "2.21", &path).await.status, 403);
    assert_eq!(service.get("alice", "2.21", &path).await.status, 404);
    assert_eq!(service.get("admin", "2.21", &path).await.status, 200);
}

#[tokio::test]
async fn what_was_done_is_found_by_when_it_changed() {
    let service = service().await;
    let uuid = service.running(json!({})).await;
    service.settle().await;
    act(&service, "alice", uuid, json!({"os-stop": null})).await;
    service.settle().await;
    let path = format!("/servers/{uuid}/os-instance-actions");
    let count = async |version: &str, query: &str| {
        let path = format!("{path}?{query}");
        let reply = service.get("alice", version, &path).await;
        match reply.status.as_u16() {
            200 => Ok(reply.body["instanceActions"].as_array().unwrap().len()),
            refused => Err(refused),
        }
    };
    let since = "changes-since=2020-01-01T00:00:00Z";
    let before = "changes-before=2020-01-01T00:00:00Z";
    for (version, query, expected) in [
        ("2.58", since, Ok(2)),
        ("2.66", before, Ok(0)),
        ("2.66", "changes-since=2099-01-01T00:00:00%2B02:00", Ok(0)),
        ("2.66", "changes-since=yesterday", Err(400)),
        ("2.65", before, Err(400)),
        ("2.58", "colour=red", Err(400)),
        ("2.57", "colour=red", Ok(2)),
        ("2.57", "changes-since=2099-01-01T00:00:00Z", Ok(2)),
    ] {
        assert_eq!(count(version, query).await, expected, "{version} {query}");
    }
    let turned = "changes-since=2021-01-01&changes-before=2020-01-01";
    assert_eq!(count("2.66", turned).await, Err(400));
}

#[tokio::test]
async fn pages_of_what_was_done_end_though_a_request_did_several_things() {
    let service = service().await;
    let uuid = service.running(json!({})).await;
    for action in ["os-stop", "os-start"] {
        service.settle().await;
        act(&service, "alice", uuid, json!({ action: null })).await;
    }
    service.settle().await;
    service
        .change(
            "UPDATE compute_server_actions SET request_id = 'req-both' WHERE action <> 'create'",
        )
        .await;
    let path = format!("/servers/{uuid}/os-instance-actions?limit=1");
    let words = |reply: &Reply| -> Vec<String> {
        let actions = reply.body["instanceActions"].as_array().unwrap().iter();
        actions
            .map(|it| it["action"].as_str().unwrap().to_owned())
            .collect()
    };
    let first = service.get("alice", "2.82", &path).await;
    assert_eq!(words(&first), ["start", "stop"]);
    let next = first.body["links"][0]["href"].as_str().unwrap();
    let next = next.split("/v2.1").nth(1).unwrap();
    assert!(next.contains("marker=req-both"), "{next}");
    let second = service.get("alice", "2.82", next).await;
    assert_eq!(words(&second), ["create"]);
    let refused = format!("{path}&marker=req-x");
    assert_eq!(service.get("alice", "2.82", &refused).await.status, 400);
}

#[tokio::test]
async fn the_last_thousand_actions_are_listed_without_paging() {
    let service = service().await;
    let uuid = service.running(json!({})).await;
    service
        .change(
            "INSERT INTO compute_server_actions (server_uuid, project_id, user_id, request_id, action, event, started_at) \
             WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1005) \
             SELECT s.uuid, s.project_id, s.user_id, 'req-' || n.i, 'stop', 'compute_stop_instance', s.created_at \
             FROM compute_servers s, n ORDER BY n.i",
        )
        .await;
    let path = format!("/servers/{uuid}/os-instance-actions");
    for version in ["2.1", "2.57", "2.58"] {
        let reply = service.get("alice", version, &path).await;
        let actions = reply.body["instanceActions"].as_array().unwrap();
        let request = |at: usize| &actions[at]["request_id"];
        assert_eq!(
            (actions.len(), request(0), request(999)),
            (1000, &json!("req-1005"), &json!("req-6")),
            "{version}"
        );
        assert_eq!(reply.body.get("links").is_some(), version == "2.58");
    }
    // Each entry can be found by its request.
    let old = service.get("alice", "2.1", &format!("{path}/req-1")).await;
    assert_eq!(old.status, 200);
}

#[tokio::test]
async fn an_event_says_what_its_host_is_called_from_2_62_on() {
    let service = service().await;
    let uuid = service.running(json!({})).await;
    service.settle().await;
    let path = format!("/servers/{uuid}/os-instance-actions");
    let reply = service.get("alice", "2.82", &path).await;
    let request = reply.body["instanceActions"][0]["request_id"].clone();
    let path = format!("{path}/{}", request.as_str().unwrap());
    let event = async |token: &str, version: &str| {
        let reply = service.get(token, version, &path).await;
        reply.body["instanceAction"]["events"][0].clone()
    };
    let shown = service.shown("alice", "2.82", uuid).await;
    let (own, early) = (event("alice", "2.62").await, event("alice", "2.61").await);
    assert_eq!(own["hostId"], shown["hostId"]);
    assert_ne!(own["hostId"], "");
    assert_eq!((own.get("host"), early.get("hostId")), (None, None));
    let all = event("admin", "2.62").await;
    assert_eq!(
        (&all["hostId"], all["host"].is_string()),
        (&shown["hostId"], true)
    );
}
