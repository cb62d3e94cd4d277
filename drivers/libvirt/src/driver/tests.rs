//! The driver over nodes of libvirt's test driver.

use std::pin::Pin;
use std::time::Duration;

use berth_model::{ConsumerUuid, NodeName, PciAddress, ResourceClass};
use berth_virt::{
    GuestCell, GuestCpuPolicy, HostEvent, NodeDisk, NodeView, OfferedMdevs, PowerState, VgpuModel,
    conformance,
};
use futures_core::Stream as _;
use tempfile::TempDir;
use uuid::Uuid;

use super::*;
use crate::options::{DiskPlacement, MdevTypeOptions, MdevTypes};
use crate::test_node::{TestGpu, TestGuest, TestMdev, TestNode};

fn address(bus: u8) -> PciAddress {
    format!("0000:{bus:02x}:00.0").parse().unwrap()
}

fn gpu(bus: u8, available: u64) -> TestGpu {
    TestGpu {
        address: address(bus),
        numa_node: Some(u32::from(bus % 2)),
        available: vec![
            ("nvidia-558".to_owned(), available),
            ("nvidia-559".to_owned(), available / 2),
        ],
    }
}

fn mdev(uuid: u128, bus: u8) -> TestMdev {
    TestMdev {
        uuid: Uuid::from_u128(uuid),
        type_id: "nvidia-558".to_owned(),
        gpu: address(bus),
    }
}

/// Two cells and two GPUs; a guest with a mediated device on each GPU, one with pinned CPUs, and one that is off and
/// has lost its mediated device.
fn node() -> TestNode {
    TestNode {
        cpus: 8,
        memory_mib: 24_576,
        cells: vec![("0-3".to_owned(), 16_384), ("4-7".to_owned(), 8_192)],
        gpus: vec![gpu(0x84, 15), gpu(0x85, 15)],
        mdevs: vec![mdev(0xa, 0x84), mdev(0xb, 0x85)],
        guests: vec![
            TestGuest {
                mdevs: vec![Uuid::from_u128(0xa), Uuid::from_u128(0xb)],
                ..TestGuest::new("accelerated", Uuid::from_u128(1))
            },
            TestGuest {
                pins: vec!["4".to_owned(), "5".to_owned()],
                cells: vec![("0-1".to_owned(), 2048, 1)],
                functions: vec![address(0x90)],
                ..TestGuest::new("placed", Uuid::from_u128(2))
            },
            TestGuest {
                power: PowerState::ShutOff,
                mdevs: vec![Uuid::from_u128(0xdead)],
                ..TestGuest::new("off", Uuid::from_u128(3))
            },
        ],
    }
}

fn options(directory: &TempDir) -> LibvirtOptions {
    let mut options = node().write(directory.path()).unwrap();
    options.mdev_types = MdevTypes::new([MdevTypeOptions::new("nvidia-558")]).unwrap();
    options.cpu_shared_set = Some("0-3".parse().unwrap());
    options.cpu_dedicated_set = Some("4-7".parse().unwrap());
    options.disk = DiskPlacement::Local(directory.path().join("instances"));
    options.node = Some(NodeName::new("gpu-01").unwrap());
    options
}

async fn observed(options: LibvirtOptions) -> NodeView {
    let view = LibvirtDriver::new(options).observe().await.unwrap();
    view.nodes.into_values().next().unwrap()
}

fn guest(number: u128) -> ConsumerUuid {
    Uuid::from_u128(number).into()
}

#[tokio::test]
async fn a_host_is_seen_with_its_cpus_cells_memory_and_disk() {
    let directory = tempfile::tempdir().unwrap();
    let driver = LibvirtDriver::new(options(&directory));
    let view = driver.observe().await.unwrap();
    assert_eq!(view.hypervisor.kind, "TEST");
    let seen = &view.nodes[&NodeName::new("gpu-01").unwrap()];
    assert_eq!(seen.cpus.online.to_string(), "0-7");
    assert_eq!(seen.cpus.shared_online().to_string(), "0-3");
    assert_eq!(seen.cpus.dedicated_online().to_string(), "4-7");
    assert_eq!(seen.memory_mib, 24_576);
    assert!(matches!(seen.disk, NodeDisk::Local { .. }));
    let cells: Vec<_> = seen
        .cells
        .iter()
        .map(|c| (c.id, c.cpus.to_string(), c.memory_mib))
        .collect();
    assert_eq!(
        cells,
        [(0, "0-3".to_owned(), 16_384), (1, "4-7".to_owned(), 8_192)]
    );
    assert_eq!(view, driver.observe().await.unwrap());
}

#[tokio::test]
async fn what_a_host_is_and_can_run_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(&directory);
    let seen = observed(options.clone()).await;
    let capabilities = &seen.capabilities;
    // libvirt's test driver has kinds of guests of its own.
    let kinds = capabilities.supported_instances.iter();
    let kinds: Vec<_> = kinds.map(ToString::to_string).collect();
    assert_eq!(kinds, ["i686 test hvm", "i686 test xen"]);
    assert!(capabilities.physical_functions.is_empty());
    // Its host is nowhere.
    let driver = LibvirtDriver::new(options);
    assert_eq!(driver.host_cpu_stats().await.unwrap(), None);
}

#[tokio::test]
async fn each_gpu_offers_what_exists_and_what_can_still_be_made() {
    let directory = tempfile::tempdir().unwrap();
    let seen = observed(options(&directory)).await;
    for (gpu, bus) in seen.gpus.iter().zip([0x84, 0x85]) {
        assert_eq!(gpu.address, address(bus));
        assert_eq!(gpu.numa_node, Some(u32::from(bus % 2)));
        assert_eq!(
            gpu.offered,
            Some(OfferedMdevs {
                mdev_type: "nvidia-558".to_owned(),
                class: ResourceClass::VGPU,
                total: 16
            })
        );
    }
    assert_eq!(seen.gpus.len(), 2);
}

#[tokio::test]
async fn a_guest_is_seen_with_what_it_holds_and_where_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let seen = observed(options(&directory)).await;
    let accelerated = &seen.guests[&guest(1)];
    let parents: Vec<_> = accelerated.mdevs.iter().map(|mdev| mdev.parent).collect();
    assert_eq!(parents, [Some(address(0x84)), Some(address(0x85))]);
    assert_eq!(accelerated.cpu_policy, GuestCpuPolicy::Shared);
    let placed = &seen.guests[&guest(2)];
    assert_eq!(placed.cpu_policy, GuestCpuPolicy::Dedicated);
    assert_eq!(
        placed.cells,
        [GuestCell {
            host_cell: 1,
            vcpus: 2,
            memory_mib: 2048
        }]
    );
    assert_eq!(placed.functions, [address(0x90)].into());
    let off = &seen.guests[&guest(3)];
    assert_eq!(off.power, PowerState::ShutOff);
    assert_eq!(off.mdevs[0].parent, None);
}

/// XML that libvirt accepts, stores and returns although it is invalid: the prefix `y` is not declared.
const ODD: &str = "<x:a xmlns:x='http://example.com/x'><y:b/></x:a>";

#[tokio::test]
async fn a_guest_that_cannot_be_read_does_not_hide_the_host() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = node();
    node.guests[0].metadata = ODD.to_owned();
    let mut options = options(&directory);
    options.connection_uri = node.write(directory.path()).unwrap().connection_uri;
    let seen = observed(options).await;
    let known: Vec<_> = seen.guests.keys().copied().collect();
    assert_eq!(known, [guest(2), guest(3)]);
    let unreadable = &seen.unreadable[&guest(1)];
    assert_eq!(unreadable.name, "accelerated");
    assert!(
        unreadable.reason.contains("a guest is not XML") && unreadable.reason.contains("y"),
        "{unreadable:?}"
    );
    assert_eq!(seen.unreadable.len(), 1);
    // Its resources still count.
    let totals: Vec<_> = seen
        .gpus
        .iter()
        .map(|gpu| gpu.offered.as_ref().unwrap().total)
        .collect();
    assert_eq!(totals, [16, 16]);
}

#[tokio::test]
async fn without_enabled_types_a_gpu_offers_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(&directory);
    options.mdev_types = MdevTypes::default();
    options.model.vgpu = VgpuModel::Root;
    let seen = observed(options).await;
    assert!(seen.gpus.iter().all(|gpu| gpu.offered.is_none()));
    assert_eq!(seen.model.vgpu, VgpuModel::Root);
}

#[tokio::test]
async fn cpus_that_are_not_there_are_a_configuration_error_that_names_the_option() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(&directory);
    options.cpu_dedicated_set = Some("4-9".parse().unwrap());
    let error = LibvirtDriver::new(options).observe().await.unwrap_err();
    let ObserveError::Configuration { option, reason } = error else {
        panic!("{error:?}");
    };
    assert_eq!(option, "[compute] cpu_dedicated_set");
    assert!(reason.contains("8-9"), "{reason}");
}

#[tokio::test]
async fn the_built_in_default_node_is_seen() {
    let driver = LibvirtDriver::new(LibvirtOptions::new("test:///default"));
    let view = driver.observe().await.unwrap();
    let (name, seen) = view.nodes.iter().next().unwrap();
    assert_eq!(name.as_str(), view.hypervisor.hostname);
    assert_eq!(seen.cells.len(), 2);
    assert_eq!(seen.cpus.online.to_string(), "0-15");
    assert_eq!(seen.guests.len(), 1);
}

#[tokio::test]
async fn a_file_that_is_no_node_is_an_error_and_the_next_observation_sees_the_repaired_one() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(&directory);
    let file = directory.path().join("node.xml");
    let good = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, "<node><cpu>").unwrap();
    let driver = LibvirtDriver::new(options);
    let error = driver.observe().await.unwrap_err();
    assert!(
        matches!(error, ObserveError::Unreachable { .. }),
        "{error:?}"
    );
    std::fs::write(&file, good).unwrap();
    driver.observe().await.unwrap();
}

#[tokio::test]
async fn a_device_tree_of_nonsense_is_an_error_that_names_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(&directory);
    let file = options
        .sysfs
        .clone()
        .unwrap()
        .join("devices/system/node/node1/cpulist");
    std::fs::write(&file, "none").unwrap();
    let error = LibvirtDriver::new(options).observe().await.unwrap_err();
    assert!(error.to_string().contains("node1/cpulist"), "{error}");
}

#[tokio::test]
async fn a_guest_that_changes_is_an_event() {
    let directory = tempfile::tempdir().unwrap();
    let driver = LibvirtDriver::new(options(&directory));
    let mut events = driver.watch();
    driver.observe().await.unwrap();
    let destroyed = driver.connection.call("destroying a guest", |session| {
        session.connect().lookup_domain_by_name("placed")?.destroy()
    });
    destroyed.await.unwrap().unwrap();
    let next = std::future::poll_fn(|context| Pin::new(&mut events).poll_next(context));
    let event = tokio::time::timeout(Duration::from_secs(30), next).await;
    assert_eq!(event.unwrap(), Some(HostEvent::Guests));
    let seen = driver.observe().await.unwrap();
    let seen = seen.nodes.into_values().next().unwrap();
    assert_eq!(seen.guests[&guest(2)].power, PowerState::ShutOff);
}

#[tokio::test]
async fn the_stream_ends_with_the_driver() {
    let driver = LibvirtDriver::new(LibvirtOptions::new("test:///default"));
    let mut events = driver.watch();
    driver.observe().await.unwrap();
    drop(driver);
    let next = std::future::poll_fn(|context| Pin::new(&mut events).poll_next(context));
    let end = tokio::time::timeout(Duration::from_secs(30), next).await;
    assert_eq!(end.unwrap(), None);
}

#[tokio::test]
async fn cpus_in_both_sets_are_a_configuration_error() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(&directory);
    options.cpu_shared_set = Some("0-4".parse().unwrap());
    let error = LibvirtDriver::new(options).observe().await.unwrap_err();
    assert!(
        matches!(error, ObserveError::Configuration { .. }) && error.to_string().contains("CPUs 4"),
        "{error}"
    );
}

#[tokio::test]
async fn the_driver_keeps_every_promise_of_the_contract() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(&directory);
    let tree = options.sysfs.clone().unwrap();
    let driver = LibvirtDriver::new(options);
    assert_eq!(conformance::check(&driver).await, []);
    let starts = async {
        let start = driver.connection.call("starting a guest", |session| {
            session.connect().lookup_domain_by_name("off")?.create()
        });
        start.await.unwrap().unwrap();
    };
    let patience = tokio::time::sleep(Duration::from_secs(30));
    assert_eq!(
        conformance::check_watch(&driver, starts, patience).await,
        []
    );
    let cell = tree.join("devices/system/node/node0/cpulist");
    let well = std::fs::read(&cell).unwrap();
    let breaks = async { std::fs::write(&cell, "all of them").unwrap() };
    let repairs = async { std::fs::write(&cell, &well).unwrap() };
    assert_eq!(
        conformance::check_recovery(&driver, breaks, repairs).await,
        []
    );
}

/// Adds a PCI function to the device tree next to the node's file.
fn plant(directory: &TempDir, address: &str, ids: (u16, u16), class: &str) {
    let at = directory.path().join("sys/bus/pci/devices").join(address);
    std::fs::create_dir_all(&at).unwrap();
    let mut header = [0_u8; 64];
    header[..2].copy_from_slice(&ids.0.to_le_bytes());
    header[2..4].copy_from_slice(&ids.1.to_le_bytes());
    std::fs::write(at.join("config"), header).unwrap();
    for (file, text) in [
        ("vendor", format!("0x{:04x}", ids.0)),
        ("device", format!("0x{:04x}", ids.1)),
        ("class", class.to_owned()),
        ("numa_node", "1".to_owned()),
    ] {
        std::fs::write(at.join(file), text).unwrap();
    }
}

/// Puts the function into its own IOMMU group.
fn group(directory: &TempDir, address: &str, number: u32) {
    let sys = directory.path().join("sys");
    let device = sys.join("bus/pci/devices").join(address);
    let group = sys.join(format!("kernel/iommu_groups/{number}"));
    std::fs::create_dir_all(group.join("devices")).unwrap();
    std::os::unix::fs::symlink(&device, group.join("devices").join(address)).unwrap();
    std::os::unix::fs::symlink(&group, device.join("iommu_group")).unwrap();
}

fn list(entries: &serde_json::Value) -> berth_sysfs::AllowList {
    berth_sysfs::AllowList::read(entries.as_array().unwrap()).unwrap()
}

/// Two mediated-device GPUs and an SSD in the device tree.
fn with_devices(directory: &TempDir) -> LibvirtOptions {
    let options = options(directory);
    plant(directory, "0000:84:00.0", (0x10de, 0x1eb8), "0x030200");
    plant(directory, "0000:85:00.0", (0x10de, 0x1eb8), "0x030200");
    plant(directory, "0000:90:00.0", (0x1bd4, 0x1003), "0x010802");
    group(directory, "0000:90:00.0", 3);
    options
}

#[tokio::test]
async fn devices_of_both_lists_are_offered_and_a_gpu_has_one_owner() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = with_devices(&directory);
    options.accelerator_devices = list(&serde_json::json!([{"address": "0000:84:00.0"}]));
    options.pci_devices = list(&serde_json::json!([{"address": "0000:90:00.0"}]));
    options.report_pci_in_placement = true;
    let driver = LibvirtDriver::new(options);
    let view = driver.observe().await.unwrap();
    let seen = &view.nodes[&NodeName::new("gpu-01").unwrap()];
    let [card, ssd] = &seen.devices[..] else {
        panic!("{:?}", seen.devices)
    };
    assert_eq!((card.class.as_str(), card.handles.len()), ("VGPU", 16));
    let existing = berth_virt::OfferedHandle::Mdev {
        uuid: Uuid::from_u128(0xa),
        parent: address(0x84),
        mdev_type: "nvidia-558".to_owned(),
    };
    assert!(card.handles.contains(&existing));
    assert_eq!(ssd.class.as_str(), "CUSTOM_PCI_1BD4_1003");
    assert_eq!(ssd.condition, berth_virt::DeviceCondition::Fit);
    let offered: Vec<_> = seen.gpus.iter().map(|gpu| gpu.offered.is_some()).collect();
    assert_eq!(
        offered,
        [false, true],
        "the first is the accelerator service's"
    );
    assert_eq!(conformance::check(&driver).await, []);
}

#[tokio::test]
async fn a_sick_device_is_reported_and_one_that_is_gone_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = with_devices(&directory);
    options.accelerator_devices = list(&serde_json::json!([{"address": "0000:90:00.0"}]));
    let driver = LibvirtDriver::new(options);
    let observe = async || {
        let view = driver.observe().await.unwrap();
        let devices = view.nodes.into_values().next().unwrap().devices;
        devices.first().map(|device| device.condition.reason())
    };
    assert_eq!(observe().await, Some(None));
    let at = directory.path().join("sys/bus/pci/devices/0000:90:00.0");
    let well = std::fs::read(at.join("config")).unwrap();
    std::fs::write(at.join("config"), [0xff; 64]).unwrap();
    let reason = berth_virt::UnfitReason::ConfigSpace;
    assert_eq!(observe().await, Some(Some(reason)));
    std::fs::write(at.join("config"), well).unwrap();
    assert_eq!(observe().await, Some(None));
    std::fs::remove_dir_all(at).unwrap();
    assert_eq!(observe().await, None);
}

#[tokio::test]
async fn a_device_in_both_lists_is_a_mistake_at_the_start_and_left_out_later() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = with_devices(&directory);
    options.pci_devices = list(&serde_json::json!([{"vendor_id": "8086"}, {"vendor_id": "1bd4"}]));
    options.accelerator_devices = list(&serde_json::json!([{"address": "0000:90:00.0"}]));
    let refused = LibvirtDriver::new(options.clone()).observe().await;
    let text = refused.unwrap_err().to_string();
    let expected = "entry 2 of [pci] device_spec and by entry 1 of [accelerators]";
    assert!(text.contains(expected), "{text}");
    let at = directory.path().join("sys/bus/pci/devices/0000:90:00.0");
    std::fs::remove_dir_all(at).unwrap();
    let driver = LibvirtDriver::new(options);
    driver.observe().await.unwrap();
    plant(&directory, "0000:90:00.0", (0x1bd4, 0x1003), "0x010802");
    let view = driver.observe().await.unwrap();
    assert_eq!(view.nodes.into_values().next().unwrap().devices, []);
}

#[tokio::test]
async fn a_network_that_libvirt_has_not_is_reported_with_those_it_has() {
    use berth_virt::guest_spec::{GuestInterface, GuestInterfaces, InterfaceSource, LinkName};

    let driver = LibvirtDriver::new(LibvirtOptions::new("test:///default"));
    let interface = |name: &str, mac: &str| GuestInterface {
        mac: mac.parse().unwrap(),
        source: InterfaceSource::Network(LinkName::new(name).unwrap()),
    };
    let default = interface("default", "52:54:00:00:00:01");
    let one = GuestInterfaces::new(vec![default.clone()]).unwrap();
    assert_eq!(driver.no_link(&one).await.unwrap(), None);
    let nonet = interface("nonet", "52:54:00:00:00:02");
    let two = GuestInterfaces::new(vec![default, nonet.clone()]).unwrap();
    let missing = driver.no_link(&two).await.unwrap().unwrap();
    assert_eq!(missing.source, nonet.source);
    assert!(
        missing.reason.ends_with("it has default"),
        "{}",
        missing.reason
    );
}
