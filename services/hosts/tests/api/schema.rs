//! A database is made, found, or refused.

use berth_hosts::{SCHEMA_VERSION, prepare};

use super::place;
use super::service::Service;

#[tokio::test]
async fn a_database_is_prepared_again_and_keeps_what_it_has() {
    let service = Service::with_hosts(1).await;
    prepare(&service.store).await.unwrap();
    assert_eq!(service.get("/host1/state").await.status, 200);
}

#[tokio::test]
async fn a_later_releases_database_is_refused_with_a_sentence() {
    let service = Service::start().await;
    service
        .change("UPDATE compute_hosts_schema SET version = 7")
        .await;
    let refused = prepare(&service.store).await.unwrap_err().to_string();
    assert!(
        refused.contains("version 7") && refused.contains(&format!("version {SCHEMA_VERSION}")),
        "{refused}"
    );
    service
        .change("UPDATE compute_hosts_schema SET version = 2")
        .await;
}

#[tokio::test]
async fn another_programs_tables_are_left_alone() {
    let (store, _kept) = place::fresh().await;
    let service = Service::over(store, berth_hosts::HostsOptions::default()).await;
    service
        .change("CREATE TABLE something_else (id INTEGER)")
        .await;
    prepare(&service.store).await.unwrap();
    service.change("DROP TABLE something_else").await;
    service.change("DROP TABLE compute_hosts_schema").await;
    let refused = prepare(&service.store).await.unwrap_err().to_string();
    assert!(
        refused.contains("a table compute_hosts that does not belong to"),
        "{refused}"
    );
}
