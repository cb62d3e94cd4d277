//! What makes no sense is refused with a sentence, and leaves nothing behind.

use serde_json::{Value, json};

use super::service::{HOST, RP, Service, bind, card, guest};

#[tokio::test]
async fn profiles_that_are_none_are_refused() {
    let service = Service::start().await;
    let group = |key: &str, value: Value| json!([{"name": "a", "groups": [{key: value}]}]);
    for body in [
        json!({}),
        json!([{"name": "a b", "groups": [{"resources:FPGA": "1"}]}]),
        json!([{"name": "", "groups": [{"resources:FPGA": "1"}]}]),
        json!([{"name": 7, "groups": [{"resources:FPGA": "1"}]}]),
        json!([{"name": "a", "groups": []}]),
        json!([{"name": "a", "groups": "x"}]),
        json!([{"name": "a", "uuid": "x", "groups": [{"resources:FPGA": "1"}]}]),
        group("foo:x", json!("1")),
        group("trait:HW_CPU_X86_AVX", json!("required")),
        group("trait:OWNER_CYBORG", json!("required")),
        group("trait:CUSTOM_X", json!("maybe")),
        group("trait:CUSTOM_<script>", json!("required")),
        group("resources:MEMORY_MB", json!("1")),
        group("resources:FPGA", json!("one")),
        group("resources:FPGA", json!("0")),
        group("resources:FPGA", json!("-1")),
        group("resources:FPGA", json!("99999999999999999999")),
        group("resources:FPGA", json!("1025")),
        group("resources:FPGA", json!(1)),
        json!([{"name": "a", "groups": [{"resources:FPGA": "1"}], "description": "d".repeat(5000)}]),
    ] {
        let reply = service.post("/v2/device_profiles", body.clone()).await;
        assert_eq!(reply.status, 400, "{body}: {reply:?}");
        assert!(!reply.message().is_empty(), "{body}");
    }
    let all = service.get("/v2/device_profiles").await;
    assert_eq!(all.body["device_profiles"], json!([]));
}

#[tokio::test]
async fn a_group_without_resources_is_a_profile_as_cyborgs_is_and_makes_no_request() {
    let service = Service::start().await;
    for (name, group) in [
        ("empty", json!({})),
        ("traits", json!({"trait:CUSTOM_X": "required"})),
    ] {
        let body = json!([{"name": name, "groups": [group]}]);
        let reply = service.post("/v2/device_profiles", body).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        assert_eq!(service.requests(name).await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_group_of_thousands_of_keys_is_read_key_by_key() {
    let service = Service::start().await;
    let note = |n: usize| (format!("accel:note{n}"), json!("x"));
    let mut group: serde_json::Map<String, Value> = (0..4_000).map(note).collect();
    group.insert("resources:FPGA".to_owned(), json!("1"));
    let body = json!([{"name": "long", "groups": [group]}]);
    let reply = service.post("/v2/device_profiles", body).await;
    assert_eq!(reply.status, 201);
    assert_eq!(service.requests("long").await.len(), 1);
}

#[tokio::test]
async fn an_invalid_value_is_reported_with_its_field_and_the_valid_ones() {
    let service = Service::with_profile(1).await;
    let uuid = service.requests("dp").await.remove(0);
    let good = bind(std::slice::from_ref(&uuid), &guest(1), HOST, RP);
    let step = |key: &str, value: Value| {
        let mut body = good.clone();
        body[&uuid][0][key] = value;
        body
    };
    for (body, field, words) in [
        (step("op", json!(7)), "[0].op: ", "`add` or `remove`"),
        (step("op", Value::Null), "[0].op: ", "`add` or `remove`"),
        (
            step("op", json!("replace")),
            "[0].op: ",
            "`add` or `remove`",
        ),
        (step("path", json!([])), "[0].path: ", "`/hostname`"),
    ] {
        let reply = service.patch(body.clone()).await;
        assert_eq!(reply.status, 400, "{reply:?}");
        let text = reply.message();
        assert!(
            text.contains(field) && text.contains(words),
            "{body}: {text}"
        );
    }
    let mut device = card(0, RP, 1);
    device["deployables"][0]["health"] = json!(true);
    let reply = service.reports(HOST, json!({"devices": [device]})).await;
    let text = reply.message();
    assert!(
        text.contains("devices[0].deployables[0].health: "),
        "{text}"
    );
    assert!(text.contains("`ok`, `degraded`, `bad`"), "{text}");
}

#[tokio::test]
async fn a_request_that_a_patch_names_twice_is_refused_by_its_name() {
    let service = Service::with_profile(1).await;
    let uuid = service.requests("dp").await.remove(0);
    let steps =
        |n: usize| bind(std::slice::from_ref(&uuid), &guest(n), HOST, RP)[&uuid].to_string();
    for again in [uuid.clone(), uuid.to_uppercase()] {
        let body = format!("{{\"{uuid}\": {}, \"{again}\": {}}}", steps(1), steps(2));
        let reply = service
            .ask("PATCH", "/v2/accelerator_requests", Some(body))
            .await;
        assert_eq!(reply.status, 400, "{reply:?}");
        let expected = format!("{again}: is there twice");
        assert!(reply.message().contains(&expected), "{reply:?}");
    }
    assert_eq!(service.request(&uuid).await.body["state"], "Initial");
}

#[tokio::test]
async fn patches_that_are_none_are_refused_and_change_nothing() {
    let service = Service::with_profile(1).await;
    let uuids = service.requests("dp").await;
    let good = bind(&uuids, &guest(1), HOST, RP);
    let steps = good[&uuids[0]].as_array().unwrap().clone();
    let with = |steps: Value| json!({ uuids[0].clone(): steps });
    let changed = |index: usize, key: &str, value: Value| {
        let mut steps = steps.clone();
        steps[index][key] = value;
        with(json!(steps))
    };
    for body in [
        json!({}),
        json!([]),
        json!("x"),
        with(json!([])),
        with(json!(steps[..2])),
        json!({"x": steps}),
        changed(0, "op", json!("replace")),
        changed(0, "op", json!("remove")),
        changed(0, "path", json!("/color")),
        changed(0, "value", json!("")),
        changed(0, "value", json!("h".repeat(256))),
        changed(0, "value", json!(7)),
        changed(1, "value", json!("x")),
        changed(2, "value", json!("../../etc/passwd")),
        changed(2, "path", json!("/hostname")),
    ] {
        let reply = service.patch(body.clone()).await;
        assert_eq!(reply.status, 400, "{body}: {reply:?}");
        assert!(!reply.message().is_empty(), "{body}");
    }
    assert_eq!(service.request(&uuids[0]).await.body["state"], "Initial");
    assert_eq!((service.held().await, service.outbox().await), (0, vec![]));
    for path in [
        "/v2/accelerator_requests?instance=x",
        "/v2/accelerator_requests?bind_state=bound",
    ] {
        assert_eq!(service.get(path).await.status, 400, "{path}");
    }
    for path in [
        "/v2/accelerator_requests?arqs=",
        "/v2/accelerator_requests?arqs=x",
        "/v2/accelerator_requests?instance=x",
    ] {
        assert_eq!(service.delete(path).await.status, 400, "{path}");
    }
    for path in [
        "accelerator_requests",
        "devices",
        "deployables",
        "attributes",
    ] {
        let reply = service.get(&format!("/v2/{path}/x")).await;
        assert_eq!(reply.status, 404, "{path}");
    }
}

#[tokio::test]
async fn reports_that_are_none_are_refused_and_change_nothing() {
    let service = Service::with_profile(1).await;
    let before = service.get("/v2/deployables").await.body;
    let with = |path: &[&str], value: Value| {
        let mut device = card(0, RP, 2);
        let mut place = &mut device;
        for key in path {
            place = match key.parse::<usize>() {
                Ok(index) => &mut place[index],
                Err(_) => &mut place[*key],
            };
        }
        *place = value;
        json!({"devices": [device]})
    };
    let handle = ["deployables", "0", "attach_handles", "0"];
    let info = [&handle[..], &["attach_info"]].concat();
    for body in [
        json!([]),
        json!({}),
        json!({"devices": [card(0, RP, 2), card(0, RP, 2)]}),
        json!({"devices": [card(0, RP, 2), card(1, RP, 2)]}),
        json!({"devices": [], "guests": ["x"]}),
        json!({"devices": [], "color": "red"}),
        with(&["name"], json!("")),
        with(&["type"], json!("F\nPGA")),
        with(&["vendor"], json!("v".repeat(256))),
        with(&["deployables", "0", "rp_uuid"], json!("x")),
        with(&["deployables", "0", "resource_class"], json!("fpga")),
        with(&["deployables", "0", "traits"], json!(["HW GPU"])),
        with(&["deployables", "0", "health"], json!("fine")),
        with(&["deployables", "0", "numa_node"], json!(-1)),
        with(&[&handle[..], &["attach_type"]].concat(), json!("USB")),
        with(&[&info[..], &["bus"]].concat(), json!("100")),
        with(&[&info[..], &["device"]].concat(), json!("20")),
        with(&[&info[..], &["function"]].concat(), json!("0/../../x")),
        with(&info, json!({})),
        with(
            &["deployables", "0", "attach_handles", "1"],
            card(0, RP, 1)["deployables"][0]["attach_handles"][0].clone(),
        ),
    ] {
        let reply = service.reports(HOST, body.clone()).await;
        assert_eq!(reply.status, 400, "{body}: {reply:?}");
        assert!(!reply.message().is_empty(), "{body}");
    }
    assert_eq!(service.get("/v2/deployables").await.body, before);
}

#[tokio::test]
async fn a_body_that_is_too_large_or_no_json_is_refused() {
    let service = Service::start().await;
    for body in ["", "{", "[[[[", "\u{0}", "nul"] {
        let reply = service
            .ask("POST", "/v2/device_profiles", Some(body.to_owned()))
            .await;
        assert_eq!(reply.status, 400, "{body:?}");
    }
    let large = format!("[{}]", " ".repeat(9 << 20));
    let reply = service
        .ask("POST", "/v2/device_profiles", Some(large))
        .await;
    assert_eq!(reply.status, 413);
}
