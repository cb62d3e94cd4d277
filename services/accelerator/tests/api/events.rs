//! Tests of the events that a compute API receives.

use berth_store::{Location, SqlOptions, SqlStore};
use serde_json::json;

use super::receiver::{Receiver, SILENT};
use super::service::{HOST, RP, RP_2, Service, bind, card, guest};

#[tokio::test]
async fn all_requests_of_a_guest_are_reported_in_one_post_of_the_right_version() {
    let receiver = Receiver::answering([]);
    let service = receiver.service().await;
    service.profile("three", 3).await;
    let uuids = service.requests("three").await;
    let delivery = receiver.deliver(&service);
    service.bind(&uuids, &guest(1)).await;
    let received = receiver.received(1).await;
    let event = |uuid: &String| {
        json!({
            "name": "accelerator-request-bound",
            "server_uuid": guest(1),
            "tag": uuid,
            "status": "completed",
        })
    };
    let mut expected: Vec<_> = uuids.iter().map(event).collect();
    expected.sort_by_key(ToString::to_string);
    let mut events = received[0]["events"].as_array().unwrap().clone();
    events.sort_by_key(ToString::to_string);
    assert_eq!(events, expected);
    let url = "http://compute.example/v2.1/os-server-external-events".to_owned();
    assert_eq!(receiver.heads(), [(url, "compute 2.82".to_owned())]);
    delivery.end().await;
    assert_eq!(service.outbox().await, []);
}

#[tokio::test]
async fn a_failed_bind_is_reported_as_failed() {
    let receiver = Receiver::answering([]);
    let service = receiver.service().await;
    service.profile("too-many", 17).await;
    let uuids = service.requests("too-many").await;
    let delivery = receiver.deliver(&service);
    assert_eq!(service.bind(&uuids, &guest(1)).await.status, 409);
    let received = receiver.received(1).await;
    let events = received[0]["events"].as_array().unwrap();
    assert_eq!(events.len(), 17);
    assert!(events.iter().all(|event| event["status"] == "failed"));
    delivery.end().await;
}

#[tokio::test]
async fn an_answer_of_207_is_success_and_a_permanent_refusal_is_not_retried() {
    for status in [207, 400] {
        let receiver = Receiver::answering([status]);
        let service = receiver.service().await;
        let (first, second) = (service.requests("dp").await, service.requests("dp").await);
        let delivery = receiver.deliver(&service);
        service.bind(&first, &guest(1)).await;
        receiver.received(1).await;
        service.bind(&second, &guest(2)).await;
        let received = receiver.received(2).await;
        assert_eq!(
            received[1]["events"][0]["tag"], second[0],
            "{status}: the next, not the same again"
        );
        delivery.end().await;
        assert_eq!(service.outbox().await, [], "{status}");
    }
}

#[tokio::test]
async fn events_that_an_absent_receiver_missed_are_sent_when_it_returns() {
    let receiver = Receiver::answering([0, 503, 200]);
    let service = receiver.service().await;
    let uuids = service.requests("dp").await;
    let delivery = receiver.deliver(&service);
    assert_eq!(service.bind(&uuids, &guest(1)).await.status, 202);
    let received = receiver.received(3).await;
    assert_eq!(received[2]["events"][0]["tag"], uuids[0]);
    delivery.end().await;
    assert_eq!(service.outbox().await, []);
}

#[tokio::test]
async fn binds_before_a_crash_are_reported_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::SqliteFile(folder.path().join("accelerator.sqlite"));
    let receiver = Receiver::answering([]);
    let open = async || {
        SqlStore::open(&location, &SqlOptions::default())
            .await
            .unwrap()
    };
    let service = Service::over(open().await, receiver.options()).await;
    service.report(HOST, json!([card(0, RP, 2)])).await;
    service.profile("dp", 1).await;
    let uuids = service.requests("dp").await;
    assert_eq!(service.bind(&uuids, &guest(1)).await.status, 202);
    // No events are sent, because the process has ended.
    service.store.close().await;
    drop(service);
    let service = Service::over(open().await, receiver.options()).await;
    let delivery = receiver.deliver(&service);
    let received = receiver.received(1).await;
    assert_eq!(received[0]["events"][0]["tag"], uuids[0]);
    delivery.end().await;
    service.store.close().await;
}

#[tokio::test]
async fn deleted_requests_are_not_reported() {
    let receiver = Receiver::answering([]);
    let service = receiver.service().await;
    let (deleted, unbound) = (service.requests("dp").await, service.requests("dp").await);
    service.bind(&deleted, &guest(1)).await;
    service.bind(&unbound, &guest(2)).await;
    service
        .delete(&format!("/v2/accelerator_requests?instance={}", guest(1)))
        .await;
    service.patch(super::service::unbind(&unbound)).await;
    assert_eq!(service.outbox().await, []);
}

#[tokio::test]
async fn each_hosts_events_go_to_its_own_receiver_and_a_silent_one_delays_no_other() {
    const OTHER: &str = "compute2";
    let (here, there) = (Receiver::answering([]), Receiver::answering([SILENT]));
    let service = here.service().await;
    service.report(OTHER, json!([card(0, RP_2, 2)])).await;
    let (first, second) = (service.requests("dp").await, service.requests("dp").await);
    let third = service.requests("dp").await;
    let delivery = here.deliver_by_host(&service, [(HOST, &here), (OTHER, &there)]);
    let on_other = service.patch(bind(&first, &guest(1), OTHER, RP_2));
    assert_eq!(on_other.await.status, 202);
    let received = there.received(1).await;
    assert_eq!(received[0]["events"][0]["tag"], first[0]);
    // While it does not answer.
    for (n, arqs) in [(2, &second), (3, &third)] {
        service.bind(arqs, &guest(n)).await;
        let received = here.received(n - 1).await;
        assert_eq!(received[n - 2]["events"][0]["tag"], arqs[0]);
    }
    delivery.end().await;
    let left = service.outbox().await;
    assert_eq!(left, [(first[0].clone(), "completed".to_owned())]);
}

#[tokio::test]
async fn events_of_a_host_without_a_receiver_are_dropped() {
    let here = Receiver::answering([]);
    let service = here.service().await;
    let uuids = service.requests("dp").await;
    let delivery = here.deliver_by_host(&service, []);
    service.bind(&uuids, &guest(1)).await;
    while !service.outbox().await.is_empty() {
        tokio::task::yield_now().await;
    }
    delivery.end().await;
}
