//! The sample driver passes the conformance suite through its process.

use std::path::Path;
use std::time::Duration;

use berth_exec::ExecDriver;
use berth_model::{ConsumerUuid, NodeName};
use berth_virt::conformance::{
    check, check_devices, check_guests, check_recovery, check_watch, sample_guest,
};
use berth_virt::guest_spec::{
    AttachedDevice, DeviceOrigin, GuestDevice, GuestDevices, GuestSpec, PciManagement,
};
use berth_virt::{
    DeviceError, GuestDestroyOutcome, GuestError, GuestPowerOutcome, GuestRedefineOutcome,
    GuestSpawnOutcome, MdevSource, UnfitReason, VirtDriver as _, WantedDevice,
};
use tokio::time::sleep;
use uuid::Uuid;

const GPU: &str = "0000:81:00.0";
const UNOWNED: &str = "0000:99:00.0";

fn driver(state: &Path) -> ExecDriver {
    let mut options = crate::options(&crate::sample(), state);
    options.host = Some(NodeName::new("example-1").unwrap());
    ExecDriver::new(options)
}

fn function(address: &str) -> WantedDevice {
    WantedDevice::of(GuestDevice::Pci {
        address: address.parse().unwrap(),
        managed: PciManagement::Hypervisor,
    })
}

fn mdev(number: u128) -> WantedDevice {
    WantedDevice {
        device: GuestDevice::Mdev {
            uuid: Uuid::from_u128(number),
        },
        mdev: Some(MdevSource {
            parent: "0000:84:00.0".parse().unwrap(),
            mdev_type: "example-1".to_owned(),
        }),
    }
}

fn spec(number: u128, wanted: &[WantedDevice]) -> GuestSpec {
    let uuid = ConsumerUuid::from(Uuid::from_u128(number << 64));
    let attached = (1..).zip(wanted).map(|(request, wanted)| AttachedDevice {
        device: wanted.device,
        origin: DeviceOrigin::Arq(Uuid::from_u128((number << 32) + request).into()),
    });
    GuestSpec {
        devices: GuestDevices::new(attached.collect()).unwrap(),
        ..sample_guest(uuid, &format!("made-{number}"))
    }
}

#[tokio::test]
async fn the_sample_keeps_the_promises_about_its_machine_guests_and_devices() {
    let state = tempfile::tempdir().unwrap();
    let driver = driver(state.path());
    assert_eq!(check(&driver).await, []);
    let view = driver.observe().await.unwrap();
    assert_eq!(view.nodes.keys().next().unwrap().as_str(), "example-1");
    let wanted = [function(GPU), function("0000:3b:02.0")];
    let rival = spec(2, &wanted[..1]);
    let broken = check_guests(&driver, &spec(1, &wanted), Some(&rival)).await;
    assert_eq!(broken, []);
    let wanted = [function(GPU), mdev(1), mdev(2)];
    for refused in [function(UNOWNED), {
        let mut other = mdev(3);
        other.mdev.as_mut().unwrap().mdev_type = "example-9".to_owned();
        other
    }] {
        let broken = check_devices(&driver, &spec(3, &wanted), &wanted, Some(&refused)).await;
        assert_eq!(broken, []);
    }
    assert_eq!(check(&driver).await, [], "nothing is left");
}

#[tokio::test]
async fn the_sample_reports_changes() {
    let state = tempfile::tempdir().unwrap();
    let driver = driver(state.path());
    driver.observe().await.unwrap();
    let change = async {
        let _ = driver.spawn(&spec(1, &[])).await.unwrap();
    };
    let patience = sleep(Duration::from_mins(1));
    assert_eq!(check_watch(&driver, change, patience).await, []);
}

#[tokio::test]
async fn the_sample_breaks_and_is_repaired() {
    let state = tempfile::tempdir().unwrap();
    let driver = driver(state.path());
    for file in ["machine.json", "guests.json"] {
        let _ = driver.spawn(&spec(1, &[])).await.unwrap();
        let path = state.path().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        let breaks = async { std::fs::write(&path, "{").unwrap() };
        let repairs = async { std::fs::write(&path, &text).unwrap() };
        assert_eq!(check_recovery(&driver, breaks, repairs).await, [], "{file}");
        std::fs::write(&path, "[]").unwrap();
        let error = driver.observe().await.unwrap_err().to_string();
        assert!(
            error.contains(file) && error.contains("is wanted"),
            "{error}"
        );
        let error = driver.guests().await.unwrap_err();
        assert!(matches!(error, GuestError::Malformed { .. }), "{error}");
        std::fs::write(&path, &text).unwrap();
    }
}

#[tokio::test]
async fn guests_outlive_the_child_and_its_kill() {
    let state = tempfile::tempdir().unwrap();
    let wanted = spec(1, &[function(GPU)]);
    let first = driver(state.path());
    assert_eq!(
        first.spawn(&wanted).await.unwrap(),
        GuestSpawnOutcome::Spawned
    );
    let before = first.guests().await.unwrap();
    drop(first);
    let second = driver(state.path());
    assert_eq!(second.guests().await.unwrap(), before);
    assert_eq!(
        second.spawn(&wanted).await.unwrap(),
        GuestSpawnOutcome::AlreadyThere
    );
    assert_eq!(
        second.destroy(wanted.uuid).await.unwrap(),
        GuestDestroyOutcome::Destroyed
    );
}

#[tokio::test]
async fn what_cannot_be_done_is_reported_in_the_contracts_words() {
    let state = tempfile::tempdir().unwrap();
    let driver = driver(state.path());
    let guest = spec(1, &[]);
    let _ = driver.spawn(&guest).await.unwrap();
    let nowhere = NodeName::new("elsewhere").unwrap();
    let moved = driver.live_migrate(guest.uuid, &nowhere).await;
    assert!(
        matches!(moved, Err(GuestError::Unsupported { .. })),
        "{moved:?}"
    );
    let redefined = driver.redefine(&guest).await;
    assert!(
        matches!(redefined, Err(GuestError::NotOff { .. })),
        "{redefined:?}"
    );
    assert_eq!(
        driver.suspend(guest.uuid).await.unwrap(),
        GuestPowerOutcome::Done
    );
    let suspended = driver.suspend(guest.uuid).await;
    assert!(
        matches!(suspended, Err(GuestError::NotRunning { .. })),
        "{suspended:?}"
    );
    assert_eq!(
        driver.redefine(&guest).await.unwrap(),
        GuestRedefineOutcome::Redefined
    );
    let mut namesake = spec(2, &[]);
    namesake.name = guest.name.clone();
    match driver.spawn(&namesake).await {
        Err(GuestError::NameTaken { holder, .. }) => assert_eq!(holder, guest.uuid),
        seen => panic!("{seen:?}"),
    }
    let missing = driver.spawn(&spec(3, &[function(UNOWNED)])).await;
    assert!(
        matches!(missing, Err(GuestError::DeviceMissing { .. })),
        "{missing:?}"
    );
    assert!(driver.prepare_host().await.is_empty());
}

#[tokio::test]
async fn a_device_that_the_machine_calls_unfit_is_quarantined() {
    let state = tempfile::tempdir().unwrap();
    let driver = driver(state.path());
    driver.observe().await.unwrap();
    let path = state.path().join("machine.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut machine: serde_json::Value = serde_json::from_str(&text).unwrap();
    machine["nodes"][0]["devices"][0]["condition"] = serde_json::json!({"unfit": "config-space"});
    std::fs::write(&path, machine.to_string()).unwrap();
    let error = driver.check_device(&function(GPU)).await.unwrap_err();
    assert_eq!(
        error.quarantine(),
        Some(UnfitReason::ConfigSpace),
        "{error}"
    );
    let other = driver.check_device(&function(UNOWNED)).await.unwrap_err();
    assert!(matches!(other, DeviceError::Missing { .. }), "{other}");
}
