//! /resource_providers/{uuid}/inventories

use serde_json::{Value, json};

use crate::service::{ABSENT, HOST, Service, consumer, refused};

fn path() -> String {
    format!("/resource_providers/{HOST}/inventories")
}

fn body(generation: i64, inventories: Value) -> Value {
    json!({"resource_provider_generation": generation, "inventories": inventories})
}

async fn host() -> Service {
    let service = Service::start().await;
    service.provider(HOST, None).await;
    service
}

#[tokio::test]
async fn defaults_are_filled_in_and_the_generation_rises() {
    let service = host().await;
    let reply = service
        .put(&path(), body(0, json!({"VCPU": {"total": 8}})))
        .await;
    let expected = json!({"VCPU": {
        "total": 8, "reserved": 0, "min_unit": 1, "max_unit": 2_147_483_647_i64,
        "step_size": 1, "allocation_ratio": 1.0,
    }});
    assert_eq!(reply.body["inventories"], expected);
    assert_eq!(reply.body["resource_provider_generation"], 1);
    assert_eq!(service.get(&path()).await.body, reply.body);
}

#[tokio::test]
async fn a_fractional_ratio_comes_back_as_sent() {
    let service = host().await;
    for ratio in [0.0, 0.5, 1.0, 1.1, 4.0, 16.0] {
        let inventories = json!({"VCPU": {"total": 8, "allocation_ratio": ratio}});
        service.inventories(HOST, inventories).await;
        let reply = service.get(&path()).await;
        assert_eq!(reply.body["inventories"]["VCPU"]["allocation_ratio"], ratio);
    }
}

#[tokio::test]
async fn an_old_generation_is_a_conflict_and_changes_nothing() {
    let service = host().await;
    service
        .inventories(HOST, json!({"VCPU": {"total": 8}}))
        .await;
    let before = service.rows().await;
    let reply = service
        .put(&path(), body(0, json!({"VCPU": {"total": 9}})))
        .await;
    refused(&reply, 409, "resource provider generation conflict");
    assert_eq!(reply.code(), "placement.concurrent_update");
    assert_eq!(service.rows().await, before);
}

#[tokio::test]
async fn malformed_inventories_are_refused_with_the_reason() {
    let service = host().await;
    for (inventories, reason) in [
        (json!({"VCPU": {}}), "'total' is a required property"),
        (
            json!({"VCPU": {"total": 0}}),
            "0 is less than the minimum of 1",
        ),
        (
            json!({"VCPU": {"total": 2_147_483_648_i64}}),
            "is greater than the maximum of 2147483647",
        ),
        (
            json!({"VCPU": {"total": 1.5}}),
            "1.5 is not of type 'integer'",
        ),
        (
            json!({"VCPU": {"total": true}}),
            "True is not of type 'integer'",
        ),
        (
            json!({"VCPU": {"total": 1, "reserved": -1}}),
            "-1 is less than the minimum of 0",
        ),
        (
            json!({"VCPU": {"total": 1, "step_size": 0}}),
            "Failed validating 'minimum'",
        ),
        (
            json!({"VCPU": {"total": 1, "allocation_ratio": 4e38}}),
            "Failed validating 'maximum'",
        ),
        (
            json!({"VCPU": {"total": 1, "more": 1}}),
            "Additional properties are not allowed",
        ),
        (
            json!({"VCPU": {"total": 1, "reserved": 2}}),
            "The reserved value is greater than total.",
        ),
        (
            json!({"CUSTOM_NO": {"total": 1}}),
            "No such resource class CUSTOM_NO.",
        ),
    ] {
        let reply = service.put(&path(), body(0, inventories)).await;
        refused(&reply, 400, reason);
    }
    assert_eq!(service.generation(HOST).await, 0);
}

#[tokio::test]
async fn all_may_be_reserved_from_its_version_on() {
    let service = host().await;
    let all = json!({"VCPU": {"total": 8, "reserved": 8}});
    let reply = service.at("1.25").put(&path(), body(0, all.clone())).await;
    refused(
        &reply,
        400,
        "The reserved value is greater than or equal to total.",
    );
    assert_eq!(
        service.at("1.26").put(&path(), body(0, all)).await.status,
        200
    );
}

#[tokio::test]
async fn one_inventory_is_added_changed_and_removed() {
    let service = host().await;
    let add = json!({"resource_class": "VGPU", "total": 4});
    let reply = service.post(&path(), add.clone()).await;
    assert_eq!(reply.status, 201);
    assert_eq!(reply.header("location"), format!("{}/VGPU", path()));
    let again = service.post(&path(), add).await;
    assert_eq!(
        (again.status.as_u16(), again.code()),
        (409, "placement.concurrent_update")
    );
    let one = format!("{}/VGPU", path());
    let change = json!({"resource_provider_generation": 1, "total": 8});
    assert_eq!(service.put(&one, change.clone()).await.body["total"], 8);
    refused(&service.put(&one, change).await, 409, "generation conflict");
    let other = json!({"resource_provider_generation": 2, "total": 8});
    let reply = service.put(&format!("{}/PCPU", path()), other).await;
    refused(&reply, 400, "No inventory of class PCPU found.");
    assert_eq!(
        service.get(&one).await.body["resource_provider_generation"],
        2
    );
    assert_eq!(service.delete(&one).await.status, 204);
    refused(
        &service.delete(&one).await,
        404,
        "No inventory of class VGPU found",
    );
    refused(
        &service.get(&one).await,
        404,
        "No inventory of class VGPU for",
    );
}

#[tokio::test]
async fn what_is_in_use_cannot_be_taken_away() {
    let service = host().await;
    service
        .inventories(HOST, json!({"VCPU": {"total": 8}, "VGPU": {"total": 4}}))
        .await;
    service.claim(&consumer(1), HOST, json!({"VCPU": 2})).await;
    let generation = service.generation(HOST).await;
    let before = service.rows().await;
    let in_use = format!("Inventory for 'VCPU' on resource provider '{HOST}' in use.");
    let without = body(generation, json!({"VGPU": {"total": 4}}));
    let reply = service.put(&path(), without).await;
    refused(&reply, 409, &in_use);
    assert_eq!(reply.code(), "placement.inventory.inuse");
    let reply = service.delete(&path()).await;
    refused(&reply, 409, &in_use);
    assert_eq!(reply.code(), "placement.inventory.inuse");
    let reply = service.delete(&format!("{}/VCPU", path())).await;
    refused(&reply, 409, &in_use);
    assert_eq!(service.rows().await, before);
    assert_eq!(
        service.delete(&format!("{}/VGPU", path())).await.status,
        204
    );
}

#[tokio::test]
async fn all_are_removed_at_once_from_its_version_on() {
    let service = host().await;
    service
        .inventories(HOST, json!({"VCPU": {"total": 8}, "VGPU": {"total": 4}}))
        .await;
    assert_eq!(service.at("1.4").delete(&path()).await.status, 405);
    assert_eq!(service.at("1.5").delete(&path()).await.status, 204);
    let reply = service.get(&path()).await;
    assert_eq!(reply.body["inventories"], json!({}));
    assert_eq!(reply.body["resource_provider_generation"], 2);
}

#[tokio::test]
async fn an_absent_provider_is_reported_before_anything_else() {
    let service = host().await;
    let path = format!("/resource_providers/{ABSENT}/inventories");
    for reply in [
        service.get(&path).await,
        service.put(&path, json!({"nonsense": 1})).await,
        service.post(&path, json!({"nonsense": 1})).await,
        service.delete(&path).await,
        service.get(&format!("{path}/VCPU")).await,
        service.put(&format!("{path}/VCPU"), json!({})).await,
        service.delete(&format!("{path}/VCPU")).await,
    ] {
        refused(
            &reply,
            404,
            &format!("No resource provider with uuid {ABSENT} found"),
        );
    }
}
