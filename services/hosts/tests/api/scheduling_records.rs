//! Records of decisions: a row each, so many at most and none too old.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_hosts::{HostsOptions, RecordBounds};

use super::service::Service;

async fn bounded(count: u32, age: Duration) -> Service {
    let options = HostsOptions {
        records: RecordBounds { count, age },
        ..HostsOptions::default()
    };
    Service::with(options).await
}

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn the_oldest_go_first_when_there_are_too_many() {
    let service = bounded(3, HOUR).await;
    let hosts = &service.hosts;
    for n in 0..5 {
        let record = format!("{{\"n\": {n}}}");
        hosts
            .insert_record(&format!("req-{}", n / 2), &record)
            .await
            .unwrap();
    }
    let listed = hosts.records(10, None).await.unwrap();
    let of: Vec<&str> = listed
        .iter()
        .map(|record| record.request_id.as_str())
        .collect();
    assert_eq!(of, ["req-2", "req-1", "req-1"]);
    assert!(hosts.records_for_request("req-0").await.unwrap().is_empty());
    let twice = hosts.records_for_request("req-1").await.unwrap();
    let texts: Vec<&str> = twice.iter().map(|record| record.record.as_str()).collect();
    assert_eq!(
        texts,
        ["{\"n\": 2}", "{\"n\": 3}"],
        "both decisions, as they were made"
    );
    let page = hosts.records(1, Some(listed[0].id)).await.unwrap();
    assert_eq!(page, listed[1..2]);
}

#[tokio::test]
async fn expired_records_are_hidden_and_deleted_with_the_next_insert() {
    let service = bounded(100, HOUR).await;
    let hosts = &service.hosts;
    hosts.insert_record("old", "{}").await.unwrap();
    service
        .change("UPDATE scheduling_records SET created_at = '2020-01-01 00:00:00.000000'")
        .await;
    assert!(hosts.records_for_request("old").await.unwrap().is_empty());
    assert!(hosts.records(10, None).await.unwrap().is_empty());
    hosts.insert_record("new", "{}").await.unwrap();
    let count = berth_store::Statement::new("SELECT COUNT(*) FROM scheduling_records");
    let rows = service.store.rows(count).await.unwrap();
    assert_eq!(rows[0].int(0).unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_at_once_are_all_kept_as_far_as_the_bound_goes() {
    let service = bounded(20, HOUR).await;
    let mut puts = tokio::task::JoinSet::new();
    for n in 0..40 {
        let hosts = service.hosts.clone();
        puts.spawn(async move {
            hosts
                .insert_record(&format!("req-{n}"), "{}")
                .await
                .unwrap()
        });
    }
    let ids: BTreeSet<i64> = puts.join_all().await.into_iter().collect();
    assert_eq!(ids.len(), 40, "a row for each");
    // A record that was begun before another evicted the oldest, and ended after it, is evicted by the next one.
    let last = service.hosts.insert_record("last", "{}").await.unwrap();
    let kept = service.hosts.records(100, None).await.unwrap();
    assert!((1..=20).contains(&kept.len()), "{} are kept", kept.len());
    assert_eq!(kept[0].id, last);
}

#[tokio::test]
async fn what_is_no_record_is_refused_by_its_field() {
    let service = bounded(3, HOUR).await;
    let long = format!("\"{}\"", "x".repeat(5 << 20));
    for (request, record, field) in [
        ("", "{}", "request_id: it is empty"),
        ("a\nb", "{}", "request_id: it has control"),
        ("r", "{", "record: it is not JSON"),
        ("r", long.as_str(), "record: it has 5242882 bytes"),
    ] {
        let refused = service
            .hosts
            .insert_record(request, record)
            .await
            .unwrap_err();
        assert!(refused.to_string().starts_with(field), "{refused}");
    }
}
