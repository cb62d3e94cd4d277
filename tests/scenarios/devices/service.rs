//! An accelerator service that is Cyborg's, that is down, or that knows what Placement lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::StatusCode;
use berth_agent_devices::DeviceConditions;
use berth_virt::HostEvent;
use futures_util::StreamExt;

use super::stage::{DeviceStage, INTERVAL, address, card, guest, provider_uuid};

#[tokio::test]
async fn cyborg_which_lacks_the_route_is_asked_once() {
    let cyborg = Router::new().fallback(|| async { StatusCode::NOT_FOUND });
    let mut stage = DeviceStage::with_service(cyborg, vec![card(0)]).await;
    stage.stirred().await;
    stage.show(vec![card(0), card(1)]);
    stage.round().await;
    assert_eq!(stage.take_requests().len(), 1);
    assert!(
        stage.provider(1).await.is_some(),
        "the report reaches Placement nevertheless"
    );
}

#[tokio::test]
async fn a_single_404_ends_neither_reports_nor_cleaning() {
    let not_found_once = Arc::<AtomicBool>::default();
    let mut stage = DeviceStage::behind(Arc::clone(&not_found_once), vec![card(0)]).await;
    stage.show(vec![card(0), card(1)]);
    not_found_once.store(true, Ordering::SeqCst);
    stage.round().await;
    assert!(!not_found_once.load(Ordering::SeqCst), "it got no request");
    assert!(!stage.known().await.contains_key(&address(1).to_string()));
    tokio::time::pause();
    tokio::time::advance(INTERVAL).await;
    tokio::time::resume();
    stage.round().await;
    assert_eq!(stage.binds(1, guest(1)).await.1, "Bound");
}

#[tokio::test]
async fn a_provider_that_placement_lost_triggers_a_pass_that_recreates_it() {
    let mut stage = DeviceStage::with(vec![card(0)]).await;
    let (placement, provider) = (stage.cloud.placement(), provider_uuid(0));
    placement.delete_provider(provider).await.unwrap();
    stage.run_service_checks().await;
    let mut changes = stage.devices.changes();
    stage.devices.request_report();
    stage.devices.send_reports().await.unwrap();
    assert_eq!(changes.next().await, Some(HostEvent::Devices));
    // The cached tree is young and has the provider.
    stage.pass().await;
    assert_eq!(stage.provider(0).await.expect("made again").0, "1 0");
}
