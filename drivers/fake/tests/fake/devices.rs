//! Device operations on a fake machine, and their faults.

use std::path::Path;

use berth_fake::FakeDriver;
use berth_model::{ConsumerUuid, Disposition, PciAddress};
use berth_virt::conformance::{check_devices, sample_guest};
use berth_virt::guest_spec::{
    AttachedDevice, DeviceOrigin, GuestDevice, GuestDevices, GuestSpec, PciManagement,
};
use berth_virt::{
    DeviceError, DeviceReset, MdevSource, UnfitReason, VirtDriver as _, WantedDevice,
};
use uuid::Uuid;

const GPU: &str = "0000:84:00.0";
const FUNCTION: &str = "0000:3b:02.0";

const MACHINE: &str = r#"
[[node]]
name = "devices-01"
memory_mib = 1024
disk = 10
cpus = { online = "0-3" }
[[node.gpu]]
address = "0000:84:00.0"
types = { nvidia-558 = 2 }
enabled = "nvidia-558"
[[node.nic]]
address = "0000:3b:00.0"
functions = ["0000:3b:02.0", "0000:3b:02.1"]
"#;

fn with_fault(device: &str, is: &str) -> FakeDriver {
    let text = format!("{MACHINE}[[node.fault]]\ndevice = \"{device}\"\nis = \"{is}\"\n");
    FakeDriver::from_text("a machine", &text).unwrap()
}

fn function(address: &str) -> WantedDevice {
    WantedDevice::of(GuestDevice::Pci {
        address: address.parse().unwrap(),
        managed: PciManagement::Hypervisor,
    })
}

fn mdev(number: u128) -> WantedDevice {
    let uuid = Uuid::from_u128(number);
    WantedDevice {
        device: GuestDevice::Mdev { uuid },
        mdev: Some(MdevSource {
            parent: GPU.parse::<PciAddress>().unwrap(),
            mdev_type: "nvidia-558".to_owned(),
        }),
    }
}

fn spec(wanted: &[WantedDevice]) -> GuestSpec {
    let uuid = ConsumerUuid::from(Uuid::from_u128(7));
    let attached = (1..).zip(wanted).map(|(request, wanted)| AttachedDevice {
        device: wanted.device,
        origin: DeviceOrigin::Arq(Uuid::from_u128(request).into()),
    });
    GuestSpec {
        devices: GuestDevices::new(attached.collect()).unwrap(),
        ..sample_guest(uuid, "with-devices")
    }
}

#[tokio::test]
async fn the_driver_keeps_its_promises_about_devices() {
    let wanted = [function(FUNCTION), mdev(1), mdev(2)];
    for refused in [function("0000:99:00.0"), mdev(3)] {
        let driver = FakeDriver::from_text("a machine", MACHINE).unwrap();
        // Of the GPU's two devices none is left for a third.
        let unprepared = match refused.device {
            GuestDevice::Mdev { .. } => {
                for made in &wanted[1..] {
                    driver.prepare_device(made).await.unwrap();
                }
                &refused
            }
            _ => &refused,
        };
        let broken = check_devices(&driver, &spec(&wanted), &wanted, Some(unprepared)).await;
        assert_eq!(broken, []);
    }
}

fn in_a_file(folder: &Path) -> FakeDriver {
    let machine = folder.join("machine.toml");
    if !machine.exists() {
        std::fs::write(&machine, MACHINE).unwrap();
    }
    FakeDriver::from_file(&machine).unwrap()
}

#[tokio::test]
async fn what_was_made_ready_outlives_the_driver() {
    let folder = tempfile::tempdir().unwrap();
    in_a_file(folder.path())
        .prepare_device(&mdev(1))
        .await
        .unwrap();
    let second = in_a_file(folder.path());
    // The device exists, so it can be checked without its parent and type.
    second
        .check_device(&WantedDevice::of(mdev(1).device))
        .await
        .unwrap();
    let reset = second.reset_device(&mdev(1)).await.unwrap();
    assert_eq!(reset, DeviceReset::Removed);
    let reset = in_a_file(folder.path()).reset_device(&mdev(1)).await;
    assert_eq!(reset.unwrap(), DeviceReset::NotThere);
}

#[tokio::test]
async fn a_mediated_device_is_of_one_type_and_one_parent() {
    let driver = FakeDriver::from_text("a machine", MACHINE).unwrap();
    let mut other = mdev(1);
    if let Some(source) = &mut other.mdev {
        source.mdev_type = "nvidia-999".to_owned();
    }
    let error = driver.check_device(&other).await.unwrap_err();
    assert!(matches!(error, DeviceError::Missing { .. }), "{error}");
    driver.prepare_device(&mdev(1)).await.unwrap();
    let error = driver.check_device(&other).await.unwrap_err();
    assert!(error.to_string().contains("nvidia-558"), "{error}");
}

#[tokio::test]
async fn each_fault_of_a_machine_file_is_one_of_the_real_ones() {
    for (device, wanted) in [(FUNCTION, function(FUNCTION)), (GPU, mdev(1))] {
        let driver = with_fault(device, "hosts-own");
        let error = driver.check_device(&wanted).await.unwrap_err();
        assert!(matches!(error, DeviceError::InUseByHost { .. }), "{error}");

        let driver = with_fault(device, "prepare-fails");
        driver.check_device(&wanted).await.unwrap();
        let error = driver.prepare_device(&wanted).await.unwrap_err();
        assert_eq!(error.disposition(), Disposition::Retry, "{error}");

        let driver = with_fault(device, "config-space-dead");
        for error in [
            driver.check_device(&wanted).await.unwrap_err(),
            driver.reset_device(&wanted).await.unwrap_err(),
        ] {
            assert_eq!(
                error.quarantine(),
                Some(UnfitReason::ConfigSpace),
                "{error}"
            );
        }

        let driver = with_fault(device, "reset-fails");
        driver.prepare_device(&wanted).await.unwrap();
        let error = driver.reset_device(&wanted).await.unwrap_err();
        assert_eq!(
            error.quarantine(),
            Some(UnfitReason::ResetFailed),
            "{error}"
        );

        let driver = with_fault(device, "reset-hangs");
        driver.prepare_device(&wanted).await.unwrap();
        let error = driver.reset_device(&wanted).await.unwrap_err();
        assert_eq!(error.disposition(), Disposition::Retry, "{error}");
        // The author repairs the machine.
        driver.replace(MACHINE).unwrap();
        let _ = driver.reset_device(&wanted).await.unwrap();
    }
}

#[tokio::test]
async fn a_device_that_is_gone_is_set_aside_when_it_should_be_reset() {
    let driver = FakeDriver::from_text("a machine", MACHINE).unwrap();
    driver.prepare_device(&function(FUNCTION)).await.unwrap();
    let without = MACHINE.replace("\"0000:3b:02.0\", ", "");
    driver.replace(&without).unwrap();
    let error = driver.reset_device(&function(FUNCTION)).await.unwrap_err();
    assert_eq!(error.quarantine(), Some(UnfitReason::Vanished), "{error}");
}

#[test]
fn a_fault_that_is_not_known_names_the_nearest_and_the_line() {
    let text = format!("{MACHINE}[[node.fault]]\ndevice = \"{GPU}\"\nis = \"reset-fail\"\n");
    let error = FakeDriver::from_text("a machine", &text).unwrap_err();
    let shown = format!("{error:?} {error}");
    assert!(shown.contains("reset-fails"), "{shown}");
}
