//! Many at once: each handle is one request's, and each bind has all of its own or none.

use std::collections::BTreeSet;

use berth_store::{Location, SqlOptions, SqlStore, Synchronous};
use serde_json::json;
use tokio::task::JoinSet;

use super::service::{HOST, RP, Service, card, guest, options};

async fn crowd(handles: usize, binders: usize, each: usize) {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::SqliteFile(folder.path().join("accelerator.sqlite"));
    let fast = SqlOptions {
        synchronous: Synchronous::Normal,
        ..SqlOptions::default()
    };
    let store = SqlStore::open(&location, &fast).await.unwrap();
    let service = Service::over(store, options()).await;
    service.report(HOST, json!([card(0, RP, handles)])).await;
    service.profile("dp", each).await;
    let mut binds = JoinSet::new();
    for n in 0..binders {
        let uuids = service.requests("dp").await;
        let service = service.clone();
        binds.spawn(async move { (n, service.bind(&uuids, &guest(n)).await) });
    }
    let mut done = 0;
    let mut held = BTreeSet::new();
    for (n, reply) in binds.join_all().await {
        let requests = service.of_guest(&guest(n)).await;
        let state = match reply.status.as_u16() {
            202 => "Bound",
            409 => "BindFailed",
            other => panic!("{other}: {reply:?}"),
        };
        assert_eq!(requests.states(), vec![state; each], "all or none");
        if state == "Bound" {
            done += 1;
            for arq in requests.body["arqs"].as_array().unwrap() {
                let place = (
                    arq["attach_handle_uuid"].to_string(),
                    arq["attach_handle_info"].to_string(),
                );
                assert!(held.insert(place), "a handle of two: {arq}");
            }
        }
    }
    assert_eq!(
        done,
        binders.min(handles / each),
        "no handle is free while a request lacks one"
    );
    assert_eq!(held.len(), done * each);
    service.store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_at_once_get_sixteen_different_handles() {
    crowd(16, 16, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_sixty_four_at_once_sixteen_get_one_and_the_others_none() {
    crowd(16, 64, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn binds_of_three_at_once_are_whole_or_failed() {
    crowd(16, 24, 3).await;
}
