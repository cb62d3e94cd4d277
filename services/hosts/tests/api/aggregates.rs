//! Aggregates and availability zones.

use std::collections::{BTreeMap, BTreeSet};

use berth_hosts::{AVAILABILITY_ZONE, AggregateUpdate, HostAggregate, HostAggregateError, Hosts};
use serde_json::json;
use tokio::task::JoinSet;

use super::service::{Service, guest, node, node_body, node_with};

fn zone(name: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(AVAILABILITY_ZONE.to_owned(), name.to_owned())])
}

fn set(key: &str, value: Option<&str>) -> AggregateUpdate {
    AggregateUpdate {
        name: None,
        metadata: BTreeMap::from([(key.to_owned(), value.map(str::to_owned))]),
    }
}

async fn make(hosts: &Hosts, name: &str, metadata: BTreeMap<String, String>) -> i64 {
    hosts.create_aggregate(name, metadata).await.unwrap().id
}

#[tokio::test]
async fn what_was_remembered_of_a_database_is_not_taken_for_what_it_has_after_it_was_restored() {
    let service = Service::with_hosts(1).await;
    let hosts = &service.hosts;
    let made = async |name: &str| {
        let id = make(hosts, name, BTreeMap::new()).await;
        hosts.add_aggregate_host(id, "host1").await.unwrap();
    };
    let read = async || -> Vec<String> {
        let state = hosts.states(&[node(1)]).await.unwrap().remove(0);
        let named = state.aggregates.iter();
        named.map(|aggregate| aggregate.name.clone()).collect()
    };
    made("before").await;
    assert_eq!(read().await, ["before"]);
    // The backup is of the time when there were none.
    for sql in [
        "DELETE FROM host_aggregate_members",
        "DELETE FROM host_aggregates",
        "UPDATE compute_hosts_schema SET aggregates = 0",
    ] {
        service.change(sql).await;
    }
    made("after").await;
    assert_eq!(read().await, ["after"]);
}

#[tokio::test]
async fn an_aggregate_from_its_making_to_its_end() {
    let service = Service::with_hosts(2).await;
    let hosts = &service.hosts;
    let made = hosts
        .create_aggregate("ssd", BTreeMap::new())
        .await
        .unwrap();
    assert!(made.hosts.is_empty() && made.metadata.is_empty() && made.updated_at.is_none());
    let id = made.id;
    hosts.add_aggregate_host(id, "host1").await.unwrap();
    let with = hosts.add_aggregate_host(id, "host2").await.unwrap();
    assert_eq!(
        with.hosts,
        BTreeSet::from(["host1".to_owned(), "host2".to_owned()])
    );
    hosts
        .update_aggregate(id, set("ssd", Some("true")))
        .await
        .unwrap();
    let update = AggregateUpdate {
        name: Some("fast".to_owned()),
        ..set("ssd", None)
    };
    let changed = hosts.update_aggregate(id, update).await.unwrap();
    assert_eq!(
        (changed.name.as_str(), changed.metadata.len(), changed.uuid),
        ("fast", 0, made.uuid)
    );
    assert!(changed.updated_at.is_some());
    assert_eq!(hosts.aggregate(id).await.unwrap(), changed);
    let refused = hosts.delete_aggregate(id).await.unwrap_err();
    assert!(
        matches!(refused, HostAggregateError::NotEmpty { .. }),
        "{refused}"
    );
    for host in ["host1", "host2"] {
        hosts.remove_aggregate_host(id, host).await.unwrap();
    }
    hosts.delete_aggregate(id).await.unwrap();
    assert!(hosts.aggregates().await.unwrap().is_empty());
    let gone = hosts.aggregate(id).await.unwrap_err();
    assert!(
        matches!(gone, HostAggregateError::NotFound { .. }),
        "{gone}"
    );
}

#[tokio::test]
async fn what_cannot_be_is_refused_and_changes_nothing() {
    let service = Service::with_hosts(2).await;
    let hosts = &service.hosts;
    let one = make(hosts, "one", zone("az1")).await;
    let two = make(hosts, "two", zone("az2")).await;
    hosts.add_aggregate_host(one, "host1").await.unwrap();
    let before = hosts.aggregates().await.unwrap();
    let refusal = |done: Result<HostAggregate, HostAggregateError>| done.unwrap_err().to_string();
    for (message, expected) in [
        (
            refusal(hosts.create_aggregate("one", BTreeMap::new()).await),
            "an aggregate with the name one already exists",
        ),
        (
            refusal(hosts.create_aggregate(" x", BTreeMap::new()).await),
            "name: it has leading or trailing blanks",
        ),
        (
            refusal(hosts.create_aggregate("x", zone("a:b")).await),
            "metadata.availability_zone: it has a colon",
        ),
        (
            refusal(hosts.update_aggregate(two, set("a/b", None)).await),
            "metadata: \"a/b\" is not a valid key",
        ),
        (
            refusal(hosts.add_aggregate_host(two, "nobody").await),
            "compute host nobody not found",
        ),
        (
            refusal(hosts.add_aggregate_host(one, "host1").await),
            "host host1 is already in aggregate one",
        ),
        (
            refusal(hosts.remove_aggregate_host(two, "host1").await),
            "host host1 is not in aggregate two",
        ),
        (
            refusal(hosts.add_aggregate_host(two, "host1").await),
            "host host1 would be in two availability zones, az1 and az2",
        ),
        (
            refusal(hosts.add_aggregate_host(99, "host1").await),
            "aggregate 99 not found",
        ),
    ] {
        assert!(message.starts_with(expected), "{message}");
    }
    let rename = AggregateUpdate {
        name: Some("two".to_owned()),
        ..AggregateUpdate::default()
    };
    let taken = hosts.update_aggregate(one, rename).await.unwrap_err();
    assert!(
        matches!(taken, HostAggregateError::NameTaken { .. }),
        "{taken}"
    );
    assert_eq!(hosts.aggregates().await.unwrap(), before);
}

#[tokio::test]
async fn a_host_with_guests_stays_in_its_zone() {
    let service = Service::with_hosts(2).await;
    let hosts = &service.hosts;
    let az = make(hosts, "az", zone("az1")).await;
    let plain = make(hosts, "plain", BTreeMap::new()).await;
    hosts.add_aggregate_host(az, "host1").await.unwrap();
    let busy = json!({"instances": {(guest(1).to_string()): {}, (guest(2).to_string()): {}}});
    service.report("host1", &[node_with(1, busy.clone())]).await;
    service.report("host2", &[node_with(2, busy)]).await;
    for refused in [
        hosts.remove_aggregate_host(az, "host1").await,
        hosts
            .update_aggregate(az, set(AVAILABILITY_ZONE, None))
            .await,
        hosts
            .update_aggregate(az, set(AVAILABILITY_ZONE, Some("az2")))
            .await,
        hosts.add_aggregate_host(az, "host2").await,
    ] {
        let refused = refused.unwrap_err();
        assert!(
            matches!(refused, HostAggregateError::HasGuests { guests: 2, .. }),
            "{refused}"
        );
    }
    // What does not change its zone may be changed.
    hosts.add_aggregate_host(plain, "host1").await.unwrap();
    hosts.add_aggregate_host(plain, "host2").await.unwrap();
    hosts
        .update_aggregate(az, set("ssd", Some("true")))
        .await
        .unwrap();
    hosts
        .update_aggregate(plain, set(AVAILABILITY_ZONE, Some("az1")))
        .await
        .unwrap_err();
    let zones = hosts.availability_zones().await.unwrap();
    let one = |host: &str| BTreeSet::from([host.to_owned()]);
    let expected = [
        ("az1".to_owned(), one("host1")),
        ("nova".to_owned(), one("host2")),
    ];
    assert_eq!(zones, BTreeMap::from(expected));
    service.report("host1", &[node_body(1)]).await;
    hosts.remove_aggregate_host(az, "host1").await.unwrap();
}

#[tokio::test]
async fn states_have_the_aggregates_of_their_hosts_as_they_are_now() {
    let service = Service::with_hosts(2).await;
    let hosts = &service.hosts;
    let of = async |n| {
        let state = hosts.states(&[node(n)]).await.unwrap().remove(0);
        let all = state.aggregates.iter();
        all.map(|it| (it.name.clone(), it.metadata.clone()))
            .collect::<Vec<_>>()
    };
    assert!(of(1).await.is_empty());
    let id = make(hosts, "ssd", BTreeMap::new()).await;
    hosts.add_aggregate_host(id, "host1").await.unwrap();
    assert_eq!(of(1).await, [("ssd".to_owned(), BTreeMap::new())]);
    hosts
        .update_aggregate(id, set("k", Some("v")))
        .await
        .unwrap();
    let metadata = BTreeMap::from([("k".to_owned(), "v".to_owned())]);
    assert_eq!(of(1).await, [("ssd".to_owned(), metadata)]);
    assert!(of(2).await.is_empty());
    // A host that is removed and returns is in no aggregate.
    hosts.remove("host1").await.unwrap();
    service.report("host1", &[node_body(1)]).await;
    assert!(of(1).await.is_empty());
    hosts.delete_aggregate(id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_zones_at_once_a_host_comes_into_one() {
    let service = Service::with_hosts(1).await;
    let mut adds = JoinSet::new();
    for n in 0..8 {
        let hosts = service.hosts.clone();
        let id = make(&hosts, &format!("a{n}"), zone(&format!("az{n}"))).await;
        adds.spawn(async move { hosts.add_aggregate_host(id, "host1").await.is_ok() });
    }
    let added = adds.join_all().await;
    assert_eq!(added.iter().filter(|added| **added).count(), 1, "{added:?}");
}
