//! Requests that Cyborg bound are this service's from now on.

use serde_json::{Value, json};

use super::service::{ABSENT, HOST, RP, Service, guest};

/// A bound request as Cyborg tells it.
fn bound(n: u32, function: u32) -> Value {
    json!({
        "uuid": format!("aaaaaaaa-0000-0000-0000-{n:012}"), "state": "Bound", "device_profile_name": "dp",
        "device_profile_group_id": 0, "hostname": HOST, "device_rp_uuid": RP, "instance_uuid": guest(1),
        "project_id": "p-alice", "attach_handle_type": "PCI",
        "attach_handle_uuid": format!("bbbbbbbb-0000-0000-0000-{n:012}"),
        "attach_handle_info": {"bus": "80", "device": "00", "domain": "0000", "function": function.to_string()},
        "links": [{"href": "http://cyborg/accelerator/v2/accelerator_requests/x", "rel": "self"}],
        "created_at": "2026-11-22T10:00:00+00:00", "updated_at": null,
    })
}

async fn adopt(service: &Service, arqs: &[Value]) -> Value {
    let body = json!({"arqs": arqs}).to_string();
    let path = "/internal/v1/accelerator_requests";
    let reply = service.by("agent").ask("PUT", path, Some(body)).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.body
}

fn with(mut arq: Value, key: &str, value: Value) -> Value {
    arq[key] = value;
    arq
}

#[tokio::test]
async fn bound_requests_of_another_service_are_held_here_and_their_handles_are_not_reused() {
    let service = Service::with_profile(2).await;
    let two = [bound(1, 0), bound(2, 1)];
    for _ in 0..2 {
        let answer = adopt(&service, &two).await;
        let uuids = json!([two[0]["uuid"], two[1]["uuid"]]);
        assert_eq!(
            answer,
            json!({"adopted": uuids, "not_taken": []}),
            "the same again is the same"
        );
    }
    let path = format!("/v2/accelerator_requests?instance={}", guest(1));
    let listed = service.get(&path).await;
    assert_eq!(listed.states(), ["Bound", "Bound"]);
    let first = &listed.body["arqs"][0];
    for key in [
        "uuid",
        "device_rp_uuid",
        "hostname",
        "project_id",
        "attach_handle_info",
    ] {
        assert_eq!(first[key], two[0][key], "{key}");
    }
    // Fourteen of the sixteen are left.
    let free = "SELECT count(*) FROM attach_handles WHERE arq_id IS NULL";
    let mut tx = service.store.read().await.unwrap();
    let row = tx.row(berth_store::Statement::new(free)).await.unwrap();
    assert_eq!(row.unwrap().int(0).unwrap(), 14);
    drop(tx);
    // They are deleted with their guest as any other.
    let gone = service.ask("DELETE", &path, None).await;
    assert_eq!(gone.status, 204, "{}", gone.text);
    assert_eq!(
        adopt(&service, &two).await["adopted"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[tokio::test]
async fn what_cannot_be_adopted_is_named_with_the_reason_and_keeps_no_other() {
    let service = Service::with_profile(1).await;
    adopt(&service, &[bound(1, 0)]).await;
    for (wrong, expected) in [
        (
            with(bound(2, 1), "state", json!("Initial")),
            "only bound requests can be adopted",
        ),
        (
            with(bound(1, 0), "instance_uuid", json!(guest(2))),
            "is another one",
        ),
        (
            with(bound(2, 1), "device_profile_name", json!("none")),
            "no device profile none",
        ),
        (
            with(bound(2, 1), "device_profile_group_id", json!(7)),
            "has no group 7",
        ),
        (
            with(bound(2, 1), "device_rp_uuid", json!(ABSENT)),
            "its agent has not reported it",
        ),
        (
            with(bound(2, 1), "hostname", json!("compute9")),
            "its agent has not reported it",
        ),
        (
            with(
                bound(2, 1),
                "attach_handle_info",
                bound(2, 0)["attach_handle_info"].clone(),
            ),
            "is held by another",
        ),
        (
            with(
                bound(2, 1),
                "attach_handle_info",
                json!({"bus": "ff", "device": "00", "domain": "0000", "function": "0"}),
            ),
            "has no attach handle",
        ),
        (with(bound(2, 1), "state", json!("Odd")), "Odd"),
    ] {
        let answer = adopt(&service, &[wrong.clone(), bound(3, 5)]).await;
        assert_eq!(answer["adopted"], json!([bound(3, 5)["uuid"]]), "{answer}");
        let [refused] = &answer["not_taken"].as_array().unwrap()[..] else {
            panic!("{answer}");
        };
        assert_eq!(refused["uuid"], wrong["uuid"]);
        let reason = refused["reason"].as_str().unwrap();
        assert!(reason.contains(expected), "{expected}: {reason}");
    }
    let body = json!({"arqs": []}).to_string();
    let path = "/internal/v1/accelerator_requests";
    let refused = service.by("alice").ask("PUT", path, Some(body)).await;
    assert_eq!(refused.status, 403, "tenants bring nothing");
}
