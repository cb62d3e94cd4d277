//! Devices on their way to guests of the real libvirtd and back. The kernel is played over the tree of files that libvirtd
//! takes for `/sys`; what libvirt, the driver and QEMU do is theirs.

use std::path::Path;
use std::sync::Arc;

use berth_libvirt::{DeviceAssignmentOptions, LibvirtDriver, LibvirtOptions, VirtType};
use berth_sysfs::{AllowList, AttributeWrites};
use berth_virt::conformance::check_devices;
use berth_virt::guest_spec::{GuestDevice, PciManagement};
use berth_virt::{
    DeviceError, DeviceReset, GuestError, MdevSource, UnfitReason, VirtDriver as _, WantedDevice,
};
use uuid::Uuid;

use crate::daemon::Daemon;
use crate::held_devices::{attached, guest_spec};
use crate::test_kernel::{CardAfterReset, TestKernel};
use crate::{cards, emulator, loaded, options};

const IGB: &str = "igb";

pub(crate) struct Host {
    pub(crate) daemon: Daemon,
    kernel: Arc<TestKernel>,
    folder: tempfile::TempDir,
}

impl Host {
    pub(crate) fn new() -> Self {
        loaded();
        let daemon = Daemon::start_with_cards();
        let kernel = TestKernel::of(&daemon.device_tree());
        kernel.drives(cards::TAKEN, IGB);
        kernel.put_on(cards::TAKEN, Some(IGB));
        kernel.groups_mdevs(cards::MDEV_GROUP);
        Self {
            daemon,
            kernel,
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    /// The driver, which may give out all cards but the GPU as a whole.
    pub(crate) fn driver(&self) -> LibvirtDriver {
        let list = |json: serde_json::Value| {
            AllowList::read(json.as_array().expect("a list")).expect("good entries")
        };
        let options = LibvirtOptions {
            virt_type: VirtType::Qemu,
            emulator: Some(emulator::emulator()),
            sysfs: Some(self.daemon.device_tree()),
            accelerator_devices: list(serde_json::json!([
                {"vendor_id": "1234"}, {"vendor_id": "10de"},
            ])),
            pci_devices: list(serde_json::json!([{"address": cards::TAKEN}])),
            device_assignment: DeviceAssignmentOptions {
                home_drivers: Some(self.path().join("resting")),
                ..DeviceAssignmentOptions::default()
            },
            ..options(&self.daemon)
        };
        let kernel: Arc<dyn AttributeWrites> = Arc::<TestKernel>::clone(&self.kernel);
        LibvirtDriver::with_attributes(options, kernel)
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn function(address: &str, managed: PciManagement) -> WantedDevice {
    let address = address.parse().expect("an address");
    WantedDevice::of(GuestDevice::Pci { address, managed })
}

pub(crate) fn taken() -> WantedDevice {
    function(cards::TAKEN, PciManagement::Hypervisor)
}

fn mdev(number: u128) -> WantedDevice {
    let uuid = Uuid::from_u128(number << 64 | 0x4000_0000_8000_0000_0000_0000);
    WantedDevice {
        device: GuestDevice::Mdev { uuid },
        mdev: Some(MdevSource {
            parent: cards::GPU.parse().expect("an address"),
            mdev_type: cards::MDEV_TYPE.to_owned(),
        }),
    }
}

#[tokio::test]
async fn the_driver_keeps_its_promises_about_devices() {
    let host = Host::new();
    let wanted = [
        taken(),
        function(cards::READY, PciManagement::Prepared),
        mdev(1),
    ];
    let given = (1..).zip(&wanted);
    let given = given.map(|(request, wanted)| attached(wanted.device, request));
    let spec = guest_spec(host.path(), 1, given.collect());
    // It is to stay on the driver that hands it to guests, and is on the host's.
    let refused = function(cards::TAKEN, PciManagement::Prepared);
    let broken = check_devices(&host.driver(), &spec, &wanted, Some(&refused)).await;
    assert_eq!(broken, []);
    assert_eq!(host.kernel.driver(cards::TAKEN).as_deref(), Some(IGB));
    let ready = host.kernel.driver(cards::READY);
    assert_eq!(ready.as_deref(), Some("vfio-pci"));
    let made = |end: &str| {
        let log = host.kernel.log();
        log.iter().filter(|line| line.contains(end)).count()
    };
    assert_eq!((made("/create="), made("/remove=")), (2, 2));
}

#[tokio::test]
async fn no_device_is_touched_while_its_owner_is_unknown() {
    let mut host = Host::new();
    let driver = host.driver();
    let wanted = taken();
    driver.prepare_device(&wanted).await.expect("it is ready");
    let spec = guest_spec(host.path(), 1, vec![attached(wanted.device, 1)]);
    let _ = driver.spawn(&spec).await.expect("it starts");
    host.daemon.kill();
    let unknown = driver.reset_device(&wanted).await.expect_err("no libvirtd");
    assert!(
        matches!(unknown, DeviceError::Unfinished { .. }),
        "{unknown}"
    );
    host.daemon.start_again();
    let driver = host.driver();
    let held = driver.reset_device(&wanted).await.expect_err("a guest's");
    assert!(matches!(held, DeviceError::InUse { .. }), "{held}");
    assert!(host.kernel.log().is_empty(), "{:?}", host.kernel.log());
    let _ = driver.destroy(spec.uuid).await.expect("it ends");
    let reset = driver.reset_device(&wanted).await.expect("it is free");
    let driver = Some(IGB.to_owned());
    assert_eq!(reset, DeviceReset::Reset { driver });
}

#[tokio::test]
async fn a_card_that_dies_in_its_reset_is_set_aside() {
    let host = Host::new();
    let driver = host.driver();
    let wanted = taken();
    driver.prepare_device(&wanted).await.expect("it is ready");
    let spec = guest_spec(host.path(), 1, vec![attached(wanted.device, 1)]);
    let _ = driver.spawn(&spec).await.expect("it starts");
    let _ = driver.destroy(spec.uuid).await.expect("it ends");
    host.kernel.set_state_after_reset(CardAfterReset::AllOnes);
    let dead = driver.reset_device(&wanted).await.expect_err("it is dead");
    assert_eq!(dead.quarantine(), Some(UnfitReason::ResetFailed), "{dead}");
    let refused = driver.check_device(&wanted).await.expect_err("it is dead");
    assert_eq!(
        refused.quarantine(),
        Some(UnfitReason::ConfigSpace),
        "{refused}"
    );
}

#[tokio::test]
async fn an_iommu_group_goes_to_one_guest_with_all_that_is_in_it_and_comes_back_whole() {
    const SOUND: &str = "snd_hda_intel";
    let host = Host::new();
    cards::companion(&host.daemon.device_tree());
    host.kernel.drives(cards::COMPANION, SOUND);
    host.kernel.put_on(cards::COMPANION, Some(SOUND));
    let driver = host.driver();
    let (card, sound) = (
        taken(),
        function(cards::COMPANION, PciManagement::Hypervisor),
    );
    let on = |address| host.kernel.driver(address);
    driver.check_device(&card).await.expect("it is free");
    driver.prepare_device(&card).await.expect("it is ready");
    assert_eq!(on(cards::COMPANION).as_deref(), Some("vfio-pci"));
    let first = guest_spec(host.path(), 1, vec![attached(card.device, 1)]);
    let _ = driver.spawn(&first).await.expect("it starts");
    for asked in [
        driver.check_device(&sound).await,
        driver.prepare_device(&sound).await,
    ] {
        let busy = asked.expect_err("its group is a guest's");
        assert!(matches!(busy, DeviceError::InUse { .. }), "{busy}");
        assert!(busy.to_string().contains(&first.uuid.to_string()), "{busy}");
    }
    // Also where both were found free at one time.
    let second = guest_spec(host.path(), 2, vec![attached(sound.device, 2)]);
    let busy = driver.spawn(&second).await.expect_err("its group is taken");
    assert!(matches!(busy, GuestError::DeviceBusy { .. }), "{busy}");
    let reset = driver.reset_device(&sound).await.expect("no guest has it");
    let vfio = Some("vfio-pci".to_owned());
    assert_eq!(reset, DeviceReset::Reset { driver: vfio });
    assert_eq!(on(cards::COMPANION).as_deref(), Some("vfio-pci"));
    // The guest itself may go through its steps again.
    driver.prepare_device(&card).await.expect("it is its own");
    let _ = driver.destroy(first.uuid).await.expect("it ends");
    let reset = driver.reset_device(&card).await.expect("it is free");
    let igb = Some(IGB.to_owned());
    assert_eq!(reset, DeviceReset::Reset { driver: igb });
    assert_eq!(on(cards::COMPANION).as_deref(), Some(SOUND));
    assert_eq!(on(cards::TAKEN).as_deref(), Some(IGB));
}
