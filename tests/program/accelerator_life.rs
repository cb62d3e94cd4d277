//! The lifecycle of an accelerator over HTTP, as Nova and an operator use it: `berth accelerator serve` behind the real
//! Keystone, from the version list to the deletion of the last profile, with the events to the compute API.

mod service;

use std::collections::BTreeSet;

use berth_tests::exchange::HttpCall;
use http::Method;
use serde_json::{Value, json};

use service::{
    HOST, RP, Service, ServiceCaller, UNKNOWN, bind_to, guest, profile, states, unbind, uuids,
};

#[test]
fn versions_need_no_token_and_everything_else_does() {
    let service = Service::start();
    let root = HttpCall::get(service.url.trim_end_matches("v2"));
    let root = service.expect(200, ServiceCaller::Nobody, root).json();
    assert_eq!(root["default_version"]["id"], "v2");
    let version = &root["versions"][0];
    assert_eq!(
        (&version["min_version"], &version["max_version"]),
        (&json!("2.0"), &json!("2.3"))
    );
    let v2 = service.expect(200, ServiceCaller::Nobody, service.ask(Method::GET, ""));
    assert_eq!(v2.json()["id"], "v2.0");
    let headers = [
        "openstack-api-minimum-version",
        "openstack-api-maximum-version",
    ];
    assert_eq!(
        headers.map(|name| v2.header(name).to_owned()),
        ["2.0", "2.3"]
    );
    let newest = service.at("latest", 200, "/device_profiles");
    assert_eq!(newest.header("openstack-api-version"), "accelerator 2.3");
    for wrong in ["2.4", "2.99", "1.0", "bogus", "2", ""] {
        service.at(wrong, 406, "/device_profiles");
    }
    service.expect(
        401,
        ServiceCaller::Nobody,
        service.ask(Method::GET, "/device_profiles"),
    );
    let made_up = service
        .ask(Method::GET, "/device_profiles")
        .header("x-auth-token", "made-up");
    service.expect(401, ServiceCaller::Nobody, made_up);
}

#[test]
fn administrators_see_reported_devices_and_disable_them() {
    let service = Service::start();
    let old = service.get("/devices")["devices"][0].clone();
    let fields = |document: &Value| {
        let names = document
            .as_object()
            .into_iter()
            .flat_map(|fields| fields.keys());
        names.cloned().collect::<BTreeSet<String>>()
    };
    let device = [
        "uuid",
        "type",
        "vendor",
        "model",
        "std_board_info",
        "vendor_board_info",
        "hostname",
        "links",
    ];
    let missing = |document: &Value, names: &[&str]| {
        let has = fields(document);
        names
            .iter()
            .find(|name| !has.contains(**name))
            .map(|name| (*name).to_owned())
    };
    assert_eq!(missing(&old, &device), None);
    assert!(!fields(&old).contains("status"), "{old}");
    let uuid = old["uuid"].as_str().unwrap_or_default().to_owned();
    let path = format!("/devices/{uuid}");
    for (query, count) in [
        (format!("?hostname={HOST}"), 1),
        ("?type=GPU".to_owned(), 0),
        ("?type=FPGA&vendor=8086".to_owned(), 1),
        (format!("?type=FPGA&hostname={UNKNOWN}"), 0),
    ] {
        let found = service.get(&format!("/devices{query}"));
        assert_eq!(
            found["devices"].as_array().map(Vec::len),
            Some(count),
            "{query}"
        );
    }
    for (command, status) in [("disable", "maintaining"), ("enable", "enabled")] {
        let switch = || service.ask(Method::POST, &format!("{path}/{command}"));
        service.expect(403, ServiceCaller::Tenant, switch());
        service.expect(204, ServiceCaller::Admin, switch());
        let shown = service.at("2.3", 200, &path).json();
        assert_eq!(
            (&shown["uuid"], &shown["status"]),
            (&json!(uuid), &json!(status))
        );
        let listed = service.at("2.3", 200, "/devices").json();
        assert_eq!(listed["devices"][0]["status"], status);
    }
    let deployable = service.get("/deployables")["deployables"][0].clone();
    let names = [
        "uuid",
        "name",
        "num_accelerators",
        "device_id",
        "rp_uuid",
        "driver_name",
        "attributes_list",
        "links",
    ];
    assert_eq!(missing(&deployable, &names), None);
    let attributes = deployable["attributes_list"].as_str().expect("a text");
    let attributes: Value = serde_json::from_str(attributes).expect("that holds JSON");
    assert_eq!(
        attributes,
        json!([{"traits1": "CUSTOM_FPGA_INTEL"}, {"rc": "FPGA"}])
    );
    let attribute = service.get("/attributes")["attributes"][0].clone();
    assert_eq!(
        missing(&attribute, &["uuid", "deployable_id", "key", "value"]),
        None
    );
    let device = service.get("/devices")["devices"][0].clone();
    for (noun, one) in [
        ("devices", &device),
        ("deployables", &deployable),
        ("attributes", &attribute),
    ] {
        let uuid = one["uuid"].as_str().unwrap_or_default();
        assert_eq!(&service.get(&format!("/{noun}/{uuid}")), one);
        service.at("2.0", 404, &format!("/{noun}/{UNKNOWN}"));
        service.expect(
            403,
            ServiceCaller::Tenant,
            service.ask(Method::GET, &format!("/{noun}")),
        );
        service.expect(
            403,
            ServiceCaller::Tenant,
            service.ask(Method::GET, &format!("/{noun}/{uuid}")),
        );
    }
}

#[test]
fn administrators_manage_profiles_all_can_read_them_and_used_ones_are_kept() {
    let service = Service::start();
    let good =
        json!([{"resources:FPGA": "2", "trait:CUSTOM_FPGA_INTEL": "required", "accel:note": "x"}]);
    let group = |text: Value| json!([{"name": "bad", "groups": [text]}]);
    for bad in [
        json!([{"name": "a", "groups": good}, {"name": "b", "groups": good}]),
        json!([{"groups": good}]),
        json!([{"name": "a b", "groups": good}]),
        json!([{"name": "a"}]),
        json!({"name": "a", "groups": good}),
        group(json!({"colour:x": "1"})),
        group(json!({"resources:FPGA": "1", "trait:HW_CPU_X86_AVX": "required"})),
        group(json!({"resources:FPGA": "1", "trait:CUSTOM_X": "maybe"})),
        group(json!({"resources:MEMORY_MB": "1"})),
        group(json!({"resources:FPGA": "one"})),
    ] {
        service.send(400, Method::POST, "/device_profiles", &bad);
    }
    let made = service.send(201, Method::POST, "/device_profiles", &profile("dp", &good));
    assert_eq!((&made["name"], &made["groups"]), (&json!("dp"), &good));
    service.send(409, Method::POST, "/device_profiles", &profile("dp", &good));
    let mut own = profile(
        "dp-b",
        &json!([{"resources: CUSTOM_THING ": "1", "trait: CUSTOM_T ": "forbidden"}]),
    );
    own[0]["uuid"] = json!(UNKNOWN);
    let own = service.send(201, Method::POST, "/device_profiles", &own);
    assert_eq!(own["uuid"], UNKNOWN);
    assert_eq!(
        own["groups"],
        json!([{"resources:CUSTOM_THING": "1", "trait:CUSTOM_T": "forbidden"}])
    );
    let by_tenant = service
        .ask(Method::POST, "/device_profiles")
        .json(&profile("t", &good));
    service.expect(403, ServiceCaller::Tenant, by_tenant);
    for (query, names) in [
        ("", &["dp", "dp-b"][..]),
        ("?name=dp", &["dp"]),
        ("?name=dp,dp-b", &["dp", "dp-b"]),
        ("?name=nosuch", &[]),
    ] {
        let list = service.ask(Method::GET, &format!("/device_profiles{query}"));
        let list = service.expect(200, ServiceCaller::Tenant, list).json();
        let found = list["device_profiles"].as_array().into_iter().flatten();
        let found: BTreeSet<_> = found
            .filter_map(|one| one["name"].as_str().map(str::to_owned))
            .collect();
        assert_eq!(
            found,
            names.iter().map(|name| (*name).to_owned()).collect(),
            "{query}"
        );
    }
    let uuid = made["uuid"].as_str().unwrap_or_default();
    let path = format!("/device_profiles/{uuid}");
    assert_eq!(service.get(&path)["device_profile"], made);
    service.at("2.1", 406, "/device_profiles/dp");
    assert_eq!(
        service.at("2.2", 200, "/device_profiles/dp").json()["device_profile"],
        made
    );
    service.at("2.2", 404, "/device_profiles/nosuch");
    let arqs = uuids(&service.requests("dp"));
    service.delete(409, &path);
    service.delete(
        204,
        &format!("/accelerator_requests?arqs={}", arqs.join(",")),
    );
    service.delete(204, &path);
    service.delete(404, &path);
    service.delete(204, "/device_profiles?value=dp-b");
    assert_eq!(
        service.get("/device_profiles")["device_profiles"],
        json!([])
    );
}

#[test]
fn a_guest_gets_its_devices_whole_keeps_them_and_gives_them_back() {
    let mut service = Service::start();
    let groups = json!([{"resources:FPGA": "2"}, {"resources:FPGA": "1", "trait:CUSTOM_FPGA_INTEL": "required"}]);
    service.send(
        201,
        Method::POST,
        "/device_profiles",
        &profile("dp", &groups),
    );
    service.send(400, Method::POST, "/accelerator_requests", &json!({}));
    service.send(
        404,
        Method::POST,
        "/accelerator_requests",
        &json!({"device_profile_name": "nosuch"}),
    );
    let made = service.requests("dp");
    let group: Vec<_> = made
        .iter()
        .map(|arq| arq["device_profile_group_id"].clone())
        .collect();
    assert_eq!(group, [0, 0, 1]);
    for arq in &made {
        assert_eq!(
            (&arq["state"], &arq["device_profile_name"]),
            (&json!("Initial"), &json!("dp"))
        );
        let unbound = [
            "hostname",
            "instance_uuid",
            "device_rp_uuid",
            "attach_handle_uuid",
        ];
        assert!(unbound.iter().all(|name| arq[*name].is_null()), "{arq}");
        assert_eq!(
            (&arq["attach_handle_type"], &arq["attach_handle_info"]),
            (&json!(""), &json!({}))
        );
    }
    let arqs = uuids(&made);
    let one = format!("/accelerator_requests/{}", arqs[0]);
    assert_eq!(service.get(&one)["uuid"], arqs[0]);
    service.at("2.0", 404, &format!("/accelerator_requests/{UNKNOWN}"));
    service.at("2.0", 400, "/accelerator_requests?bind_state=x");
    let first = guest(1);
    let of_first = format!("/accelerator_requests?instance={first}");
    assert_eq!(service.get(&of_first)["arqs"], json!([]));

    let whole = bind_to(&first);
    let mut short = whole.clone();
    short.as_array_mut().expect("a list").pop();
    let mut replacing = whole.clone();
    replacing[0]["op"] = json!("replace");
    let step = |path: &str| json!({"path": path, "op": "add", "value": "x"});
    let with = |path: &str| {
        let mut steps = whole.clone();
        steps.as_array_mut().expect("a list").push(step(path));
        steps
    };
    for (status, steps) in [
        (400, short),
        (400, replacing),
        (400, with("/colour")),
        (406, with("/project_id")),
    ] {
        service.patch(status, &arqs[..1], &steps);
    }
    for who in [ServiceCaller::AdminAlone, ServiceCaller::Tenant] {
        let body = json!({ arqs[0].clone(): whole });
        let bind = service
            .ask(Method::PATCH, "/accelerator_requests")
            .json(&body);
        service.expect(403, who, bind);
    }
    assert_eq!(states(&[service.get(&one)]), BTreeSet::from(["Initial"]));
    service.patch(202, &arqs, &whole);
    let bound = service.resolved(&first);
    assert_eq!(
        (bound.len(), states(&bound)),
        (3, BTreeSet::from(["Bound"]))
    );
    let handles: BTreeSet<String> = bound
        .iter()
        .map(|arq| {
            assert_eq!(
                (&arq["hostname"], &arq["device_rp_uuid"]),
                (&json!(HOST), &json!(RP))
            );
            assert_eq!(
                (&arq["instance_uuid"], &arq["attach_handle_type"]),
                (&json!(first), &json!("PCI"))
            );
            assert!(
                arq["attach_handle_uuid"].is_string()
                    && arq["attach_handle_info"]["domain"] == "0000",
                "{arq}"
            );
            arq["attach_handle_info"].to_string()
        })
        .collect();
    assert_eq!(handles.len(), 3, "one handle was given twice");
    let completed = |arqs: &[String], status: &str| {
        let ends = arqs.iter().map(|arq| (arq.clone(), status.to_owned()));
        ends.collect::<BTreeSet<_>>()
    };
    let received = service.received(&first, 3);
    assert_eq!(
        (received.len(), BTreeSet::from_iter(received)),
        (3, completed(&arqs, "completed"))
    );
    let all = service.get("/accelerator_requests?bind_state=resolved");
    assert_eq!(all["arqs"].as_array().map(Vec::len), Some(3));
    service.patch(400, &arqs, &whole);
    let more = uuids(&service.requests("dp"));
    service.patch(400, &more, &whole);
    let taking = service.ask(
        Method::DELETE,
        &format!("/accelerator_requests?arqs={}", arqs[0]),
    );
    service.expect(403, ServiceCaller::AdminAlone, taking);

    // There is one handle left, and three are asked for.
    let second = guest(2);
    service.patch(409, &more, &bind_to(&second));
    let received = service.received(&second, 3);
    assert_eq!(BTreeSet::from_iter(received), completed(&more, "failed"));
    service.patch(202, &arqs, &unbind());
    let unbound = service.get(&one);
    assert_eq!(
        (&unbound["state"], &unbound["attach_handle_info"]),
        (&json!("Unbound"), &json!({}))
    );
    assert!(
        unbound["instance_uuid"].is_null() && unbound["hostname"].is_null(),
        "{unbound}"
    );
    assert_eq!(service.get(&of_first)["arqs"], json!([]));
    let third = guest(3);
    service.patch(202, &arqs, &bind_to(&third));
    assert_eq!(states(&service.resolved(&third)), BTreeSet::from(["Bound"]));

    service.delete(400, "/accelerator_requests");
    service.delete(
        400,
        &format!("/accelerator_requests?arqs={}&instance={third}", arqs[0]),
    );
    let list = format!("/accelerator_requests?arqs={}", more.join(","));
    service.delete(204, &list);
    service.delete(404, &list);
    for _ in 0..2 {
        service.delete(204, &format!("/accelerator_requests?instance={third}"));
    }
    service.at("2.0", 404, &one);
    let (last, fourth) = (uuids(&service.requests("dp")), guest(4));
    service.patch(202, &last, &bind_to(&fourth));
    assert_eq!(
        states(&service.resolved(&fourth)),
        BTreeSet::from(["Bound"])
    );
    service.delete(204, &format!("/accelerator_requests?instance={fourth}"));
    assert_eq!(service.get("/accelerator_requests")["arqs"], json!([]));
}
