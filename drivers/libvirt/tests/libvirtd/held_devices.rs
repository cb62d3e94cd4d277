//! Guests with devices on the real libvirtd: the devices are files, what libvirt does with them is not.

use berth_libvirt::{
    GuestXmlOptions, LibvirtDriver, LibvirtOptions, VirtType, Virtualisation, guest_xml,
};
use berth_model::{ConsumerUuid, MachineOptions};
use berth_virt::conformance::{check_guests, sample_guest};
use berth_virt::guest_spec::{
    AttachedDevice, DesiredPower, DeviceOrigin, GuestDevice, GuestDevices, GuestNumaCell,
    GuestSpec, GuestTopology, HostPath, HostPciPlace, PciManagement,
};
use berth_virt::{GuestError, HostDeviceId, VirtDriver as _};
use roxmltree::{Document, Node};
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
    card_at(cards::READY, request)
}

fn card_at(address: &str, request: u128) -> AttachedDevice {
    let device = GuestDevice::Pci {
        address: address.parse().expect("an address"),
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

/// The buses above a device of a running guest, from the default bus on.
fn path_to(document: &Document<'_>, alias: &str) -> Vec<String> {
    let child = |element: Node<'_, '_>, name: &str| {
        let mut children = element.children();
        children
            .find(|child| child.has_tag_name(name))
            .map(|it| it.id())
    };
    let above = |element: Node<'_, '_>| {
        let address = document.get_node(child(element, "address")?)?;
        let bus = address.attribute("bus")?.strip_prefix("0x")?;
        let index = u32::from_str_radix(bus, 16).expect("a bus").to_string();
        let mut all = document
            .descendants()
            .filter(|it| it.has_tag_name("controller"));
        all.find(|it| it.attribute("type") == Some("pci") && it.attribute("index") == Some(&index))
    };
    let mut aliases = document.descendants().filter(|it| it.has_tag_name("alias"));
    let device = aliases.find(|it| it.attribute("name") == Some(alias));
    let device = device.and_then(|alias| alias.parent()).expect(alias);
    let mut path = Vec::new();
    let mut bus = above(device);
    while let Some(controller) = bus {
        path.insert(
            0,
            controller.attribute("model").expect("a model").to_owned(),
        );
        bus = above(controller);
    }
    path
}

/// The memory is not bound to the host's nodes, because this machine may have one only.
#[test]
fn a_guest_with_the_hosts_pci_topology_starts_with_a_switch_and_two_expanders() {
    loaded();
    let daemon = Daemon::start_with_cards();
    cards::second_ready(&daemon.device_tree());
    let folder = tempfile::tempdir().expect("a folder");
    let devices = [card(1), mdev(2), card_at(cards::SECOND_READY, 3)];
    let place = |numa_node, switch: Option<&str>| HostPciPlace {
        numa_node: Some(numa_node),
        switch: switch.map(|switch| switch.parse().expect("an address")),
    };
    let places = [
        place(0, Some("0000:80:00.0")),
        place(0, Some("0000:80:00.0")),
        place(1, None),
    ];
    let of_devices = devices.iter().zip(places);
    let places = of_devices.map(|(attached, place)| (HostDeviceId::of(attached.device), place));
    let cell = |vcpu: u32| GuestNumaCell {
        vcpus: [vcpu].into_iter().collect(),
        memory_mib: 64,
        host_cell: vcpu,
    };
    let topology = GuestTopology::plain(2, 128).and_then(|it| it.on_cells(vec![cell(0), cell(1)]));
    let spec = guest_spec(folder.path(), 1, devices.into());
    let spec = GuestSpec {
        machine: MachineOptions {
            host_pci_topology: true,
            ..MachineOptions::default()
        },
        devices: spec.devices.with_places(&places.collect()),
        topology: topology.expect("two cells"),
        ..spec
    };
    let options = GuestXmlOptions {
        virtualisation: Virtualisation::Qemu,
        emulator: Some(emulator::emulator()),
        pcie_root_ports: 4,
        ..GuestXmlOptions::default()
    };
    let xml = guest_xml(&spec, &options).expect("there is room");
    let (start, rest) = xml.split_once("<numatune>").expect("it has cells");
    let (_, end) = rest.split_once("</numatune>").expect("an element");
    let xml = format!("{start}{end}");
    let connect = Connect::open(Some(&daemon.uri())).expect("libvirtd runs");
    let started = || {
        let domain = connect.create_domain_xml(&xml, 0).expect("it starts");
        let text = domain.xml_desc(0).expect("it runs");
        domain.destroy().expect("it ends");
        text
    };
    let text = started();
    let document = Document::parse(&text).expect("a document");
    let path = |number: usize| path_to(&document, &spec.devices.as_slice()[number].alias());
    let expander = ["pcie-root", "pcie-expander-bus", "pcie-root-port"];
    let switch = ["pcie-switch-upstream-port", "pcie-switch-downstream-port"];
    assert_eq!(path(0), [&expander[..], &switch[..]].concat(), "{text}");
    assert_eq!(path(1), path(0));
    assert_eq!(path(2), expander);
    for target in [
        "<target busNr='249'>\n        <node>0</node>",
        "<target busNr='254'>\n        <node>1</node>",
    ] {
        assert!(text.contains(target), "{target}: {text}");
    }
    // Each start has the same slots.
    let slots = |text: &str| -> Vec<String> {
        let lines = text
            .lines()
            .filter(|line| line.contains("<address type='pci'"));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(slots(&started()), slots(&text));
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
