//! Version documents, device profiles, attributes, and who may what of them.

use berth_accelerator::{AcceleratorApiOptions, prepare, router};
use berth_store::{SqlStore, Statement};
use serde_json::json;

use super::service::{ABSENT, HOST, RP, Service, card};

#[tokio::test]
async fn the_roots_name_the_versions() {
    let service = Service::start().await;
    let root = service.get("/").await;
    assert_eq!(root.body["default_version"]["id"], "v2");
    assert_eq!(root.body["versions"][0]["min_version"], "2.0");
    assert_eq!(root.body["versions"][0]["max_version"], "2.3");
    let v2 = service.get("/v2").await;
    assert_eq!(
        (&v2.body["id"], &v2.body["status"]),
        (&json!("v2.0"), &json!("CURRENT"))
    );
    assert_eq!(v2.headers["openstack-api-version"], "accelerator 2.3");
    assert_eq!(v2.headers["openstack-api-maximum-version"], "2.3");
    let wrong = service
        .at("accelerator 2.4")
        .get("/v2/device_profiles")
        .await;
    assert_eq!(wrong.status, 406, "{wrong:?}");
    let nowhere = service.get("/v2/nowhere").await;
    assert_eq!(
        (nowhere.status.as_u16(), nowhere.message().as_str()),
        (404, "Not Found")
    );
    let put = service.ask("PUT", "/v2/devices", None).await;
    assert_eq!(
        (put.status.as_u16(), &put.headers["allow"]),
        (405, &"GET".parse().unwrap())
    );
}

#[tokio::test]
async fn a_documents_links_lead_to_it() {
    let service = Service::with_profile(1).await;
    let below = |href: &serde_json::Value| {
        let path = href.as_str().unwrap().strip_prefix("http://127.0.0.1:6666");
        path.unwrap().to_owned()
    };
    let root = service.get("/").await.body;
    let v2 = below(&root["default_version"]["links"][0]["href"]);
    assert_eq!(service.get(&v2).await.body["id"], "v2.0");
    for noun in ["device_profiles", "devices", "deployables", "attributes"] {
        let list = service.get(&format!("{v2}/{noun}")).await;
        let one = &list.body[noun][0];
        let found = service.get(&below(&one["links"][0]["href"])).await.body;
        let found = found.get("device_profile").unwrap_or(&found);
        assert_eq!(found, one, "{noun}");
    }
    assert_eq!(
        service
            .by("nobody")
            .get(&format!("{v2}/devices"))
            .await
            .status,
        401
    );
}

#[tokio::test]
async fn a_profile_is_made_from_a_list_of_one_and_found_by_its_names() {
    let service = Service::start().await;
    let groups =
        json!([{"resources: CUSTOM_THING ": "1", "trait: CUSTOM_T ": "forbidden", "accel:x": "y"}]);
    let body = json!([{"name": "one", "uuid": ABSENT, "groups": groups, "description": "d"}]);
    let made = service.post("/v2/device_profiles", body.clone()).await;
    assert_eq!(made.status, 201, "{made:?}");
    let stripped =
        json!([{"resources:CUSTOM_THING": "1", "trait:CUSTOM_T": "forbidden", "accel:x": "y"}]);
    assert_eq!(
        (&made.body["groups"], &made.body["uuid"]),
        (&stripped, &json!(ABSENT))
    );
    assert_eq!(made.body["description"], "d");
    assert_eq!(
        service
            .post("/v2/device_profiles", body.clone())
            .await
            .status,
        409
    );
    let mut other = body.clone();
    other[0]["name"] = json!("two");
    assert_eq!(
        service
            .post("/v2/device_profiles", other.clone())
            .await
            .status,
        409,
        "the uuid"
    );
    other[0].as_object_mut().unwrap().remove("uuid");
    assert_eq!(
        service
            .post("/v2/device_profiles", other.clone())
            .await
            .status,
        201
    );
    let two = json!([body[0], other[0]]);
    assert_eq!(service.post("/v2/device_profiles", two).await.status, 400);
    assert_eq!(
        service.post("/v2/device_profiles", json!([])).await.status,
        400
    );
    for (query, count) in [
        ("", 2),
        ("?name=one", 1),
        ("?name=one,two", 2),
        ("?name=none", 0),
    ] {
        let list = service.get(&format!("/v2/device_profiles{query}")).await;
        assert_eq!(
            list.body["device_profiles"].as_array().unwrap().len(),
            count,
            "{query}"
        );
    }
    let wrapped = service.get(&format!("/v2/device_profiles/{ABSENT}")).await;
    assert_eq!(wrapped.body["device_profile"]["name"], "one");
    let by_name = service.get("/v2/device_profiles/one").await;
    assert_eq!(by_name.body, wrapped.body);
    let old = service
        .at("accelerator 2.1")
        .get("/v2/device_profiles/one")
        .await;
    assert_eq!(old.status, 406, "{old:?}");
    assert!(old.message().contains("should be 2.2"));
    assert_eq!(service.get("/v2/device_profiles/none").await.status, 404);
    // A delete of several is whole or not at all.
    assert_eq!(
        service
            .delete("/v2/device_profiles?value=one,none")
            .await
            .status,
        404
    );
    assert_eq!(service.get("/v2/device_profiles/one").await.status, 200);
    assert_eq!(
        service
            .delete("/v2/device_profiles?value=one,two")
            .await
            .status,
        204
    );
    assert_eq!(
        service
            .delete(&format!("/v2/device_profiles/{ABSENT}"))
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn everybody_reads_profiles_and_administrators_write_them() {
    let service = Service::with_profile(1).await;
    let body = json!([{"name": "x", "groups": [{"resources:FPGA": "1"}]}]);
    for who in ["alice", "manager", "nova"] {
        assert_eq!(
            service.by(who).get("/v2/device_profiles").await.status,
            200,
            "{who}"
        );
        assert_eq!(
            service.by(who).get("/v2/device_profiles/dp").await.status,
            200,
            "{who}"
        );
        assert_eq!(
            service
                .by(who)
                .post("/v2/device_profiles", body.clone())
                .await
                .status,
            403,
            "{who}"
        );
        assert_eq!(
            service
                .by(who)
                .delete("/v2/device_profiles/dp")
                .await
                .status,
            403,
            "{who}"
        );
    }
    let reader = service.by("reader");
    let body = json!({"device_profile_name": "dp"});
    assert_eq!(
        reader.post("/v2/accelerator_requests", body).await.status,
        403
    );
    assert_eq!(reader.get("/v2/accelerator_requests").await.status, 200);
    assert_eq!(
        service.by("nobody").get("/v2/device_profiles").await.status,
        401
    );
}

#[tokio::test]
async fn requests_are_made_one_for_each_unit_of_each_group() {
    let service = Service::start().await;
    let groups = json!([{"resources:FPGA": "2"}, {"accel:note": "x"}, {"resources:FPGA": "1", "resources:PGPU": "1"}]);
    let body = json!([{"name": "dp", "groups": groups}]);
    assert_eq!(service.post("/v2/device_profiles", body).await.status, 201);
    let body = json!({"device_profile_name": "dp"});
    let made = service.post("/v2/accelerator_requests", body).await;
    assert_eq!(made.status, 201);
    let arqs = made.body["arqs"].as_array().unwrap();
    let groups: Vec<_> = arqs
        .iter()
        .map(|arq| arq["device_profile_group_id"].as_i64().unwrap())
        .collect();
    assert_eq!(groups, [0, 0, 2, 2]);
    assert_eq!(
        service.get("/v2/accelerator_requests").await.uuids(),
        made.uuids()
    );
    let body = json!({"device_profile_name": "none"});
    assert_eq!(
        service.post("/v2/accelerator_requests", body).await.status,
        404
    );
}

#[tokio::test]
async fn operators_add_attributes_and_do_not_remove_the_hosts() {
    let service = Service::start().await;
    service.report(HOST, json!([card(0, RP, 1)])).await;
    let reported = service.get("/v2/attributes?key=rc").await.body["attributes"][0].clone();
    assert_eq!(reported["value"], "FPGA");
    let body = json!({"deployable_id": reported["deployable_id"], "key": "rack", "value": "7"});
    let made = service.post("/v2/attributes", body.clone()).await;
    assert_eq!(made.status, 201, "{made:?}");
    let path = |attribute: &serde_json::Value| {
        format!("/v2/attributes/{}", attribute["uuid"].as_str().unwrap())
    };
    assert_eq!(service.get(&path(&made.body)).await.body, made.body);
    let mut wrong = body;
    wrong["deployable_id"] = json!(999);
    assert_eq!(service.post("/v2/attributes", wrong).await.status, 400);
    assert_eq!(service.delete(&path(&reported)).await.status, 409);
    // A report with other attributes leaves the operator's.
    let mut changed = card(0, RP, 1);
    changed["deployables"][0]["traits"] = json!(["CUSTOM_OTHER"]);
    service.report(HOST, json!([changed])).await;
    let list = service.get("/v2/attributes").await.body;
    let keys: Vec<_> = list["attributes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|each| each["key"].as_str().unwrap())
        .collect();
    assert_eq!(keys, ["rack", "traits1", "rc"]);
    assert_eq!(service.delete(&path(&made.body)).await.status, 204);
    assert_eq!(service.delete(&path(&made.body)).await.status, 404);
}

#[tokio::test]
async fn a_database_of_something_else_or_of_another_version_is_refused() {
    let service = Service::start().await;
    prepare(&service.store).await.unwrap();
    service
        .change(Statement::new("UPDATE accelerator_schema SET version = 99"))
        .await;
    let refused = prepare(&service.store).await.unwrap_err().to_string();
    assert!(refused.contains("version 99"), "{refused}");
    service
        .change(Statement::new("DROP TABLE accelerator_schema"))
        .await;
    let refused = prepare(&service.store).await.unwrap_err().to_string();
    assert!(refused.contains("something else"), "{refused}");
}

#[tokio::test]
async fn without_an_identity_service_the_administrators_token_does_everything() {
    let store = SqlStore::in_memory().await.unwrap();
    prepare(&store).await.unwrap();
    let router = router(store, AcceleratorApiOptions::default());
    let request = http::Request::get("/v2/devices")
        .header("x-auth-token", "admin:p1")
        .body(axum::body::Body::empty())
        .unwrap();
    let reply = tower::ServiceExt::oneshot(router, request).await.unwrap();
    assert_eq!(reply.status(), 200);
}
