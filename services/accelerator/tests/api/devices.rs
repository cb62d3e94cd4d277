//! Reports, and what the API shows of them.

use std::time::Duration;

use berth_accelerator::AcceleratorApiOptions;
use berth_store::Statement;
use serde_json::{Value, json};

use super::service::{HOST, RP, RP_2, Service, card, guest, options};

#[tokio::test]
async fn a_reported_device_is_shown_with_what_is_offered_of_it() {
    let service = Service::start().await;
    service.report(HOST, json!([card(0, RP, 16)])).await;
    let uuid = service.devices().await.remove(0);
    let device = service.get(&format!("/v2/devices/{uuid}")).await.body;
    for (key, value) in [
        ("type", "FPGA"),
        ("vendor", "8086"),
        ("model", "a model"),
        ("hostname", HOST),
        ("status", "enabled"),
        ("std_board_info", "{\"class\": \"x\"}"),
    ] {
        assert_eq!(device[key], value);
    }
    let href = format!("http://127.0.0.1:6666/accelerator/v2/devices/{uuid}");
    assert_eq!(device["links"], json!([{"href": href, "rel": "self"}]));
    let old = service
        .at("accelerator 2.2")
        .get(&format!("/v2/devices/{uuid}"))
        .await;
    assert_eq!(old.body.get("status"), None);
    let deployable = &service.get("/v2/deployables").await.body["deployables"][0];
    assert_eq!(
        (&deployable["num_accelerators"], &deployable["rp_uuid"]),
        (&json!(16), &json!(RP))
    );
    let attributes: Value =
        serde_json::from_str(deployable["attributes_list"].as_str().unwrap()).unwrap();
    assert_eq!(
        attributes,
        json!([{"traits1": "CUSTOM_FAKE_DEVICE"}, {"rc": "FPGA"}])
    );
    for (query, count) in [
        ("?hostname=compute1", 1),
        ("?hostname=other", 0),
        ("?type=GPU", 0),
        ("?type=FPGA&vendor=8086", 1),
        (
            "?filters=%7B%22field%22:%22status%22,%22value%22:%22enabled%22%7D",
            1,
        ),
        (
            "?filters=%7B%22field%22:%22status%22,%22value%22:%22maintaining%22%7D",
            0,
        ),
        (
            "?filters=%5B%7B%22field%22:%22model%22,%22value%22:%22a%20model%22%7D,%7B%22field%22:%22type%22,%22value%22:%22GPU%22%7D%5D",
            0,
        ),
        (
            "?vendor=10de&filters=%7B%22field%22:%22vendor%22,%22value%22:%228086%22%7D",
            1,
        ),
    ] {
        let found = service.get(&format!("/v2/devices{query}")).await;
        assert_eq!(
            found.body["devices"].as_array().unwrap().len(),
            count,
            "{query}"
        );
    }
}

#[tokio::test]
async fn a_filter_that_is_none_is_refused_with_what_would_be_one() {
    let service = Service::start().await;
    for (filters, sentence) in [
        ("x", "JSON object"),
        ("%7B%22field%22:%22type%22%7D", "JSON object"),
        (
            "%7B%22field%22:%22uuid%22,%22value%22:%22x%22%7D",
            "is none of type",
        ),
    ] {
        let refused = service.get(&format!("/v2/devices?filters={filters}")).await;
        assert_eq!(refused.status, 400, "{refused:?}");
        assert!(refused.message().contains(sentence), "{refused:?}");
    }
}

#[tokio::test]
async fn a_report_that_says_nothing_new_writes_nothing() {
    let service = Service::with_profile(1).await;
    let body = json!([card(0, RP, 16)]);
    let sql = "SELECT (SELECT COUNT(*) FROM devices WHERE updated_at IS NOT NULL) \
               + (SELECT COUNT(*) FROM deployables WHERE updated_at IS NOT NULL) \
               + (SELECT COUNT(*) FROM attach_handles WHERE updated_at IS NOT NULL)";
    service.report(HOST, body).await;
    assert_eq!(service.count(sql).await, 0);
    let mut changed = card(0, RP, 16);
    changed["model"] = json!("another model");
    service.report(HOST, json!([changed])).await;
    assert_eq!(service.count(sql).await, 1);
}

#[tokio::test]
async fn disabling_is_reported_to_the_host_and_survives_its_reports() {
    let service = Service::start().await;
    service.report(HOST, json!([card(0, RP, 2)])).await;
    let uuid = service.devices().await.remove(0);
    service
        .post(&format!("/v2/devices/{uuid}/disable"), json!({}))
        .await;
    let known = service.report(HOST, json!([card(0, RP, 2)])).await;
    assert_eq!(known["devices"][0]["status"], "maintaining");
    let path = format!("/internal/v1/hosts/{HOST}/devices");
    assert_eq!(service.by("agent").get(&path).await.body, known);
    service
        .post(&format!("/v2/devices/{uuid}/enable"), json!({}))
        .await;
    let known = service.report(HOST, json!([card(0, RP, 2)])).await;
    assert_eq!(known["devices"][0]["status"], "enabled");
}

#[tokio::test]
async fn an_operators_setting_of_a_device_outlasts_its_absence_until_it_is_withdrawn() {
    let service = Service::start().await;
    let there = json!([card(0, RP, 2)]);
    service.report(HOST, there.clone()).await;
    let uuid = service.devices().await.remove(0);
    let path = format!("/v2/devices/{uuid}");
    let status = async |word: &str| {
        let reply = service.post(&format!("{path}/{word}"), json!({})).await;
        assert_eq!(reply.status, 204, "{reply:?}");
    };
    let known = |known: &Value| {
        let device = &known["devices"][0];
        let [status, vanished] = ["status", "vanished"].map(|key| device[key].clone());
        (status, vanished)
    };
    status("disable").await;
    for devices in [json!([]), json!([]), there.clone()] {
        let vanished = json!(devices == json!([]));
        let answer = service.report(HOST, devices).await;
        assert_eq!(known(&answer), (json!("maintaining"), vanished));
    }
    status("enable").await;

    let reported = service.get("/v2/attributes?key=rc").await.body["attributes"][0].clone();
    let body = json!({"deployable_id": reported["deployable_id"], "key": "rack", "value": "7"});
    let made = service.post("/v2/attributes", body).await;
    assert_eq!(made.status, 201, "{made:?}");
    let rack = async || {
        let all = service.get("/v2/attributes?key=rack").await;
        all.body["attributes"].as_array().unwrap().len()
    };
    for devices in [json!([]), there.clone(), json!([])] {
        service.report(HOST, devices).await;
        assert_eq!(rack().await, 1);
    }
    let uuid = made.body["uuid"].as_str().unwrap();
    let gone = service.delete(&format!("/v2/attributes/{uuid}")).await;
    assert_eq!(gone.status, 204, "{gone:?}");
    assert_eq!(service.report(HOST, json!([])).await["devices"], json!([]));
    assert_eq!(service.devices().await, Vec::<String>::new());
}

#[tokio::test]
async fn hosts_do_not_touch_each_other_and_a_provider_is_on_one_of_them() {
    let service = Service::start().await;
    service.report(HOST, json!([card(0, RP, 2)])).await;
    service.report("compute2", json!([card(0, RP_2, 2)])).await;
    assert_eq!(service.devices().await.len(), 2);
    // What is another host's is named and left there; the rest of the report is taken.
    let mut stolen = card(0, RP, 2);
    stolen["name"] = json!("stolen");
    let known = service
        .report("compute2", json!([stolen, card(0, RP_2, 3)]))
        .await;
    let not_taken = &known["not_taken"];
    assert_eq!(not_taken[0]["name"], "stolen", "{known}");
    let reason = not_taken[0]["reason"].as_str().unwrap();
    assert!(
        reason.contains("is a device's of host compute1"),
        "{reason}"
    );
    assert_eq!(not_taken.as_array().unwrap().len(), 1);
    let of = |known: &Value, index: usize| {
        let deployables = known["devices"][index]["deployables"].as_array().unwrap();
        let handles = |it: &Value| it["attach_handles"].as_array().unwrap().len();
        deployables.iter().map(handles).collect::<Vec<_>>()
    };
    assert_eq!((of(&known, 0), of(&known, 1)), (vec![3], vec![]));
    let first = service.report(HOST, json!([card(0, RP, 2)])).await;
    assert_eq!(
        (of(&first, 0), &first["not_taken"]),
        (vec![2], &Value::Null)
    );
    service.report("compute2", json!([])).await;
    assert_eq!(service.devices().await.len(), 1);
}

#[tokio::test]
async fn a_handle_of_another_provider_is_named_and_left_there() {
    let service = Service::start().await;
    let shared = "aaaaaaaa-0000-0000-0000-000000000001";
    let named = |slot: usize, provider: &str| {
        let mut device = card(slot, provider, 2);
        device["deployables"][0]["attach_handles"][0]["uuid"] = json!(shared);
        device
    };
    service.report(HOST, json!([named(0, RP)])).await;
    let known = service.report("compute2", json!([named(1, RP_2)])).await;
    let reason = known["not_taken"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("is another provider's"), "{reason}");
    let handles = known["devices"][0]["deployables"][0]["attach_handles"].as_array();
    assert_eq!(handles.unwrap().len(), 1, "the other one is taken: {known}");
}

#[tokio::test]
async fn a_request_that_cannot_be_deleted_holds_up_neither_the_report_nor_the_others() {
    let service = Service::with(AcceleratorApiOptions {
        orphan_grace: Duration::ZERO,
        ..options()
    })
    .await;
    service.report(HOST, json!([card(0, RP, 4)])).await;
    service.profile("dp", 1).await;
    let (odd, lost) = (service.requests("dp").await, service.requests("dp").await);
    for (uuids, n) in [(&odd, 1), (&lost, 2)] {
        assert_eq!(service.bind(uuids, &guest(n)).await.status, 202);
    }
    let sql = "UPDATE accelerator_requests SET state = 'Odd' WHERE uuid = ?";
    service.change(Statement::new(sql).bind(&odd[0])).await;
    let body = json!({"devices": [card(0, RP, 4), card(1, RP_2, 1)], "guests": []});
    for _ in 0..2 {
        let reply = service.reports(HOST, body.clone()).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.body["devices"].as_array().unwrap().len(), 2);
        let not_taken = reply.body["not_taken"].as_array().unwrap();
        let reason = not_taken[0]["reason"].as_str().unwrap();
        assert!(
            reason.contains(&format!("1 accelerator requests of guest {}", guest(1))),
            "{reason}"
        );
        assert_eq!(
            (not_taken.len(), &not_taken[0]["name"]),
            (1, &card(0, RP, 4)["name"])
        );
        assert_eq!(service.request(&lost[0]).await.status, 404);
        assert_eq!(service.held().await, 1);
    }
}

#[tokio::test]
async fn a_held_handle_keeps_its_address_whatever_the_report_says() {
    let service = Service::with_profile(1).await;
    let uuid = "b55549d6-6606-423a-aebe-1c4e162b0346";
    let at = |function: &str| {
        let mut device = card(0, RP, 1);
        let handle = &mut device["deployables"][0]["attach_handles"][0];
        handle["uuid"] = json!(uuid);
        handle["attach_info"]["function"] = json!(function);
        json!([device])
    };
    service.report(HOST, json!([])).await;
    service.report(HOST, at("3")).await;
    let requests = service.requests("dp").await;
    service.bind(&requests, &guest(1)).await;
    let known = service.report(HOST, at("4")).await;
    let handle = &known["devices"][0]["deployables"][0]["attach_handles"][0];
    assert_eq!(
        (&handle["attach_info"]["function"], &handle["vanished"]),
        (&json!("3"), &json!(true))
    );
    let bound = service.request(&requests[0]).await.body;
    assert_eq!(bound["attach_handle_info"]["function"], "3");
    // Once it is free the next report has its way.
    service
        .delete(&format!("/v2/accelerator_requests?instance={}", guest(1)))
        .await;
    let known = service.report(HOST, at("4")).await;
    let handle = &known["devices"][0]["deployables"][0]["attach_handles"][0];
    assert_eq!(
        (&handle["attach_info"]["function"], &handle["vanished"]),
        (&json!("4"), &json!(false))
    );
}

#[tokio::test]
async fn a_held_handle_whose_network_is_learnt_later_stays_where_it_is_and_shows_it() {
    let service = Service::with_profile(1).await;
    let on = |network: Option<&str>| {
        let mut device = card(0, RP, 1);
        let info = &mut device["deployables"][0]["attach_handles"][0]["attach_info"];
        if let Some(network) = network {
            info["physical_network"] = json!(network);
        }
        json!([device])
    };
    service.report(HOST, json!([])).await;
    service.report(HOST, on(None)).await;
    let requests = service.requests("dp").await;
    service.bind(&requests, &guest(1)).await;
    for network in [Some("physnet1"), Some("physnet2"), None] {
        let known = service.report(HOST, on(network)).await;
        let handle = &known["devices"][0]["deployables"][0]["attach_handles"][0];
        assert_eq!(handle["vanished"], json!(false), "{known}");
        let bound = service.request(&requests[0]).await.body;
        let network_of_handle = bound["attach_handle_info"].get("physical_network");
        assert_eq!(
            network_of_handle.and_then(|it| it.as_str()),
            network,
            "{bound}"
        );
    }
}

#[tokio::test]
async fn mediated_devices_are_handed_out_one_by_one() {
    let service = Service::with_profile(3).await;
    let mdev = json!({
        "attach_type": "MDEV",
        "attach_info": {"domain": "0000", "bus": "84", "device": "00", "function": "0", "asked_type": "nvidia-35"},
    });
    let mut device = card(1, RP_2, 0);
    device["deployables"][0]["attach_handles"] = json!([mdev, mdev, mdev]);
    service.report(HOST, json!([device])).await;
    let uuids = service.requests("dp").await;
    let reply = service
        .patch(super::service::bind(&uuids, &guest(1), HOST, RP_2))
        .await;
    assert_eq!(reply.status, 202, "{reply:?}");
    let bound = service.of_guest(&guest(1)).await.body;
    let mut handles: Vec<_> = bound["arqs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|arq| {
            assert_eq!(arq["attach_handle_type"], "MDEV");
            assert_eq!(arq["attach_handle_info"]["asked_type"], "nvidia-35");
            arq["attach_handle_uuid"].as_str().unwrap().to_owned()
        })
        .collect();
    handles.sort();
    handles.dedup();
    assert_eq!(handles.len(), 3);
}

#[tokio::test]
async fn a_device_is_not_assigned_until_its_host_cleaned_it_after_the_last_guest() {
    let service = Service::with_profile(1).await;
    let report = |cleaned: Option<i64>| {
        let mut device = card(0, RP, 1);
        let handle = &mut device["deployables"][0]["attach_handles"][0];
        handle["scrubbed"] = json!(true);
        handle["cleaned"] = json!(cleaned);
        json!([device])
    };
    let of = |known: Value| known["devices"][0]["deployables"][0]["attach_handles"][0].clone();
    service.report(HOST, json!([])).await;
    // A new device starts as unclean, because its former user is unknown.
    let first = of(service.report(HOST, report(None)).await);
    let first = first["releases"].as_i64().unwrap();
    for releases in first..=first + 2 {
        // A cleaning before the last guest does not count, nor does an unrequested one.
        for cleaned in [None, Some(releases - 1), Some(releases + 1)] {
            let known = of(service.report(HOST, report(cleaned)).await);
            assert_eq!(
                (&known["unclean"], &known["releases"]),
                (&json!(true), &json!(releases))
            );
            let waiting = service.requests("dp").await;
            let refused = service.bind(&waiting, &guest(2)).await;
            assert_eq!(refused.status, 503, "it passes: {refused:?}");
            assert!(
                refused.message().contains("1 more being cleaned by host"),
                "{refused:?}"
            );
            service
                .delete(&format!("/v2/accelerator_requests?instance={}", guest(2)))
                .await;
        }
        let known = of(service.report(HOST, report(Some(releases))).await);
        assert_eq!(known["unclean"], false);
        let uuids = service.requests("dp").await;
        assert_eq!(
            service.bind(&uuids, &guest(1)).await.status,
            202,
            "after {releases}"
        );
        let path = format!("/v2/accelerator_requests?instance={}", guest(1));
        assert_eq!(service.delete(&path).await.status, 204);
    }
    // A device that vanishes while unclean is unclean when it returns.
    service.report(HOST, json!([])).await;
    for stale in [first, first + 2, first + 3] {
        let known = of(service.report(HOST, report(Some(stale))).await);
        assert_eq!(known["unclean"], true, "{stale} is of its earlier life");
    }
}
