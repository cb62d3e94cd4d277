//! /resource_providers/{uuid}/usages and /usages

use serde_json::json;

use crate::service::{ABSENT, HOST, Service, allocations, consumer, refused};

async fn used() -> Service {
    let service = Service::start().await;
    service.provider(HOST, None).await;
    service
        .inventories(HOST, json!({"VCPU": {"total": 8}, "VGPU": {"total": 4}}))
        .await;
    service
        .claim(&consumer(1), HOST, json!({"VCPU": 2, "VGPU": 1}))
        .await;
    let mut migration = allocations(&[(HOST, json!({"VCPU": 1}))], None);
    migration["consumer_type"] = json!("MIGRATION");
    service
        .put(&format!("/allocations/{}", consumer(2)), migration)
        .await;
    let mut untyped = allocations(&[(HOST, json!({"VCPU": 3}))], None);
    untyped.as_object_mut().unwrap().remove("consumer_type");
    untyped["user_id"] = json!("other");
    service
        .at("1.37")
        .put(&format!("/allocations/{}", consumer(3)), untyped)
        .await;
    service
}

#[tokio::test]
async fn a_provider_shows_every_class_it_has() {
    let service = used().await;
    assert_eq!(service.usages(HOST).await, json!({"VCPU": 6, "VGPU": 1}));
    let reply = service
        .get(&format!("/resource_providers/{ABSENT}/usages"))
        .await;
    refused(&reply, 404, "No resource provider with uuid");
}

#[tokio::test]
async fn a_project_is_summed_up_by_class_and_later_by_type() {
    let service = used().await;
    assert_eq!(
        service
            .at("1.8")
            .get("/usages?project_id=project")
            .await
            .status,
        404
    );
    let reply = service.at("1.9").get("/usages?project_id=project").await;
    assert_eq!(reply.body, json!({"usages": {"VCPU": 6, "VGPU": 1}}));
    let reply = service
        .at("1.9")
        .get("/usages?project_id=project&user_id=other")
        .await;
    assert_eq!(reply.body, json!({"usages": {"VCPU": 3}}));
    for (query, expected) in [
        (
            "",
            json!({
                "INSTANCE": {"VCPU": 2, "VGPU": 1, "consumer_count": 1},
                "MIGRATION": {"VCPU": 1, "consumer_count": 1},
                "unknown": {"VCPU": 3, "consumer_count": 1},
            }),
        ),
        (
            "&consumer_type=all",
            json!({"all": {"VCPU": 6, "VGPU": 1, "consumer_count": 3}}),
        ),
        (
            "&consumer_type=unknown",
            json!({"unknown": {"VCPU": 3, "consumer_count": 1}}),
        ),
        (
            "&consumer_type=MIGRATION",
            json!({"MIGRATION": {"VCPU": 1, "consumer_count": 1}}),
        ),
        ("&consumer_type=NONE", json!({})),
    ] {
        let reply = service
            .get(&format!("/usages?project_id=project{query}"))
            .await;
        assert_eq!(reply.body["usages"], expected, "{query}");
    }
    refused(
        &service.get("/usages").await,
        400,
        "'project_id' is a required property",
    );
    let reply = service.get("/usages?project_id=p&consumer_type=odd").await;
    refused(&reply, 400, "does not match");
}
