//! Guests with devices on the real libvirtd: the devices are files, what libvirt does with them is not.

use berth_libvirt::{LibvirtDriver, LibvirtOptions, VirtType};
use berth_model::ConsumerUuid;
use berth_virt::conformance::{check_guests, sample_guest};
use berth_virt::guest_spec::{
    AttachedDevice, DesiredPower, DeviceOrigin, GuestDevice, GuestDevices, GuestSpec, HostPath,
    PciManagement,
};
use berth_virt::{GuestError, VirtDriver as _};
use uuid::Uuid;
use virt::connect::Connect;

use crate::daemon::Daemon;
use crate::{cards, emulator, loaded, options};

fn driver(daemon: &Daemon) -> LibvirtDriver {
    LibvirtDriver::new(LibvirtOptions {
        virt_type: VirtType::Qemu,
        emulator: Some(emulator::emulator()),
        sysfs: Some(daemon.device_tree()),
        ..options(daemon)
    })
}

pub(crate) fn attached(device: GuestDevice, request: u128) -> AttachedDevice {
    let origin = DeviceOrigin::Arq(Uuid::from_u128(request).into());
    AttachedDevice { device, origin }
}

fn card(request: u128) -> AttachedDevice {
    let device = GuestDevice::Pci {
        address: cards::READY.parse().expect("an address"),
        managed: PciManagement::Prepared,
    };
    attached(device, request)
}

fn mdev(request: u128) -> AttachedDevice {
    let uuid = cards::MDEV.parse().expect("a UUID");
    attached(GuestDevice::Mdev { uuid }, request)
}

pub(crate) fn guest_spec(
    folder: &std::path::Path,
    number: u128,
    devices: Vec<AttachedDevice>,
) -> GuestSpec {
    let uuid = ConsumerUuid::from(Uuid::from_u128(
        number << 64 | 0x4000_0000_8000_0000_0000_0000,
    ));
    let log = folder.join(format!("console-{number}.log"));
    GuestSpec {
        console_log: HostPath::new(log.to_str().expect("a path in UTF-8")).expect("a plain path"),
        devices: GuestDevices::new(devices).expect("different devices"),
        ..sample_guest(uuid, &format!("guest-{number}"))
    }
}

#[tokio::test]
async fn the_driver_keeps_its_promises_about_guests_with_devices() {
    loaded();
    let daemon = Daemon::start_with_cards();
    let folder = tempfile::tempdir().expect("a folder");
    let spec = guest_spec(folder.path(), 1, vec![card(1), mdev(2)]);
    let rival = guest_spec(folder.path(), 2, vec![mdev(3)]);
    let broken = check_guests(&driver(&daemon), &spec, Some(&rival)).await;
    assert_eq!(broken, []);
}

#[tokio::test]
async fn a_device_that_a_guest_without_a_definition_has_is_busy() {
    loaded();
    let daemon = Daemon::start_with_cards();
    let folder = tempfile::tempdir().expect("a folder");
    let driver = driver(&daemon);
    let first = guest_spec(folder.path(), 1, vec![card(1)]);
    let _ = driver.spawn(&first).await.expect("it starts");
    // As after an operator's undefine: it runs, and libvirt alone knows what it holds.
    let connect = Connect::open(Some(&daemon.uri())).expect("libvirtd runs");
    let running = connect
        .lookup_domain_by_uuid(*first.uuid.as_uuid())
        .expect("it runs");
    running.undefine().expect("it is undefined");
    let second = guest_spec(folder.path(), 2, vec![card(2)]);
    let busy = driver.spawn(&second).await.expect_err("the card is busy");
    assert!(matches!(busy, GuestError::DeviceBusy { .. }), "{busy}");
    let _ = driver.destroy(first.uuid).await.expect("it ends");
    let _ = driver.spawn(&second).await.expect("the card is free");
    let _ = driver.destroy(second.uuid).await.expect("it ends");
}

#[tokio::test]
async fn libvirts_own_word_that_a_device_is_busy_is_understood() {
    loaded();
    let daemon = Daemon::start_with_cards();
    let folder = tempfile::tempdir().expect("a folder");
    let driver = driver(&daemon);
    let first = guest_spec(folder.path(), 1, vec![card(1)]);
    let off = GuestSpec {
        power: DesiredPower::ShutOff,
        ..first.clone()
    };
    let _ = driver.spawn(&off).await.expect("it is defined");
    // A guest of another owner, started without Berth.
    let theirs = format!(
        "<domain type='qemu'><name>theirs</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>\
         <os><type arch='x86_64' machine='q35'>hvm</type></os><features><acpi/></features><devices>\
         <emulator>{}</emulator><hostdev mode='subsystem' type='pci' managed='no'><source>\
         <address domain='0' bus='0x82' slot='0' function='0'/></source></hostdev></devices></domain>",
        emulator::emulator().display()
    );
    let connect = Connect::open(Some(&daemon.uri())).expect("libvirtd runs");
    let other = connect.create_domain_xml(&theirs, 0).expect("it starts");
    let busy = driver.spawn(&first).await.expect_err("the card is busy");
    let text = busy.to_string();
    assert!(matches!(busy, GuestError::DeviceBusy { .. }), "{text}");
    assert!(text.contains("theirs"), "{text}");
    other.destroy().expect("it ends");
    let _ = driver.spawn(&first).await.expect("the card is free");
    let _ = driver.destroy(first.uuid).await.expect("it ends");
}

#[tokio::test]
async fn a_device_that_is_not_there_is_no_guest() {
    loaded();
    let daemon = Daemon::start_with_cards();
    let folder = tempfile::tempdir().expect("a folder");
    let driver = driver(&daemon);
    let nowhere = GuestDevice::Pci {
        address: "0000:99:00.0".parse().expect("an address"),
        managed: PciManagement::Hypervisor,
    };
    let spec = guest_spec(folder.path(), 1, vec![attached(nowhere, 1)]);
    let refused = driver.spawn(&spec).await.expect_err("no such card");
    assert!(
        matches!(refused, GuestError::DeviceMissing { .. }),
        "{refused}"
    );
    let _ = driver.destroy(spec.uuid).await.expect("it is undefined");
    assert!(driver.guests().await.expect("guests are listed").is_empty());
}
