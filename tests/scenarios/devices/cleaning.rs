//! Devices are reset between two guests, the reset is verified, and devices with a failed reset are quarantined; with
//! kills in between.

use std::collections::BTreeSet;

use berth_agent_devices::{ActError, ActionMode, Risk};
use berth_tests::wait::poll_until;
use berth_virt::UnfitReason;
use tokio_util::sync::CancellationToken;

use super::stage::{DeviceStage, address, card, guest};

const RESET_FAILED: &str = "CUSTOM_BERTH_DEVICE_RESET_FAILED";

#[tokio::test]
async fn a_device_is_assigned_to_the_next_guest_only_after_its_reset() {
    let mut stage = DeviceStage::with(vec![card(0)]).await;
    let (first, state) = stage.binds(0, guest(1)).await;
    assert_eq!(state, "Bound");
    stage.take_resets();
    stage.delete(&first).await;
    assert_eq!(stage.binds(0, guest(2)).await.1, "BindFailed");
    stage.stirred().await;
    assert_eq!(stage.take_resets(), [address(0).to_string()]);
    assert_eq!(stage.binds(0, guest(2)).await.1, "Bound");
}

#[tokio::test]
async fn a_device_with_a_failed_reset_is_quarantined_until_it_is_released() {
    let mut stage = DeviceStage::with(vec![card(0)]).await;
    let name = address(0).to_string();
    let (arq, _) = stage.binds(0, guest(1)).await;
    stage.delete(&arq).await;
    let broken = || stage.cards.broken.lock().unwrap();
    broken().insert(name.clone(), UnfitReason::ResetFailed);
    stage.stirred().await;
    let (amounts, traits) = stage.provider(0).await.expect("a provider");
    assert_eq!(amounts, "1 1");
    assert!(traits.contains(RESET_FAILED), "{traits:?}");
    assert_eq!(stage.binds(0, guest(2)).await.1, "BindFailed");

    let still = stage
        .devices
        .release(&name, None, ActionMode::Execute)
        .await;
    assert!(matches!(still, Err(ActError::Reset { .. })), "{still:?}");
    stage.restart().await;
    stage.round().await;
    assert_eq!(stage.provider(0).await.expect("a provider").0, "1 1");

    stage.cards.broken.lock().unwrap().clear();
    stage
        .devices
        .release(&name, None, ActionMode::Execute)
        .await
        .unwrap();
    stage.round().await;
    let (amounts, traits) = stage.provider(0).await.expect("a provider");
    assert_eq!(amounts, "1 0");
    assert!(!traits.contains(RESET_FAILED), "{traits:?}");
    assert_eq!(stage.binds(0, guest(2)).await.1, "Bound");
}

#[tokio::test]
async fn an_accepted_risk_releases_a_device_that_cannot_be_reset() {
    let mut stage = DeviceStage::with(vec![card(0)]).await;
    let name = address(0).to_string();
    let (arq, _) = stage.binds(0, guest(1)).await;
    stage.delete(&arq).await;
    let cause = UnfitReason::ResetFailed;
    stage
        .cards
        .broken
        .lock()
        .unwrap()
        .insert(name.clone(), cause);
    stage.stirred().await;
    let risk = Some(Risk::UncleanDevice);
    stage
        .devices
        .release(&name, risk, ActionMode::Execute)
        .await
        .unwrap();
    stage.round().await;
    assert_eq!(stage.binds(0, guest(2)).await.1, "Bound");
}

#[tokio::test]
async fn a_kill_in_a_reset_leaves_the_device_unclean() {
    let mut stage = DeviceStage::with(vec![card(0)]).await;
    let name = address(0).to_string();
    let (arq, _) = stage.binds(0, guest(1)).await;
    stage.delete(&arq).await;
    stage.take_resets();
    stage.devices.request_report();
    stage.devices.send_reports().await.unwrap();
    *stage.cards.stuck.lock().unwrap() = true;
    let devices = stage.devices.clone();
    let cleaning = tokio::spawn(async move { devices.clean_all_unclean().await });
    stage.wait_for_cleaning().await;
    cleaning.abort();
    assert!(cleaning.await.unwrap_err().is_cancelled());
    stage.restart().await;
    assert!(stage.known().await[&name].unclean);
    assert_eq!(stage.binds(0, guest(2)).await.1, "BindFailed");
    stage.round().await;
    assert_eq!(stage.take_resets(), std::slice::from_ref(&name));
    assert!(!stage.known().await[&name].unclean);
    assert_eq!(stage.binds(0, guest(2)).await.1, "Bound");
}

/// No guest waits for it: an operator requested the reset.
#[tokio::test]
async fn a_device_with_an_interrupted_operator_reset_is_not_assigned_before_another_reset() {
    let mut stage = DeviceStage::with(vec![card(0)]).await;
    let name = address(0).to_string();
    let (arq, _) = stage.binds(0, guest(1)).await;
    stage.delete(&arq).await;
    stage.round().await;
    stage.take_resets();
    *stage.cards.stuck.lock().unwrap() = true;
    let (devices, asked) = (stage.devices.clone(), name.clone());
    let reset = tokio::spawn(async move { devices.reset(&asked, ActionMode::Execute).await });
    stage.wait_for_cleaning().await;
    reset.abort();
    assert!(reset.await.unwrap_err().is_cancelled());
    stage.restart().await;
    let register = stage.journal().devices();
    let cleaning = || async { register.read().await.unwrap().running_resets };
    assert_eq!(
        cleaning().await,
        BTreeSet::from([name.clone()]),
        "no guest can claim it"
    );
    stage.round().await;
    assert_eq!(stage.take_resets(), std::slice::from_ref(&name));
    assert_eq!(cleaning().await, BTreeSet::new());
    assert_eq!(stage.binds(0, guest(2)).await.1, "Bound");
}

#[tokio::test]
async fn a_kill_between_reset_and_report_resets_nothing_twice() {
    let mut stage = DeviceStage::with(vec![card(0)]).await;
    let name = address(0).to_string();
    let (arq, _) = stage.binds(0, guest(1)).await;
    stage.delete(&arq).await;
    stage.take_resets();
    stage.devices.request_report();
    stage.devices.send_reports().await.unwrap();
    stage.devices.clean_all_unclean().await;
    stage.restart().await;
    assert!(stage.known().await[&name].unclean, "it is not reported yet");
    stage.round().await;
    assert_eq!(stage.take_resets(), std::slice::from_ref(&name));
    assert!(!stage.known().await[&name].unclean);
}

#[tokio::test]
async fn a_device_of_a_guest_is_not_reset_for_any_caller() {
    let mut stage = DeviceStage::with(vec![card(0)]).await;
    let name = address(0).to_string();
    let (arq, _) = stage.binds(0, guest(1)).await;
    stage.take_resets();
    stage.stirred().await;
    let bound = stage.devices.reset(&name, ActionMode::Execute).await;
    assert!(matches!(bound, Err(ActError::Bound { .. })), "{bound:?}");
    stage
        .cards
        .guests
        .lock()
        .unwrap()
        .insert(guest(1), address(0));
    stage.delete(&arq).await;
    stage.stirred().await;
    assert_eq!(stage.take_resets(), Vec::<String>::new());
    assert!(stage.known().await[&name].unclean);
    let held = stage.devices.reset(&name, ActionMode::Execute).await;
    assert!(matches!(held, Err(ActError::Held { .. })), "{held:?}");
    assert_eq!(stage.binds(0, guest(2)).await.1, "BindFailed");
}

#[tokio::test]
async fn devices_are_reported_and_cleaned_independently_of_the_passes() {
    let stage = DeviceStage::with(vec![card(0)]).await;
    let (arq, _) = stage.binds(0, guest(1)).await;
    stage.delete(&arq).await;
    let (ends, task_ends) = tokio::sync::watch::channel(0);
    let stop = CancellationToken::new();
    let (devices, stopped) = (stage.devices.clone(), stop.clone());
    let running = tokio::spawn(async move { devices.run_reporter(Some(task_ends), stopped).await });
    // The end of a guest's task triggers the check.
    ends.send_replace(1);
    poll_until("the device is reported as clean", async || {
        let known = stage.known().await;
        match known[&address(0).to_string()].unclean {
            true => Err(known),
            false => Ok(()),
        }
    })
    .await;
    assert_eq!(stage.binds(0, guest(2)).await.1, "Bound");
    stop.cancel();
    running.await.unwrap();
}
