//! Devices that the health hook reports as unhealthy, and as healthy again.

use std::path::Path;
use std::time::Duration;

use berth_agent_devices::HealthCheck;
use berth_tests::host::consumer;
use berth_tests::wait::poll_until;
use serde_json::json;

use super::stage::{DeviceStage, address, card, guest, hook};

const VENDOR: &str = "CUSTOM_BERTH_DEVICE_VENDOR";

/// A check by a program that does this.
fn check(folder: &Path, script: &str) -> HealthCheck {
    HealthCheck {
        hook: hook(folder, script),
        interval: Duration::from_millis(5),
    }
}

/// A program that says of a device what the file of its address says.
fn by_file(folder: &Path) -> HealthCheck {
    let folder_name = folder.display();
    let script = format!(
        "echo \"$BERTH_DEVICE_GUESTS\" > {folder_name}/guests\n\
         if [ -e {folder_name}/$BERTH_DEVICE_ADDRESS ]; then cat {folder_name}/$BERTH_DEVICE_ADDRESS >&2; exit 1; fi"
    );
    check(folder, &script)
}

/// Passes over the node until the n-th device's provider has these amounts, and its trait or not.
async fn until(stage: &mut DeviceStage, n: u8, amounts: &str, sick: bool) {
    let what = format!("provider {n} has {amounts}; its trait: {sick}");
    poll_until(&what, async || {
        stage.pass().await;
        let seen = stage.provider(n).await.expect("a provider");
        match seen.0 == amounts && seen.1.contains(VENDOR) == sick {
            true => Ok(()),
            false => Err(seen),
        }
    })
    .await;
}

async fn shown(stage: &DeviceStage, n: u8) -> (serde_json::Value, serde_json::Value) {
    let (_, shown) = stage
        .admin("GET", &format!("/v1/devices/{}", address(n)), json!(null))
        .await;
    let device = &shown["devices"][0];
    (device["state"].clone(), device["reason"].clone())
}

#[tokio::test]
async fn a_device_that_the_health_hook_rejects_is_not_assigned_until_it_is_healthy() {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = DeviceStage::with(vec![card(0), card(1)]).await;
    let _ = stage
        .devices
        .clone()
        .with_health_check(by_file(folder.path()));
    let (stop, task) = stage.keep();
    let verdict = folder.path().join(address(0).to_string());
    std::fs::write(&verdict, "XID 79: fell off the bus\nand more\n").unwrap();
    until(&mut stage, 0, "1 1", true).await;
    until(&mut stage, 1, "1 0", false).await;
    let why = "its vendor's check reports a problem: XID 79: fell off the bus";
    assert_eq!(shown(&stage, 0).await, (json!("unfit"), json!(why)));
    stage.wait_until_binds(0, guest(1), "BindFailed").await;
    assert_eq!(stage.binds(1, guest(2)).await.1, "Bound");

    std::fs::remove_file(&verdict).unwrap();
    until(&mut stage, 0, "1 0", false).await;
    stage.wait_until_binds(0, guest(1), "Bound").await;
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn a_check_result_survives_a_restart_until_it_changes_or_the_hook_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = DeviceStage::with(vec![card(0)]).await;
    let checked = by_file(folder.path());
    let _ = stage.devices.clone().with_health_check(checked.clone());
    std::fs::write(folder.path().join(address(0).to_string()), "hot").unwrap();
    let (stop, task) = stage.keep();
    until(&mut stage, 0, "1 1", true).await;
    stop.cancel();
    task.await.unwrap();

    stage.restart().await;
    stage.forget_tree();
    stage.pass().await;
    assert_eq!(stage.provider(0).await.expect("a provider").0, "1 1");
    // No request asks for it now.
    let (stop, task) = stage.keep();
    until(&mut stage, 0, "1 0", false).await;
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn a_hanging_check_blocks_nothing_and_counts_as_unhealthy() {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = DeviceStage::with(vec![card(0), card(1)]).await;
    let script = format!(
        "[ $BERTH_DEVICE_ADDRESS = {} ] || exit 0; sleep 1000",
        address(0)
    );
    let mut hanging = check(folder.path(), &script);
    hanging.hook.deadline = Duration::from_secs(2);
    let _ = stage.devices.clone().with_health_check(hanging);
    let (stop, task) = stage.keep();
    // Passes and reports go on meanwhile.
    stage.show(vec![card(0), card(1), card(2)]);
    stage.pass().await;
    stage.wait_until_binds(2, guest(3), "Bound").await;
    until(&mut stage, 0, "1 1", true).await;
    until(&mut stage, 1, "1 0", false).await;
    let (_, reason) = shown(&stage, 0).await;
    assert!(
        reason.as_str().unwrap().contains("timed out after 2s"),
        "{reason}"
    );
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn a_check_gets_the_guest_of_the_device_and_the_guest_keeps_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = DeviceStage::with(vec![card(0)]).await;
    assert_eq!(stage.binds(0, consumer(1)).await.1, "Bound");
    stage.show_guest(1, address(0));
    stage.pass().await;
    let _ = stage
        .devices
        .clone()
        .with_health_check(by_file(folder.path()));
    std::fs::write(folder.path().join(address(0).to_string()), "hot").unwrap();
    let (stop, task) = stage.keep();
    until(&mut stage, 0, "1 1", true).await;
    // Each check empties the file before it writes: between the two nothing is in it.
    let reported = poll_until("the check gets the guest", async || {
        let reported = std::fs::read_to_string(folder.path().join("guests")).unwrap();
        match reported.trim().is_empty() {
            true => Err(reported),
            false => Ok(reported),
        }
    })
    .await;
    assert_eq!(reported.trim(), consumer(1).to_string());
    assert_eq!(shown(&stage, 0).await.0, json!("held"));
    stop.cancel();
    task.await.unwrap();
}
