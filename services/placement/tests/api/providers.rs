//! /resource_providers

use serde_json::{Value, json};

use crate::service::{ABSENT, GPU_0, GPU_1, HOST, Service, refused};

#[tokio::test]
async fn a_new_provider_is_answered_by_version() {
    let service = Service::start().await;
    let body = json!({"uuid": HOST, "name": "host"});
    let reply = service.at("1.19").post("/resource_providers", body).await;
    assert_eq!(reply.status, 201);
    assert_eq!(reply.body, "");
    assert_eq!(
        reply.header("location"),
        format!("/resource_providers/{HOST}")
    );
    let body = json!({"uuid": GPU_0, "name": "gpu", "parent_provider_uuid": HOST});
    let reply = service.at("1.20").post("/resource_providers", body).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.body["root_provider_uuid"], HOST);
    assert_eq!(reply.body["parent_provider_uuid"], HOST);
    assert_eq!(reply.body["generation"], 0);
}

#[tokio::test]
async fn a_uuid_without_dashes_is_given_them() {
    let service = Service::start().await;
    let body = json!({"uuid": HOST.replace('-', ""), "name": "host"});
    let reply = service.post("/resource_providers", body).await;
    assert_eq!(reply.body["uuid"], HOST);
}

#[tokio::test]
async fn taken_names_and_uuids_are_distinguished() {
    let service = Service::start().await;
    service.provider(HOST, None).await;
    let by_name = service
        .post("/resource_providers", json!({"name": HOST, "uuid": GPU_0}))
        .await;
    refused(
        &by_name,
        409,
        &format!("Conflicting resource provider name: {HOST} already exists."),
    );
    assert_eq!(by_name.code(), "placement.duplicate_name");
    let by_uuid = service
        .post(
            "/resource_providers",
            json!({"name": "other", "uuid": HOST}),
        )
        .await;
    refused(
        &by_uuid,
        409,
        &format!("Conflicting resource provider uuid: {HOST} already exists."),
    );
}

#[tokio::test]
async fn malformed_providers_are_refused_with_the_reason() {
    let service = Service::start().await;
    for (body, reason) in [
        (json!({}), "'name' is a required property"),
        (json!({"name": 5}), "5 is not of type 'string'"),
        (json!({"name": "x".repeat(201)}), "is too long"),
        (json!({"name": "a", "uuid": "x"}), "'x' is not a 'uuid'"),
        (
            json!({"name": "a", "b": 1}),
            "Additional properties are not allowed",
        ),
        (json!({"name": ""}), "name is required"),
        (
            json!({"name": "a", "parent_provider_uuid": ABSENT}),
            "parent provider UUID does not exist.",
        ),
        (
            json!({"name": "a", "uuid": HOST, "parent_provider_uuid": HOST}),
            "parent provider UUID cannot be same as UUID.",
        ),
    ] {
        let reply = service.post("/resource_providers", body).await;
        refused(&reply, 400, reason);
    }
}

#[tokio::test]
async fn links_grow_with_the_version() {
    let service = Service::start().await;
    service.provider(HOST, None).await;
    for (version, links, nested) in [
        ("1.0", 3, false),
        ("1.1", 4, false),
        ("1.6", 5, false),
        ("1.11", 6, false),
        ("1.14", 6, true),
    ] {
        let reply = service
            .at(version)
            .get(&format!("/resource_providers/{HOST}"))
            .await;
        assert_eq!(
            reply.body["links"].as_array().unwrap().len(),
            links,
            "{version}"
        );
        assert_eq!(
            reply.body.get("root_provider_uuid").is_some(),
            nested,
            "{version}"
        );
    }
}

#[tokio::test]
async fn dates_are_sent_from_their_version_on() {
    let service = Service::start().await;
    service.provider(HOST, None).await;
    let path = format!("/resource_providers/{HOST}");
    assert_eq!(
        service.at("1.14").get(&path).await.header("last-modified"),
        ""
    );
    let reply = service.at("1.15").get(&path).await;
    assert!(reply.header("last-modified").ends_with(" GMT"));
    assert_eq!(reply.header("cache-control"), "no-cache");
}

async fn tree(service: &Service) {
    service.provider(HOST, None).await;
    service.provider(GPU_0, Some(HOST)).await;
    service.provider(GPU_1, Some(GPU_0)).await;
}

fn uuids(body: &Value) -> Vec<&str> {
    let providers = body["resource_providers"].as_array().unwrap();
    providers
        .iter()
        .map(|one| one["uuid"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn lists_are_filtered() {
    let service = Service::start().await;
    tree(&service).await;
    service.provider(ABSENT, None).await;
    service
        .inventories(GPU_0, json!({"VGPU": {"total": 4, "max_unit": 2}}))
        .await;
    service.put_empty("/traits/CUSTOM_A").await;
    for (provider, traits) in [
        (HOST, json!(["CUSTOM_A"])),
        (GPU_1, json!(["HW_CPU_X86_VMX"])),
    ] {
        let body = json!({
            "traits": traits,
            "resource_provider_generation": service.generation(provider).await,
        });
        service
            .put(&format!("/resource_providers/{provider}/traits"), body)
            .await;
    }
    for (query, expected) in [
        (format!("uuid={GPU_0}"), vec![GPU_0]),
        (format!("name={HOST}"), vec![HOST]),
        (format!("in_tree={GPU_1}"), vec![HOST, GPU_0, GPU_1]),
        (format!("in_tree={GPU_1}&uuid={HOST}"), vec![HOST]),
        ("resources=VGPU:2".to_owned(), vec![GPU_0]),
        ("resources=VGPU:3".to_owned(), vec![]),
        ("resources=VCPU:1".to_owned(), vec![]),
        ("required=CUSTOM_A".to_owned(), vec![HOST]),
        ("required=!CUSTOM_A".to_owned(), vec![GPU_0, GPU_1, ABSENT]),
        (
            "required=in:CUSTOM_A,HW_CPU_X86_VMX".to_owned(),
            vec![HOST, GPU_1],
        ),
        (
            "required=CUSTOM_A&required=HW_CPU_X86_VMX".to_owned(),
            vec![],
        ),
    ] {
        let reply = service.get(&format!("/resource_providers?{query}")).await;
        assert_eq!(uuids(&reply.body), expected, "{query}");
    }
}

#[tokio::test]
async fn filters_that_make_no_sense_are_refused() {
    let service = Service::start().await;
    for (query, version, reason) in [
        ("bogus=1", "1.39", "Additional properties are not allowed"),
        (
            "resources=VCPU:1",
            "1.3",
            "Additional properties are not allowed",
        ),
        ("uuid=x", "1.39", "'x' is not a 'uuid'"),
        ("member_of=x", "1.39", "to contain valid UUID(s). Got: x"),
        ("resources=", "1.39", "Got: empty string."),
        ("resources=VCPU", "1.39", "Badly formed resources parameter"),
        (
            "resources=VCPU:x",
            "1.39",
            "expected positive integer amount. Got: x.",
        ),
        ("resources=VCPU:0", "1.39", "requires amount >= 1. Got: 0."),
        (
            "resources=CUSTOM_NO:1",
            "1.39",
            "Invalid resource class in resources parameter",
        ),
        (
            "required=CUSTOM_NO",
            "1.39",
            "Invalid trait(s) in \"required\" parameter",
        ),
        (
            "required=!HW_CPU_X86_VMX",
            "1.21",
            "of the form: HW_CPU_X86_VMX,CUSTOM_MAGIC.",
        ),
        (
            "required=in:A,B",
            "1.38",
            "only supported since microversion 1.39",
        ),
        ("required=,", "1.39", "Got an empty trait in: ,"),
        ("name=%ff", "1.39", "UTF-8"),
    ] {
        let reply = service
            .at(version)
            .get(&format!("/resource_providers?{query}"))
            .await;
        refused(&reply, 400, reason);
    }
}

#[tokio::test]
async fn a_provider_is_moved_with_all_below_it() {
    let service = Service::start().await;
    tree(&service).await;
    service.provider(ABSENT, None).await;
    let path = format!("/resource_providers/{GPU_0}");
    let elsewhere = json!({"name": "gpu", "parent_provider_uuid": ABSENT});
    let reply = service.at("1.36").put(&path, elsewhere.clone()).await;
    refused(
        &reply,
        400,
        "re-parenting a provider is not currently allowed.",
    );
    let reply = service.put(&path, elsewhere).await;
    assert_eq!(reply.body["root_provider_uuid"], ABSENT);
    let below = service.get(&format!("/resource_providers/{GPU_1}")).await;
    assert_eq!(below.body["root_provider_uuid"], ABSENT);
    let to_root = json!({"name": "gpu", "parent_provider_uuid": null});
    let reply = service.at("1.36").put(&path, to_root.clone()).await;
    refused(
        &reply,
        400,
        "un-parenting a provider is not currently allowed.",
    );
    let reply = service.put(&path, to_root).await;
    assert_eq!(reply.body["root_provider_uuid"], GPU_0);
    let below = service.get(&format!("/resource_providers/{GPU_1}")).await;
    assert_eq!(below.body["root_provider_uuid"], GPU_0);
}

#[tokio::test]
async fn a_loop_is_refused() {
    let service = Service::start().await;
    tree(&service).await;
    let body = json!({"name": "host", "parent_provider_uuid": GPU_1});
    let reply = service
        .put(&format!("/resource_providers/{HOST}"), body)
        .await;
    refused(
        &reply,
        400,
        "creating loop in the provider tree is not allowed.",
    );
}

#[tokio::test]
async fn only_an_unused_leaf_is_deleted() {
    let service = Service::start().await;
    tree(&service).await;
    service
        .inventories(GPU_1, json!({"VGPU": {"total": 4}}))
        .await;
    let path = |uuid: &str| format!("/resource_providers/{uuid}");
    let reply = service.delete(&path(HOST)).await;
    refused(&reply, 409, "It has child resource providers.");
    assert_eq!(
        reply.code(),
        "placement.resource_provider.cannot_delete_parent"
    );
    let consumer = crate::service::consumer(1);
    assert_eq!(
        service
            .claim(&consumer, GPU_1, json!({"VGPU": 1}))
            .await
            .status,
        204
    );
    let reply = service.delete(&path(GPU_1)).await;
    refused(&reply, 409, "Resource provider has allocations.");
    assert_eq!(reply.code(), "placement.resource_provider.inuse");
    assert_eq!(
        service
            .delete(&format!("/allocations/{consumer}"))
            .await
            .status,
        204
    );
    for uuid in [GPU_1, GPU_0, HOST] {
        assert_eq!(service.delete(&path(uuid)).await.status, 204);
        refused(&service.delete(&path(uuid)).await, 404, "found for delete");
    }
}
