//! The statements and rows of a search, by the size of the cloud and the number of matches.

use berth_http::QueryString;
use berth_store::RecordedStatement;

use super::*;
use crate::microversions::RANGE;
use crate::prepare;
use crate::store::tests::Sql;

/// Hosts with 8 VCPUs each, every tenth of them full.
async fn cloud(hosts: &'static str) -> SqlStore {
    let store = SqlStore::in_memory().await.unwrap();
    prepare(&store).await.unwrap();
    store.write(&Sql(hosts)).await.unwrap();
    store
}

macro_rules! hosts {
    ($count:literal) => {
        concat!(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ",
            $count,
            ") INSERT INTO resource_providers (id, uuid, name, generation, root_provider_id)
               SELECT i, printf('00000000-0000-4000-8000-%012d', i), 'host-' || i, 0, i FROM n;
             INSERT INTO inventories (resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit, step_size,
               allocation_ratio) SELECT id, 0, 8, 0, 1, 8, 1, 1.0 FROM resource_providers;
             INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used)
               SELECT id, 'c', 0, 8 FROM resource_providers WHERE id % 10 = 0;"
        )
    };
}

/// The statements until a first result is possible, and the number of trees read.
async fn asked(store: &SqlStore, query: &str, limit: usize) -> (Vec<RecordedStatement>, usize) {
    let query = QueryString::parse(query).unwrap();
    let query = ParsedCandidatesQuery::parse(&query, RANGE.max).unwrap();
    let mut tx = store.read().await.unwrap();
    tx.record();
    let meanings = ResolvedNames::read(&mut tx, &query).await.unwrap();
    let wanted = query.resolve(&meanings).unwrap().unwrap();
    let mut reading = SearchReading::new(&tx, &wanted, meanings, CandidateOrder::Fixed, limit);
    reading.go_on(&mut tx).await.unwrap();
    (tx.recorded(), reading.snapshot.trees().count())
}

/// The number of rows, without the names of classes and traits.
fn rows(asked: &[RecordedStatement]) -> u64 {
    asked.iter().skip(2).map(|asked| asked.rows).sum()
}

#[tokio::test]
async fn what_is_read_for_a_limit_does_not_grow_with_the_cloud() {
    let mut seen = Vec::new();
    for store in [cloud(hosts!("100")).await, cloud(hosts!("2000")).await] {
        let (asked, trees) = asked(&store, "resources=VCPU:1", 20).await;
        seen.push((asked.len(), rows(&asked), trees));
    }
    assert_eq!(seen[0], seen[1]);
    // Names (2), whether anybody shares, the roots, and of these the members, rooms, traits and aggregates.
    assert_eq!(seen[0].0, 8);
    assert_eq!(seen[0].2, 22);
}

#[tokio::test]
async fn providers_without_room_are_not_read() {
    let store = cloud(hosts!("100")).await;
    assert_eq!(asked(&store, "resources=VCPU:1", 1_000).await.1, 90);
    assert_eq!(asked(&store, "resources=VCPU:9", 1_000).await.1, 0);
    // Each host has room for either, and none for both.
    let both = "resources1=VCPU:5&resources2=VCPU:4&group_policy=none";
    assert_eq!(asked(&store, both, 1_000).await.1, 0);
    let (asked, _) = asked(&store, "resources=VCPU:9", 1_000).await;
    assert_eq!(asked.len(), 4, "where nothing fits nothing more is read");
}
