//! An accelerator service that is another's, that is away, or that knows what Placement lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::StatusCode;
use berth_agent_devices::DeviceConditions;
use berth_virt::HostEvent;
use futures_util::StreamExt;

use super::stage::{INTERVAL, Stage, address, card, guest, provider_uuid};

#[tokio::test]
async fn beside_cyborg_which_has_no_such_route_it_is_asked_once() {
    let cyborg = Router::new().fallback(|| async { StatusCode::NOT_FOUND });
    let mut stage = Stage::beside(cyborg, vec![card(0)]).await;
    stage.stirred().await;
    stage.show(vec![card(0), card(1)]);
    stage.round().await;
    assert_eq!(stage.take_requests().len(), 1);
    assert!(
        stage.provider(1).await.is_some(),
        "Placement is told all the same"
    );
}

#[tokio::test]
async fn one_404_on_the_way_to_the_service_ends_neither_telling_nor_cleaning() {
    let stray = Arc::<AtomicBool>::default();
    let mut stage = Stage::behind(Arc::clone(&stray), vec![card(0)]).await;
    stage.show(vec![card(0), card(1)]);
    stray.store(true, Ordering::SeqCst);
    stage.round().await;
    assert!(!stray.load(Ordering::SeqCst), "it was told nothing");
    assert!(!stage.known().await.contains_key(&address(1).to_string()));
    tokio::time::pause();
    tokio::time::advance(INTERVAL).await;
    tokio::time::resume();
    stage.round().await;
    assert_eq!(stage.binds(1, guest(1)).await.1, "Bound");
}

#[tokio::test]
async fn a_provider_that_placement_lost_makes_a_pass_that_makes_it_again() {
    let mut stage = Stage::with(vec![card(0)]).await;
    let (placement, provider) = (stage.cloud.placement(), provider_uuid(0));
    placement.delete_provider(provider).await.unwrap();
    stage.service_looks().await;
    let mut changes = stage.devices.changes();
    stage.devices.stir();
    stage.devices.tell().await.unwrap();
    assert_eq!(changes.next().await, Some(HostEvent::Devices));
    // The cached tree is young and has the provider.
    stage.pass().await;
    assert_eq!(stage.provider(0).await.expect("made again").0, "1 0");
}
