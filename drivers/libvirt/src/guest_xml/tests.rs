use std::io::Write as _;
use std::process::Command;

use berth_model::{
    AddressWidth, ArqUuid, CpuLimits, CpuTopology, DiskBus, DiskLimits, DiskRate, DiskRates,
    GuestLimits, InputBus, InterfaceModel, MachineOptions, MachineType, MemoryEncryption,
    RngDevice, ScsiController, TrafficLimit, VideoModel, WatchdogAction,
};
use berth_virt::conformance::sample_guest;
use berth_virt::guest_spec::{
    AttachedDevice, BaseImage, CpuModelName, CpuPinning, DeviceOrigin, DiskFormat, GuestDevice,
    GuestDevices, GuestDisks, GuestInterface, GuestInterfaces, GuestName, GuestNumaCell,
    GuestOwner, GuestPort, HostPath, HostPciPlace, InstanceDescription, InterfaceSource,
    KernelCommandLine, Label, LinkName, PciManagement, PlugSignal, PortConnection, ProjectId,
    QcowDisk,
};
use berth_virt::{CpuSet, HostDeviceId};
use proptest::prelude::*;
use roxmltree::Node;
use uuid::Uuid;

use super::*;
use crate::architecture::GuestArchitecture;
use crate::guest::LibvirtGuest;
use crate::xml::Reader;

const UUID: &str = "11111111-2222-4333-8444-555555555555";

fn path(text: &str) -> HostPath {
    HostPath::new(text).unwrap()
}

fn cpus(text: &str) -> CpuSet {
    text.parse().unwrap()
}

fn mdev(number: u128) -> Uuid {
    Uuid::from_u128(0xaaaa << 112 | number)
}

fn request(number: u128) -> ArqUuid {
    mdev(number).into()
}

fn guest_xml(spec: &GuestSpec, options: &GuestXmlOptions) -> String {
    super::guest_xml(spec, options).unwrap()
}

/// The least a guest can be.
fn plain() -> GuestSpec {
    GuestSpec {
        owner: GuestOwner {
            project: ProjectId::new("0f1e2d").unwrap(),
            consumer: UUID.parse().unwrap(),
        },
        topology: GuestTopology::plain(1, 256).unwrap(),
        console_log: path("/instances/1/console.log"),
        ..sample_guest(UUID.parse().unwrap(), "instance-00000001")
    }
}

fn disk(text: &str, base: Option<(&str, DiskFormat)>) -> QcowDisk {
    QcowDisk {
        path: path(text),
        base: base.map(|(base, format)| BaseImage {
            path: path(base),
            format,
        }),
    }
}

fn with_disks() -> GuestSpec {
    GuestSpec {
        disks: GuestDisks::new(
            Some(disk(
                "/instances/1/disk",
                Some(("/instances/_base/abc", DiskFormat::Raw)),
            )),
            vec![
                disk("/instances/1/disk.eph0", None),
                disk(
                    "/instances/1/disk.eph1",
                    Some(("/instances/_base/eph", DiskFormat::Qcow2)),
                ),
            ],
            Some(path("/instances/1/disk.config")),
        )
        .unwrap(),
        ..plain()
    }
}

fn port() -> GuestPort {
    GuestPort::new(
        Uuid::from_u128(0x88a1_5950_b8b3 << 80),
        Label::new("private").unwrap(),
        vec!["10.55.0.7".parse().unwrap(), "fd00::7".parse().unwrap()],
        Some(1442),
        PortConnection::OpenVswitch {
            bridge: LinkName::new("br-int").unwrap(),
            signal: PlugSignal::OvnInstalled,
        },
    )
    .unwrap()
}

const NETWORK_FUNCTION: &str = "0000:05:10.2";

fn direct_port() -> GuestPort {
    GuestPort::new(
        Uuid::from_u128(0x99b2_5950_b8b3 << 80),
        Label::new("storage").unwrap(),
        Vec::new(),
        Some(9000),
        PortConnection::NetworkFunction {
            address: NETWORK_FUNCTION.parse().unwrap(),
            vlan: Some(42),
            trusted: false,
        },
    )
    .unwrap()
}

fn with_a_direct_port() -> GuestSpec {
    let interface = GuestInterface {
        mac: "fa:16:3e:54:eb:91".parse().unwrap(),
        source: InterfaceSource::Port(Box::new(direct_port())),
    };
    let device = AttachedDevice {
        device: GuestDevice::Pci {
            address: NETWORK_FUNCTION.parse().unwrap(),
            managed: PciManagement::Hypervisor,
        },
        origin: DeviceOrigin::Port(direct_port().id()),
    };
    GuestSpec {
        interfaces: GuestInterfaces::new(vec![interface]).unwrap(),
        devices: GuestDevices::new(vec![device]).unwrap(),
        ..plain()
    }
}

fn with_networks() -> GuestSpec {
    let interface = |mac: &str, source| GuestInterface {
        mac: mac.parse().unwrap(),
        source,
    };
    let interfaces = vec![
        interface(
            "52:54:00:12:34:56",
            InterfaceSource::Bridge(LinkName::new("br-ex").unwrap()),
        ),
        interface(
            "52:54:00:12:34:57",
            InterfaceSource::Network(LinkName::new("default").unwrap()),
        ),
        interface("fa:16:3e:54:eb:90", InterfaceSource::Port(Box::new(port()))),
    ];
    GuestSpec {
        interfaces: GuestInterfaces::new(interfaces).unwrap(),
        ..plain()
    }
}

fn with_devices() -> GuestSpec {
    let attached = |device, origin| AttachedDevice { device, origin };
    let function = |address: &str, managed| GuestDevice::Pci {
        address: address.parse().unwrap(),
        managed,
    };
    let devices = vec![
        attached(
            function("0000:84:00.0", PciManagement::Hypervisor),
            DeviceOrigin::Arq(request(1)),
        ),
        attached(
            function("10000:01:1f.7", PciManagement::Prepared),
            DeviceOrigin::Flavor,
        ),
        attached(
            GuestDevice::VendorVfio {
                address: "85:00.4".parse().unwrap(),
            },
            DeviceOrigin::Arq(request(2)),
        ),
        attached(
            GuestDevice::Mdev { uuid: mdev(7) },
            DeviceOrigin::Arq(request(3)),
        ),
    ];
    GuestSpec {
        devices: GuestDevices::new(devices).unwrap(),
        ..plain()
    }
}

fn placed() -> GuestSpec {
    let cell = |vcpus, host_cell| GuestNumaCell {
        vcpus: cpus(vcpus),
        memory_mib: 1024,
        host_cell,
    };
    let pins = vec![
        VcpuPin::Dedicated(4),
        VcpuPin::Dedicated(5),
        VcpuPin::Shared(cpus("0-3,8")),
    ];
    let topology = GuestTopology::plain(3, 3072)
        .and_then(|it| it.pinned(CpuPinning::new(pins, cpus("0-1"))?))
        .and_then(|it| it.on_cells(vec![cell("0,2", 1), cell("1", 0), cell("", 0)]))
        .and_then(|it| it.with_pages(MemoryPages::Huge { size_kib: 1 << 20 }));
    GuestSpec {
        topology: topology.unwrap(),
        cpu_model: CpuModel::Named(CpuModelName::new("Haswell-noTSX").unwrap()),
        ..plain()
    }
}

/// Two cells, one with two devices of a switch, and devices elsewhere.
fn with_the_hosts_topology() -> GuestSpec {
    let place = |numa_node, switch: Option<&str>| HostPciPlace {
        numa_node: Some(numa_node),
        switch: switch.map(|switch| switch.parse().unwrap()),
    };
    let function = |address: &str| HostDeviceId::Function(address.parse().unwrap());
    let places = [
        (function("0000:84:00.0"), place(0, Some("80:01.0"))),
        (function("10000:01:1f.7"), place(1, None)),
        (HostDeviceId::Mdev(mdev(7)), place(0, Some("80:01.0"))),
    ];
    GuestSpec {
        topology: placed().topology,
        devices: with_devices()
            .devices
            .with_places(&places.into_iter().collect()),
        machine: MachineOptions {
            host_pci_topology: true,
            ..MachineOptions::default()
        },
        ..plain()
    }
}

fn from_a_kernel() -> GuestSpec {
    GuestSpec {
        boot: GuestBoot::Kernel {
            kernel: path("/boot/vmlinuz"),
            ramdisk: Some(path("/boot/initrd.img")),
            command_line: KernelCommandLine::new("console=ttyS0 x='<&>'").unwrap(),
        },
        topology: GuestTopology::plain(2, 512)
            .and_then(|it| it.floating_on(cpus("0-3,^2")))
            .unwrap(),
        ..plain()
    }
}

fn with_a_machine() -> GuestSpec {
    GuestSpec {
        topology: GuestTopology::plain(4, 512).unwrap(),
        machine: MachineOptions {
            machine_type: MachineType::try_from("pc-q35-7.2".to_owned()).ok(),
            cpu_topology: Some(CpuTopology {
                sockets: 1,
                cores: 2,
                threads: 2,
            }),
            watchdog: Some(WatchdogAction::Poweroff),
            hides_hypervisor: true,
            boot_menu: true,
            multiqueue: true,
            pmu: Some(false),
            rng: RngDevice::Limited {
                bytes: 64,
                period_ms: Some(500),
            },
            ..MachineOptions::default()
        },
        ..with_networks()
    }
}

/// A guest of the older machine, with three disks and a config drive on its IDE bus.
fn on_a_pc() -> GuestSpec {
    GuestSpec {
        machine: MachineOptions {
            machine_type: MachineType::try_from("pc".to_owned()).ok(),
            disk_bus: Some(DiskBus::Ide),
            interface_model: InterfaceModel::E1000,
            ..MachineOptions::default()
        },
        disks: with_disks().disks,
        ..with_networks()
    }
}

/// Its description has markup, which must not break out of the element.
fn described() -> GuestSpec {
    let label = |text| Label::new(text).unwrap();
    GuestSpec {
        description: Some(InstanceDescription {
            name: label("</nova:name><x> & co"),
            user: Some(label("u-1")),
            flavor: label("gpu.large"),
            root_gib: 20,
            ephemeral_gib: 0,
            swap_mib: 512,
            image: Some(mdev(9)),
        }),
        ..plain()
    }
}

fn with_emulated_devices() -> GuestSpec {
    let rate = |per_second, burst| Some(DiskRate { per_second, burst });
    GuestSpec {
        machine: MachineOptions {
            disk_bus: Some(DiskBus::Sata),
            cdrom_bus: Some(DiskBus::Scsi),
            scsi_controller: Some(ScsiController::VirtioScsi),
            interface_model: InterfaceModel::E1000e,
            multiqueue: true,
            packed_ring: true,
            guest_agent: true,
            hpet: true,
            windows: true,
            hides_hypervisor: true,
            address_width: Some(AddressWidth::Emulated(46)),
            limits: GuestLimits {
                cpu: CpuLimits {
                    shares: Some(200),
                    period_us: Some(20_000),
                    quota_us: Some(10_000),
                },
                disk: DiskLimits {
                    bytes: DiskRates {
                        read: rate(1000, Some(2000)),
                        write: rate(500, None),
                        total: None,
                    },
                    requests: DiskRates {
                        total: rate(50, Some(60)),
                        ..DiskRates::default()
                    },
                },
                inbound: Some(TrafficLimit {
                    average: 128,
                    peak: Some(256),
                    burst: Some(64),
                }),
                outbound: Some(TrafficLimit {
                    average: 64,
                    peak: None,
                    burst: None,
                }),
            },
            ..MachineOptions::default()
        },
        disks: with_disks().disks,
        ..with_networks()
    }
}

fn of_arm() -> GuestXmlOptions {
    GuestXmlOptions {
        architecture: GuestArchitecture::Aarch64,
        ..with_screens()
    }
}

fn encrypted(encryption: MemoryEncryption) -> GuestSpec {
    let pages = MemoryPages::Huge { size_kib: 2048 };
    GuestSpec {
        topology: GuestTopology::plain(1, 256)
            .and_then(|topology| topology.with_pages(pages))
            .unwrap(),
        machine: MachineOptions {
            memory_encryption: Some(encryption),
            ..MachineOptions::default()
        },
        boot: GuestBoot::Uefi {
            secure_boot: false,
            stateless: false,
        },
        ..with_networks()
    }
}

/// One of each shape the document can have.
fn shapes() -> Vec<(&'static str, String)> {
    let options = GuestXmlOptions::default();
    let mut shapes: Vec<_> = [
        ("plain", plain()),
        ("disks", with_disks()),
        ("networks", with_networks()),
        ("direct_port", with_a_direct_port()),
        ("devices", with_devices()),
        ("placed", placed()),
        ("kernel", from_a_kernel()),
        ("machine", with_a_machine()),
        ("emulated_devices", with_emulated_devices()),
        ("described", described()),
        ("pc", on_a_pc()),
        ("host_topology", with_the_hosts_topology()),
    ]
    .map(|(name, spec)| (name, guest_xml(&spec, &options)))
    .into();
    for (name, cpu_model) in [
        ("host_model", CpuModel::HostModel),
        ("host_passthrough", CpuModel::HostPassthrough),
        ("maximum", CpuModel::Maximum),
    ] {
        let spec = GuestSpec {
            cpu_model,
            ..plain()
        };
        shapes.push((name, guest_xml(&spec, &options)));
    }
    for (name, secure_boot, stateless) in [
        ("uefi", false, false),
        ("secure_boot", true, false),
        ("stateless", false, true),
    ] {
        let spec = GuestSpec {
            boot: GuestBoot::Uefi {
                secure_boot,
                stateless,
            },
            ..with_disks()
        };
        shapes.push((name, guest_xml(&spec, &options)));
    }
    for (name, spec) in [
        ("arm", with_disks()),
        ("arm_networks", with_networks()),
        ("arm_host_topology", with_the_hosts_topology()),
    ] {
        shapes.push((name, guest_xml(&spec, &of_arm())));
    }
    for (name, encryption) in [
        ("sev", MemoryEncryption::AmdSev),
        ("sev_es", MemoryEncryption::AmdSevEs),
    ] {
        shapes.push((name, guest_xml(&encrypted(encryption), &options)));
    }
    for (name, virtualisation) in [
        ("emulated", Virtualisation::Qemu),
        ("test", Virtualisation::Test),
    ] {
        let options = GuestXmlOptions {
            virtualisation,
            disk_cache: DiskCache::Writeback,
            emulator: (virtualisation == Virtualisation::Qemu).then(|| "/usr/bin/<qemu>".into()),
            ..GuestXmlOptions::default()
        };
        shapes.push((name, guest_xml(&with_disks(), &options)));
    }
    shapes.push(("filtered", guest_xml(&with_networks(), &filtered(&[]))));
    let spare_ports = GuestXmlOptions {
        pcie_root_ports: 3,
        memory_statistics_s: 0,
        ..GuestXmlOptions::default()
    };
    shapes.push((
        "spare_ports",
        guest_xml(&with_emulated_devices(), &spare_ports),
    ));
    shapes.push((
        "long_queues",
        guest_xml(&with_networks(), &with_long_queues()),
    ));
    for (name, spec) in [("screen", plain()), ("named_screen", with_a_named_screen())] {
        shapes.push((name, guest_xml(&spec, &with_screens())));
    }
    shapes
}

fn with_long_queues() -> GuestXmlOptions {
    GuestXmlOptions {
        queue_sizes: QueueSizes {
            receive: Some(1024),
            transmit: Some(512),
        },
        ..GuestXmlOptions::default()
    }
}

fn with_screens() -> GuestXmlOptions {
    GuestXmlOptions {
        vnc_listen: Some("127.0.0.1".parse().unwrap()),
        ..GuestXmlOptions::default()
    }
}

fn with_a_named_screen() -> GuestSpec {
    GuestSpec {
        machine: MachineOptions {
            video_model: Some(VideoModel::Qxl),
            video_memory_mib: Some(32),
            input_bus: Some(InputBus::Virtio),
            ..MachineOptions::default()
        },
        ..plain()
    }
}

#[test]
fn a_guest_has_a_vnc_server_a_video_card_and_a_tablet_or_none_of_them() {
    let text = guest_xml(&plain(), &with_screens());
    for part in [
        r#"<graphics type="vnc" autoport="yes" listen="127.0.0.1"/>"#,
        r#"<model type="virtio"/>"#,
        r#"<input type="tablet" bus="usb"/>"#,
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let named = guest_xml(&with_a_named_screen(), &with_screens());
    for part in [
        r#"<model type="qxl" vram="32768"/>"#,
        r#"<input type="tablet" bus="virtio"/>"#,
        r#"<input type="keyboard" bus="virtio"/>"#,
    ] {
        assert!(named.contains(part), "{part}: {named}");
    }
    let none = guest_xml(&with_a_named_screen(), &GuestXmlOptions::default());
    for element in ["<graphics", "<video", "<input"] {
        assert!(!none.contains(element), "{element}: {none}");
    }
}

/// A network filter and isolated ports, where these networks are not on a Linux bridge.
fn filtered(unfilterable: &[&str]) -> GuestXmlOptions {
    let names = unfilterable.iter();
    GuestXmlOptions {
        nwfilter: Some("berth-port-security".to_owned()),
        port_isolation: true,
        unfilterable: names.map(|name| LinkName::new(name).unwrap()).collect(),
        ..GuestXmlOptions::default()
    }
}

#[test]
fn an_interface_on_a_linux_bridge_has_the_network_filter_and_an_isolated_port() {
    let filter = "<filterref filter=\"berth-port-security\"/>";
    let isolated = "<port isolated=\"yes\"/>";
    let counts = |options| {
        let text = guest_xml(&with_networks(), &options);
        (text.matches(filter).count(), text.matches(isolated).count())
    };
    assert_eq!(counts(filtered(&[])), (2, 2));
    // libvirt refuses a filter for macvtap and virtual functions.
    assert_eq!(counts(filtered(&["default"])), (1, 1));
    let open = GuestXmlOptions {
        port_isolation: false,
        ..filtered(&[])
    };
    assert_eq!(counts(open), (2, 0));
    assert_eq!(counts(GuestXmlOptions::default()), (0, 0));
}

/// Validates documents against libvirt's schema with xmllint; returns its messages, empty if all are valid.
fn against_the_schema(documents: &[(&str, String)]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let files = documents.iter().map(|(name, text)| {
        let file = directory.path().join(name);
        std::fs::File::create(&file)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .unwrap();
        file
    });
    let ran = Command::new("xmllint")
        .args([
            "--noout",
            "--relaxng",
            "/usr/share/libvirt/schemas/domain.rng",
        ])
        .args(files)
        .output()
        .expect("xmllint is installed (packaging/scripts/need.sh node)");
    if ran.status.success() {
        return String::new();
    }
    String::from_utf8_lossy(&ran.stderr).into_owned()
}

#[test]
fn every_shape_of_the_document_is_libvirts() {
    assert_eq!(against_the_schema(&shapes()), "");
}

#[test]
fn what_flavor_and_image_say_of_the_machine_is_in_the_document() {
    let text = guest_xml(&with_a_machine(), &GuestXmlOptions::default());
    for part in [
        r#"machine="pc-q35-7.2""#,
        r#"<topology sockets="1" cores="2" threads="2"/>"#,
        r#"<watchdog model="i6300esb" action="poweroff"/>"#,
        r#"<hidden state="on"/>"#,
        r#"<bootmenu enable="yes"/>"#,
        r#"<driver queues="4"/>"#,
        r#"<pmu state="off"/>"#,
        r#"<rate bytes="64" period="500"/>"#,
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let silent = GuestSpec {
        machine: MachineOptions {
            rng: RngDevice::Absent,
            ..MachineOptions::default()
        },
        ..plain()
    };
    assert!(!guest_xml(&silent, &GuestXmlOptions::default()).contains("<rng"));
}

#[test]
fn the_devices_and_limits_of_flavor_and_image_are_in_the_document() {
    let spec = with_emulated_devices();
    let text = guest_xml(&spec, &GuestXmlOptions::default());
    for part in [
        r#"<target dev="sda" bus="sata"/>"#,
        r#"<target dev="sdc" bus="sata"/>"#,
        // The config drive takes the next letter.
        r#"<target dev="sdd" bus="scsi"/>"#,
        r#"<controller type="scsi" model="virtio-scsi"/>"#,
        r#"<model type="e1000e"/>"#,
        r#"<target type="virtio" name="org.qemu.guest_agent.0"/>"#,
        r#"<clock offset="localtime">"#,
        r#"<timer name="hpet" present="yes"/>"#,
        r#"<timer name="hypervclock" present="yes"/>"#,
        r#"<spinlocks state="on" retries="8191"/>"#,
        r#"<vendor_id state="on" value="1234567890ab"/>"#,
        r#"<maxphysaddr mode="emulate" bits="46"/>"#,
        "<shares>200</shares>",
        "<period>20000</period>",
        "<quota>10000</quota>",
        "<read_bytes_sec>1000</read_bytes_sec>",
        "<read_bytes_sec_max>2000</read_bytes_sec_max>",
        "<total_iops_sec>50</total_iops_sec>",
        r#"<inbound average="128" peak="256" burst="64"/>"#,
        r#"<outbound average="64"/>"#,
        r#"<stats period="10"/>"#,
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let emulating = GuestXmlOptions {
        virtualisation: Virtualisation::Qemu,
        ..GuestXmlOptions::default()
    };
    let emulated = guest_xml(&spec, &emulating);
    assert!(
        emulated.contains(r#"<clock offset="localtime">"#),
        "{emulated}"
    );
    assert!(
        !emulated.contains("hyperv") && !emulated.contains("hypervclock"),
        "{emulated}"
    );
    // An emulated card has neither several queues nor packed rings.
    assert!(
        !text.contains("queues=") && !text.contains("packed="),
        "{text}"
    );
    let paravirtual = GuestSpec {
        machine: MachineOptions {
            interface_model: InterfaceModel::Virtio,
            address_width: Some(AddressWidth::Passthrough),
            ..spec.machine
        },
        ..spec
    };
    let text = guest_xml(&paravirtual, &GuestXmlOptions::default());
    assert!(text.contains(r#"<driver packed="on"/>"#), "{text}");
    assert!(
        text.contains(r#"<maxphysaddr mode="passthrough"/>"#),
        "{text}"
    );
}

#[test]
fn virtio_interfaces_alone_have_the_operators_sizes_of_queues() {
    let sizes = r#"rx_queue_size="1024" tx_queue_size="512""#;
    let options = with_long_queues();
    let text = guest_xml(&with_networks(), &options);
    let driver = format!("<driver {sizes}/>");
    assert_eq!(text.matches(&driver).count(), 3, "{text}");
    let text = guest_xml(&with_a_machine(), &options);
    let driver = format!(r#"<driver queues="4" {sizes}/>"#);
    assert_eq!(text.matches(&driver).count(), 3, "{text}");
    let address = NETWORK_FUNCTION.parse().unwrap();
    let (vlan, trusted) = (None, false);
    let macvtap = PortConnection::Macvtap {
        address,
        vlan,
        trusted,
    };
    let macvtap = with_a_function(macvtap, PciManagement::HostDriver);
    assert!(guest_xml(&macvtap, &options).contains(sizes));
    let attached = interface_xml(&macvtap, macvtap.interfaces.as_slice()[0].mac, &options);
    assert!(attached.unwrap().contains(sizes));
    // Emulated cards and functions of cards have none, nor has libvirt's test driver.
    let of_test = GuestXmlOptions {
        virtualisation: Virtualisation::Test,
        ..options.clone()
    };
    for text in [
        guest_xml(&on_a_pc(), &options),
        guest_xml(&with_a_direct_port(), &options),
        guest_xml(&with_networks(), &of_test),
        guest_xml(&with_networks(), &GuestXmlOptions::default()),
    ] {
        assert!(!text.contains("_queue_size"), "{text}");
    }
}

#[test]
fn a_pc_has_its_disks_on_ide_and_no_root_ports() {
    let options = GuestXmlOptions {
        pcie_root_ports: 3,
        ..GuestXmlOptions::default()
    };
    let text = guest_xml(&on_a_pc(), &options);
    for part in ["hda", "hdb", "hdc", "hdd"] {
        let part = format!(r#"<target dev="{part}" bus="ide"/>"#);
        assert!(text.contains(&part), "{part}: {text}");
    }
    assert!(!text.contains("pcie"), "{text}");
}

#[test]
fn a_guest_has_the_operators_root_ports_and_memory_statistics() {
    let options = GuestXmlOptions {
        pcie_root_ports: 3,
        memory_statistics_s: 0,
        ..GuestXmlOptions::default()
    };
    let text = guest_xml(&plain(), &options);
    assert_eq!(text.matches("pcie-root-port").count(), 3, "{text}");
    assert!(!text.contains("<stats"), "{text}");
}

#[test]
fn devices_of_one_host_switch_are_below_one_switch_on_the_cell_of_their_node() {
    let options = GuestXmlOptions {
        pcie_root_ports: 3,
        ..GuestXmlOptions::default()
    };
    let text = guest_xml(&with_the_hosts_topology(), &options);
    let document = roxmltree::Document::parse(&text).unwrap();
    let elements = || document.descendants().filter(Node::is_element);
    let bus = |element: Node<'_, '_>| {
        let address = crate::xml::find(element, &["address"])?;
        let bus = address.attribute("bus")?.strip_prefix("0x")?;
        Some(u32::from_str_radix(bus, 16).unwrap().to_string())
    };
    let controller = |index: &str| {
        let mut all = elements().filter(|it| it.has_tag_name("controller"));
        all.find(|it| it.attribute("index") == Some(index)).unwrap()
    };
    // From each device up to the default bus.
    let paths = elements()
        .filter(|it| it.has_tag_name("hostdev"))
        .map(|device| {
            let mut path = Vec::new();
            let mut above = bus(device);
            while let Some(index) = above {
                let controller = controller(&index);
                let cell = crate::xml::text(controller, &["target", "node"]).unwrap_or_default();
                path.push(format!(
                    "{} {index} {cell}",
                    controller.attribute("model").unwrap()
                ));
                above = bus(controller);
            }
            path.join(", ")
        });
    let on_switch = |port| {
        format!(
            "pcie-switch-downstream-port {port} , pcie-switch-upstream-port 6 , pcie-root-port 5 , pcie-expander-bus 4 1"
        )
    };
    assert_eq!(
        paths.collect::<Vec<_>>(),
        [
            on_switch(7),
            "pcie-root-port 3 , pcie-expander-bus 2 0".to_owned(),
            "pcie-root-port 1 ".to_owned(),
            on_switch(8),
        ]
    );
    // The ports for devices that are attached later.
    let spare = elements().filter(|it| {
        it.attribute("model") == Some("pcie-root-port") && it.attribute("index").is_none()
    });
    assert_eq!(spare.count(), 3);
}

#[test]
fn telemetry_finds_the_instance_where_nova_writes_it() {
    let spec = GuestSpec {
        interfaces: with_networks().interfaces,
        ..described()
    };
    let text = guest_xml(&spec, &GuestXmlOptions::default());
    let document = roxmltree::Document::parse(&text).unwrap();
    let nova = "http://openstack.org/xmlns/libvirt/nova/1.1";
    let element = |name: &str| {
        let mut all = document.descendants();
        all.find(|node| node.has_tag_name((nova, name))).unwrap()
    };
    assert_eq!(
        element("instance").parent().unwrap().tag_name().name(),
        "metadata"
    );
    assert_eq!(element("name").text(), Some("</nova:name><x> & co"));
    assert_eq!(element("flavor").attribute("name"), Some("gpu.large"));
    for (name, expected) in [
        ("memory", "256"),
        ("vcpus", "1"),
        ("disk", "20"),
        ("swap", "512"),
    ] {
        assert_eq!(element(name).text(), Some(expected), "{name}");
    }
    assert_eq!(element("user").attribute("uuid"), Some("u-1"));
    assert_eq!(element("project").attribute("uuid"), Some("0f1e2d"));
    assert_eq!(element("root").attribute("type"), Some("image"));
    assert_eq!(
        element("port").attribute("uuid"),
        Some(port().id().to_string().as_str())
    );
    assert_eq!(element("ip").attribute("address"), Some("10.55.0.7"));
    assert_eq!(element("ip").attribute("ipVersion"), Some("4"));
    // Berth's own element is still found.
    let reader = Reader::new("a guest", "domain", &text).unwrap();
    let read = GuestMetadata::read(&reader, reader.root()).unwrap();
    assert_eq!(read, Some(GuestMetadata::of(&described())));
}

#[test]
fn cloud_init_recognises_a_guest_of_openstack() {
    let text = guest_xml(&plain(), &GuestXmlOptions::default());
    for part in [
        r#"<smbios mode="sysinfo"/>"#,
        r#"<entry name="product">OpenStack Nova</entry>"#,
        &format!(r#"<entry name="serial">{UUID}</entry>"#),
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn an_invalid_document_is_found_by_libvirts_schema() {
    let invalid = guest_xml(&plain(), &GuestXmlOptions::default()).replace("on_crash", "on_smash");
    assert!(against_the_schema(&[("invalid", invalid)]).contains("on_smash"));
}

#[test]
fn the_documents_are_as_they_were() {
    // The others differ only slightly from these.
    for (name, text) in shapes().into_iter().take(6) {
        insta::assert_snapshot!(name, text);
    }
}

#[test]
fn a_guest_by_uefi_says_whether_only_signed_code_starts() {
    let shapes = shapes();
    let document = |wanted: &str| {
        let (_, text) = shapes.iter().find(|(name, _)| *name == wanted).unwrap();
        text.as_str()
    };
    let (uefi, secure) = (document("uefi"), document("secure_boot"));
    for text in [uefi, secure] {
        assert!(text.contains("<os firmware=\"efi\">"), "{text}");
    }
    assert!(
        uefi.contains("enabled=\"no\" name=\"secure-boot\""),
        "{uefi}"
    );
    assert!(
        secure.contains("enabled=\"yes\" name=\"secure-boot\""),
        "{secure}"
    );
    // Without it the guest could change the secure boot state.
    assert!(secure.contains("<smm state=\"on\"/>") && !uefi.contains("<smm"));
    assert!(!document("disks").contains("firmware"));
    let stateless = r#"<loader stateless="yes"/>"#;
    assert!(document("stateless").contains(stateless) && !uefi.contains(stateless));
}

#[test]
fn a_guest_with_encrypted_memory_has_it_locked_and_shares_none_for_dumps() {
    let options = GuestXmlOptions::default();
    for (encryption, policy) in [
        (MemoryEncryption::AmdSev, "0x0033"),
        (MemoryEncryption::AmdSevEs, "0x0037"),
    ] {
        let text = guest_xml(&encrypted(encryption), &options);
        for part in [
            r#"<launchSecurity type="sev">"#,
            &format!("<policy>{policy}</policy>"),
            "<locked/>",
            r#"<page size="2048" unit="KiB"/>"#,
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("vmcoreinfo"), "{text}");
    }
    let plain = guest_xml(&plain(), &options);
    assert!(!plain.contains("launchSecurity") && !plain.contains("<locked"));
    assert!(plain.contains("vmcoreinfo"));
}

#[test]
fn a_guest_of_aarch64_has_uefi_the_hosts_processor_and_nothing_of_x86() {
    let windows = GuestSpec {
        machine: MachineOptions {
            windows: true,
            ..MachineOptions::default()
        },
        cpu_model: CpuModel::HostModel,
        ..with_disks()
    };
    let text = guest_xml(&windows, &of_arm());
    for part in [
        r#"<os firmware="efi">"#,
        r#"<type arch="aarch64" machine="virt">hvm</type>"#,
        r#"<cpu mode="host-passthrough"/>"#,
        r#"<target dev="sda" bus="scsi"/>"#,
        r#"<controller type="scsi" model="virtio-scsi"/>"#,
        r#"<controller type="usb" model="qemu-xhci"/>"#,
        r#"<input type="keyboard" bus="usb"/>"#,
        r#"<clock offset="localtime"/>"#,
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for part in ["apic", "hyperv", "<timer", "smm", "sata"] {
        assert!(!text.contains(part), "{part}: {text}");
    }
    // An emulated processor has all that the emulator has.
    let emulated = GuestXmlOptions {
        virtualisation: Virtualisation::Qemu,
        ..of_arm()
    };
    let text = guest_xml(&plain(), &emulated);
    assert!(text.contains(r#"<cpu mode="maximum"/>"#), "{text}");
}

#[test]
fn every_guest_has_acpi_and_the_machine_of_its_host() {
    for (name, text) in shapes() {
        let document = roxmltree::Document::parse(&text).unwrap();
        let domain = document.root_element();
        assert!(
            crate::xml::find(domain, &["features", "acpi"]).is_some(),
            "{name}"
        );
        let machine = crate::xml::find(domain, &["os", "type"]).unwrap();
        let expected = match name {
            "test" => None,
            "machine" => Some("pc-q35-7.2"),
            "pc" => Some("pc"),
            "arm" | "arm_networks" | "arm_host_topology" => Some("virt"),
            _ => Some("q35"),
        };
        assert_eq!(machine.attribute("machine"), expected, "{name}");
    }
}

#[test]
fn every_disk_says_where_its_chain_ends() {
    let text = guest_xml(&with_disks(), &GuestXmlOptions::default());
    let document = roxmltree::Document::parse(&text).unwrap();
    let disks = crate::xml::find(document.root_element(), &["devices"]).unwrap();
    let written =
        crate::xml::children(disks, "disk").filter(|disk| disk.attribute("device") == Some("disk"));
    let mut ends = 0;
    for disk in written {
        let mut at = disk;
        while let Some(under) = crate::xml::find(at, &["backingStore"]) {
            at = under;
        }
        assert!(at != disk && at.attribute("type").is_none(), "{text}");
        ends += 1;
    }
    assert_eq!(ends, 3);
}

#[test]
fn the_owner_of_a_guest_is_read_back() {
    let spec = with_devices();
    let text = guest_xml(&spec, &GuestXmlOptions::default());
    let reader = Reader::new("a guest", "domain", &text).unwrap();
    let read = GuestMetadata::read(&reader, reader.root()).unwrap();
    assert_eq!(read, Some(GuestMetadata::of(&spec)));
    let others = "<domain><metadata><guest xmlns='urn:other'/></metadata></domain>";
    let reader = Reader::new("a guest", "domain", others).unwrap();
    assert_eq!(GuestMetadata::read(&reader, reader.root()), Ok(None));
    let invalid = text.replacen(UUID, "x", 3);
    let reader = Reader::new("a guest", "domain", &invalid).unwrap();
    assert!(GuestMetadata::read(&reader, reader.root()).is_err());
}

#[test]
fn what_the_observing_side_reads_is_what_was_asked_for() {
    let read = |spec: &GuestSpec| {
        LibvirtGuest::read(&guest_xml(spec, &GuestXmlOptions::default())).unwrap()
    };
    let devices = read(&with_devices());
    assert_eq!(devices.mdevs, [mdev(7)]);
    let functions: Vec<_> = devices.functions.iter().map(ToString::to_string).collect();
    assert_eq!(functions, ["0000:84:00.0", "0000:85:00.4", "10000:01:1f.7"]);
    let placed = read(&placed());
    assert_eq!(placed.pins[&2], cpus("0-3,8"));
    assert_eq!(placed.cells[&0], (cpus("0,2"), 1024));
    assert_eq!(placed.cell_nodes[&0], cpus("1"));
    assert_eq!((placed.vcpus, placed.memory_mib), (3, 3072));
}

fn hostile_name() -> impl Strategy<Value = GuestName> {
    let pieces = prop_oneof![
        any::<String>(),
        Just("</name><devices>".to_owned()),
        Just("]]>".to_owned()),
        Just("<!--".to_owned()),
        Just("&lt;&#0;&amp;".to_owned()),
        Just("\"'".to_owned()),
        Just("a  b".to_owned()),
    ];
    proptest::collection::vec(pieces, 1..4)
        .prop_filter_map("no name", |pieces| GuestName::new(&pieces.concat()).ok())
}

proptest! {
    #[test]
    fn a_hostile_name_stays_a_name(name in hostile_name()) {
        let path = HostPath::new(&format!("/i/{name}")).unwrap();
        let spec = GuestSpec {
            owner: GuestOwner {
                project: ProjectId::new(name.as_str()).unwrap(),
                consumer: UUID.parse().unwrap(),
            },
            console_log: path.clone(),
            disks: GuestDisks::new(Some(QcowDisk { path: path.clone(), base: None }), vec![], None).unwrap(),
            name,
            ..with_devices()
        };
        let text = guest_xml(&spec, &GuestXmlOptions::default());
        let read = LibvirtGuest::read(&text).unwrap();
        prop_assert_eq!(&read.name, spec.name.as_str());
        prop_assert_eq!(read.uuid, *spec.uuid.as_uuid());
        prop_assert_eq!(read.mdevs.len(), 1);
        let reader = Reader::new("a guest", "domain", &text).unwrap();
        let metadata = GuestMetadata::read(&reader, reader.root()).unwrap();
        prop_assert_eq!(metadata, Some(GuestMetadata::of(&spec)));
        let devices = crate::xml::find(reader.root(), &["devices"]).unwrap();
        let file = crate::xml::find(devices, &["disk", "source"]).unwrap().attribute("file");
        prop_assert_eq!(file, Some(path.as_str()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn a_document_with_hostile_names_is_still_libvirts(
        names in proptest::collection::vec(hostile_name(), 8)
    ) {
        let documents: Vec<_> = names.into_iter().enumerate().map(|(number, name)| {
            let text = guest_xml(&GuestSpec { name, ..with_devices() }, &GuestXmlOptions::default());
            (["0", "1", "2", "3", "4", "5", "6", "7"][number], text)
        }).collect();
        prop_assert_eq!(against_the_schema(&documents), "");
    }
}

/// A guest with a port that is connected in this way to the function.
fn with_a_function(connection: PortConnection, managed: PciManagement) -> GuestSpec {
    let network = Label::new("storage").unwrap();
    let port = GuestPort::new(direct_port().id(), network, Vec::new(), None, connection).unwrap();
    let address = port.network_function().unwrap();
    let device = AttachedDevice {
        device: GuestDevice::Pci { address, managed },
        origin: DeviceOrigin::Port(port.id()),
    };
    let interface = GuestInterface {
        mac: "fa:16:3e:54:eb:92".parse().unwrap(),
        source: InterfaceSource::Port(Box::new(port)),
    };
    GuestSpec {
        interfaces: GuestInterfaces::new(vec![interface]).unwrap(),
        devices: GuestDevices::new(vec![device]).unwrap(),
        ..plain()
    }
}

#[test]
fn a_macvtap_port_is_on_the_interface_of_its_function_and_is_no_host_device() {
    let address = NETWORK_FUNCTION.parse().unwrap();
    let connection = PortConnection::Macvtap {
        address,
        vlan: Some(42),
        trusted: false,
    };
    let spec = with_a_function(connection, PciManagement::HostDriver);
    let options = GuestXmlOptions {
        function_links: [(address, "ens5v1".to_owned())].into(),
        ..GuestXmlOptions::default()
    };
    let text = guest_xml(&spec, &options);
    assert!(text.contains("<interface type=\"direct\">"), "{text}");
    let source = "<source dev=\"ens5v1\" mode=\"passthrough\"/>";
    assert!(text.contains(source), "{text}");
    // Without it, libvirt removes the VLAN that the agent has set at the physical function.
    assert!(text.contains("<tag id=\"42\"/>"), "{text}");
    assert!(!text.contains("<hostdev"), "{text}");
}

#[test]
fn a_whole_network_card_is_a_host_device_and_no_interface() {
    let address = "0000:05:00.0".parse().unwrap();
    let connection = PortConnection::PhysicalFunction { address };
    let spec = with_a_function(connection, PciManagement::Hypervisor);
    let text = guest_xml(&spec, &GuestXmlOptions::default());
    assert!(
        text.contains("<hostdev mode=\"subsystem\" type=\"pci\""),
        "{text}"
    );
    assert!(!text.contains("<interface"), "{text}");
    let held = spec.held_devices();
    assert!(held.iter().all(|held| !held.is_interface), "{held:?}");
}
