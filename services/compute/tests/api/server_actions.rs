//! What is done with servers, and what is told of it afterwards.

use berth_conductor::journal::Course;
use berth_wire::guest::GuestAction;
use serde_json::{Value, json};
use uuid::Uuid;

use super::cloud::{IMAGE, OTHER_IMAGE};
use super::service::{Reply, Service};

async fn service() -> Service {
    let service = Service::start().await;
    service.flavor("f", json!({})).await;
    service
}

async fn act(service: &Service, token: &str, server: Uuid, body: Value) -> Reply {
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
        service.rest().await;
        let shown = service.shown("alice", "2.82", uuid).await;
        assert_eq!(
            (&shown["status"], &shown["OS-EXT-STS:task_state"]),
            (&json!(status), &Value::Null),
            "{body}"
        );
    }
    let asked = service.cloud.agent.asked();
    assert_eq!(asked.len(), 9, "{asked:?}");
    assert!(matches!(asked[0], GuestAction::Stop { grace_seconds: 60 }));
    assert!(matches!(asked[4], GuestAction::SoftReboot {}));
    assert!(matches!(asked[5], GuestAction::HardReboot {}));
    // An agent refuses properties that it does not know.
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
    let told = service.get("alice", "2.82", &path).await;
    let actions = told.body["instanceActions"].as_array().unwrap();
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
    // The agent is away: what was asked for is under way until it is back.
    service.cloud.agent.is_away(true);
    assert_eq!(
        act(&service, "alice", uuid, json!({"pause": null}))
            .await
            .status,
        202
    );
    let refused = act(&service, "alice", uuid, json!({"os-stop": null})).await;
    let sentence = format!("Cannot 'stop' instance {uuid} while it is in task_state pausing");
    assert_eq!(refused.message("conflictingRequest"), sentence);
    service.cloud.agent.is_away(false);
    service.rest().await;
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
async fn what_the_agent_refuses_is_told_in_the_list_of_actions() {
    let service = service().await;
    let uuid = service.running(json!({})).await;
    service.cloud.agent.refuses(Some((409, "devices")));
    assert_eq!(
        act(&service, "alice", uuid, json!({"pause": null}))
            .await
            .status,
        202
    );
    service.rest().await;
    let shown = service.shown("alice", "2.82", uuid).await;
    assert_eq!(
        (&shown["status"], &shown["OS-EXT-STS:task_state"]),
        (&json!("ACTIVE"), &Value::Null)
    );
    let path = format!("/servers/{uuid}/os-instance-actions");
    let told = service.get("admin", "2.82", &path).await;
    let action = &told.body["instanceActions"][0];
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
async fn nothing_is_done_with_a_server_that_never_came_to_be() {
    let service = service().await;
    let uuid = service.server(json!({})).await;
    let reason = "no host".to_owned();
    let failed = Course::Failed { reason, told: None };
    use berth_conductor::journal::BootJournal as _;
    service.rest().await;
    service
        .cloud
        .journal
        .turn(uuid.into(), &failed)
        .await
        .unwrap();
    service.rest().await;
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
    // Nor by locking it themselves first.
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
    for (token, body, kind, named) in [
        (
            "alice",
            json!({"resize": {"flavorRef": "f"}}),
            "notImplemented",
            "'resize' is not offered here.",
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
            json!({"rebuild": {"imageRef": IMAGE, "user_data": "YQ=="}}),
            "badRequest",
            "config drive",
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
            "only active is taken",
        ),
    ] {
        let refused = act(&service, token, uuid, body.clone()).await;
        let message = refused.message(kind);
        assert!(message.contains(named), "{body}: {message}");
    }
}

#[tokio::test]
async fn a_new_root_disk_has_to_fit_and_brings_what_is_said_of_the_server() {
    let service = service().await;
    let uuid = service.running(json!({})).await;
    let nothing = json!({"imageRef": IMAGE, "key_name": null, "user_data": null, "trusted_image_certificates": null,
        "accessIPv4": "192.0.2.7", "accessIPv6": "2001:db8::7"});
    let done = act(&service, "alice", uuid, json!({ "rebuild": nothing })).await;
    assert_eq!(done.status, 202, "{done:?}");
    let server = &done.body["server"];
    assert_eq!(
        (&server["accessIPv4"], &server["accessIPv6"]),
        (&json!("192.0.2.7"), &json!("2001:db8::7"))
    );
    service.rest().await;
    for (more, named) in [
        (json!({"key_name": "k"}), "config drive"),
        (
            json!({"trusted_image_certificates": ["a"]}),
            "no signatures",
        ),
        (json!({"personality": []}), "'personality' was unexpected"),
        (json!({"adminPass": "hunter2"}), "no password"),
    ] {
        let mut body = json!({"rebuild": {"imageRef": IMAGE}});
        let fields = more.as_object().unwrap().clone();
        body["rebuild"].as_object_mut().unwrap().extend(fields);
        let refused = act(&service, "alice", uuid, body).await;
        let message = refused.message("badRequest");
        assert!(message.contains(named), "{more}: {message}");
        assert!(!message.contains("hunter2"), "{message}");
    }
    let rescue = json!({"rescue": {"adminPass": "hunter2"}});
    let refused = act(&service, "alice", uuid, rescue).await;
    assert!(!refused.message("badRequest").contains("hunter2"));
    // The image that is named now may need more than the one that the server was made of.
    for (change, status, sentence) in [
        (
            "UPDATE compute_servers SET flavor = REPLACE(flavor, '\"ram_mb\":512', '\"ram_mb\":64')",
            400,
            "memory is too small",
        ),
        (
            "UPDATE compute_servers SET flavor = REPLACE(REPLACE(flavor, '\"ram_mb\":64', '\"ram_mb\":512'),
                '\"disk_gb\":10', '\"disk_gb\":1')",
            400,
            "disk is too small",
        ),
        (
            "UPDATE compute_servers SET flavor = REPLACE(flavor, '\"disk_gb\":1', '\"disk_gb\":0')",
            403,
            "flavors with zero disk",
        ),
    ] {
        service.change(change).await;
        let body = json!({"rebuild": {"imageRef": IMAGE}});
        let refused = act(&service, "alice", uuid, body).await;
        assert_eq!(refused.status, status, "{refused:?}");
        assert!(refused.body.to_string().contains(sentence), "{refused:?}");
    }
}

#[tokio::test]
async fn the_image_of_a_rebuild_is_shown_from_the_answer_on_and_stays_where_that_fails() {
    let service = service().await;
    let uuid = service.running(json!({})).await;
    let agent = &service.cloud.agent;
    agent.hangs(true);
    let rebuild =
        |image| json!({"rebuild": {"imageRef": image, "name": "t", "metadata": {"a": "b"}}});
    let done = act(&service, "alice", uuid, rebuild(OTHER_IMAGE)).await;
    assert_eq!(done.status, 202, "{done:?}");
    assert_eq!(done.body["server"]["name"], "t");
    assert_eq!(done.body["server"]["metadata"], json!({"a": "b"}));
    let of = |shown: &Value| shown["image"]["id"].clone();
    assert_eq!(of(&done.body["server"]), json!(OTHER_IMAGE));
    let shown = service.shown("alice", "2.82", uuid).await;
    assert_eq!(
        (&shown["status"], of(&shown)),
        (&json!("REBUILD"), json!(OTHER_IMAGE))
    );
    // One that comes in between changes nothing.
    let refused = act(&service, "alice", uuid, rebuild(IMAGE)).await;
    assert_eq!(refused.status, 409);
    agent.refuses(Some((409, "state")));
    agent.hangs(false);
    service.rest().await;
    let shown = service.shown("alice", "2.82", uuid).await;
    assert_eq!(
        (&shown["status"], of(&shown)),
        (&json!("ACTIVE"), json!(OTHER_IMAGE))
    );
}

#[tokio::test]
async fn a_rebuild_that_an_earlier_release_began_brings_its_image_when_it_ends() {
    let service = service().await;
    let uuid = service.running(json!({})).await;
    service.cloud.agent.hangs(true);
    let rebuild = json!({"rebuild": {"imageRef": OTHER_IMAGE}});
    act(&service, "alice", uuid, rebuild).await;
    // That release wrote it down beside what is asked of the agent.
    let sql = format!(
        "UPDATE compute_servers SET image = '{IMAGE}';
         UPDATE compute_server_actions SET image = '{OTHER_IMAGE}' WHERE action = 'rebuild';"
    );
    service.change(sql.leak()).await;
    service.cloud.agent.hangs(false);
    service.rest().await;
    let shown = service.shown("alice", "2.82", uuid).await;
    assert_eq!(shown["image"]["id"], json!(OTHER_IMAGE));
}

#[tokio::test]
async fn an_operator_gives_up_what_is_under_way() {
    let service = service().await;
    let uuid = service.running(json!({})).await;
    service.shown("alice", "2.82", uuid).await;
    service.cloud.agent.is_away(true);
    act(&service, "alice", uuid, json!({"pause": null})).await;
    // What is asked of the agent at this moment cannot be called back.
    service.rest().await;
    let reset = json!({"os-resetState": {"state": "active"}});
    assert_eq!(act(&service, "admin", uuid, reset).await.status, 202);
    service.cloud.agent.is_away(false);
    service.rest().await;
    assert_eq!(service.cloud.agent.asked(), []);
    assert_eq!(
        service.shown("alice", "2.82", uuid).await["status"],
        "ACTIVE"
    );
}

#[tokio::test]
async fn what_was_done_with_a_server_that_is_gone_is_known() {
    let service = service().await;
    let uuid = service.server(json!({})).await;
    service.cloud.is_at(uuid, &Course::Active).await;
    let path = format!("/servers/{uuid}");
    service.ask("alice", "2.82", "DELETE", &path, None).await;
    use berth_conductor::journal::BootJournal as _;
    service.cloud.journal.forget(uuid.into()).await.unwrap();
    service.rest().await;
    let path = format!("{path}/os-instance-actions");
    let told = service.get("alice", "2.21", &path).await;
    assert_eq!(told.body["instanceActions"][0]["action"], "delete");
    assert_eq!(service.get("alice", "2.20", &path).await.status, 404);
    assert_eq!(service.get("bob", "2.21", &path).await.status, 404);
}

#[tokio::test]
async fn what_was_done_with_a_server_that_is_gone_is_nobodys_who_may_not_see_it() {
    let service = service().await;
    let uuid = service.server(json!({})).await;
    service.cloud.is_at(uuid, &Course::Active).await;
    let path = format!("/servers/{uuid}");
    service.ask("alice", "2.82", "DELETE", &path, None).await;
    use berth_conductor::journal::BootJournal as _;
    service.cloud.journal.forget(uuid.into()).await.unwrap();
    service.rest().await;
    // Of this project is somebody who is no reader of it.
    service
        .change("UPDATE compute_server_actions SET project_id = 'project-of-cyborg'")
        .await;
    let path = format!("{path}/os-instance-actions");
    assert_eq!(service.get("cyborg", "2.21", &path).await.status, 403);
    assert_eq!(service.get("alice", "2.21", &path).await.status, 404);
    assert_eq!(service.get("admin", "2.21", &path).await.status, 200);
}

#[tokio::test]
async fn what_was_done_is_found_by_when_it_changed() {
    let service = service().await;
    let uuid = service.running(json!({})).await;
    service.rest().await;
    act(&service, "alice", uuid, json!({"os-stop": null})).await;
    service.rest().await;
    let path = format!("/servers/{uuid}/os-instance-actions");
    let count = async |version: &str, query: &str| {
        let path = format!("{path}?{query}");
        let told = service.get("alice", version, &path).await;
        match told.status.as_u16() {
            200 => Ok(told.body["instanceActions"].as_array().unwrap().len()),
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
        service.rest().await;
        act(&service, "alice", uuid, json!({ action: null })).await;
    }
    service.rest().await;
    service
        .change(
            "UPDATE compute_server_actions SET request_id = 'req-both' WHERE action <> 'create'",
        )
        .await;
    let path = format!("/servers/{uuid}/os-instance-actions?limit=1");
    let words = |told: &Reply| -> Vec<String> {
        let actions = told.body["instanceActions"].as_array().unwrap().iter();
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
async fn the_last_thousand_things_that_were_done_are_told_where_there_are_no_pages() {
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
        let told = service.get("alice", version, &path).await;
        let actions = told.body["instanceActions"].as_array().unwrap();
        let request = |at: usize| &actions[at]["request_id"];
        assert_eq!(
            (actions.len(), request(0), request(999)),
            (1000, &json!("req-1005"), &json!("req-6")),
            "{version}"
        );
        assert_eq!(told.body.get("links").is_some(), version == "2.58");
    }
    // Each is known by its request all the same.
    let old = service.get("alice", "2.1", &format!("{path}/req-1")).await;
    assert_eq!(old.status, 200);
}

#[tokio::test]
async fn an_event_says_what_its_host_is_called_from_2_62_on() {
    let service = service().await;
    let uuid = service.running(json!({})).await;
    service.rest().await;
    let path = format!("/servers/{uuid}/os-instance-actions");
    let told = service.get("alice", "2.82", &path).await;
    let request = told.body["instanceActions"][0]["request_id"].clone();
    let path = format!("{path}/{}", request.as_str().unwrap());
    let event = async |token: &str, version: &str| {
        let told = service.get(token, version, &path).await;
        told.body["instanceAction"]["events"][0].clone()
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

#[tokio::test]
async fn a_change_is_answered_with_the_whole_server_from_2_75_on() {
    let service = service().await;
    let uuid = service.running(json!({})).await;
    let path = format!("/servers/{uuid}");
    let of_rebuild = format!("{path}/action");
    let since = [
        "OS-EXT-AZ:availability_zone",
        "config_drive",
        "OS-SRV-USG:launched_at",
        "OS-EXT-STS:vm_state",
        "OS-EXT-SRV-ATTR:host",
        "host_status",
        "os-extended-volumes:volumes_attached",
    ];
    for (version, rebuilt_with_key) in [("2.53", false), ("2.74", true), ("2.75", true)] {
        let body = json!({"server": {"name": "n"}});
        let updated = service
            .ask("admin", version, "PUT", &path, Some(body))
            .await;
        let body = json!({"rebuild": {"imageRef": IMAGE}});
        let rebuilt = service
            .ask("admin", version, "POST", &of_rebuild, Some(body))
            .await;
        service.rest().await;
        for answer in [&updated.body["server"], &rebuilt.body["server"]] {
            for key in since {
                let has = answer.get(key).is_some();
                assert_eq!(has, version == "2.75", "{version} {key}: {answer}");
            }
            assert!(answer["status"].is_string() && answer["locked"].is_boolean());
        }
        let key = |answer: &Value| answer["server"].get("key_name").is_some();
        assert_eq!(key(&updated.body), version == "2.75");
        assert_eq!(key(&rebuilt.body), rebuilt_with_key, "{version}");
    }
}
