//! Tests of the ownership of servers by conductor journals, and of guests without server rows.

use std::future::ready;
use std::path::Path;
use std::sync::Arc;

use berth_conductor::BootRequest;
use berth_conductor::journal::{BootGoal, BootJournal as _, SqlBootJournal};
use berth_store::{Location, SqlOptions, SqlStore};
use serde_json::{Value, json};
use uuid::Uuid;

use super::service::{Service, change};

async fn service() -> Service {
    let service = Service::start().await;
    service.flavor("f", json!({})).await;
    service
}

/// A second process with the journal in this folder, modified by `sql`, for its conductor.
async fn second_process_with_journal(service: &Service, folder: &Path, sql: &str) -> Service {
    let file = Location::SqliteFile(folder.join("conductor.db"));
    let rows = SqlStore::open(&file, &SqlOptions::default()).await.unwrap();
    let owner = service.cloud.journal.owner();
    let sql = format!("{sql}; UPDATE owner SET uuid = '{owner}'");
    change(&rows, sql.leak()).await;
    drop(rows);
    let journal = SqlBootJournal::open(folder).await.unwrap();
    service.second_process_with(journal).await
}

#[tokio::test]
async fn servers_outlive_a_journal_that_was_lost_and_are_shown_as_they_were() {
    let service = service().await;
    let uuid = service.running(json!({})).await;
    let building = service.server(json!({})).await;
    service.settle().await;
    assert_eq!(
        service.shown("alice", "2.82", uuid).await["status"],
        "ACTIVE"
    );
    // A conductor with an empty journal: that of another controller, or a new one.
    let other = service.second_process().await;
    other.settle().await;
    for (server, status) in [(uuid, "ACTIVE"), (building, "BUILD")] {
        let shown = other.shown("alice", "2.82", server).await;
        assert_eq!(shown["status"], status);
    }
    let listed = other.get("alice", "2.82", "/servers").await;
    assert_eq!(listed.body["servers"].as_array().unwrap().len(), 2);
    other.settle().await;
    // It accepts the deletion, which the owner of the server carries out.
    let path = format!("/servers/{uuid}");
    let deleted = other.ask("alice", "2.82", "DELETE", &path, None).await;
    assert_eq!(deleted.status, 204);
    other.settle().await;
    service.compute.server(uuid).await.unwrap();
    service.settle().await;
    let record = service.cloud.journal.guest(uuid.into()).await.unwrap();
    assert_eq!(record.unwrap().goal, BootGoal::Delete);
    service
        .cloud
        .journal
        .delete_guest(uuid.into())
        .await
        .unwrap();
    service.settle().await;
    assert_eq!(service.get("alice", "2.82", &path).await.status, 404);
}

/// An unreadable record affects only its own server.
#[tokio::test]
async fn a_server_whose_guest_cannot_be_read_is_shown_as_it_was_and_keeps_no_other_from_being_shown()
 {
    let service = service().await;
    // The server became active, and its agent was not queried since.
    let running = service.running(json!({})).await;
    let failed = service.server(json!({})).await;
    service.settle().await;
    let folder = tempfile::tempdir().unwrap();
    let journal = SqlBootJournal::open(folder.path()).await.unwrap();
    for guest in [running, failed] {
        let record = service.cloud.journal.guest(guest.into()).await.unwrap();
        journal.accept(&record.unwrap().request).await.unwrap();
    }
    let reason = "No valid host was found.".to_owned();
    let goal = BootGoal::Failed {
        reason,
        user_message: None,
    };
    journal.set_goal(failed.into(), &goal).await.unwrap();
    drop(journal);
    let sideways = r#"UPDATE guest SET course = '"sideways"' WHERE course = '"boot"'"#;
    let next = second_process_with_journal(&service, folder.path(), sideways).await;
    let listed = next.get("alice", "2.82", "/servers/detail").await;
    assert_eq!(listed.status, 200, "{listed:?}");
    for (server, status) in [(running, "ACTIVE"), (failed, "ERROR")] {
        let servers = listed.body["servers"].as_array().unwrap();
        let mut found = servers.iter().filter(|it| it["id"] == server.to_string());
        assert_eq!(found.next().unwrap()["status"], status);
        let shown = next.shown("alice", "2.82", server).await;
        assert_eq!(shown["status"], status);
    }
    // The only possible action is the deletion, which replaces the unreadable record.
    next.settle().await;
    let path = format!("/servers/{running}");
    let stop = Some(json!({"os-stop": null}));
    let action = format!("{path}/action");
    let stopped = next.ask("alice", "2.82", "POST", &action, stop).await;
    assert_eq!(stopped.status, 503, "{stopped:?}");
    let shown = next.shown("alice", "2.82", running).await;
    assert_eq!(shown["OS-EXT-STS:task_state"], Value::Null);
    let deleted = next.ask("alice", "2.82", "DELETE", &path, None).await;
    assert_eq!(deleted.status, 204);
    next.settle().await;
    assert_eq!(next.get("alice", "2.82", &path).await.status, 404);
    let record = next.cloud.journal.guest(running.into()).await.unwrap();
    assert_eq!(record, None);
}

#[tokio::test]
async fn guests_whose_servers_the_database_lost_are_known_as_that() {
    let service = service().await;
    let running = service.running(json!({})).await;
    let failed = service.server(json!({})).await;
    service.settle().await;
    // A guest of `berth guest create`, which the API does not know.
    let mut others = service.cloud.journal.guests().await.unwrap();
    let mut body = others.readable.remove(0).request.body().clone();
    (body.uuid, body.name) = (None, "web".to_owned());
    let other = BootRequest::new(body, Uuid::from_u128(7)).unwrap();
    service.cloud.journal.accept(&other).await.unwrap();
    assert_eq!(
        service.compute.lost_servers().await.unwrap(),
        Vec::<Uuid>::new()
    );
    // The next start finds an empty database, or an older one.
    service.change("DELETE FROM compute_servers").await;
    let (parts, how) = service.cloud.parts(service.store.clone());
    let next = berth_compute::Compute::new(parts, how);
    let mut both = [running, failed];
    both.sort();
    assert_eq!(next.lost_servers().await.unwrap(), both);
    next.run_reconciler(ready(())).await;
    // Nothing is done to them. A guest that is being deleted does not count.
    let journal = &service.cloud.journal;
    let record = journal.guest(running.into()).await.unwrap();
    assert_eq!(record.unwrap().goal, BootGoal::Active);
    journal
        .set_goal(running.into(), &BootGoal::Delete)
        .await
        .unwrap();
    assert_eq!(next.lost_servers().await.unwrap(), [failed]);
}

#[tokio::test]
async fn a_server_of_an_earlier_release_belongs_to_the_conductor_whose_journal_knows_the_guest() {
    let service = service().await;
    let uuid = service.running(json!({})).await;
    service.settle().await;
    service.shown("alice", "2.82", uuid).await;
    for sql in [
        "ALTER TABLE compute_servers DROP COLUMN owner",
        "ALTER TABLE compute_server_actions DROP COLUMN image",
        "UPDATE compute_api_schema SET version = 1",
    ] {
        service.change(sql).await;
    }
    let other = service.second_process().await;
    other.compute.run_reconciler(ready(())).await;
    assert_eq!(other.shown("alice", "2.82", uuid).await["status"], "ACTIVE");
    let path = format!("/servers/{uuid}");
    // The next start finds the guest, and notices when it is gone.
    let (parts, how) = service.cloud.parts(service.store.clone());
    let next = berth_compute::Compute::new(parts, how);
    next.run_reconciler(ready(())).await;
    service
        .cloud
        .journal
        .delete_guest(uuid.into())
        .await
        .unwrap();
    let shown = service.get("alice", "2.82", &path).await;
    assert_eq!(shown.status, 404);
}

/// A guest with an unreadable UUID could be any of the missing ones.
#[tokio::test]
async fn no_server_is_forgotten_while_the_journal_has_a_guest_without_a_name() {
    let service = service().await;
    let running = service.running(json!({})).await;
    let other = service.running(json!({})).await;
    service.settle().await;
    let folder = tempfile::tempdir().unwrap();
    let journal = SqlBootJournal::open(folder.path()).await.unwrap();
    for guest in [running, other] {
        let record = service.cloud.journal.guest(guest.into()).await.unwrap();
        journal.accept(&record.unwrap().request).await.unwrap();
        journal
            .set_goal(guest.into(), &BootGoal::Active)
            .await
            .unwrap();
    }
    drop(journal);
    let unidentified_guest =
        format!("UPDATE guest SET uuid = 'g' || uuid WHERE uuid = '{running}'");
    let next = second_process_with_journal(&service, folder.path(), &unidentified_guest).await;
    next.settle().await;
    for server in [running, other] {
        let shown = next.shown("alice", "2.82", server).await;
        assert_eq!(shown["status"], "ACTIVE");
    }
    let path = format!("/servers/{other}");
    let deleted = next.ask("alice", "2.82", "DELETE", &path, None).await;
    assert_eq!(deleted.status, 204);
    next.settle().await;
    assert_eq!(next.get("alice", "2.82", &path).await.status, 404);
    let path = format!("/servers/{running}");
    assert_eq!(next.get("alice", "2.82", &path).await.status, 200);
}

/// The new database counts from 1, but lost servers' guests still have names with those numbers.
#[tokio::test]
async fn a_new_server_has_no_name_that_a_guest_has_whose_server_was_lost() {
    let service = service().await;
    let known = service.server(json!({})).await;
    service.settle().await;
    let record = service.cloud.journal.guest(known.into()).await.unwrap();
    let mut body = record.unwrap().request.body().clone();
    (body.uuid, body.name) = (None, "instance-000000fe".to_owned());
    let lost = BootRequest::new(body, Uuid::from_u128(7)).unwrap();
    service.cloud.journal.accept(&lost).await.unwrap();
    service.compute.lost_servers().await.unwrap();
    let named = async |server: Uuid| {
        let shown = service.shown("admin", "2.82", server).await;
        shown["OS-EXT-SRV-ATTR:instance_name"].clone()
    };
    for name in ["instance-000000ff", "instance-00000100"] {
        assert_eq!(named(service.server(json!({})).await).await, name);
    }
    assert_eq!(named(known).await, "instance-00000001");
}

#[tokio::test]
async fn user_data_is_nowhere_in_the_database_once_the_conductor_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqlOptions {
        overwrite_deleted: true,
        ..SqlOptions::default()
    };
    let file = Location::SqliteFile(folder.path().join("compute.sqlite"));
    let store = SqlStore::open(&file, &options).await.unwrap();
    let service = Service::over(store, Arc::new(()), None).await;
    service.flavor("f", json!({})).await;
    // "the password is hunter2" in base64 and in plain text.
    let brought = "dGhlIHBhc3N3b3JkIGlzIGh1bnRlcjI=";
    service.server(json!({"user_data": brought})).await;
    service.settle().await;
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(
            !text.contains(brought) && !text.contains("hunter2"),
            "{path:?}"
        );
    }
}
