//! /traits and /resource_providers/{uuid}/traits

use serde_json::json;

use crate::service::{ABSENT, HOST, Service, refused};

fn path() -> String {
    format!("/resource_providers/{HOST}/traits")
}

#[tokio::test]
async fn the_standard_traits_are_there() {
    let service = Service::start().await;
    let reply = service.get("/traits").await;
    assert_eq!(reply.body["traits"].as_array().unwrap().len(), 377);
    assert_eq!(service.get("/traits/HW_CPU_X86_VMX").await.status, 204);
    assert_eq!(service.at("1.5").get("/traits").await.status, 404);
}

#[tokio::test]
async fn an_own_trait_is_made_once_and_removed() {
    let service = Service::start().await;
    let made = service.put_empty("/traits/CUSTOM_A").await;
    assert_eq!(
        (made.status.as_u16(), made.header("location")),
        (201, "/traits/CUSTOM_A")
    );
    assert_eq!(service.put_empty("/traits/CUSTOM_A").await.status, 204);
    assert_eq!(service.delete("/traits/CUSTOM_A").await.status, 204);
    refused(
        &service.delete("/traits/CUSTOM_A").await,
        404,
        "No such trait(s): CUSTOM_A.",
    );
    refused(
        &service.put_empty("/traits/ODD").await,
        400,
        "The trait is invalid.",
    );
    let reply = service.delete("/traits/HW_CPU_X86_VMX").await;
    refused(&reply, 400, "Cannot delete standard trait HW_CPU_X86_VMX.");
}

#[tokio::test]
async fn a_providers_traits_are_set_under_its_generation() {
    let service = Service::start().await;
    service.provider(HOST, None).await;
    service.put_empty("/traits/CUSTOM_A").await;
    let body = json!({"traits": ["CUSTOM_A", "HW_CPU_X86_VMX"], "resource_provider_generation": 0});
    let reply = service.put(&path(), body.clone()).await;
    assert_eq!(reply.body["resource_provider_generation"], 1);
    assert_eq!(reply.body["traits"], json!(["HW_CPU_X86_VMX", "CUSTOM_A"]));
    let stale = service.put(&path(), body).await;
    refused(
        &stale,
        409,
        "Resource provider's generation already changed.",
    );
    assert_eq!(stale.code(), "placement.concurrent_update");
    let same = json!({"traits": ["HW_CPU_X86_VMX", "CUSTOM_A"], "resource_provider_generation": 1});
    let reply = service.put(&path(), same).await;
    assert_eq!(
        reply.body["resource_provider_generation"], 1,
        "nothing changed"
    );
    refused(
        &service.delete("/traits/CUSTOM_A").await,
        409,
        "is in use by a resource provider.",
    );
    let unknown = json!({"traits": ["CUSTOM_NO"], "resource_provider_generation": 1});
    refused(
        &service.put(&path(), unknown).await,
        400,
        "No such trait CUSTOM_NO",
    );
    assert_eq!(service.delete(&path()).await.status, 204);
    let reply = service.get(&path()).await;
    assert_eq!(
        reply.body,
        json!({"traits": [], "resource_provider_generation": 2})
    );
}

#[tokio::test]
async fn lists_are_filtered_by_name_and_by_use() {
    let service = Service::start().await;
    service.provider(HOST, None).await;
    for name in ["CUSTOM_A", "CUSTOM_B"] {
        service.put_empty(&format!("/traits/{name}")).await;
    }
    let body = json!({"traits": ["CUSTOM_B"], "resource_provider_generation": 0});
    service.put(&path(), body).await;
    for (query, expected) in [
        ("name=startswith:CUSTOM_", json!(["CUSTOM_A", "CUSTOM_B"])),
        ("name=in:CUSTOM_A,NOPE", json!(["CUSTOM_A"])),
        ("associated=true", json!(["CUSTOM_B"])),
        (
            "associated=FALSE&name=startswith:CUSTOM_",
            json!(["CUSTOM_A"]),
        ),
    ] {
        let reply = service.get(&format!("/traits?{query}")).await;
        assert_eq!(reply.body["traits"], expected, "{query}");
    }
    refused(
        &service.get("/traits?associated=x").await,
        400,
        "only accepts",
    );
    refused(
        &service.get("/traits?name=x").await,
        400,
        "Badly formatted name parameter",
    );
}

#[tokio::test]
async fn an_absent_provider_has_no_traits() {
    let service = Service::start().await;
    let path = format!("/resource_providers/{ABSENT}/traits");
    assert_eq!(service.get(&path).await.status, 404);
    let body = json!({"traits": [], "resource_provider_generation": 0});
    assert_eq!(service.put(&path, body).await.status, 404);
    assert_eq!(service.delete(&path).await.status, 404);
}
