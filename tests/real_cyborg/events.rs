//! The event of a bind arrives before the guest is requested, while it waits, or never.

use std::time::Duration;

use axum::http::StatusCode;
use berth_client::AcceleratorError;
use berth_model::ArqPhase;
use berth_tests::exchange::HttpCall;
use berth_tests::peer::Credentials;
use serde_json::json;

use crate::real_cyborg::agent::Agent;
use crate::real_cyborg::cloud::{Cloud, address, new_guest, provider};
use crate::real_cyborg::nova::EventDelivery;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_before_the_guests_request_is_replaced_by_a_query() {
    let cloud = Cloud::shared();
    let agent = Agent::new(cloud, cloud.accelerators()).await;
    let guest = new_guest();
    agent.deliver_events_of(cloud, guest);
    let arq = cloud.bound("pci", guest, provider(0)).await;
    let received = cloud.nova.received(guest);
    assert_eq!(received.len(), 1, "{received:?}");
    assert_eq!(received[0].events[0]["status"], "completed");
    assert_eq!(received[0].events[0]["tag"], arq.to_string());
    assert_eq!(received[0].microversion, "compute 2.82");
    // The agent does not know the guest yet; Cyborg takes that for no failure.
    assert_eq!(received[0].status, 207);
    assert_eq!(received[0].answer["events"][0]["code"], 422);
    agent.asks_for(guest, &[arq]).await;
    agent.runs(guest).await;
    assert_eq!(agent.devices(guest).await, [address(0)].into());
    agent.deletes(guest).await;
    assert_eq!(cloud.phases(&[arq]).await, [None]);
    cloud.assert_free(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_while_the_guest_waits_ends_the_wait() {
    let cloud = Cloud::shared();
    let agent = Agent::new(cloud, cloud.accelerators()).await;
    let guest = new_guest();
    agent.deliver_events_of(cloud, guest);
    let arqs = cloud.requests("pci").await;
    agent.asks_for(guest, &arqs).await;
    // Its first question is answered: not bound.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(agent.devices(guest).await.is_empty());
    let bound = cloud.bind(&arqs, guest, provider(1)).await;
    bound.expect("Cyborg binds it");
    let received = cloud.nova.received(guest);
    assert_eq!(
        (received.len(), received[0].status),
        (1, 200),
        "{received:?}"
    );
    agent.runs(guest).await;
    assert_eq!(agent.devices(guest).await, [address(1)].into());
    agent.deletes(guest).await;
    assert_eq!(cloud.phases(&arqs).await, [None]);
    cloud.assert_free(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_event_is_not_needed() {
    let cloud = Cloud::shared();
    for mailbox in [
        EventDelivery::Lost,
        EventDelivery::Refused(StatusCode::NOT_FOUND),
    ] {
        let is_refused = matches!(mailbox, EventDelivery::Refused(_));
        let agent = Agent::new(cloud, cloud.accelerators()).await;
        let guest = new_guest();
        cloud.nova.deliver(guest, mailbox);
        let arqs = cloud.requests("pci").await;
        agent.asks_for(guest, &arqs).await;
        let bound = cloud.bind(&arqs, guest, provider(2)).await;
        if is_refused {
            // Cyborg says that it failed; the request is bound all the same.
            assert!(
                matches!(bound, Err(AcceleratorError::Refused(_))),
                "{bound:?}"
            );
        } else {
            bound.expect("Cyborg binds it");
        }
        assert_eq!(cloud.phases(&arqs).await, [Some(ArqPhase::Bound)]);
        assert_eq!(cloud.nova.received(guest).len(), 1);
        agent.runs(guest).await;
        assert_eq!(agent.devices(guest).await, [address(2)].into());
        agent.deletes(guest).await;
        cloud.assert_free(2).await;
    }
}

#[test]
fn an_agent_accepts_events_about_binds_only_with_a_service_token() {
    let cloud = Cloud::shared();
    let event = json!({"events": [{"name": "accelerator-request-bound", "status": "completed",
        "server_uuid": new_guest().to_string(), "tag": new_guest().to_string()}]});
    let status_with = |token: &str| {
        let ask = HttpCall::post(format!("{}/os-server-external-events", cloud.nova.url()))
            .header("x-auth-token", token)
            .header("openstack-api-version", "compute 2.82");
        ask.json(&event).send().expect("an answer").status.as_u16()
    };
    let keystone = cloud.cyborg.keystone();
    let of = |who: Credentials| keystone.token(&who).expect("a token");
    assert_eq!(status_with("none"), 401);
    assert_eq!(status_with(&of(keystone.tenant())), 403);
    assert_eq!(status_with(&of(keystone.berth())), 207);
}
