//! Tests of the schema: created, accepted, upgraded, refused.

use berth_compute::{SCHEMA_VERSION, prepare};
use berth_store::Dialect;
use serde_json::json;

use super::service::Service;

#[tokio::test]
async fn a_database_is_prepared_again_and_keeps_what_it_has() {
    let service = Service::start().await;
    assert_eq!(service.flavor("a", json!({})).await.status, 200);
    prepare(&service.store).await.unwrap();
    assert_eq!(service.get("admin", "2.1", "/flavors/a").await.status, 200);
}

#[tokio::test]
async fn a_database_of_a_former_schema_gets_what_it_lacks_and_keeps_what_it_has() {
    let service = Service::start().await;
    assert_eq!(service.flavor("a", json!({})).await.status, 200);
    let drop_index = match service.store.dialect() {
        Dialect::Sqlite | Dialect::Postgres => "DROP INDEX compute_servers_created",
        Dialect::MySql => "DROP INDEX compute_servers_created ON compute_servers",
    };
    for sql in [
        drop_index,
        "ALTER TABLE compute_servers DROP COLUMN owner",
        "ALTER TABLE compute_servers DROP COLUMN resources",
        "DROP TABLE compute_quotas",
        "DROP TABLE compute_quota_locks",
        "DROP TABLE compute_console_tokens",
        "UPDATE compute_api_schema SET version = 1",
    ] {
        service.change(sql).await;
    }
    for _ in 0..2 {
        prepare(&service.store).await.unwrap();
    }
    // These statements fail unless the column and the index exist.
    service
        .change("UPDATE compute_servers SET owner = NULL, resources = NULL")
        .await;
    for table in [
        "DELETE FROM compute_quotas",
        "DELETE FROM compute_quota_locks",
        "DELETE FROM compute_console_tokens",
    ] {
        service.change(table).await;
    }
    service.change(drop_index).await;
    assert_eq!(service.get("admin", "2.1", "/flavors/a").await.status, 200);
}

#[tokio::test]
async fn a_later_releases_database_is_refused_with_a_sentence() {
    let service = Service::start().await;
    service
        .change("UPDATE compute_api_schema SET version = 7")
        .await;
    let refused = prepare(&service.store).await.unwrap_err().to_string();
    assert!(
        refused.contains("version 7") && refused.contains(&format!("version {SCHEMA_VERSION}")),
        "{refused}"
    );
}

#[tokio::test]
async fn another_programs_tables_are_left_alone() {
    let service = Service::start().await;
    service
        .change("CREATE TABLE something_else (id INTEGER)")
        .await;
    prepare(&service.store).await.unwrap();
    service.change("DROP TABLE compute_api_schema").await;
    let refused = prepare(&service.store).await.unwrap_err().to_string();
    assert!(
        refused.contains("a table compute_flavors that does not belong to"),
        "{refused}"
    );
}

#[tokio::test]
async fn the_servers_of_a_schema_without_quotas_are_counted_by_their_flavors() {
    let service = Service::start().await;
    service.flavor("f", json!({"vcpus": 3})).await;
    service.server(json!({})).await;
    for sql in [
        "ALTER TABLE compute_servers DROP COLUMN resources",
        "DROP TABLE compute_quotas",
        "DROP TABLE compute_quota_locks",
        "DROP TABLE compute_console_tokens",
        "UPDATE compute_api_schema SET version = 2",
    ] {
        service.change(sql).await;
    }
    prepare(&service.store).await.unwrap();
    let path = "/os-quota-sets/project-of-alice";
    let body = Some(json!({"quota_set": {"class:VCPU": 5}}));
    let set = service.ask("admin", "2.82", "PUT", path, body).await;
    assert_eq!(set.status, 200, "{set:?}");
    let refused = service.ask_for("alice", "2.82", json!({})).await;
    assert_eq!(
        refused.message("forbidden"),
        "Quota exceeded for class:VCPU: Requested 3, but already used 3 of 5 class:VCPU"
    );
}
