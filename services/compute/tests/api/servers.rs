//! Tests of servers from creation to deletion, as users and operators see them.

use std::time::{Duration, Instant};

use berth_conductor::journal::{AfterUndo, BootGoal, BootJournal as _, FailedAttempt, StepState};
use serde_json::{Value, json};
use uuid::Uuid;

use super::cloud::{HOST, IMAGE};
use super::service::Service;

async fn service() -> Service {
    let service = Service::start().await;
    let flavor = json!({"vcpus": 2, "OS-FLV-EXT-DATA:ephemeral": 1});
    assert_eq!(service.flavor("f", flavor).await.status, 200);
    service
}

#[tokio::test]
async fn a_server_is_shown_with_the_states_of_conductor_and_agent() {
    let service = service().await;
    let uuid = service.server(json!({})).await;
    let state = |shown: &Value| {
        let of = |key: &str| shown[format!("OS-EXT-STS:{key}")].clone();
        (
            shown["status"].clone(),
            of("vm_state"),
            of("task_state"),
            of("power_state"),
        )
    };
    let shown = service.shown("alice", "2.82", uuid).await;
    let expected = (
        json!("BUILD"),
        json!("building"),
        json!("scheduling"),
        json!(0),
    );
    assert_eq!(state(&shown), expected);
    service.cloud.set_goal(uuid, &BootGoal::Boot).await;
    let shown = service.shown("alice", "2.82", uuid).await;
    assert_eq!(state(&shown).2, json!("spawning"));
    service.cloud.set_goal(uuid, &BootGoal::Active).await;
    service.cloud.agent.set_guest(uuid, "active", "running");
    let shown = service.shown("alice", "2.82", uuid).await;
    let expected = (json!("ACTIVE"), json!("active"), Value::Null, json!(1));
    assert_eq!(state(&shown), expected);
    service.cloud.agent.set_guest(uuid, "stopped", "shut off");
    let shown = service.shown("alice", "2.82", uuid).await;
    let stopped = (json!("SHUTOFF"), json!("stopped"), Value::Null, json!(4));
    assert_eq!(state(&shown), stopped);
    // If the agent does not answer, its last report counts.
    service.cloud.agent.set_unreachable(true);
    let shown = service.shown("alice", "2.82", uuid).await;
    assert_eq!(state(&shown), stopped);
}

#[tokio::test]
async fn a_list_waits_for_silent_agents_once_and_hears_the_others() {
    let service = service().await;
    for _ in 0..28 {
        let made = service.ask_for("alice", "2.82", json!({"max_count": 5}));
        assert_eq!(made.await.status, 202);
    }
    let listed = async |path: &str| {
        let listed = service.get("alice", "2.82", path).await;
        listed.body["servers"].as_array().unwrap().clone()
    };
    let uuids = listed("/servers").await;
    let uuids: Vec<Uuid> = uuids
        .iter()
        .map(|it| it["id"].as_str().unwrap().parse().unwrap())
        .collect();
    for (number, uuid) in uuids.iter().enumerate() {
        let node = format!("node-{number:03}");
        let (done, goal) = (StepState::Done, BootGoal::Active);
        service.cloud.set_progress(*uuid, &node, done, &goal).await;
        service.cloud.agent.set_guest(*uuid, "paused", "paused");
        // Only the last agent answers. More silent ones are queried before it than are queried concurrently.
        if number < uuids.len() - 1 {
            service.cloud.agent.ignore_guest(*uuid);
        }
    }
    let began = Instant::now();
    let shown = listed("/servers/detail").await;
    // With three seconds per 64 agents, it would take nine.
    let took = began.elapsed();
    assert!(took < Duration::from_secs(6), "{took:?}");
    let statuses: Vec<&Value> = shown.iter().map(|it| &it["status"]).collect();
    let (last, silent) = statuses.split_last().unwrap();
    assert_eq!(*last, "PAUSED");
    assert!(silent.iter().all(|status| **status == "ACTIVE"));
}

#[tokio::test]
async fn a_failed_server_that_is_deleted_stays_in_error_until_it_is_gone() {
    let service = service().await;
    let failed = BootGoal::Failed {
        reason: "no".to_owned(),
        user_message: None,
    };
    let (one, other) = (
        service.server(json!({})).await,
        service.server(json!({})).await,
    );
    let building = service.server(json!({})).await;
    for uuid in [one, other] {
        let claim = StepState::Undone;
        service.cloud.set_progress(uuid, HOST, claim, &failed).await;
    }
    service.settle().await;
    service
        .change("UPDATE compute_servers SET deleting = 1")
        .await;
    // Before and after the conductor records the deletion.
    let journal = &service.cloud.journal;
    for uuid in [other, building] {
        journal
            .set_goal(uuid.into(), &BootGoal::Delete)
            .await
            .unwrap();
    }
    for (uuid, status, vm_state) in [
        (one, "ERROR", "error"),
        (other, "ERROR", "error"),
        (building, "BUILD", "building"),
    ] {
        let shown = service.shown("alice", "2.82", uuid).await;
        assert_eq!(
            (
                &shown["status"],
                &shown["OS-EXT-STS:vm_state"],
                &shown["OS-EXT-STS:task_state"]
            ),
            (&json!(status), &json!(vm_state), &json!("deleting"))
        );
    }
}

#[tokio::test]
async fn each_version_shows_of_a_server_what_it_knows() {
    let service = service().await;
    let more = json!({"description": "mine", "tags": ["b", "a"], "metadata": {"k": "v"}, "OS-DCF:diskConfig": "AUTO"});
    let uuid = service.running(more).await;
    service.settle().await;
    let late = service.shown("alice", "2.82", uuid).await;
    for (key, expected) in [
        ("name", json!("s")),
        ("tenant_id", json!("project-of-alice")),
        ("user_id", json!("alice")),
        ("metadata", json!({"k": "v"})),
        ("tags", json!(["a", "b"])),
        ("description", json!("mine")),
        ("OS-DCF:diskConfig", json!("AUTO")),
        ("locked", json!(false)),
        ("locked_reason", Value::Null),
        ("server_groups", json!([])),
        ("trusted_image_certificates", Value::Null),
        ("OS-EXT-AZ:availability_zone", json!("nova")),
        ("progress", json!(0)),
        ("config_drive", json!("True")),
    ] {
        assert_eq!(late[key], expected, "{key}");
    }
    let flavor = json!({"vcpus": 2, "ram": 512, "disk": 10, "ephemeral": 1, "swap": 0, "original_name": "n-f", "extra_specs": {}});
    assert_eq!(late["flavor"], flavor);
    assert_eq!(late["image"]["id"], json!(IMAGE));
    assert_eq!(late["hostId"].as_str().unwrap().len(), 56);
    assert!(late["OS-SRV-USG:launched_at"].is_string(), "{late}");
    let link = format!("http://cloud.example/compute/v2.1/servers/{uuid}");
    assert_eq!(late["links"][0], json!({"rel": "self", "href": link}));
    for key in ["OS-EXT-SRV-ATTR:host", "host_status", "fault"] {
        assert!(late.get(key).is_none(), "{key} is not for its users");
    }
    let early = service.shown("alice", "2.1", uuid).await;
    assert_eq!(early["flavor"]["id"], "f");
    for key in [
        "locked",
        "description",
        "tags",
        "server_groups",
        "locked_reason",
    ] {
        assert!(early.get(key).is_none(), "{key}");
    }
    let operators = service.shown("admin", "2.82", uuid).await;
    for (key, expected) in [
        ("host", json!(HOST)),
        ("hypervisor_hostname", json!(HOST)),
        ("instance_name", json!("instance-00000001")),
        ("hostname", json!("s")),
        ("launch_index", json!(0)),
        ("user_data", Value::Null),
    ] {
        let key = format!("OS-EXT-SRV-ATTR:{key}");
        assert_eq!(operators[&key], expected, "{key}");
    }
    assert_eq!(operators["host_status"], "UP");
    let early = service.shown("admin", "2.1", uuid).await;
    assert!(early.get("OS-EXT-SRV-ATTR:hostname").is_none());
    assert_eq!(early["OS-EXT-SRV-ATTR:host"], HOST);
}

#[tokio::test]
async fn a_failed_server_shows_the_reason_and_operators_see_details() {
    let service = service().await;
    let uuid = service.server(json!({})).await;
    let failed = FailedAttempt {
        node: Some(HOST.to_owned()),
        host: None,
        cell: None,
        reason: "no room".to_owned(),
        user_message: None,
        avoid: Vec::new(),
        passes: false,
    };
    let undo = BootGoal::Undo {
        failed,
        then: AfterUndo::Fail,
    };
    service.cloud.set_goal(uuid, &undo).await;
    assert_eq!(
        service.shown("alice", "2.82", uuid).await["status"],
        "BUILD"
    );
    let user_message = "No valid host was found: no host with room fits the request".to_owned();
    let reason = format!(
        "No valid host was found: of 1 hosts, ComputeFilter rejected 1 ({HOST}: it is disabled)"
    );
    let goal = BootGoal::Failed {
        reason: reason.clone(),
        user_message: Some(user_message.clone()),
    };
    service.cloud.set_goal(uuid, &goal).await;
    let shown = service.shown("alice", "2.82", uuid).await;
    let fault = &shown["fault"];
    assert_eq!(
        (&shown["status"], &shown["OS-EXT-STS:vm_state"]),
        (&json!("ERROR"), &json!("error"))
    );
    assert_eq!(
        (&fault["code"], &fault["message"]),
        (&json!(500), &json!(user_message))
    );
    assert!(fault.get("details").is_none() && fault["created"].is_string());
    let shown = service.shown("admin", "2.82", uuid).await;
    assert!(
        shown["fault"]["details"]
            .as_str()
            .unwrap()
            .contains(&reason)
    );
}

#[tokio::test]
async fn a_server_is_its_projects_and_its_operators() {
    let service = service().await;
    let uuid = service.server(json!({})).await;
    let path = format!("/servers/{uuid}");
    let none = service.get("bob", "2.82", &path).await;
    let sentence = format!("Instance {uuid} could not be found.");
    assert_eq!(none.message("itemNotFound"), sentence);
    for (method, path, body) in [
        ("DELETE", path.clone(), None),
        ("PUT", path.clone(), Some(json!({"server": {"name": "x"}}))),
        ("GET", format!("{path}/metadata"), None),
        ("GET", format!("{path}/tags"), None),
        ("GET", "/servers/abc".to_owned(), None),
    ] {
        let refused = service.ask("bob", "2.82", method, &path, body).await;
        assert_eq!(refused.status, 404, "{method} {path}");
    }
    assert_eq!(service.get("admin", "2.82", &path).await.status, 200);
}

#[tokio::test]
async fn name_and_description_are_changed_and_nothing_else() {
    let service = service().await;
    let uuid = service.server(json!({"description": "mine"})).await;
    let path = format!("/servers/{uuid}");
    let put = |version, server| {
        service.ask(
            "alice",
            version,
            "PUT",
            &path,
            Some(json!({ "server": server })),
        )
    };
    let changed = put("2.82", json!({"name": "t", "accessIPv4": "192.0.2.1"})).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let server = &changed.body["server"];
    assert_eq!(
        (
            &server["name"],
            &server["description"],
            &server["accessIPv4"]
        ),
        (&json!("t"), &json!("mine"), &json!("192.0.2.1"))
    );
    let changed = put("2.19", json!({"description": null, "accessIPv4": ""})).await;
    let server = &changed.body["server"];
    assert_eq!(
        (&server["description"], &server["accessIPv4"]),
        (&Value::Null, &json!(""))
    );
    for (version, server, named) in [
        (
            "2.18",
            json!({"description": "x"}),
            "'description' was unexpected",
        ),
        ("2.82", json!({"name": " t"}), "blanks at its ends"),
        ("2.82", json!({"name": ""}), "too short"),
        (
            "2.82",
            json!({"status": "ACTIVE"}),
            "'status' was unexpected",
        ),
        (
            "2.82",
            json!({"accessIPv6": "192.0.2.1"}),
            "not a valid address",
        ),
        (
            "2.82",
            json!({"OS-DCF:diskConfig": "auto"}),
            "AUTO or MANUAL",
        ),
    ] {
        let refused = put(version, server).await;
        let message = refused.message("badRequest");
        assert!(message.contains(named), "{message}");
    }
}

#[tokio::test]
async fn a_description_is_printable() {
    let service = service().await;
    let uuid = service.running(json!({})).await;
    let path = format!("/servers/{uuid}");
    let action = format!("{path}/action");
    let flavor = "/flavors/f";
    let with = |text: &str| {
        [
            (
                "PUT",
                path.as_str(),
                json!({"server": {"description": text}}),
            ),
            (
                "POST",
                action.as_str(),
                json!({"rebuild": {"imageRef": IMAGE, "description": text}}),
            ),
            ("PUT", flavor, json!({"flavor": {"description": text}})),
        ]
    };
    let unprintable = [
        "a\0", "a\nb", "\t", "\u{7f}", "\u{85}", "\u{ad}", "\u{200b}", "\u{2028}", "\u{e000}",
        "\u{feff}",
    ];
    for text in unprintable {
        let made = service
            .ask_for("alice", "2.82", json!({"description": text}))
            .await;
        let message = made.message("badRequest");
        assert!(message.contains("not printable"), "{text:?}: {message}");
        for (method, path, body) in with(text) {
            let refused = service.ask("admin", "2.82", method, path, Some(body));
            assert_eq!(refused.await.status, 400, "{text:?} {path}");
        }
    }
    let printable = [
        "",
        " a b ",
        "\"it's\" \\ {}",
        "Größe",
        "e\u{301}",
        "日本\u{3000}\u{a0}🦀",
    ];
    for text in printable {
        for (method, path, body) in with(text) {
            let done = service.ask("admin", "2.82", method, path, Some(body)).await;
            assert!(done.status.is_success(), "{text:?} {path}: {done:?}");
            service.settle().await;
        }
        let shown = service.shown("alice", "2.82", uuid).await;
        assert_eq!(shown["description"], text);
    }
}

#[tokio::test]
async fn a_deleted_server_disappears_once_its_guest_is_deleted() {
    let service = service().await;
    let uuid = service
        .running(json!({"metadata": {"k": "v"}, "tags": ["t"]}))
        .await;
    let path = format!("/servers/{uuid}");
    for _ in 0..2 {
        let gone = service.ask("alice", "2.82", "DELETE", &path, None).await;
        assert_eq!(gone.status, 204, "{gone:?}");
    }
    let shown = service.shown("alice", "2.82", uuid).await;
    assert_eq!(
        (&shown["OS-EXT-STS:task_state"], &shown["status"]),
        (&json!("deleting"), &json!("ACTIVE"))
    );
    // The conductor cannot finish the deletion without Placement, so the test does.
    service
        .cloud
        .journal
        .delete_guest(uuid.into())
        .await
        .unwrap();
    assert_eq!(service.get("alice", "2.82", &path).await.status, 404);
    service.settle().await;
    let rows = service.compute.servers(None).await.unwrap();
    assert_eq!(rows, []);
    let path = format!("{path}/os-instance-actions");
    let reply = service.get("alice", "2.82", &path).await;
    let actions = &reply.body["instanceActions"];
    assert_eq!(
        (&actions[0]["action"], &actions[1]["action"]),
        (&json!("delete"), &json!("create"))
    );
    let request = actions[0]["request_id"].as_str().unwrap();
    let reply = service
        .get("alice", "2.82", &format!("{path}/{request}"))
        .await;
    let event = &reply.body["instanceAction"]["events"][0];
    assert_eq!(event["result"], "Success");
}

#[tokio::test]
async fn what_was_written_down_and_not_handed_over_is_handed_over_after_a_kill() {
    let service = service().await;
    let uuid = service.server(json!({})).await;
    // As after a crash between the two.
    let body = serde_json::to_string(
        &json!({"uuid": uuid, "name": "x", "project_id": "project-of-alice", "user_id": "alice",
        "flavor": {"name": "n-f", "vcpus": 2, "ram_mb": 512, "disk_gb": 10, "ephemeral_gb": 1}, "power": "running"}),
    );
    let body = body.unwrap();
    service
        .cloud
        .journal
        .delete_guest(uuid.into())
        .await
        .unwrap();
    let sql = format!("UPDATE compute_servers SET handed = 0, request = '{body}'");
    service.change(sql.leak()).await;
    service.settle().await;
    let known = service.cloud.conductor.show(uuid.into()).await.unwrap();
    assert_eq!(known.request.body().name, "instance-00000001");
    assert_eq!(
        service.shown("alice", "2.82", uuid).await["status"],
        "BUILD"
    );
}

#[tokio::test]
async fn what_the_conductor_does_not_take_is_in_error_and_can_be_deleted() {
    let service = service().await;
    let uuid = service.server(json!({})).await;
    service
        .cloud
        .journal
        .delete_guest(uuid.into())
        .await
        .unwrap();
    service
        .change("UPDATE compute_servers SET handed = 0, request = '{\"name\": 7}'")
        .await;
    service.settle().await;
    let shown = service.shown("alice", "2.82", uuid).await;
    assert_eq!(shown["status"], "ERROR");
    assert!(shown["fault"]["message"].as_str().unwrap().contains("name"));
    let path = format!("/servers/{uuid}");
    let gone = service.ask("alice", "2.82", "DELETE", &path, None).await;
    assert_eq!(gone.status, 204);
    assert_eq!(service.get("alice", "2.82", &path).await.status, 404);
}
