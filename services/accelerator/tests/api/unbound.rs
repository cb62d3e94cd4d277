//! Tests of idle requests: they are deleted after the grace time without a change, and never during a bind.

use std::time::Duration;

use berth_accelerator::{AcceleratorApiOptions, IdleArqCollector, IdleArqsError, delete_idle_arqs};
use berth_store::{Location, SqlOptions, SqlStore, SqlTimestamp, Statement, Synchronous};
use serde_json::json;

use super::service::{ABSENT, HOST, RP, Service, bind, card, guest, options, unbind};

const GRACE: Duration = Duration::from_secs(3600);

/// One look of a process that has seen nothing before.
async fn delete_unbound(store: &SqlStore, grace: Duration) -> Result<usize, IdleArqsError> {
    IdleArqCollector::default().delete(store, grace).await
}

/// Makes a request older than the grace time.
async fn age(service: &Service, uuids: &[String]) {
    for uuid in uuids {
        for sql in [
            "UPDATE accelerator_requests SET created_at = '2020-01-01 00:00:00.000000' WHERE uuid = ?",
            "UPDATE accelerator_requests SET updated_at = '2020-01-01 00:00:00.000001' \
             WHERE updated_at IS NOT NULL AND uuid = ?",
        ] {
            service.change(Statement::new(sql).bind(uuid)).await;
        }
    }
}

async fn statuses(service: &Service, uuids: &[String]) -> Vec<u16> {
    let mut statuses = Vec::new();
    for uuid in uuids {
        statuses.push(service.request(uuid).await.status.as_u16());
    }
    statuses
}

#[tokio::test]
async fn what_holds_nothing_and_was_not_touched_for_the_grace_time_goes_and_frees_its_profile() {
    let service = Service::with_profile(1).await;
    let made = || async { service.requests("dp").await.remove(0) };
    let [never, unbound, failed, bound, young] = [
        made().await,
        made().await,
        made().await,
        made().await,
        made().await,
    ];
    let one = |uuid: &String| vec![uuid.clone()];
    for (uuid, n) in [(&unbound, 1), (&bound, 2)] {
        assert_eq!(service.bind(&one(uuid), &guest(n)).await.status, 202);
    }
    assert_eq!(service.patch(unbind(&one(&unbound))).await.status, 202);
    let nowhere = service
        .patch(bind(&one(&failed), &guest(3), HOST, ABSENT))
        .await;
    assert_eq!(nowhere.status, 404);
    let all = [never, unbound, failed, bound.clone(), young.clone()];
    age(&service, &all[..4]).await;
    // What was changed a moment ago is young, however long ago it was made.
    let touched = made().await;
    assert_eq!(service.bind(&one(&touched), &guest(4)).await.status, 202);
    assert_eq!(service.patch(unbind(&one(&touched))).await.status, 202);
    let sql =
        "UPDATE accelerator_requests SET created_at = '2020-01-01 00:00:00.000000' WHERE uuid = ?";
    service.change(Statement::new(sql).bind(&touched)).await;

    assert_eq!(delete_unbound(&service.store, GRACE).await.unwrap(), 3);
    assert_eq!(statuses(&service, &all).await, [404, 404, 404, 200, 200]);
    assert_eq!(service.request(&touched).await.status, 200);
    assert_eq!(service.request(&bound).await.body["state"], "Bound");
    let reported = service.outbox().await;
    assert_eq!(
        reported,
        [(bound.clone(), "completed".to_owned())],
        "no event about a deleted request"
    );
    assert_eq!(delete_unbound(&service.store, GRACE).await.unwrap(), 0);

    let path = format!("/v2/accelerator_requests?arqs={bound}");
    assert_eq!(service.delete(&path).await.status, 204);
    age(&service, &[young, touched]).await;
    assert_eq!(delete_unbound(&service.store, GRACE).await.unwrap(), 2);
    assert_eq!(service.delete("/v2/device_profiles/dp").await.status, 204);
}

/// Its host's clock was a year ahead when it was made, or changed, and is right now; or this one is behind.
#[tokio::test]
async fn a_request_from_the_future_is_deleted_after_the_grace_time_from_its_detection() {
    let service = Service::with_profile(1).await;
    let made = || async { service.requests("dp").await.remove(0) };
    let [never, touched, unbound, bound] = [made().await, made().await, made().await, made().await];
    for (uuid, n) in [(&unbound, 1), (&bound, 2)] {
        let uuids = std::slice::from_ref(uuid);
        assert_eq!(service.bind(uuids, &guest(n)).await.status, 202);
    }
    let uuids = std::slice::from_ref(&unbound);
    assert_eq!(service.patch(unbind(uuids)).await.status, 202);
    let later = |days: u64| SqlTimestamp::now().after(Duration::from_hours(days * 24));
    for date in ["created_at", "updated_at"] {
        let sql = format!("UPDATE accelerator_requests SET {date} = ? WHERE {date} IS NOT NULL");
        service.change(Statement::new(sql).bind(later(365))).await;
    }
    let mut requests = IdleArqCollector::default();
    let grace = Duration::from_millis(20);
    assert_eq!(requests.delete(&service.store, grace).await.unwrap(), 0);
    tokio::time::sleep(grace).await;
    let sql = "UPDATE accelerator_requests SET updated_at = ? WHERE uuid = ?";
    let sql = Statement::new(sql).bind(later(366)).bind(&touched);
    service.change(sql).await;
    assert_eq!(requests.delete(&service.store, grace).await.unwrap(), 2);
    let all = [never, unbound, touched, bound.clone()];
    assert_eq!(statuses(&service, &all).await, [404, 404, 200, 200]);
    assert_eq!(service.request(&bound).await.body["state"], "Bound");
    tokio::time::sleep(grace).await;
    assert_eq!(requests.delete(&service.store, grace).await.unwrap(), 1);
}

#[tokio::test]
async fn a_request_that_is_being_bound_or_holds_a_handle_stays_whatever_its_age() {
    let service = Service::with_profile(2).await;
    let uuids = service.requests("dp").await;
    assert_eq!(service.bind(&uuids, &guest(1)).await.status, 202);
    for (uuid, state) in [(&uuids[0], "BindStarted"), (&uuids[1], "BindFailed")] {
        let sql = "UPDATE accelerator_requests SET state = ? WHERE uuid = ?";
        service
            .change(Statement::new(sql).bind(state).bind(uuid))
            .await;
    }
    age(&service, &uuids).await;
    assert_eq!(delete_unbound(&service.store, GRACE).await.unwrap(), 0);
    assert_eq!(service.held().await, 2);
    assert_eq!(statuses(&service, &uuids).await, [200, 200]);
}

#[tokio::test]
async fn a_post_that_was_delivered_twice_leaves_nothing_that_keeps_its_profile() {
    let service = Service::with_profile(2).await;
    let unknown = service.requests("dp").await;
    let known = service.requests("dp").await;
    assert_eq!(service.bind(&known, &guest(1)).await.status, 202);
    let refused = service.delete("/v2/device_profiles/dp").await;
    assert!(
        refused
            .message()
            .contains("in use by 4 accelerator requests")
    );
    age(&service, &[unknown, known.clone()].concat()).await;
    assert_eq!(delete_unbound(&service.store, GRACE).await.unwrap(), 2);
    assert_eq!(service.of_guest(&guest(1)).await.states(), ["Bound"; 2]);
    let path = format!("/v2/accelerator_requests?instance={}", guest(1));
    assert_eq!(service.delete(&path).await.status, 204);
    assert_eq!(service.delete("/v2/device_profiles/dp").await.status, 204);
}

#[tokio::test]
async fn more_than_one_transaction_takes_go_all_the_same() {
    let service = Service::start().await;
    service.profile("dp", 600).await;
    let uuids = service.requests("dp").await;
    age(&service, &uuids).await;
    assert_eq!(delete_unbound(&service.store, GRACE).await.unwrap(), 600);
    assert_eq!(
        service
            .count("SELECT COUNT(*) FROM accelerator_requests")
            .await,
        0
    );
}

#[tokio::test]
async fn a_grace_of_zero_keeps_them_forever() {
    let service = Service::with_profile(1).await;
    age(&service, &service.requests("dp").await).await;
    let store = service.store.clone();
    delete_idle_arqs(store, Duration::ZERO, std::future::pending()).await;
    assert_eq!(
        service
            .count("SELECT COUNT(*) FROM accelerator_requests")
            .await,
        1
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_concurrent_bind_wins_or_gets_an_unknown_request() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::SqliteFile(folder.path().join("accelerator.sqlite"));
    let fast = SqlOptions {
        synchronous: Synchronous::Normal,
        ..SqlOptions::default()
    };
    let store = SqlStore::open(&location, &fast).await.unwrap();
    let service = Service::over(store, options()).await;
    service.report(HOST, json!([card(0, RP, 2)])).await;
    service.profile("dp", 2).await;
    for n in 0..40 {
        let uuids = service.requests("dp").await;
        age(&service, &uuids).await;
        let (binder, binding, store) = (service.clone(), uuids.clone(), service.store.clone());
        let bind = tokio::spawn(async move { binder.bind(&binding, &guest(n)).await });
        let delete = tokio::spawn(async move { delete_unbound(&store, GRACE).await });
        let (bound, deleted) = (bind.await.unwrap(), delete.await.unwrap().unwrap());
        let states = service.of_guest(&guest(n)).await.states();
        let held = service.held().await;
        match bound.status.as_u16() {
            202 => assert_eq!((deleted, held, states), (0, 2, vec!["Bound".to_owned(); 2])),
            404 => {
                assert!(bound.message().contains("ExtArq not found"), "{bound:?}");
                assert_eq!((deleted, held, states), (2, 0, vec![]));
            }
            other => panic!("{other}: {bound:?}"),
        }
        let path = format!("/v2/accelerator_requests?instance={}", guest(n));
        assert_eq!(service.delete(&path).await.status, 204);
    }
    service.store.close().await;
}

#[tokio::test]
async fn a_project_has_a_largest_number_of_requests_without_an_instance() {
    let service = Service::with(AcceleratorApiOptions {
        max_unbound_requests: 3,
        ..options()
    });
    let service = service.await.by("admin");
    service.profile("two", 2).await;
    let body = json!({"device_profile_name": "two"});
    let create = async |token| {
        let service = service.by(token);
        service.post("/v2/accelerator_requests", body.clone()).await
    };
    let first = create("alice").await;
    assert_eq!(first.status, 201);
    let refused = create("alice").await;
    assert_eq!(
        (refused.status.as_u16(), refused.message().as_str()),
        (
            403,
            "Quota exceeded for accelerator_requests: Requested 2, but already used 2 of 3 accelerator_requests without an instance"
        )
    );
    for token in ["bob", "admin", "admin"] {
        assert_eq!(
            create(token).await.status,
            201,
            "{token} has a project of its own, or no limit"
        );
    }
    let path = format!("/v2/accelerator_requests?arqs={}", first.uuids().join(","));
    assert_eq!(service.by("alice").delete(&path).await.status, 204);
    assert_eq!(create("alice").await.status, 201);
    // Requests that an instance has do not count.
    let sql = "UPDATE accelerator_requests SET instance_uuid = ? WHERE project_id = 'p-alice'";
    service.change(Statement::new(sql).bind(guest(1))).await;
    assert_eq!(create("alice").await.status, 201);
}
