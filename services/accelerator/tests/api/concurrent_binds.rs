//! Concurrent binds: no attach handle is given to two accelerator requests (ARQs), and a bind gets handles for all its
//! ARQs or fails.

use std::collections::BTreeSet;

use berth_store::{Location, SqlOptions, SqlStore, Synchronous};
use serde_json::json;
use tokio::task::JoinSet;

use super::service::{HOST, RP, Service, card, guest, options};

const PROFILE: &str = "dp";

/// Runs `binds` concurrent binds, each for another guest, on a card with `handles` attach handles. Each bind has
/// `arqs_per_bind` accelerator requests, and needs one handle for each of them.
async fn bind_concurrently(handles: usize, binds: usize, arqs_per_bind: usize) {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::SqliteFile(folder.path().join("accelerator.sqlite"));
    let fast = SqlOptions {
        synchronous: Synchronous::Normal,
        ..SqlOptions::default()
    };
    let store = SqlStore::open(&location, &fast).await.unwrap();
    let service = Service::over(store, options()).await;
    service.report(HOST, json!([card(0, RP, handles)])).await;
    service.profile(PROFILE, arqs_per_bind).await;
    let mut running = JoinSet::new();
    for n in 0..binds {
        let uuids = service.requests(PROFILE).await;
        let service = service.clone();
        running.spawn(async move { (n, service.bind(&uuids, &guest(n)).await) });
    }
    let mut bound = 0;
    let mut held = BTreeSet::new();
    for (n, reply) in running.join_all().await {
        let requests = service.of_guest(&guest(n)).await;
        let state = match reply.status.as_u16() {
            202 => "Bound",
            409 => "BindFailed",
            other => panic!("{other}: {reply:?}"),
        };
        assert_eq!(
            requests.states(),
            vec![state; arqs_per_bind],
            "a bind succeeds or fails for all its requests"
        );
        if state == "Bound" {
            bound += 1;
            for arq in requests.body["arqs"].as_array().unwrap() {
                let handle = (
                    arq["attach_handle_uuid"].to_string(),
                    arq["attach_handle_info"].to_string(),
                );
                assert!(
                    held.insert(handle),
                    "another request has this handle, too: {arq}"
                );
            }
        }
    }
    assert_eq!(
        bound,
        binds.min(handles / arqs_per_bind),
        "a bind fails only if fewer than {arqs_per_bind} handles are free"
    );
    assert_eq!(held.len(), bound * arqs_per_bind);
    service.store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_concurrent_binds_get_sixteen_different_handles() {
    bind_concurrently(16, 16, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_sixty_four_concurrent_binds_sixteen_succeed_and_the_others_fail() {
    bind_concurrently(16, 64, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_binds_of_three_requests_get_three_handles_or_none() {
    bind_concurrently(16, 24, 3).await;
}
