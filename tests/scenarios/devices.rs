//! Devices from the host to Placement and to the accelerator service: they appear, are bound, become unhealthy, vanish,
//! are quarantined and return, are cleaned between two guests, and are checked and programmed by hooks.

mod checking;
mod cleaning;
mod operators;
mod programming;
mod service;
mod stage;

use berth_agent_devices::DeviceConditions;
use berth_model::ResourceClass;
use berth_tests::claims::{Claim, claim};
use berth_virt::{DeviceType, OfferedDevice, UnfitReason};
use serde_json::{Value, json};

use stage::{DeviceStage, address, card, guest, parted, provider_uuid, sick};

const VANISHED: &str = "CUSTOM_BERTH_DEVICE_VANISHED";

#[tokio::test]
async fn a_device_that_appears_is_cleaned_and_then_bound() {
    let mut stage = DeviceStage::with(vec![card(0)]).await;
    assert_eq!(stage.take_resets(), [address(0).to_string()]);
    let (amounts, traits) = stage.provider(0).await.expect("a provider");
    assert_eq!(amounts, "1 0");
    assert!(traits.contains("OWNER_CYBORG") && traits.contains("CUSTOM_NVIDIA_1EB8"));
    assert_eq!(stage.binds(0, guest(1)).await.1, "Bound");

    stage.show(vec![card(0), card(1)]);
    stage.round().await;
    assert_eq!(stage.take_resets(), [address(1).to_string()]);
    assert_eq!(stage.binds(1, guest(2)).await.1, "Bound");
}

#[tokio::test]
async fn where_nothing_changes_nothing_is_sent() {
    let mut stage = DeviceStage::with(vec![card(0), parted(1)]).await;
    stage.take_requests();
    for _ in 0..10 {
        stage.round().await;
    }
    assert_eq!(stage.take_requests(), Vec::<String>::new());
    stage.stirred().await;
    assert_eq!(
        stage.take_requests(),
        ["PUT /internal/v1/hosts/{host}/devices"]
    );
}

#[tokio::test]
async fn an_unhealthy_device_is_reserved_and_refused_until_it_recovers() {
    let mut stage = DeviceStage::with(vec![card(0)]).await;
    for reason in [
        UnfitReason::Aer,
        UnfitReason::ConfigSpace,
        UnfitReason::Link,
    ] {
        stage.show(vec![sick(card(0), reason)]);
        stage.round().await;
        let (amounts, traits) = stage.provider(0).await.expect("a provider");
        assert_eq!(amounts, "1 1", "{reason}");
        assert!(traits.contains(reason.as_trait().as_str()), "{traits:?}");
        assert_eq!(stage.binds(0, guest(1)).await.1, "BindFailed");

        stage.show(vec![card(0)]);
        stage.round().await;
        let (amounts, traits) = stage.provider(0).await.expect("a provider");
        assert_eq!(amounts, "1 0");
        assert!(!traits.contains(reason.as_trait().as_str()), "{traits:?}");
        let (arq, state) = stage.binds(0, guest(1)).await;
        assert_eq!(state, "Bound");
        stage.delete(&arq).await;
        stage.stirred().await;
    }
}

#[tokio::test]
async fn a_request_for_a_network_card_function_names_its_network() {
    let on = |network: &str| OfferedDevice {
        device_type: DeviceType::Nic,
        physical_network: Some(network.to_owned()),
        ..card(0)
    };
    let mut stage = DeviceStage::with(vec![on("physnet1")]).await;
    let (arq, state) = stage.binds(0, guest(1)).await;
    assert_eq!(state, "Bound");
    let at = |network: &str| {
        json!({
            "domain": "0000", "bus": "80", "device": "00", "function": "0", "physical_network": network,
        })
    };
    let path = format!("/v2/accelerator_requests/{arq}");
    let (_, arq_body) = stage.ask("GET", &path, Value::Null).await;
    assert_eq!(arq_body["attach_handle_info"], at("physnet1"));

    stage.show(vec![on("physnet2")]);
    stage.round().await;
    assert!(!stage.known().await[&address(0).to_string()].vanished);
    let (_, arq_body) = stage.ask("GET", &path, Value::Null).await;
    assert_eq!(arq_body["attach_handle_info"], at("physnet2"));
}

#[tokio::test]
async fn a_device_that_vanishes_while_bound_stays_held_and_blocks_nothing() {
    let mut stage = DeviceStage::with(vec![card(0)]).await;
    let (arq, state) = stage.binds(0, guest(1)).await;
    assert_eq!(state, "Bound");
    let placement = stage.cloud.placement();
    let allocation = Claim::of(guest(1)).and(provider_uuid(0), &ResourceClass::PGPU, 1);
    claim(&placement, vec![allocation]).await;
    stage.show(vec![card(1)]);
    stage.round().await;
    let known = stage.known().await;
    assert!(known[&address(0).to_string()].vanished);
    assert_eq!(stage.state(&arq).await, "Bound");
    let (amounts, traits) = stage.provider(0).await.expect("its provider");
    assert_eq!(amounts, "1 1");
    assert!(traits.contains(VANISHED), "{traits:?}");
    assert_eq!(
        stage.binds(1, guest(2)).await.1,
        "Bound",
        "the other is reported"
    );

    stage.delete(&arq).await;
    stage.stirred().await;
    assert!(!stage.known().await.contains_key(&address(0).to_string()));
    stage.forget_tree();
    stage.round().await;
    let (amounts, traits) = stage.provider(0).await.expect("its provider");
    assert_eq!(amounts, "1 1", "the guest's allocation lives");
    assert!(traits.contains(VANISHED), "{traits:?}");

    placement.delete_allocations(guest(1)).await.unwrap();
    stage.forget_tree();
    stage.round().await;
    assert_eq!(stage.provider(0).await, None, "no consumer holds it");
    assert_eq!(stage.provider(1).await.expect("the other").0, "1 0");

    stage.show(vec![card(0), card(1)]);
    stage.round().await;
    let (amounts, traits) = stage.provider(0).await.expect("it is back");
    assert_eq!(amounts, "1 0");
    assert!(!traits.contains(VANISHED), "{traits:?}");
    assert_eq!(stage.binds(0, guest(1)).await.1, "Bound", "it is back");
}

#[tokio::test]
async fn a_slow_observation_does_not_restore_a_card_that_a_later_one_lacks() {
    let mut stage = DeviceStage::with(vec![card(0), card(1)]).await;
    let (slow, mut brought) = (stage.devices.begin_observation(), stage.view());
    stage.show(vec![card(1)]);
    stage.pass().await;
    stage.devices.overlay(slow, &mut brought);
    stage.devices.send_reports().await.unwrap();
    assert!(!stage.known().await.contains_key(&address(0).to_string()));
}
