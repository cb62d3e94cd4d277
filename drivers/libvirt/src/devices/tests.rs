use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use berth_virt::guest_spec::{AttachedDevice, DeviceOrigin, GuestDevices, PciManagement};
use berth_virt::{DeviceReset, MdevSource, Preparer, UnfitReason};
use serde_json::json;
use uuid::Uuid;

use super::test_kernel::{CardAfterReset, TestKernel};
use super::*;

mod companions;

const CARD: &str = "0000:81:00.0";
const OTHER: &str = "0000:82:00.0";
const TYPE: &str = "nvidia-222";

struct DeviceTestHost {
    folder: tempfile::TempDir,
    kernel: Arc<TestKernel>,
    options: LibvirtOptions,
}

impl DeviceTestHost {
    /// Two cards of one vendor, each in a group of its own and on the driver `igb`; the lists allow both.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sys = folder.path().join("sys");
        let kernel = TestKernel::of(&sys);
        let mut options = LibvirtOptions::new("qemu:///system");
        options.device_assignment.procfs = folder.path().join("proc");
        options.device_assignment.home_drivers = Some(folder.path().join("resting"));
        options.device_assignment.patience = Duration::from_millis(200);
        let host = Self {
            folder,
            kernel,
            options,
        };
        host.listed(&[json!({"vendor_id": "10de"})]);
        for (address, group) in [(CARD, "12"), (OTHER, "13")] {
            host.card(address, group);
            host.kernel.drives(address, "igb");
            host.kernel.put_on(address, Some("igb"));
        }
        host.write("bus/pci/drivers_probe", "");
        host.with_list(&[json!({"vendor_id": "10de"})])
    }

    fn with_list(mut self, entries: &[serde_json::Value]) -> Self {
        self.options.accelerator_devices = self.listed(entries);
        self
    }

    fn listed(&self, entries: &[serde_json::Value]) -> AllowList {
        AllowList::read(entries).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("sys").join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn link(&self, from: &str, to: &str) {
        let from = self.path(from);
        fs::create_dir_all(from.parent().unwrap()).unwrap();
        symlink(self.path(to), from).unwrap();
    }

    fn card(&self, address: &str, group: &str) {
        let at = format!("devices/pci0000:80/{address}");
        for (file, content) in [
            ("vendor", "0x10de\n"),
            ("device", "0x1eb8\n"),
            ("class", "0x030200\n"),
            ("driver_override", "(null)\n"),
            ("reset", ""),
            ("reset_method", "flr bus\n"),
            ("sriov_totalvfs", "4\n"),
            ("sriov_numvfs", "0\n"),
        ] {
            self.write(&format!("{at}/{file}"), content);
        }
        let mut config = [0; 256];
        config[..4].copy_from_slice(&[0xde, 0x10, 0xb8, 0x1e]);
        self.write(&format!("{at}/config"), config);
        self.link(&format!("bus/pci/devices/{address}"), &at);
        let of_group = format!("kernel/iommu_groups/{group}");
        self.link(&format!("{of_group}/devices/{address}"), &at);
        self.link(&format!("{at}/iommu_group"), &of_group);
        let types = format!("{at}/mdev_supported_types/{TYPE}");
        for (file, content) in [
            ("name", "GRID T4-1B\n"),
            ("device_api", "vfio-pci\n"),
            ("available_instances", "2\n"),
            ("create", ""),
        ] {
            self.write(&format!("{types}/{file}"), content);
        }
        self.link(&format!("class/mdev_bus/{address}"), &at);
    }

    fn devices(&self) -> HostDevices {
        let sysfs = Sysfs::at(self.folder.path().join("sys"));
        let kernel: Arc<dyn AttributeWrites> = Arc::<TestKernel>::clone(&self.kernel);
        HostDevices::new(sysfs, &self.options, Some(kernel))
    }

    fn refused(&self, wanted: &WantedDevice) -> DeviceError {
        self.devices().check(wanted).unwrap_err()
    }

    /// Like libvirt at a guest's start with `managed='yes'`.
    fn libvirt_takes(&self, address: &str) {
        self.kernel.put_on(address, Some("vfio-pci"));
        self.write(
            &format!("devices/pci0000:80/{address}/driver_override"),
            "vfio-pci\n",
        );
    }

    fn hook(&mut self, script: &str) {
        let [text, program] = ["hook.text", "hook"].map(|name| self.folder.path().join(name));
        fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&text, fs::Permissions::from_mode(0o755)).unwrap();
        // Copied by another process: if this one had it open for writing, a child of another test could inherit the
        // file.
        let copied = std::process::Command::new("cp")
            .args([&text, &program])
            .status();
        assert!(copied.unwrap().success());
        self.options.device_assignment.reset_hook = Some(berth_hook::Hook {
            name: "reset hook",
            program,
            deadline: Duration::from_secs(60),
        });
    }
}

/// No functions are held by guests.
fn no_functions() -> BTreeSet<PciAddress> {
    BTreeSet::new()
}

fn managed(address: &str) -> WantedDevice {
    WantedDevice::of(GuestDevice::Pci {
        address: address.parse().unwrap(),
        managed: PciManagement::Hypervisor,
    })
}

fn prepared(address: &str) -> WantedDevice {
    WantedDevice::of(GuestDevice::Pci {
        address: address.parse().unwrap(),
        managed: PciManagement::Prepared,
    })
}

fn vendors(address: &str) -> WantedDevice {
    let address = address.parse().unwrap();
    WantedDevice::of(GuestDevice::VendorVfio { address })
}

fn mdev(number: u128) -> WantedDevice {
    let uuid = Uuid::from_u128(number << 64 | 0x4000_0000_8000_0000_0000_0000);
    WantedDevice {
        device: GuestDevice::Mdev { uuid },
        mdev: Some(MdevSource {
            parent: CARD.parse().unwrap(),
            mdev_type: TYPE.to_owned(),
        }),
    }
}

fn of_igb() -> DeviceReset {
    let driver = Some("igb".to_owned());
    DeviceReset::Reset { driver }
}

#[test]
fn a_listed_card_that_is_well_may_go_to_a_guest() {
    let host = DeviceTestHost::new();
    for wanted in [managed(CARD), vendors(CARD), mdev(1)] {
        host.devices().check(&wanted).unwrap();
    }
    assert!(host.kernel.log().is_empty());
}

#[test]
fn a_card_that_no_list_means_is_the_hosts_own() {
    let host = DeviceTestHost::new().with_list(&[json!({"address": OTHER})]);
    for wanted in [managed(CARD), vendors(CARD), mdev(1)] {
        let error = host.refused(&wanted);
        assert!(matches!(error, DeviceError::NotAllowed { .. }), "{error}");
        assert!(error.to_string().contains("device_spec"), "{error}");
    }
    host.devices().check(&managed(OTHER)).unwrap();
}

#[test]
fn a_gpu_that_is_parted_for_flavors_needs_no_list() {
    let mut host = DeviceTestHost::new().with_list(&[]);
    host.options.mdev_types = MdevTypes::new([crate::MdevTypeOptions::new(TYPE)]).unwrap();
    host.devices().check(&mdev(1)).unwrap();
    let error = host.refused(&managed(CARD));
    assert!(matches!(error, DeviceError::NotAllowed { .. }), "{error}");
}

#[test]
fn a_card_that_the_host_uses_is_refused_though_it_is_listed() {
    let host = DeviceTestHost::new();
    let disk = format!("devices/pci0000:80/{CARD}/nvme/nvme0/nvme0n1");
    host.write(&format!("{disk}/dev"), "259:0\n");
    host.link("class/block/nvme0n1", &disk);
    host.devices().check(&managed(CARD)).unwrap();
    let proc = host.folder.path().join("proc/self");
    fs::create_dir_all(&proc).unwrap();
    let mounts = "1 1 259:0 / / rw - ext4 /dev/root rw\n";
    fs::write(proc.join("mountinfo"), mounts).unwrap();
    let error = host.refused(&managed(CARD));
    assert!(matches!(error, DeviceError::InUseByHost { .. }), "{error}");
    assert!(error.to_string().contains("nvme0n1"), "{error}");
}

#[test]
fn a_card_whose_group_is_not_whole_is_refused() {
    let host = DeviceTestHost::new().with_list(&[json!({"address": CARD})]);
    host.card("0000:81:00.1", "12");
    let error = host.refused(&managed(CARD));
    assert!(
        matches!(error, DeviceError::GroupNotViable { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("81:00.1"), "{error}");
}

#[test]
fn a_card_that_does_not_answer_is_set_aside() {
    let host = DeviceTestHost::new();
    host.write(&format!("devices/pci0000:80/{CARD}/config"), [0xff; 256]);
    for wanted in [managed(CARD), mdev(1)] {
        let error = host.refused(&wanted);
        assert_eq!(
            error.quarantine(),
            Some(UnfitReason::ConfigSpace),
            "{error}"
        );
    }
}

#[test]
fn a_card_that_is_not_there_is_missing() {
    let host = DeviceTestHost::new();
    let error = host.refused(&managed("0000:99:00.0"));
    assert!(matches!(error, DeviceError::Missing { .. }), "{error}");
}

#[test]
fn a_card_that_is_to_stay_on_vfio_must_be_there() {
    let host = DeviceTestHost::new();
    let error = host.refused(&prepared(CARD));
    assert_eq!(error.quarantine(), Some(UnfitReason::Driver), "{error}");
    assert!(error.to_string().contains("igb"), "{error}");
    host.kernel.put_on(CARD, Some("vfio-pci"));
    host.devices().check(&prepared(CARD)).unwrap();
    host.kernel.put_on(CARD, None);
    let error = host.refused(&vendors(CARD));
    assert_eq!(error.quarantine(), Some(UnfitReason::Driver), "{error}");
}

#[tokio::test]
async fn a_card_whose_entry_says_so_stays_where_the_operator_put_it_whatever_is_asked() {
    let host = DeviceTestHost::new().with_list(&[json!({"address": CARD, "managed": "no"})]);
    let error = host.refused(&managed(CARD));
    assert!(error.to_string().contains("managed = no"), "{error}");
    host.kernel.put_on(CARD, Some("vfio-pci"));
    let devices = host.devices();
    devices.prepare(&managed(CARD)).await.unwrap();
    let driver = Some("vfio-pci".to_owned());
    let reset = devices
        .reset(&managed(CARD), &no_functions())
        .await
        .unwrap();
    assert_eq!(reset, DeviceReset::Reset { driver });
    let others = host.with_list(&[json!({"address": CARD})]);
    for (devices, managed) in [
        (devices, PciManagement::Prepared),
        (others.devices(), PciManagement::Hypervisor),
    ] {
        let device = GuestDevice::Pci {
            address: CARD.parse().unwrap(),
            managed: PciManagement::Hypervisor,
        };
        let attached = AttachedDevice {
            device,
            origin: DeviceOrigin::Flavor,
        };
        let place = devices.pci_place(&WantedDevice::of(device)).unwrap();
        let places = [(HostDeviceId::of(device), place)].into_iter().collect();
        let wanted = GuestDevices::new(vec![attached]).unwrap();
        let wanted = wanted.with_places(&places);
        let listed = devices.as_listed(&wanted).unwrap();
        assert_eq!(listed.places(), &places);
        let given = listed.as_slice()[0].device;
        assert!(matches!(given, GuestDevice::Pci { managed: is, .. } if is == managed));
    }
}

#[tokio::test]
async fn a_virtual_function_on_its_vendors_driver_goes_to_guests_once_that_hands_it_out() {
    let host = DeviceTestHost::new().with_list(&[json!({"address": CARD, "managed": "no"})]);
    let vgpu_type = format!("devices/pci0000:80/{CARD}/nvidia/current_vgpu_type");
    host.kernel.put_on(CARD, Some("nvidia"));
    host.write(&vgpu_type, "0\n");
    let error = host.refused(&managed(CARD));
    assert_eq!(error.quarantine(), Some(UnfitReason::Driver), "{error}");
    assert!(error.to_string().contains("is on nvidia"), "{error}");
    host.write(&vgpu_type, "558\n");
    let devices = host.devices();
    devices.check(&managed(CARD)).unwrap();
    devices.prepare(&managed(CARD)).await.unwrap();
    let reset = devices
        .reset(&managed(CARD), &no_functions())
        .await
        .unwrap();
    let driver = Some("nvidia".to_owned());
    assert_eq!(reset, DeviceReset::Reset { driver }, "it stays where it is");
    host.write(&vgpu_type, "0\n");
    host.write(
        &format!("devices/pci0000:80/{CARD}/vfio-dev/vfio0/dev"),
        "511:0\n",
    );
    devices.check(&managed(CARD)).unwrap();
}

#[tokio::test]
async fn a_virtual_function_gets_its_vgpu_type_again_after_a_host_boot_and_goes_to_guests_with_it_alone()
 {
    let entry = json!({"address": CARD, "managed": "no", "vgpu_type": 558});
    let host = DeviceTestHost::new().with_list(&[entry]);
    let attribute = |name: &str| format!("devices/pci0000:80/{CARD}/nvidia/{name}");
    host.kernel.put_on(CARD, Some("nvidia"));
    host.write(&attribute("current_vgpu_type"), "0\n");
    host.write(
        &attribute("creatable_vgpu_types"),
        "ID    : vGPU Name\n558   : NVIDIA A40-2Q\n",
    );
    let written = format!("bus/pci/devices/{CARD}/nvidia/current_vgpu_type=558");
    // A host boot sets the type to 0.
    for boots in 1..=2 {
        let error = host.refused(&managed(CARD));
        assert_eq!(error.quarantine(), Some(UnfitReason::Driver), "{error}");
        assert!(
            error.to_string().contains("vGPU type 0, and 558 is wanted"),
            "{error}"
        );
        let devices = host.devices();
        for _ in 0..2 {
            assert_eq!(devices.set_vgpu_types().await.len(), 0);
        }
        assert_eq!(host.kernel.log(), vec![written.clone(); boots]);
        devices.check(&managed(CARD)).unwrap();
        host.write(&attribute("current_vgpu_type"), "0\n");
    }
    host.write(&attribute("current_vgpu_type"), "557\n");
    let errors = host.devices().set_vgpu_types().await;
    let [error] = errors.as_slice() else {
        panic!("{errors:?}");
    };
    assert_eq!(error.quarantine(), Some(UnfitReason::Driver), "{error}");
    assert!(
        error.to_string().contains("end its guest and write 0"),
        "{error}"
    );
}

/// Simulates an unreadable attribute.
fn cannot_be_read(host: &DeviceTestHost) {
    let loops = format!("devices/pci0000:80/{CARD}/net");
    host.link(&loops, &loops);
}

#[tokio::test]
async fn a_card_of_an_unknown_entry_is_neither_taken_for_managed_nor_touched() {
    let host = DeviceTestHost::new().with_list(&[json!({"address": CARD, "managed": "no"})]);
    host.kernel.put_on(CARD, Some("vfio-pci"));
    cannot_be_read(&host);
    let attached = AttachedDevice {
        device: managed(CARD).device,
        origin: DeviceOrigin::Flavor,
    };
    let wanted = GuestDevices::new(vec![attached]).unwrap();
    let errors = [
        host.devices().as_listed(&wanted).unwrap_err(),
        host.refused(&managed(CARD)),
        host.devices()
            .reset(&managed(CARD), &no_functions())
            .await
            .unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, DeviceError::Unfinished { .. }), "{error}");
        assert!(error.to_string().contains("/net"), "{error}");
    }
    assert!(host.kernel.log().is_empty());
}

#[tokio::test]
async fn a_card_that_cannot_be_read_when_virtual_functions_are_made_is_reported_and_the_others_have_theirs()
 {
    let host = DeviceTestHost::new().with_list(&[json!({"vendor_id": "10de", "num_vfs": 2})]);
    cannot_be_read(&host);
    let errors = host.devices().make_virtual_functions().await;
    let [DeviceError::Unfinished { reason, .. }] = errors.as_slice() else {
        panic!("{errors:?}");
    };
    assert!(reason.contains("/net"), "{reason}");
    let made = format!("bus/pci/devices/{OTHER}/sriov_numvfs=2");
    assert_eq!(host.kernel.log(), [made]);
}

#[tokio::test]
async fn a_card_with_virtual_functions_does_not_go_whole() {
    let host = DeviceTestHost::new().with_list(&[
        json!({"address": CARD, "num_vfs": 2}),
        json!({"vendor_id": "10de"}),
    ]);
    assert_eq!(host.devices().make_virtual_functions().await.len(), 0);
    let error = host.refused(&managed(CARD));
    assert!(matches!(error, DeviceError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("2 virtual functions"), "{error}");
}

#[tokio::test]
async fn virtual_functions_are_made_once_and_no_other_number_is_touched() {
    let host = DeviceTestHost::new().with_list(&[
        json!({"address": CARD, "num_vfs": 2}),
        json!({"address": OTHER, "num_vfs": 9}),
    ]);
    for _ in 0..2 {
        let errors = host.devices().make_virtual_functions().await;
        let [DeviceError::NotAllowed { reason, .. }] = errors.as_slice() else {
            panic!("{errors:?}");
        };
        assert!(reason.contains("4 virtual functions"), "{reason}");
    }
    let made = format!("bus/pci/devices/{CARD}/sriov_numvfs=2");
    assert_eq!(host.kernel.log(), [made]);
    // While they are held, their number stays.
    let host = host.with_list(&[json!({"address": CARD, "num_vfs": 3})]);
    let errors = host.devices().make_virtual_functions().await;
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(host.kernel.log().len(), 1);
}

#[tokio::test]
async fn a_managed_card_is_left_to_the_hypervisor_and_returns_to_its_driver() {
    let host = DeviceTestHost::new();
    for _ in 0..2 {
        host.devices().prepare(&managed(CARD)).await.unwrap();
    }
    assert!(host.kernel.log().is_empty());
    host.libvirt_takes(CARD);
    // The agent was started again in the meantime.
    host.devices().prepare(&managed(CARD)).await.unwrap();
    for _ in 0..2 {
        let reset = host
            .devices()
            .reset(&managed(CARD), &no_functions())
            .await
            .unwrap();
        assert_eq!(reset, of_igb());
        assert_eq!(host.kernel.driver(CARD).as_deref(), Some("igb"));
    }
}

#[tokio::test]
async fn a_card_whose_hypervisor_gave_it_to_a_wrong_driver_goes_to_the_one_it_had() {
    let host = DeviceTestHost::new();
    host.devices().prepare(&managed(CARD)).await.unwrap();
    host.kernel.put_on(CARD, None);
    assert_eq!(
        host.devices()
            .reset(&managed(CARD), &no_functions())
            .await
            .unwrap(),
        of_igb()
    );
    host.devices().prepare(&managed(CARD)).await.unwrap();
    host.kernel.put_on(CARD, Some("nouveau"));
    assert_eq!(
        host.devices()
            .reset(&managed(CARD), &no_functions())
            .await
            .unwrap(),
        of_igb()
    );
}

#[tokio::test]
async fn a_card_that_rested_on_vfio_stays_there() {
    let host = DeviceTestHost::new();
    host.libvirt_takes(CARD);
    host.devices().prepare(&managed(CARD)).await.unwrap();
    let reset = host
        .devices()
        .reset(&managed(CARD), &no_functions())
        .await
        .unwrap();
    let driver = Some("vfio-pci".to_owned());
    assert_eq!(reset, DeviceReset::Reset { driver });
}

#[tokio::test]
async fn a_kill_at_any_write_is_repaired_by_asking_again() {
    type Put = fn(&DeviceTestHost);
    let left_on_vfio: Put = |host| host.libvirt_takes(CARD);
    let returned: Put = |_| {};
    for (before, put) in [
        (true, left_on_vfio),
        (false, left_on_vfio),
        (true, returned),
        (false, returned),
    ] {
        for number in 1.. {
            let host = DeviceTestHost::new();
            host.devices().prepare(&managed(CARD)).await.unwrap();
            put(&host);
            host.kernel.kills_at(number, before);
            let killed = host.devices().reset(&managed(CARD), &no_functions()).await;
            host.kernel.lets_live();
            let Err(error) = killed else {
                assert!(number > 3, "only {number} writes");
                break;
            };
            assert_eq!(error.quarantine(), None, "write {number}: {error}");
            let again = host.devices().reset(&managed(CARD), &no_functions()).await;
            assert_eq!(again.unwrap(), of_igb(), "write {number}, before: {before}");
        }
    }
}

#[tokio::test]
async fn a_card_that_does_not_come_back_is_set_aside_and_stays_off_its_driver() {
    let host = DeviceTestHost::new();
    host.devices().prepare(&managed(CARD)).await.unwrap();
    host.kernel.set_state_after_reset(CardAfterReset::AllOnes);
    let error = host
        .devices()
        .reset(&managed(CARD), &no_functions())
        .await
        .unwrap_err();
    assert_eq!(
        error.quarantine(),
        Some(UnfitReason::ResetFailed),
        "{error}"
    );
    assert!(error.to_string().contains("all ones"), "{error}");
    assert_eq!(host.kernel.driver(CARD), None);
}

#[tokio::test]
async fn a_card_that_went_away_or_left_the_list_is_set_aside() {
    let host = DeviceTestHost::new().with_list(&[]);
    let error = host
        .devices()
        .reset(&managed(CARD), &no_functions())
        .await
        .unwrap_err();
    assert_eq!(
        error.quarantine(),
        Some(UnfitReason::ResetFailed),
        "{error}"
    );
    let error = host
        .devices()
        .reset(&managed("0000:99:00.0"), &no_functions())
        .await;
    let error = error.unwrap_err();
    assert_eq!(error.quarantine(), Some(UnfitReason::Vanished), "{error}");
    assert!(host.kernel.log().is_empty());
}

#[tokio::test]
async fn the_hook_gets_the_device_and_its_verdict_counts() {
    let mut host = DeviceTestHost::new();
    let recorded = host.folder.path().join("recorded").display().to_string();
    host.hook(&format!(
        "echo $BERTH_DEVICE_ADDRESS $BERTH_DEVICE_VENDOR $BERTH_DEVICE_PRODUCT $BERTH_DEVICE_DRIVER >{recorded}"
    ));
    assert_eq!(
        host.devices()
            .reset(&managed(CARD), &no_functions())
            .await
            .unwrap(),
        of_igb()
    );
    let written = fs::read_to_string(&recorded).unwrap();
    assert_eq!(written, format!("{CARD} 10de 1eb8 igb\n"));
    host.hook("echo 'namespace 1 is not erased' >&2; exit 3");
    let error = host
        .devices()
        .reset(&managed(CARD), &no_functions())
        .await
        .unwrap_err();
    assert_eq!(error.quarantine(), Some(UnfitReason::Vendor), "{error}");
    assert!(
        error.to_string().contains("namespace 1 is not erased"),
        "{error}"
    );
}

#[tokio::test]
async fn a_hook_that_hangs_is_ended_with_all_it_started() {
    let mut host = DeviceTestHost::new();
    host.hook("sleep 1000 & wait");
    if let Some(hook) = &mut host.options.device_assignment.reset_hook {
        hook.deadline = Duration::from_millis(300);
    }
    let error = host
        .devices()
        .reset(&managed(CARD), &no_functions())
        .await
        .unwrap_err();
    assert_eq!(error.quarantine(), Some(UnfitReason::Vendor), "{error}");
    assert!(error.to_string().contains("timed out after"), "{error}");
}

#[tokio::test]
async fn what_the_kernel_cannot_reset_a_hook_may_clean() {
    let mut host = DeviceTestHost::new();
    fs::remove_file(host.path(&format!("devices/pci0000:80/{CARD}/reset"))).unwrap();
    let error = host
        .devices()
        .reset(&managed(CARD), &no_functions())
        .await
        .unwrap_err();
    assert_eq!(
        error.quarantine(),
        Some(UnfitReason::ResetFailed),
        "{error}"
    );
    host.hook("exit 0");
    assert_eq!(
        host.devices()
            .reset(&managed(CARD), &no_functions())
            .await
            .unwrap(),
        of_igb()
    );
}

#[tokio::test]
async fn a_card_that_power_states_alone_reset_is_set_aside_unless_a_hook_cleans_it() {
    let mut host = DeviceTestHost::new();
    let methods = format!("devices/pci0000:80/{CARD}/reset_method");
    host.write(&methods, "pm\n");
    let error = host.devices().reset(&managed(CARD), &no_functions()).await;
    let error = error.unwrap_err();
    let cause = Some(UnfitReason::ResetFailed);
    assert_eq!(error.quarantine(), cause, "{error}");
    host.hook("exit 0");
    let reset = host.devices().reset(&managed(CARD), &no_functions()).await;
    assert_eq!(reset.unwrap(), of_igb());
}

#[tokio::test]
async fn a_mediated_device_is_made_once_and_again_after_a_reboot_and_removed() {
    let host = DeviceTestHost::new();
    let wanted = mdev(1);
    for _ in 0..2 {
        host.devices().prepare(&wanted).await.unwrap();
        host.devices().check(&wanted).unwrap();
    }
    assert_eq!(host.kernel.log().len(), 1);
    let reset = host
        .devices()
        .reset(&wanted, &no_functions())
        .await
        .unwrap();
    assert_eq!(reset, DeviceReset::Removed);
    assert_eq!(
        host.devices()
            .reset(&wanted, &no_functions())
            .await
            .unwrap(),
        DeviceReset::NotThere
    );
    // A rebooted host has none.
    host.devices().prepare(&wanted).await.unwrap();
    host.devices().prepare(&mdev(2)).await.unwrap();
    let error = host.refused(&mdev(3));
    assert!(matches!(error, DeviceError::InUse { .. }), "{error}");
}

#[tokio::test]
async fn a_mediated_device_of_somebody_else_is_retained() {
    let host = DeviceTestHost::new();
    host.devices().prepare(&mdev(1)).await.unwrap();
    let found = WantedDevice::of(mdev(1).device);
    host.devices().check(&found).unwrap();
    let reset = host.devices().reset(&found, &no_functions()).await.unwrap();
    assert_eq!(reset, DeviceReset::Retained);
    let unprepared = WantedDevice::of(mdev(2).device);
    let error = host.refused(&unprepared);
    assert!(matches!(error, DeviceError::Missing { .. }), "{error}");
}

/// The prepared devices, with who prepared each.
fn preparers(host: &DeviceTestHost) -> Vec<(HostDeviceId, Preparer)> {
    let prepared = host.devices().prepared().unwrap();
    let listed = prepared.iter().map(|it| (it.wanted.host_device(), it.by));
    listed.collect()
}

#[tokio::test]
async fn a_mediated_device_is_reported_with_who_made_it_until_it_is_removed() {
    let host = DeviceTestHost::new();
    let (ours, anothers) = (mdev(1), mdev(2));
    assert_eq!(preparers(&host), []);
    host.devices().prepare(&ours).await.unwrap();
    // Created by hand.
    let types = format!("class/mdev_bus/{CARD}/mdev_supported_types/{TYPE}/create");
    let GuestDevice::Mdev { uuid } = anothers.device else {
        unreachable!("it is a mediated device");
    };
    host.kernel.write(&types, &uuid.to_string()).await.unwrap();
    let both = [
        (ours.host_device(), Preparer::Berth),
        (anothers.host_device(), Preparer::Another),
    ];
    assert_eq!(preparers(&host), both);
    let prepared = host.devices().prepared().unwrap();
    assert_eq!(prepared[0].wanted, ours);
    // A device that others created is used on request, and stays theirs.
    host.devices().prepare(&anothers).await.unwrap();
    assert_eq!(preparers(&host), both);
    let _ = host.devices().reset(&ours, &no_functions()).await.unwrap();
    assert_eq!(preparers(&host), [both[1]]);
}

#[tokio::test]
async fn a_function_that_is_left_on_vfio_is_reported_until_it_is_back_on_its_driver() {
    let host = DeviceTestHost::new();
    host.devices().prepare(&managed(CARD)).await.unwrap();
    assert_eq!(preparers(&host), [], "it is on its driver still");
    host.libvirt_takes(CARD);
    let left = (managed(CARD).host_device(), Preparer::Berth);
    assert_eq!(preparers(&host), [left]);
    // Not bound to VFIO, but still reserved for it.
    host.kernel.put_on(CARD, None);
    assert_eq!(preparers(&host), [left]);
    host.libvirt_takes(CARD);
    let reset = host.devices().reset(&managed(CARD), &no_functions()).await;
    assert_eq!(reset.unwrap(), of_igb());
    assert_eq!(preparers(&host), []);
    // A function that the operator put there is never taken back.
    host.kernel.put_on(CARD, Some("vfio-pci"));
    host.devices().prepare(&managed(CARD)).await.unwrap();
    assert_eq!(preparers(&host), []);
}

#[test]
fn a_mediated_device_of_another_type_or_nowhere_is_missing() {
    let host = DeviceTestHost::new();
    let of = |parent: &str, kind: &str| {
        let mut wanted = mdev(1);
        wanted.mdev = Some(MdevSource {
            parent: parent.parse().unwrap(),
            mdev_type: kind.to_owned(),
        });
        host.refused(&wanted)
    };
    let error = of(CARD, "nvidia-999");
    assert!(matches!(error, DeviceError::Missing { .. }), "{error}");
    assert!(error.to_string().contains(TYPE), "{error}");
    fs::remove_file(host.path(&format!("class/mdev_bus/{OTHER}"))).unwrap();
    let error = of(OTHER, TYPE);
    assert!(error.to_string().contains("driver"), "{error}");
}
