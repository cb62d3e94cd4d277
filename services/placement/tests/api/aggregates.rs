//! /resource_providers/{uuid}/aggregates

use serde_json::json;

use crate::service::{GPU_0, HOST, Service, refused};

const A: &str = "aaaaaaaa-0000-0000-0000-000000000001";
const B: &str = "aaaaaaaa-0000-0000-0000-000000000002";

fn path() -> String {
    format!("/resource_providers/{HOST}/aggregates")
}

#[tokio::test]
async fn before_its_version_no_generation_is_sent_or_raised() {
    let service = Service::start().await;
    service.provider(HOST, None).await;
    let old = service.at("1.18");
    let reply = old.put(&path(), json!([A, B])).await;
    assert_eq!(reply.body, json!({"aggregates": [A, B]}));
    assert_eq!(service.generation(HOST).await, 0);
    assert_eq!(old.get(&path()).await.body, json!({"aggregates": [A, B]}));
    assert_eq!(service.at("1.0").get(&path()).await.status, 404);
}

#[tokio::test]
async fn from_its_version_the_generation_counts() {
    let service = Service::start().await;
    service.provider(HOST, None).await;
    let body = json!({"aggregates": [A], "resource_provider_generation": 0});
    let reply = service.put(&path(), body.clone()).await;
    assert_eq!(
        reply.body,
        json!({"aggregates": [A], "resource_provider_generation": 1})
    );
    let stale = service.put(&path(), body).await;
    refused(&stale, 409, "generation already changed");
    assert_eq!(stale.code(), "placement.concurrent_update");
    let twice = json!({"aggregates": [A, A], "resource_provider_generation": 1});
    refused(
        &service.put(&path(), twice).await,
        400,
        "has non-unique elements",
    );
    let none = json!({"aggregates": [], "resource_provider_generation": 1});
    service.put(&path(), none).await;
    assert_eq!(service.get(&path()).await.body["aggregates"], json!([]));
}

#[tokio::test]
async fn providers_are_found_by_membership() {
    let service = Service::start().await;
    service.provider(HOST, None).await;
    service.provider(GPU_0, None).await;
    service.at("1.18").put(&path(), json!([A])).await;
    for (query, expected) in [
        (format!("member_of={A}"), vec![HOST]),
        (format!("member_of={B}"), vec![]),
        (format!("member_of=in:{A},{B}"), vec![HOST]),
        (format!("member_of=!{A}"), vec![GPU_0]),
        (format!("member_of={A}&member_of={B}"), vec![]),
    ] {
        let reply = service.get(&format!("/resource_providers?{query}")).await;
        let found = reply.body["resource_providers"].as_array().unwrap().iter();
        let uuids: Vec<&str> = found.map(|one| one["uuid"].as_str().unwrap()).collect();
        assert_eq!(uuids, expected, "{query}");
    }
    let twice = format!("/resource_providers?member_of={A}&member_of={B}");
    refused(
        &service.at("1.23").get(&twice).await,
        400,
        "Multiple member_of parameters",
    );
    let not = format!("/resource_providers?member_of=!{A}");
    refused(
        &service.at("1.31").get(&not).await,
        400,
        "Forbidden member_of parameters",
    );
}

#[tokio::test]
async fn an_aggregate_in_upper_case_is_the_same_aggregate() {
    let service = Service::start().await;
    service.provider(HOST, None).await;
    let body = json!({"aggregates": [A.to_uppercase(), A], "resource_provider_generation": 0});
    let reply = service.put(&path(), body).await;
    assert_eq!(reply.body["aggregates"], json!([A]));
    let found = format!("/resource_providers?member_of={}", A.to_uppercase());
    let found = service.get(&found).await.body;
    assert_eq!(found["resource_providers"][0]["uuid"], HOST);
}
