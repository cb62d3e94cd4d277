//! /resource_classes

use serde_json::json;

use crate::service::{HOST, Service, refused};

#[tokio::test]
async fn the_standard_classes_are_there_in_their_order() {
    let service = Service::start().await;
    let reply = service.get("/resource_classes").await;
    let classes = reply.body["resource_classes"].as_array().unwrap();
    assert_eq!(classes.len(), 21);
    assert_eq!(classes[0]["name"], "VCPU");
    assert_eq!(
        classes[20]["name"],
        "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC"
    );
    assert_eq!(classes[0]["links"][0]["href"], "/resource_classes/VCPU");
}

#[tokio::test]
async fn own_classes_come_with_their_version() {
    let service = Service::start().await;
    assert_eq!(service.at("1.1").get("/resource_classes").await.status, 404);
    let made = service
        .at("1.2")
        .post("/resource_classes", json!({"name": "CUSTOM_A"}))
        .await;
    assert_eq!(made.status, 201);
    assert_eq!(made.header("location"), "/resource_classes/CUSTOM_A");
    let again = service
        .post("/resource_classes", json!({"name": "CUSTOM_A"}))
        .await;
    refused(
        &again,
        409,
        "Conflicting resource class already exists: CUSTOM_A",
    );
    let body = json!({"name": "CUSTOM_B"});
    let renamed = service
        .at("1.6")
        .put("/resource_classes/CUSTOM_A", body)
        .await;
    assert_eq!(renamed.body["name"], "CUSTOM_B");
    assert_eq!(service.get("/resource_classes/CUSTOM_A").await.status, 404);
}

#[tokio::test]
async fn a_put_makes_the_class_once() {
    let service = Service::start().await;
    assert_eq!(
        service.put_empty("/resource_classes/CUSTOM_A").await.status,
        201
    );
    assert_eq!(
        service.put_empty("/resource_classes/CUSTOM_A").await.status,
        204
    );
    let reply = service.put_empty("/resource_classes/lower").await;
    refused(&reply, 400, "does not match '^CUSTOM_[A-Z0-9_]+$'");
    let reply = service.put_empty("/resource_classes/VCPU").await;
    refused(&reply, 400, "does not match");
}

#[tokio::test]
async fn standard_and_used_classes_stay() {
    let service = Service::start().await;
    service.put_empty("/resource_classes/CUSTOM_A").await;
    service.provider(HOST, None).await;
    service
        .inventories(HOST, json!({"CUSTOM_A": {"total": 1}}))
        .await;
    let reply = service.delete("/resource_classes/VCPU").await;
    refused(&reply, 400, "Cannot delete standard resource class VCPU.");
    let reply = service.delete("/resource_classes/CUSTOM_A").await;
    refused(&reply, 409, "Class is in use in inventory.");
    service.inventories(HOST, json!({})).await;
    assert_eq!(
        service.delete("/resource_classes/CUSTOM_A").await.status,
        204
    );
    refused(
        &service.delete("/resource_classes/CUSTOM_A").await,
        404,
        "No such resource class CUSTOM_A.",
    );
    let body = json!({"name": "CUSTOM_X"});
    let reply = service.at("1.6").put("/resource_classes/VCPU", body).await;
    refused(&reply, 400, "Cannot update standard resource class VCPU");
}
