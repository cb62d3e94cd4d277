//! Tests of the aggregate mirror: host aggregates in Placement.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use uuid::Uuid;

use super::cloud::HOST;
use super::service::{Reply, Service};

const ELSEWHERE: Uuid = Uuid::from_u128(0xe15e);

async fn act(service: &Service, aggregate: &Value, action: &str) -> Reply {
    let path = format!("/os-aggregates/{aggregate}/action");
    let body = json!({action: {"host": HOST}});
    service
        .ask("admin", "2.82", "POST", &path, Some(body))
        .await
}

/// Creates an aggregate without hosts. Returns its number and its UUID.
async fn made(service: &Service) -> (Value, Uuid) {
    let body = json!({"aggregate": {"name": "left", "availability_zone": "az1"}});
    let made = service.ask("admin", "2.82", "POST", "/os-aggregates", Some(body));
    let aggregate = &made.await.body["aggregate"];
    let uuid = aggregate["uuid"].as_str().unwrap().parse().unwrap();
    (aggregate["id"].clone(), uuid)
}

async fn delete(service: &Service, aggregate: &Value) -> Reply {
    let path = format!("/os-aggregates/{aggregate}");
    service.ask("admin", "2.82", "DELETE", &path, None).await
}

#[tokio::test]
async fn a_hosts_provider_is_in_its_aggregates_and_those_of_others_stay() {
    let service = Service::start().await;
    let placement = &service.cloud.placement;
    placement.join(ELSEWHERE);
    placement.conflicts(2);
    let (id, uuid) = made(&service).await;
    assert_eq!(act(&service, &id, "add_host").await.status, 200);
    assert_eq!(placement.aggregates(), BTreeSet::from([ELSEWHERE, uuid]));
    assert_eq!(service.compute.mirror_aggregates().await.unwrap(), 0);
    assert_eq!(act(&service, &id, "remove_host").await.status, 200);
    assert_eq!(placement.aggregates(), BTreeSet::from([ELSEWHERE]));
    assert_eq!(delete(&service, &id).await.status, 200);
}

#[tokio::test]
async fn changes_that_placement_missed_are_repaired_later() {
    let service = Service::start().await;
    let placement = &service.cloud.placement;
    let (id, uuid) = made(&service).await;
    placement.set_unreachable(true);
    assert_eq!(act(&service, &id, "add_host").await.status, 200);
    assert!(service.compute.mirror_aggregates().await.is_err());
    placement.set_unreachable(false);
    assert_eq!(service.compute.mirror_aggregates().await.unwrap(), 1);
    assert_eq!(placement.aggregates(), BTreeSet::from([uuid]));
}

#[tokio::test]
async fn an_aggregate_is_deleted_once_placement_no_longer_has_it() {
    let service = Service::start().await;
    let placement = &service.cloud.placement;
    let (id, uuid) = made(&service).await;
    act(&service, &id, "add_host").await;
    assert_eq!(delete(&service, &id).await.status, 400);
    placement.set_unreachable(true);
    assert_eq!(act(&service, &id, "remove_host").await.status, 200);
    let refused = delete(&service, &id).await;
    assert_eq!(refused.status, 503);
    let text = refused.message("serviceUnavailable");
    assert!(text.contains("Placement cannot be updated"), "{text}");
    assert_eq!(placement.aggregates(), BTreeSet::from([uuid]));
    placement.set_unreachable(false);
    assert_eq!(delete(&service, &id).await.status, 200);
    assert_eq!(placement.aggregates(), BTreeSet::new());
}
