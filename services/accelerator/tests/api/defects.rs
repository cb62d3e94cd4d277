//! What was measured to be wrong with the service that this one stands in for, each row with a test that shows it is not
//! wrong here. The numbers are those of the project's list of the peer's defects.

use std::time::Duration;

use berth_accelerator::{AcceleratorApiOptions, watch_providers};
use berth_store::Statement;
use serde_json::{Value, json};

use super::placement::Placement;
use super::receiver::Receiver;
use super::service::{ABSENT, HOST, RP, RP_2, Service, bind, card, guest, options, unbind};

#[tokio::test]
pub(crate) async fn m1_a_bind_that_cannot_have_all_its_handles_takes_none_and_says_so_by_event() {
    let service = Service::with_profile(17).await;
    let uuids = service.requests("dp").await;
    let reply = service.bind(&uuids, &guest(1)).await;
    assert_eq!(reply.status, 409, "{reply:?}");
    assert!(reply.message().contains("16 free of 17 wanted"));
    let states = service.of_guest(&guest(1)).await.states();
    assert_eq!(states, vec!["BindFailed"; 17]);
    assert_eq!(service.held().await, 0);
    let mut outbox = service.outbox().await;
    outbox.sort();
    let mut expected: Vec<_> = uuids
        .iter()
        .map(|uuid| (uuid.clone(), "failed".to_owned()))
        .collect();
    expected.sort();
    assert_eq!(outbox, expected);
    // All sixteen are there for others at once.
    service.profile("sixteen", 16).await;
    let others = service.requests("sixteen").await;
    assert_eq!(service.bind(&others, &guest(2)).await.status, 202);
}

#[tokio::test]
pub(crate) async fn m2_a_bind_to_an_unknown_provider_ends_and_a_right_one_may_follow() {
    let service = Service::with_profile(1).await;
    let uuids = service.requests("dp").await;
    let wrong = service.patch(bind(&uuids, &guest(1), HOST, ABSENT)).await;
    assert_eq!(wrong.status, 404, "{wrong:?}");
    let path = format!(
        "/v2/accelerator_requests?instance={}&bind_state=resolved",
        guest(1)
    );
    let resolved = service.get(&path).await;
    assert_eq!(
        (resolved.status.as_u16(), resolved.states()),
        (200, vec!["BindFailed".to_owned()])
    );
    assert_eq!(
        service.outbox().await,
        [(uuids[0].clone(), "failed".to_owned())]
    );
    assert_eq!(service.bind(&uuids, &guest(1)).await.status, 202);
    assert_eq!(service.get(&path).await.states(), ["Bound"]);
    // The pending events of the first attempt are obsolete.
    assert_eq!(
        service.outbox().await,
        [(uuids[0].clone(), "completed".to_owned())]
    );
}

#[tokio::test]
pub(crate) async fn m3_a_list_delete_removes_what_exists_wherever_the_missing_one_stands() {
    let service = Service::with_profile(2).await;
    for place in [0, 1, 2] {
        let uuids = service.requests("dp").await;
        let mut named = uuids.clone();
        named.insert(place, ABSENT.to_owned());
        let path = format!("/v2/accelerator_requests?arqs={}", named.join(","));
        let reply = service.delete(&path).await;
        assert_eq!(reply.status, 404, "{reply:?}");
        assert!(reply.message().contains(ABSENT) && !reply.message().contains(&uuids[0]));
        for uuid in &uuids {
            assert_eq!(service.request(uuid).await.status, 404);
        }
    }
}

#[tokio::test]
pub(crate) async fn m4_handles_of_a_guest_that_never_came_are_released_after_the_grace_time() {
    let grace = Duration::from_millis(20);
    let service = Service::with(AcceleratorApiOptions {
        orphan_grace: grace,
        ..options()
    })
    .await;
    service.report(HOST, json!([card(0, RP, 16)])).await;
    service.profile("dp", 1).await;
    let (lost, young, living) = (
        service.requests("dp").await,
        service.requests("dp").await,
        service.requests("dp").await,
    );
    for (uuids, n) in [(&lost, 1), (&living, 3)] {
        assert_eq!(service.bind(uuids, &guest(n)).await.status, 202);
    }
    // A report that says nothing of guests takes nothing from them, and begins no grace time.
    service.report(HOST, json!([card(0, RP, 16)])).await;
    tokio::time::sleep(grace).await;
    let body = json!({"devices": [card(0, RP, 16)], "guests": [guest(3)]});
    let known = service.reports(HOST, body.clone()).await;
    assert_eq!(known.status, 200, "{known:?}");
    assert_eq!(service.held().await, 2);
    tokio::time::sleep(grace).await;
    assert_eq!(service.bind(&young, &guest(2)).await.status, 202);
    let known = service.reports(HOST, body).await;
    assert_eq!(known.status, 200, "{known:?}");
    // The unowned request is deleted; it would keep its profile from being deleted.
    assert_eq!(service.request(&lost[0]).await.status, 404);
    for uuids in [&young, &living] {
        assert_eq!(service.request(&uuids[0]).await.body["state"], "Bound");
    }
    assert_eq!(service.held().await, 2);
}

/// The host has accepted the guest, and a report from before arrives. Meanwhile the wall clock has jumped forward.
#[tokio::test]
async fn a_wall_clock_that_jumps_forward_takes_no_device_from_a_guest_that_its_host_has_just_accepted()
 {
    let service = Service::with_profile(1).await;
    let uuids = service.requests("dp").await;
    assert_eq!(service.bind(&uuids, &guest(1)).await.status, 202);
    let sql = "UPDATE accelerator_requests SET updated_at = '2020-01-01 00:00:00.000000'";
    service.change(Statement::new(sql)).await;
    let report = |guests: Value| json!({"devices": [card(0, RP, 16)], "guests": guests});
    for guests in [json!([]), json!([guest(1)]), json!([])] {
        let reply = service.reports(HOST, report(guests)).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(service.request(&uuids[0]).await.body["state"], "Bound");
        assert_eq!(service.held().await, 1);
    }
}

#[tokio::test]
pub(crate) async fn m5_a_device_that_vanishes_while_bound_stays_marked_and_does_not_hold_up_the_report()
 {
    let service = Service::with_profile(1).await;
    let uuids = service.requests("dp").await;
    service.bind(&uuids, &guest(1)).await;
    let known = service.report(HOST, json!([card(1, RP_2, 4)])).await;
    let devices = known["devices"].as_array().unwrap();
    let marks: Vec<_> = devices
        .iter()
        .map(|device| device["vanished"].as_bool())
        .collect();
    assert_eq!(marks, [Some(true), Some(false)], "{known}");
    let handles = devices[0]["deployables"][0]["attach_handles"]
        .as_array()
        .unwrap();
    assert_eq!(handles.len(), 1, "only what is held stays: {known}");
    assert_eq!(handles[0]["arq_uuid"], uuids[0]);
    assert_eq!(handles[0]["instance_uuid"], guest(1));
    assert_eq!(
        devices[1]["deployables"][0]["attach_handles"]
            .as_array()
            .unwrap()
            .len(),
        4
    );
    // Nothing more is given out of it.
    let more = service.requests("dp").await;
    let refused = service.bind(&more, &guest(2)).await;
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.message().contains("no longer exists"));
}

#[tokio::test]
pub(crate) async fn m6_a_vanished_device_goes_when_its_last_holder_does_and_the_next_reports_pass()
{
    for give_back in ["unbind", "delete"] {
        let service = Service::with_profile(2).await;
        let uuids = service.requests("dp").await;
        service.bind(&uuids, &guest(1)).await;
        service.report(HOST, json!([])).await;
        assert_eq!(service.devices().await.len(), 1);
        // The first of two gives its half back: the device stays.
        let reply = service.patch(unbind(&uuids[..1])).await;
        assert_eq!(reply.status, 202, "{reply:?}");
        assert_eq!(service.devices().await.len(), 1);
        let reply = match give_back {
            "unbind" => service.patch(unbind(&uuids[1..])).await,
            _ => {
                service
                    .delete(&format!("/v2/accelerator_requests?instance={}", guest(1)))
                    .await
            }
        };
        assert!(reply.status.is_success(), "{reply:?}");
        assert_eq!(service.devices().await.len(), 0, "{give_back}");
        let left = "SELECT (SELECT COUNT(*) FROM attach_handles) + (SELECT COUNT(*) FROM deployables) \
                    + (SELECT COUNT(*) FROM attributes)";
        assert_eq!(service.count(left).await, 0);
        let known = service.report(HOST, json!([card(0, RP, 16)])).await;
        assert_eq!(known["devices"][0]["vanished"], false);
    }
}

#[tokio::test]
pub(crate) async fn m6_a_vanished_device_that_comes_back_while_held_is_the_same_device() {
    let service = Service::with_profile(1).await;
    let uuids = service.requests("dp").await;
    service.bind(&uuids, &guest(1)).await;
    let before = service.devices().await;
    service.report(HOST, json!([])).await;
    let known = service.report(HOST, json!([card(0, RP, 16)])).await;
    assert_eq!(service.devices().await, before);
    let device = &known["devices"][0];
    assert_eq!(
        (&device["vanished"], &device["deployables"][0]["vanished"]),
        (&json!(false), &json!(false))
    );
    let handles = device["deployables"][0]["attach_handles"]
        .as_array()
        .unwrap();
    assert_eq!(handles.len(), 16);
    assert_eq!(service.held().await, 1);
}

#[tokio::test]
pub(crate) async fn m7_every_report_is_answered_whole_so_that_a_provider_lost_elsewhere_is_seen() {
    let service = Service::start().await;
    let devices = json!([card(0, RP, 2), card(1, RP_2, 2)]);
    let first = service.report(HOST, devices.clone()).await;
    // Not a difference to the last report: the second is answered as the first, every provider by name.
    let second = service.report(HOST, devices).await;
    assert_eq!(first, second);
    for (index, provider) in [RP, RP_2].iter().enumerate() {
        assert_eq!(
            second["devices"][index]["deployables"][0]["rp_uuid"],
            *provider
        );
    }
    // And a service that lost its database learns everything from one report, under the same names.
    let fresh = Service::start().await;
    let again = fresh
        .report(HOST, json!([card(0, RP, 2), card(1, RP_2, 2)]))
        .await;
    assert_eq!(again["devices"], first["devices"]);
}

#[tokio::test]
pub(crate) async fn m7_a_provider_that_placement_lost_is_reported_to_its_host_until_it_exists_again()
 {
    let service = Service::start().await;
    let devices = json!([card(0, RP, 2), card(1, RP_2, 2)]);
    service.report(HOST, devices.clone()).await;
    let placement = Placement::default();
    let interval = Duration::from_millis(5);
    let watching = tokio::spawn(watch_providers(
        service.store.clone(),
        placement.client(),
        interval,
        std::future::pending(),
    ));
    for (has, missing) in [
        (&[][..], [true, true]),
        (&[RP][..], [false, true]),
        (&[RP, RP_2][..], [false, false]),
        (&[RP_2][..], [true, false]),
    ] {
        placement.has(has);
        let reporting = async {
            loop {
                let known = service.report(HOST, devices.clone()).await;
                let of = |index: usize| {
                    known["devices"][index]["deployables"][0]["provider_missing"] == true
                };
                if [of(0), of(1)] == missing {
                    return;
                }
                tokio::time::sleep(interval).await;
            }
        };
        let reporting = tokio::time::timeout(Duration::from_secs(60), reporting).await;
        assert!(reporting.is_ok(), "{has:?}");
    }
    watching.abort();
}

#[tokio::test]
pub(crate) async fn m8_a_disabled_device_accepts_no_bind() {
    let service = Service::with_profile(1).await;
    let uuids = service.requests("dp").await;
    let device = service.devices().await.remove(0);
    let path = format!("/v2/devices/{device}");
    assert_eq!(
        service
            .post(&format!("{path}/disable"), json!({}))
            .await
            .status,
        204
    );
    assert_eq!(service.get(&path).await.body["status"], "maintaining");
    let refused = service.bind(&uuids, &guest(1)).await;
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.message().contains("disabled"));
    assert_eq!(service.held().await, 0);
    assert_eq!(
        service.outbox().await,
        [(uuids[0].clone(), "failed".to_owned())]
    );
    assert_eq!(
        service
            .post(&format!("{path}/enable"), json!({}))
            .await
            .status,
        204
    );
    assert_eq!(service.bind(&uuids, &guest(1)).await.status, 202);
}

#[tokio::test]
pub(crate) async fn m9_a_profile_in_use_is_a_conflict_without_sql_in_the_message() {
    let service = Service::with_profile(1).await;
    let uuids = service.requests("dp").await;
    for path in ["/v2/device_profiles/dp", "/v2/device_profiles?value=dp"] {
        let reply = service.delete(path).await;
        assert_eq!(reply.status, 409, "{reply:?}");
        assert!(reply.message().contains("in use by 1 accelerator request"));
        for word in [
            "FOREIGN",
            "SELECT",
            "constraint",
            "Traceback",
            "accelerator_requests",
        ] {
            assert!(!reply.text.contains(word), "{reply:?}");
        }
    }
    service
        .delete(&format!("/v2/accelerator_requests?arqs={}", uuids[0]))
        .await;
    assert_eq!(
        service.delete("/v2/device_profiles?value=dp").await.status,
        204
    );
}

#[tokio::test]
pub(crate) async fn m10_a_receiver_that_answers_404_does_not_fail_the_bind_and_gets_the_event_again()
 {
    let receiver = Receiver::answering([404, 200]);
    let service = receiver.service().await;
    let uuids = service.requests("dp").await;
    let reply = service.bind(&uuids, &guest(1)).await;
    assert_eq!(reply.status, 202, "{reply:?}");
    assert_eq!(service.of_guest(&guest(1)).await.states(), ["Bound"]);
    let due = [(uuids[0].clone(), "completed".to_owned())];
    assert_eq!(service.outbox().await, due);
    let delivery = receiver.deliver(&service);
    receiver.received(1).await;
    assert_eq!(service.outbox().await, due, "it was not heard yet");
    let received = receiver.received(2).await;
    assert_eq!(received[0], received[1], "the same again");
    delivery.end().await;
}

#[tokio::test]
pub(crate) async fn m11_a_bind_that_names_a_wrong_host_is_refused() {
    let service = Service::with_profile(1).await;
    let uuids = service.requests("dp").await;
    let refused = service.patch(bind(&uuids, &guest(1), "compute2", RP)).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(
        refused
            .message()
            .contains("is on host compute1, not on compute2")
    );
    assert_eq!(service.held().await, 0);
    assert_eq!(service.of_guest(&guest(1)).await.states(), ["BindFailed"]);
}

#[tokio::test]
pub(crate) async fn m12_tenants_see_no_hardware() {
    let service = Service::with_profile(1).await;
    for noun in ["devices", "deployables", "attributes"] {
        let path = format!("/v2/{noun}");
        for (who, status) in [
            ("alice", 403),
            ("reader", 403),
            ("nova", 403),
            ("manager", 200),
            ("admin", 200),
        ] {
            let reply = service.by(who).get(&path).await;
            assert_eq!(reply.status, status, "{who} {noun}");
        }
        let list = service.get(&path).await;
        let one = list.body[noun][0]["uuid"].as_str().unwrap().to_owned();
        assert_eq!(
            service
                .by("alice")
                .get(&format!("{path}/{one}"))
                .await
                .status,
            403
        );
        assert_eq!(
            service
                .by("manager")
                .get(&format!("{path}/{one}"))
                .await
                .status,
            200
        );
    }
    let device = service.devices().await.remove(0);
    for verb in ["disable", "enable"] {
        let path = format!("/v2/devices/{device}/{verb}");
        for who in ["alice", "manager", "nova"] {
            assert_eq!(
                service.by(who).post(&path, json!({})).await.status,
                403,
                "{who}"
            );
        }
    }
    for who in ["alice", "manager"] {
        let path = format!("/internal/v1/hosts/{HOST}/devices");
        let reply = service
            .by(who)
            .ask("PUT", &path, Some("{\"devices\": []}".to_owned()))
            .await;
        assert_eq!(reply.status, 403, "{who}");
        assert_eq!(service.by(who).get(&path).await.status, 403, "{who}");
    }
}

#[tokio::test]
pub(crate) async fn m13_a_fault_of_the_server_shows_no_internals() {
    let service = Service::with_profile(1).await;
    service.change(Statement::new("DROP TABLE events")).await;
    service
        .change(Statement::new(
            "UPDATE device_profiles SET profile_groups = 'secret {'",
        ))
        .await;
    let uuids = vec![guest(9)];
    for reply in [
        service.get("/v2/device_profiles").await,
        service
            .post(
                "/v2/accelerator_requests",
                json!({"device_profile_name": "dp"}),
            )
            .await,
        service.patch(unbind(&uuids)).await,
        service
            .get(&format!("/v2/accelerator_requests/{ABSENT}"))
            .await,
    ] {
        for word in [
            "Traceback",
            ".rs",
            "SELECT",
            "sqlx",
            "no such table",
            "secret",
            "/src/",
            "panicked",
        ] {
            assert!(!reply.text.contains(word), "{word}: {reply:?}");
        }
    }
    let broken = service.get("/v2/device_profiles").await;
    assert_eq!(broken.status, 500, "{broken:?}");
    assert!(!broken.message().is_empty());
}

#[tokio::test]
pub(crate) async fn m14_what_is_the_clients_fault_is_a_4xx() {
    let service = Service::with_profile(1).await;
    let uuids = service.requests("dp").await;
    let groups = json!([{"resources:FPGA": "1"}]);
    let both = format!(
        "/v2/accelerator_requests?arqs={}&instance={}",
        uuids[0],
        guest(1)
    );
    for (what, reply) in [
        (
            "no name",
            service
                .post("/v2/device_profiles", json!([{"groups": groups}]))
                .await,
        ),
        (
            "no groups",
            service
                .post("/v2/device_profiles", json!([{"name": "a"}]))
                .await,
        ),
        (
            "no profile name",
            service.post("/v2/accelerator_requests", json!({})).await,
        ),
        (
            "bad bind_state",
            service.get("/v2/accelerator_requests?bind_state=x").await,
        ),
        (
            "neither argument",
            service.delete("/v2/accelerator_requests").await,
        ),
        ("both arguments", service.delete(&both).await),
    ] {
        assert_eq!(reply.status, 400, "{what}: {reply:?}");
        assert!(!reply.message().is_empty(), "{what}");
    }
    assert_eq!(service.request(&uuids[0]).await.status, 200);
}
