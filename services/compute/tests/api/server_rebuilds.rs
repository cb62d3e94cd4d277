//! Tests of rebuilds, and of the fields in responses to changes.

use berth_wire::guest::GuestAction;
use serde_json::{Value, json};

use super::cloud::{ENCRYPTED_IMAGE, IMAGE, OTHER_IMAGE, UEFI_IMAGE};
use super::server_actions::{act, service};
use super::service::Service;

#[tokio::test]
async fn a_new_root_disk_has_to_fit_and_brings_the_properties_of_its_image() {
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
    service.settle().await;
    for (more, named) in [
        (json!({"key_name": "k"}), "Invalid key_name provided."),
        (json!({"user_data": "no base64!"}), "valid base 64"),
        (
            json!({"trusted_image_certificates": ["a"]}),
            "signatures are not supported",
        ),
        (json!({"personality": []}), "'personality' was unexpected"),
        (
            json!({"adminPass": "hunter2"}),
            "setting passwords in guests is not supported",
        ),
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
    // The new image may need more resources than the old one.
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

/// The changes of config drives that the agent received: the number of actions before each, and what it says.
fn drive_changes(service: &Service) -> Vec<(usize, Value)> {
    let changes = service.cloud.agent.received_drive_changes();
    let documents = changes.into_iter().map(|(before, change)| {
        let document = serde_json::from_slice(&berth_wire::encode(&change)).unwrap();
        (before, document)
    });
    documents.collect()
}

#[tokio::test]
async fn the_config_drive_says_what_the_server_says_after_each_change() {
    let service = service().await;
    let metadata = json!({"metadata": {"role": "web"}});
    let uuid = service.running(metadata).await;
    service.settle().await;
    let path = format!("/servers/{uuid}");
    let of_metadata = format!("{path}/metadata");
    let mut expected = Vec::new();
    for (method, path, body, name, meta) in [
        (
            "PUT",
            &path,
            json!({"server": {"name": "new"}}),
            "new",
            json!({"role": "web"}),
        ),
        (
            "POST",
            &of_metadata,
            json!({"metadata": {"a": "b"}}),
            "new",
            json!({"role": "web", "a": "b"}),
        ),
        (
            "PUT",
            &of_metadata,
            json!({"metadata": {"a": "c"}}),
            "new",
            json!({"a": "c"}),
        ),
        (
            "DELETE",
            &format!("{of_metadata}/a"),
            Value::Null,
            "new",
            json!({}),
        ),
    ] {
        let body = Some(body).filter(|body| !body.is_null());
        let done = service.ask("alice", "2.82", method, path, body).await;
        assert!(done.status.is_success(), "{done:?}");
        service.settle().await;
        expected.push((0, json!({"name": name, "metadata": meta})));
        assert_eq!(drive_changes(&service), expected, "{method} {path}");
    }
    // A change of something else leaves it alone.
    let description = json!({"server": {"description": "d"}});
    let done = service
        .ask("alice", "2.82", "PUT", &path, Some(description))
        .await;
    assert_eq!(done.status, 200);
    let rebuild = json!({"rebuild": {"imageRef": IMAGE}});
    act(&service, "alice", uuid, rebuild).await;
    service.settle().await;
    assert_eq!(drive_changes(&service), expected);
    // The rebuild's changes are there before the rebuild.
    let rebuild = json!({"rebuild": {"imageRef": IMAGE, "name": "built", "metadata": {"x": "y"}, "user_data": null}});
    let done = act(&service, "alice", uuid, rebuild).await;
    assert_eq!(done.status, 202, "{done:?}");
    service.settle().await;
    expected.push((
        1,
        json!({"name": "built", "metadata": {"x": "y"}, "user_data": "remove"}),
    ));
    assert_eq!(drive_changes(&service), expected);
    let key = json!({"keypair": {"name": "k", "public_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINkujHrt2qfK9M3UlXu7CR4A+TAVjzIf8+1bcHGl/frw alice@laptop"}});
    let made = service
        .ask("alice", "2.1", "POST", "/os-keypairs", Some(key))
        .await;
    assert!(made.status.is_success(), "{made:?}");
    let rebuild = json!({"rebuild": {"imageRef": IMAGE, "user_data": "I2Nsb3Vk", "key_name": "k"}});
    let done = act(&service, "alice", uuid, rebuild).await;
    assert_eq!(done.body["server"]["key_name"], "k", "{done:?}");
    service.settle().await;
    let last = drive_changes(&service).pop().unwrap();
    assert_eq!(
        (last.0, &last.1["user_data"]),
        (2, &json!({"set": "I2Nsb3Vk"}))
    );
    assert_eq!(last.1["ssh_keys"][0]["name"], "k");
    // None of these is an action of the server, and no user data stays.
    let actions = service
        .get("alice", "2.82", &format!("{path}/os-instance-actions"))
        .await;
    let actions = actions.body["instanceActions"].as_array().unwrap().clone();
    let words: Vec<_> = actions
        .iter()
        .map(|it| it["action"].as_str().unwrap())
        .collect();
    assert_eq!(words, ["rebuild", "rebuild", "rebuild", "create"]);
}

#[tokio::test]
async fn a_change_of_the_config_drive_waits_for_the_agent_and_survives_a_restart() {
    let service = service().await;
    let uuid = service.running(json!({})).await;
    service.settle().await;
    service.cloud.agent.set_unreachable(true);
    let path = format!("/servers/{uuid}");
    for name in ["one", "two", "three"] {
        let body = json!({"server": {"name": name}});
        let done = service.ask("alice", "2.82", "PUT", &path, Some(body)).await;
        assert_eq!(done.status, 200, "{done:?}");
    }
    service.settle().await;
    assert_eq!(
        service.shown("alice", "2.82", uuid).await["status"],
        "ACTIVE"
    );
    service.cloud.agent.set_unreachable(false);
    let next = service.restart().await;
    let changes = drive_changes(&service);
    assert!(!changes.is_empty() && changes.len() <= 2, "{changes:?}");
    for (_, change) in &changes {
        assert_eq!(change["name"], "three");
    }
    // A guest that is busy is asked again.
    service.cloud.agent.refuse_actions(Some((409, "busy")));
    let update = json!({"server": {"name": "four"}});
    service
        .ask("alice", "2.82", "PUT", &path, Some(update))
        .await;
    service.settle().await;
    service.cloud.agent.refuse_actions(None);
    service.settle().await;
    assert_eq!(drive_changes(&service).pop().unwrap().1["name"], "four");
    drop(next);
}

#[tokio::test]
async fn the_image_of_a_rebuild_is_shown_from_the_answer_on_and_stays_where_that_fails() {
    let service = service().await;
    let uuid = service.running(json!({})).await;
    let agent = &service.cloud.agent;
    agent.block_actions(true);
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
    // A refused rebuild changes nothing.
    let refused = act(&service, "alice", uuid, rebuild(IMAGE)).await;
    assert_eq!(refused.status, 409);
    agent.refuse_actions(Some((409, "state")));
    agent.block_actions(false);
    service.settle().await;
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
    service.cloud.agent.block_actions(true);
    let rebuild = json!({"rebuild": {"imageRef": OTHER_IMAGE}});
    act(&service, "alice", uuid, rebuild).await;
    // That release stored the image in the action.
    let sql = format!(
        "UPDATE compute_servers SET image = '{IMAGE}';
         UPDATE compute_server_actions SET image = '{OTHER_IMAGE}' WHERE action = 'rebuild';"
    );
    service.change(sql.leak()).await;
    service.cloud.agent.block_actions(false);
    service.settle().await;
    let shown = service.shown("alice", "2.82", uuid).await;
    assert_eq!(shown["image"]["id"], json!(OTHER_IMAGE));
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
        service.settle().await;
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

#[tokio::test]
async fn an_image_that_requests_another_machine_cannot_replace_the_first_one() {
    let service = service().await;
    let uuid = service.running(json!({})).await;
    for (action, image, expected) in [
        (
            "rebuild",
            UEFI_IMAGE,
            "An instance's NUMA topology cannot be changed as part of a rebuild. The image provided is invalid for this instance.",
        ),
        (
            "rescue",
            UEFI_IMAGE,
            "The server keeps its firmware, and the image requests another one",
        ),
        ("rebuild", ENCRYPTED_IMAGE, "Direct booting of an image"),
        ("rescue", ENCRYPTED_IMAGE, "Direct booting of an image"),
    ] {
        let body = match action {
            "rebuild" => json!({"rebuild": {"imageRef": image}}),
            _ => json!({"rescue": {"rescue_image_ref": image}}),
        };
        let refused = act(&service, "alice", uuid, body).await;
        let message = refused.message("badRequest");
        assert!(message.contains(expected), "{action} {image}: {message}");
    }
    // The agent gets the properties that describe devices and firmware, and the flavor's extra specs.
    let uuid = service.running(json!({"imageRef": UEFI_IMAGE})).await;
    let body = json!({"rebuild": {"imageRef": UEFI_IMAGE}});
    let done = act(&service, "alice", uuid, body).await;
    assert_eq!(done.status, 202, "{done:?}");
    service.settle().await;
    let received = service.cloud.agent.received_actions();
    let Some(GuestAction::Rebuild {
        image, extra_specs, ..
    }) = received.last()
    else {
        panic!("{received:?}");
    };
    assert_eq!(image.properties["hw_firmware_type"], "uefi");
    assert!(!image.properties.contains_key("hw_numa_nodes"), "{image:?}");
    assert!(extra_specs.is_some());
}
