//! Tests of server actions.

use berth_conductor::journal::BootGoal;
use berth_wire::guest::GuestAction;
use serde_json::{Value, json};
use uuid::Uuid;

use super::cloud::IMAGE;
use super::service::{Reply, Service};

pub(crate) async fn service() -> Service {
    let service = Service::start().await;
    service.flavor("f", json!({})).await;
    service
}

pub(crate) async fn act(service: &Service, token: &str, server: Uuid, body: Value) -> Reply {
    let path = format!("/servers/{server}/action");
    service.ask(token, "2.82", "POST", &path, Some(body)).await
}

#[tokio::test]
async fn each_action_is_asked_of_the_agent_and_shows_what_comes_of_it() {
    let service = service().await;
    let uuid = service.running(json!({})).await;
    for (body, status) in [
        (json!({"os-stop": null}), "SHUTOFF"),
        (json!({"os-start": null}), "ACTIVE"),
        (json!({"pause": null}), "PAUSED"),
        (json!({"unpause": null}), "ACTIVE"),
        (json!({"reboot": {"type": "soft"}}), "ACTIVE"),
        (json!({"reboot": {"type": "HARD"}}), "ACTIVE"),
        (json!({"rescue": {"rescue_image_ref": IMAGE}}), "RESCUE"),
        (json!({"unrescue": null}), "ACTIVE"),
        (
            json!({"rebuild": {"imageRef": IMAGE, "name": "t"}}),
            "ACTIVE",
        ),
    ] {
        let done = act(&service, "alice", uuid, body.clone()).await;
        assert!(done.status.is_success(), "{body}: {done:?}");
        service.settle().await;
        let shown = service.shown("alice", "2.82", uuid).await;
        assert_eq!(
            (&shown["status"], &shown["OS-EXT-STS:task_state"]),
            (&json!(status), &Value::Null),
            "{body}"
        );
    }
    let asked = service.cloud.agent.received_actions();
    assert_eq!(asked.len(), 9, "{asked:?}");
    assert!(matches!(asked[0], GuestAction::Stop { grace_seconds: 60 }));
    assert!(matches!(asked[4], GuestAction::SoftReboot {}));
    assert!(matches!(asked[5], GuestAction::HardReboot {}));
    // Agents refuse unknown properties.
    assert!(matches!(
        &asked[6],
        GuestAction::Rescue { image: Some(image), .. } if image.properties.is_empty()
    ));
    assert!(matches!(
        &asked[8],
        GuestAction::Rebuild { image, .. } if image.properties.is_empty()
    ));
    assert_eq!(service.shown("alice", "2.82", uuid).await["name"], "t");
    let path = format!("/servers/{uuid}/os-instance-actions");
    let reply = service.get("alice", "2.82", &path).await;
    let actions = reply.body["instanceActions"].as_array().unwrap();
    let words: Vec<&str> = actions
        .iter()
        .map(|it| it["action"].as_str().unwrap())
        .collect();
    let expected = [
        "rebuild", "unrescue", "rescue", "reboot", "reboot", "unpause", "pause", "start", "stop",
        "create",
    ];
    assert_eq!(words, expected);
    let request = actions[8]["request_id"].as_str().unwrap();
    let one = service
        .get("alice", "2.82", &format!("{path}/{request}"))
        .await;
    let event = &one.body["instanceAction"]["events"][0];
    assert_eq!(
        (&event["event"], &event["result"]),
        (&json!("compute_stop_instance"), &json!("Success"))
    );
    assert!(event["finish_time"].is_string() && event.get("traceback").is_none());
    assert_eq!(
        service
            .get("alice", "2.82", &format!("{path}/req-x"))
            .await
            .status,
        404
    );
    assert_eq!(service.get("bob", "2.82", &path).await.status, 404);
}

#[tokio::test]
async fn what_a_server_is_not_in_a_state_for_is_a_conflict() {
    let service = service().await;
    let uuid = service.running(json!({})).await;
    let refused = act(&service, "alice", uuid, json!({"os-start": null})).await;
    let sentence = format!("Cannot 'start' instance {uuid} while it is in vm_state active");
    assert_eq!(refused.message("conflictingRequest"), sentence);
    // While the agent is unreachable, the action stays pending.
    service.cloud.agent.set_unreachable(true);
    assert_eq!(
        act(&service, "alice", uuid, json!({"pause": null}))
            .await
            .status,
        202
    );
    let refused = act(&service, "alice", uuid, json!({"os-stop": null})).await;
    let sentence = format!("Cannot 'stop' instance {uuid} while it is in task_state pausing");
    assert_eq!(refused.message("conflictingRequest"), sentence);
    service.cloud.agent.set_unreachable(false);
    service.settle().await;
    assert_eq!(
        service.shown("alice", "2.82", uuid).await["status"],
        "PAUSED"
    );
    let building = service.server(json!({})).await;
    let refused = act(&service, "alice", building, json!({"os-stop": null})).await;
    assert!(
        refused
            .message("conflictingRequest")
            .contains("vm_state building")
    );
}

#[tokio::test]
async fn nothing_is_done_with_a_server_that_never_came_to_be() {
    let service = service().await;
    let uuid = service.server(json!({})).await;
    let reason = "no host".to_owned();
    let failed = BootGoal::Failed {
        reason,
        user_message: None,
    };
    use berth_conductor::journal::BootJournal as _;
    service.settle().await;
    service
        .cloud
        .journal
        .set_goal(uuid.into(), &failed)
        .await
        .unwrap();
    service.settle().await;
    assert_eq!(
        service.shown("alice", "2.82", uuid).await["status"],
        "ERROR"
    );
    for body in [
        json!({"os-stop": null}),
        json!({"reboot": {"type": "HARD"}}),
        json!({"rescue": null}),
        json!({"rebuild": {"imageRef": IMAGE, "name": "t"}}),
    ] {
        let refused = act(&service, "alice", uuid, body).await;
        let sentence = format!("Instance {uuid} is not ready");
        assert_eq!(refused.message("conflictingRequest"), sentence);
    }
    let shown = service.shown("alice", "2.82", uuid).await;
    assert_eq!(shown["name"], "s");
}

#[tokio::test]
async fn a_locked_server_is_left_alone_but_by_operators() {
    let service = service().await;
    let uuid = service.running(json!({})).await;
    let lock = json!({"lock": {"locked_reason": "audit"}});
    assert_eq!(act(&service, "alice", uuid, lock).await.status, 202);
    let shown = service.shown("alice", "2.82", uuid).await;
    assert_eq!(
        (&shown["locked"], &shown["locked_reason"]),
        (&json!(true), &json!("audit"))
    );
    let path = format!("/servers/{uuid}");
    let sentence = format!("Instance {uuid} is locked");
    let refused = service.ask("alice", "2.82", "DELETE", &path, None).await;
    assert_eq!(refused.message("conflictingRequest"), sentence);
    let refused = act(&service, "alice", uuid, json!({"os-stop": null})).await;
    assert_eq!(refused.message("conflictingRequest"), sentence);
    assert_eq!(
        act(&service, "admin", uuid, json!({"os-stop": null}))
            .await
            .status,
        202
    );
    assert_eq!(
        act(&service, "alice", uuid, json!({"unlock": null}))
            .await
            .status,
        202
    );
    assert_eq!(
        act(&service, "admin", uuid, json!({"lock": null}))
            .await
            .status,
        202
    );
    // Locking the server first does not help.
    let lock = json!({"lock": {"locked_reason": "mine"}});
    assert_eq!(act(&service, "alice", uuid, lock).await.status, 202);
    let shown = service.shown("alice", "2.82", uuid).await;
    assert_eq!(shown["locked_reason"], Value::Null);
    let refused = act(&service, "alice", uuid, json!({"unlock": null})).await;
    assert!(refused.message("forbidden").contains("unlock_override"));
    assert_eq!(
        act(&service, "admin", uuid, json!({"unlock": null}))
            .await
            .status,
        202
    );
}

#[tokio::test]
async fn the_console_is_read_and_what_is_not_offered_says_so() {
    let service = service().await;
    let uuid = service.running(json!({})).await;
    let log = act(
        &service,
        "alice",
        uuid,
        json!({"os-getConsoleOutput": {"length": 2}}),
    )
    .await;
    assert_eq!(log.body, json!({"output": "one\ntwo\nthree\n"}));
    let building = service.server(json!({})).await;
    let early = act(
        &service,
        "alice",
        building,
        json!({"os-getConsoleOutput": {}}),
    )
    .await;
    let sentence = format!("Instance {building} is not ready");
    assert_eq!(early.message("conflictingRequest"), sentence);
    // A server that is being deleted may no longer exist on its host.
    service.cloud.agent.remove_guest(uuid);
    let late = json!({"os-getConsoleOutput": {}});
    let late = act(&service, "alice", uuid, late).await;
    let sentence = format!("Instance {uuid} is not ready");
    assert_eq!(late.message("conflictingRequest"), sentence);
    service.cloud.agent.set_guest(uuid, "active", "running");
    for (token, body, kind, named) in [
        (
            "alice",
            json!({"resize": {"flavorRef": "f"}}),
            "notImplemented",
            "'resize' is not supported.",
        ),
        (
            "alice",
            json!({"dance": null}),
            "badRequest",
            "There is no such action: dance",
        ),
        ("alice", json!({}), "badRequest", "one key"),
        (
            "alice",
            json!({"os-stop": null, "os-start": null}),
            "badRequest",
            "one key",
        ),
        (
            "alice",
            json!({"reboot": {"type": "WARM"}}),
            "badRequest",
            "SOFT or HARD",
        ),
        (
            "alice",
            json!({"rebuild": {}}),
            "badRequest",
            "'imageRef' is a required property",
        ),
        (
            "alice",
            json!({"rebuild": {"imageRef": IMAGE, "key_name": "none"}}),
            "badRequest",
            "Invalid key_name provided.",
        ),
        (
            "alice",
            json!({"os-getConsoleOutput": {"length": "x"}}),
            "badRequest",
            "number of lines",
        ),
        (
            "alice",
            json!({"os-resetState": {"state": "active"}}),
            "forbidden",
            "reset_state",
        ),
        (
            "admin",
            json!({"os-resetState": {"state": "error"}}),
            "badRequest",
            "only active is accepted",
        ),
    ] {
        let refused = act(&service, token, uuid, body.clone()).await;
        let message = refused.message(kind);
        assert!(message.contains(named), "{body}: {message}");
    }
}

#[tokio::test]
async fn an_operator_gives_up_what_is_under_way() {
    let service = service().await;
    let uuid = service.running(json!({})).await;
    service.shown("alice", "2.82", uuid).await;
    service.cloud.agent.set_unreachable(true);
    act(&service, "alice", uuid, json!({"pause": null})).await;
    // A request that is being sent to the agent cannot be cancelled.
    service.settle().await;
    let reset = json!({"os-resetState": {"state": "active"}});
    assert_eq!(act(&service, "admin", uuid, reset).await.status, 202);
    // A retry that began before the reset ends while the agent is still unreachable.
    service.settle().await;
    service.cloud.agent.set_unreachable(false);
    service.settle().await;
    assert_eq!(service.cloud.agent.received_actions(), []);
    assert_eq!(
        service.shown("alice", "2.82", uuid).await["status"],
        "ACTIVE"
    );
}
