//! Binding, unbinding, deleting: what is asked, who may, what is left.

use serde_json::json;

use super::service::{ABSENT, HOST, RP, RP_2, Service, bind, card, guest, unbind};

#[tokio::test]
async fn a_bound_request_has_a_handle_and_an_unbound_one_has_nothing() {
    let service = Service::with_profile(2).await;
    let uuids = service.requests("dp").await;
    let made = service.request(&uuids[0]).await.body;
    assert_eq!(
        (&made["state"], &made["attach_handle_type"]),
        (&json!("Initial"), &json!(""))
    );
    assert_eq!(made["attach_handle_info"], json!({}));
    assert!(made["hostname"].is_null() && made["attach_handle_uuid"].is_null());
    let reply = service.bind(&uuids, &guest(1)).await;
    assert_eq!((reply.status.as_u16(), reply.text.as_str()), (202, ""));
    let bound = service.request(&uuids[0]).await.body;
    assert_eq!(
        (&bound["state"], &bound["hostname"]),
        (&json!("Bound"), &json!(HOST))
    );
    assert_eq!(
        (&bound["device_rp_uuid"], &bound["instance_uuid"]),
        (&json!(RP), &json!(guest(1)))
    );
    assert_eq!(bound["attach_handle_type"], "PCI");
    let info = json!({"domain": "0000", "bus": "80", "device": "00", "function": "0"});
    assert_eq!(bound["attach_handle_info"], info);
    let other = service.request(&uuids[1]).await.body;
    assert_eq!(other["attach_handle_info"]["function"], "1");
    let path = format!("/v2/accelerator_requests/{}", uuids[0]);
    let body = unbind(&uuids).to_string();
    assert_eq!(service.ask("PATCH", &path, Some(body)).await.status, 202);
    let unbound = service.request(&uuids[0]).await.body;
    assert_eq!(unbound["state"], "Unbound");
    for field in [
        "hostname",
        "device_rp_uuid",
        "instance_uuid",
        "attach_handle_uuid",
    ] {
        assert!(unbound[field].is_null(), "{field}");
    }
    assert_eq!(unbound["attach_handle_info"], json!({}));
    assert_eq!(service.held().await, 0);
    assert_eq!(service.patch(unbind(&uuids)).await.status, 202, "again");
    assert_eq!(service.bind(&uuids, &guest(2)).await.status, 202);
}

#[tokio::test]
async fn a_guest_with_requests_gets_no_more_and_a_bound_one_is_not_bound_again() {
    let service = Service::with_profile(1).await;
    let (first, second) = (service.requests("dp").await, service.requests("dp").await);
    assert_eq!(service.bind(&first, &guest(1)).await.status, 202);
    for uuids in [&first, &second] {
        let refused = service.bind(uuids, &guest(1)).await;
        assert_eq!(refused.status, 400, "{refused:?}");
        assert!(
            refused
                .message()
                .contains("already has accelerator requests")
        );
    }
    // Nor by another guest, which has none itself.
    let refused = service.bind(&first, &guest(2)).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(
        refused
            .message()
            .contains("is Bound cannot become BindStarted")
    );
    assert_eq!(
        service.request(&first[0]).await.body["instance_uuid"],
        guest(1)
    );
    assert_eq!(service.request(&second[0]).await.body["state"], "Initial");
    assert_eq!(service.held().await, 1);
}

#[tokio::test]
async fn requests_of_two_providers_are_bound_together_or_not_at_all() {
    let service = Service::with_profile(1).await;
    service
        .report(HOST, json!([card(0, RP, 16), card(1, RP_2, 1)]))
        .await;
    let uuids = [service.requests("dp").await, service.requests("dp").await].concat();
    let both = |provider: &str| {
        let mut body = bind(&uuids[..1], &guest(1), HOST, RP);
        let other = bind(&uuids[1..], &guest(1), HOST, provider);
        body.as_object_mut()
            .unwrap()
            .extend(other.as_object().unwrap().clone());
        body
    };
    assert_eq!(service.patch(both(ABSENT)).await.status, 404);
    assert_eq!(service.held().await, 0);
    assert_eq!(service.patch(both(RP_2)).await.status, 202);
    assert_eq!(service.held().await, 2);
}

#[tokio::test]
async fn a_patch_that_names_an_unknown_request_changes_nothing() {
    let service = Service::with_profile(1).await;
    let mut uuids = service.requests("dp").await;
    uuids.push(ABSENT.to_owned());
    let refused = service.bind(&uuids, &guest(1)).await;
    assert_eq!(refused.status, 404, "{refused:?}");
    assert_eq!(service.request(&uuids[0]).await.body["state"], "Initial");
    assert_eq!(service.outbox().await, []);
}

#[tokio::test]
async fn sick_devices_other_classes_and_held_back_handles_are_refused() {
    for (change, sentence) in [
        (
            json!({"health": "bad", "health_reason": "AER fatal"}),
            "not healthy: AER fatal",
        ),
        (json!({"resource_class": "PGPU"}), "offers PGPU"),
        (json!({"attach_handles": []}), "0 free of 1 wanted"),
    ] {
        let service = Service::with_profile(1).await;
        let mut device = card(0, RP, 16);
        let deployable = device["deployables"][0].as_object_mut().unwrap();
        deployable.extend(change.as_object().unwrap().clone());
        service.report(HOST, json!([device])).await;
        let uuids = service.requests("dp").await;
        let refused = service.bind(&uuids, &guest(1)).await;
        assert!(refused.message().contains(sentence), "{refused:?}");
        assert_eq!(service.held().await, 0);
    }
    let service = Service::with_profile(1).await;
    let mut device = card(0, RP, 2);
    device["deployables"][0]["attach_handles"][0]["unavailable"] = json!("not reset yet");
    service.report(HOST, json!([device])).await;
    let uuids = service.requests("dp").await;
    assert_eq!(service.bind(&uuids, &guest(1)).await.status, 202);
    let info = &service.request(&uuids[0]).await.body["attach_handle_info"];
    assert_eq!(info["function"], "1", "the other one");
}

#[tokio::test]
async fn a_group_that_asks_for_programming_is_not_given_an_unprogrammed_device() {
    let service = Service::with_profile(1).await;
    let group = json!({"resources:FPGA": "1", "accel:bitstream_id": ABSENT});
    let body = json!([{"name": "programmed", "groups": [group]}]);
    assert_eq!(service.post("/v2/device_profiles", body).await.status, 201);
    let uuids = service.requests("programmed").await;
    let refused = service.bind(&uuids, &guest(1)).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(refused.message().contains("program_hook is not set there"));
    assert_eq!(service.held().await, 0);
}

#[tokio::test]
async fn another_projects_requests_are_not_there() {
    let service = Service::with_profile(1).await;
    let alice = service.by("alice");
    let uuids = alice.requests("dp").await;
    assert_eq!(alice.request(&uuids[0]).await.body["project_id"], "p-alice");
    let bob = service.by("bob").vouched_by("nova");
    assert_eq!(bob.request(&uuids[0]).await.status, 404);
    assert_eq!(bob.get("/v2/accelerator_requests").await.uuids().len(), 0);
    assert_eq!(bob.bind(&uuids, &guest(1)).await.status, 404);
    let path = format!("/v2/accelerator_requests?arqs={}", uuids[0]);
    assert_eq!(bob.delete(&path).await.status, 404);
    assert_eq!(
        alice
            .vouched_by("nova")
            .bind(&uuids, &guest(1))
            .await
            .status,
        202
    );
    let of_guest = format!("/v2/accelerator_requests?instance={}", guest(1));
    assert_eq!(bob.get(&of_guest).await.uuids().len(), 0);
    assert_eq!(bob.delete(&of_guest).await.status, 204);
    assert_eq!(
        alice.of_guest(&guest(1)).await.states(),
        ["Bound"],
        "still there"
    );
    assert_eq!(service.by("nova").get(&of_guest).await.uuids(), uuids);
}

#[tokio::test]
async fn only_a_service_gives_a_device_to_a_guest_or_takes_it_away() {
    let service = Service::with_profile(1).await;
    let alice = service.by("alice");
    let uuids = alice.requests("dp").await;
    for without in [alice.clone(), alice.vouched_by("bob"), service.by("admin")] {
        let refused = without.bind(&uuids, &guest(1)).await;
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(refused.message().contains("requires a service token"));
    }
    assert_eq!(
        alice
            .vouched_by("nobody")
            .bind(&uuids, &guest(1))
            .await
            .status,
        401
    );
    assert_eq!(
        alice
            .vouched_by("nova")
            .bind(&uuids, &guest(1))
            .await
            .status,
        202
    );
    let by_uuid = format!("/v2/accelerator_requests?arqs={}", uuids[0]);
    let by_guest = format!("/v2/accelerator_requests?instance={}", guest(1));
    assert_eq!(alice.delete(&by_uuid).await.status, 403);
    assert_eq!(alice.delete(&by_guest).await.status, 403);
    assert_eq!(alice.patch(unbind(&uuids)).await.status, 403);
    // An unowned request may be deleted by its project.
    let free = alice.requests("dp").await;
    let both = format!("{by_uuid},{}", free[0]);
    assert_eq!(alice.delete(&both).await.status, 403, "nothing of it");
    assert_eq!(alice.request(&free[0]).await.status, 200);
    let one = |uuid: &String| format!("/v2/accelerator_requests/{uuid}");
    assert_eq!(alice.delete(&one(&uuids[0])).await.status, 403);
    assert_eq!(alice.delete(&one(&free[0])).await.status, 204);
    assert_eq!(alice.delete(&one(&free[0])).await.status, 404);
    assert_eq!(alice.vouched_by("nova").delete(&by_guest).await.status, 204);
    assert_eq!(
        alice.vouched_by("nova").delete(&by_guest).await.status,
        204,
        "again"
    );
    assert_eq!(service.held().await, 0);
}

#[tokio::test]
async fn a_project_is_named_from_2_1_on_and_by_administrators() {
    let service = Service::with_profile(1).await;
    let uuids = service.requests("dp").await;
    let mut body = bind(&uuids, &guest(1), HOST, RP);
    let step = json!({"path": "/project_id", "op": "add", "value": "p-alice"});
    body[&uuids[0]].as_array_mut().unwrap().push(step);
    let old = service.at("accelerator 2.0").patch(body.clone()).await;
    assert_eq!(old.status, 406, "{old:?}");
    let alice = service.by("alice").vouched_by("nova");
    assert_eq!(alice.patch(body.clone()).await.status, 403);
    assert_eq!(service.at("accelerator 2.1").patch(body).await.status, 202);
    assert_eq!(alice.request(&uuids[0]).await.body["project_id"], "p-alice");
}

#[tokio::test]
async fn resolved_waits_for_all_of_a_guest_by_a_423_without_a_body() {
    let service = Service::with_profile(1).await;
    let uuids = service.requests("dp").await;
    service.bind(&uuids, &guest(1)).await;
    let resolved = format!(
        "/v2/accelerator_requests?instance={}&bind_state=resolved",
        guest(1)
    );
    assert_eq!(service.get(&resolved).await.states(), ["Bound"]);
    let sql = "UPDATE accelerator_requests SET state = 'BindStarted'";
    service.change(berth_store::Statement::new(sql)).await;
    let waiting = service.get(&resolved).await;
    assert_eq!((waiting.status.as_u16(), waiting.text.as_str()), (423, ""));
    let all = service
        .get("/v2/accelerator_requests?bind_state=resolved")
        .await;
    assert_eq!(all.uuids().len(), 0);
    let of_unknown = format!(
        "/v2/accelerator_requests?instance={}&bind_state=resolved",
        guest(7)
    );
    assert_eq!(service.get(&of_unknown).await.uuids().len(), 0);
}
