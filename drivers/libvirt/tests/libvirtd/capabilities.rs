//! Each capability that the driver reports as a trait belongs to a guest that starts on the real libvirtd and QEMU.

use std::collections::BTreeSet;

use berth_libvirt::{CpuMode, LibvirtDriver, LibvirtOptions};
use berth_model::{
    AddressWidth, DiskBus, DiskLimits, DiskRate, DiskRates, GuestLimits, InterfaceModel,
    MachineOptions, MachineType, ScsiController, VideoModel,
};
use berth_virt::guest_spec::{
    CpuModel, CpuModelName, GuestDisks, GuestInterface, GuestInterfaces, GuestPort, GuestSpec,
    InterfaceSource, Label, LinkName, PlugSignal, PortConnection,
};
use berth_virt::{GuestHardware, VirtDriver as _};
use uuid::Uuid;
use virt::connect::Connect;

use crate::daemon::Daemon;
use crate::guests::{disks, driver_options, guest_spec};
use crate::loaded;

/// A guest of every kind of machine, with parts of the document that libvirt runs it with.
struct Case {
    traits: Vec<String>,
    machine: MachineOptions,
    parts: Vec<String>,
}

/// The traits that other tests cover: UEFI firmware in `firmware`, and what each guest has. Of the threads of the host's cores, pinned
/// guests get what their flavors request (`agent/instances`, `fit`).
const ELSEWHERE: [&str; 7] = [
    "HW_ARCH_X86_64",
    "HW_CPU_HYPERTHREADING",
    "COMPUTE_ARCH_X86_64",
    "COMPUTE_FIRMWARE_BIOS",
    "COMPUTE_FIRMWARE_UEFI",
    "COMPUTE_SECURITY_STATELESS_FIRMWARE",
    "COMPUTE_SECURITY_UEFI_SECURE_BOOT",
];

/// Every model of interface, each with one of the buses, so that few guests have all of them.
fn cases() -> Vec<Case> {
    // A hypervisor without the newest model has the bus that would be in its guest.
    let models = InterfaceModel::ALL.iter();
    let models = models.filter(|model| **model != InterfaceModel::Igb);
    let pairs = models.zip(DiskBus::ALL.iter().cycle());
    let mut cases: Vec<Case> = pairs
        .map(|(model, bus)| Case {
            traits: vec![
                format!("COMPUTE_NET_VIF_MODEL_{}", model.as_str().to_uppercase()),
                format!("COMPUTE_STORAGE_BUS_{}", bus.as_str().to_uppercase()),
            ],
            machine: MachineOptions {
                machine_type: (*bus == DiskBus::Ide)
                    .then(|| MachineType::try_from("pc".to_owned()).expect("a machine")),
                disk_bus: Some(*bus),
                cdrom_bus: Some(if *bus == DiskBus::Virtio {
                    DiskBus::Sata
                } else {
                    *bus
                }),
                interface_model: *model,
                ..MachineOptions::default()
            },
            parts: vec![
                format!("<model type='{}'/>", model.as_str()),
                match bus {
                    DiskBus::Ide => "machine='pc-i440fx-".to_owned(),
                    _ => "model='pcie-root-port'".to_owned(),
                },
                format!("dev='{}a' bus='{}'", bus.device_prefix(), bus.as_str()),
            ],
        })
        .collect();
    cases.push(Case {
        traits: vec!["COMPUTE_NET_VIF_MODEL_IGB".to_owned()],
        machine: MachineOptions {
            interface_model: InterfaceModel::Igb,
            ..MachineOptions::default()
        },
        parts: vec!["<model type='igb'/>".to_owned()],
    });
    cases.extend(VideoModel::ALL.map(|model| Case {
        traits: vec![format!(
            "COMPUTE_GRAPHICS_MODEL_{}",
            model.as_str().to_uppercase()
        )],
        machine: MachineOptions {
            video_model: Some(model),
            ..MachineOptions::default()
        },
        parts: vec![
            format!("<model type='{}'", model.as_str()),
            "<graphics type='vnc'".to_owned(),
        ],
    }));
    cases.push(Case {
        traits: vec![
            "COMPUTE_ADDRESS_SPACE_EMULATED".to_owned(),
            "COMPUTE_NET_VIRTIO_PACKED".to_owned(),
        ],
        machine: with_everything(),
        parts: [
            "<maxphysaddr mode='emulate' bits='42'/>",
            "name='org.qemu.guest_agent.0'",
            "<timer name='hpet' present='yes'/>",
            "<clock offset='localtime'",
            "<entry name='product'>OpenStack Nova</entry>",
            "<controller type='scsi' index='0' model='virtio-scsi'>",
            "<read_bytes_sec>1000000</read_bytes_sec>",
            "<total_iops_sec_max>600</total_iops_sec_max>",
            "<vmcoreinfo state='on'/>",
            "packed='on'",
        ]
        .map(str::to_owned)
        .into(),
    });
    cases
}

fn with_everything() -> MachineOptions {
    let rate = |per_second, burst| Some(DiskRate { per_second, burst });
    MachineOptions {
        disk_bus: Some(DiskBus::Scsi),
        cdrom_bus: Some(DiskBus::Scsi),
        scsi_controller: Some(ScsiController::VirtioScsi),
        multiqueue: true,
        packed_ring: true,
        guest_agent: true,
        hpet: true,
        windows: true,
        address_width: Some(AddressWidth::Emulated(42)),
        limits: GuestLimits {
            disk: DiskLimits {
                bytes: DiskRates {
                    read: rate(1_000_000, None),
                    ..DiskRates::default()
                },
                requests: DiskRates {
                    total: rate(500, Some(600)),
                    ..DiskRates::default()
                },
            },
            // Limits on network traffic need modules that not every kernel has (sch_sfq, act_police).
            ..GuestLimits::default()
        },
        ..MachineOptions::default()
    }
}

fn spec(folder: &std::path::Path, disks: &GuestDisks, machine: MachineOptions) -> GuestSpec {
    let interface = GuestInterface {
        mac: "52:54:00:12:34:56".parse().expect("a MAC address"),
        source: InterfaceSource::Bridge(LinkName::new("br0").expect("a bridge's name")),
    };
    GuestSpec {
        machine,
        interfaces: GuestInterfaces::new(vec![interface]).expect("one interface"),
        ..guest_spec(folder, disks.clone())
    }
}

#[tokio::test]
async fn a_guest_starts_with_each_capability_that_is_reported() {
    loaded();
    let daemon = Daemon::start_with_bridge();
    let folder = tempfile::tempdir().expect("a folder");
    let driver = LibvirtDriver::new(LibvirtOptions {
        // The bridge is in libvirtd's namespace alone.
        sysfs: None,
        nwfilter: None,
        pcie_root_ports: 10,
        ..driver_options(&daemon)
    });
    let view = driver.observe().await.expect("libvirtd runs");
    let node = view.nodes.into_values().next().expect("one node");
    let reported: BTreeSet<String> = node
        .traits
        .iter()
        .map(|one| one.as_str().to_owned())
        // Of the processor: the next tests, and `tests/program/libvirt_guests/processor.rs` in a guest.
        .filter(|name| !name.starts_with("HW_CPU_X86_"))
        .collect();
    let mut without_guest = reported.clone();
    without_guest.retain(|name| !ELSEWHERE.contains(&name.as_str()));
    let disks = disks(folder.path());
    let connect = Connect::open(Some(&daemon.uri())).expect("libvirtd runs");
    for case in cases() {
        if !case.traits.iter().all(|name| reported.contains(name)) {
            continue;
        }
        without_guest.retain(|name| !case.traits.contains(name));
        let spec = spec(folder.path(), &disks, case.machine);
        let started = driver.spawn(&spec).await;
        let _ = started.unwrap_or_else(|error| panic!("{:?}: {error}", case.traits));
        let domain = connect.lookup_domain_by_uuid(*spec.uuid.as_uuid());
        let text = domain.and_then(|domain| domain.xml_desc(0));
        let text = text.expect("it runs");
        for part in case.parts {
            assert!(text.contains(&part), "{part}: {text}");
        }
        let _ = driver.destroy(spec.uuid).await.expect("it ends");
    }
    assert!(
        without_guest.is_empty(),
        "no guest here has {without_guest:?}"
    );
}

/// Reported with KVM alone; an emulator has its own width and starts, too.
#[tokio::test]
async fn a_guest_with_the_hosts_address_width_starts() {
    loaded();
    let daemon = Daemon::start();
    let folder = tempfile::tempdir().expect("a folder");
    let driver = LibvirtDriver::new(driver_options(&daemon));
    let spec = GuestSpec {
        machine: MachineOptions {
            address_width: Some(AddressWidth::Passthrough),
            ..MachineOptions::default()
        },
        ..guest_spec(folder.path(), GuestDisks::default())
    };
    let _ = driver.spawn(&spec).await.expect("it starts");
    let connect = Connect::open(Some(&daemon.uri())).expect("libvirtd runs");
    let domain = connect.lookup_domain_by_uuid(*spec.uuid.as_uuid());
    let text = domain.and_then(|domain| domain.xml_desc(0));
    let text = text.expect("it runs");
    assert!(text.contains("<maxphysaddr mode='passthrough'/>"), "{text}");
    let _ = driver.destroy(spec.uuid).await.expect("it ends");
}

#[tokio::test]
async fn a_guest_has_the_features_of_the_processor_that_are_reported() {
    /// Its features; other models have more.
    const OLDER: &[(&str, &str)] = &[
        ("aes", "HW_CPU_X86_AESNI"),
        ("avx2", "HW_CPU_X86_AVX2"),
        ("bmi2", "HW_CPU_X86_BMI2"),
        ("fma", "HW_CPU_X86_FMA3"),
        ("pni", "HW_CPU_X86_SSE3"),
    ];
    /// Features of newer models. QEMU does not emulate them, and starts the guest without them.
    const NOT_EMULATED: &[(&str, &str)] = &[
        ("avx512bw", "HW_CPU_X86_AVX512BW"),
        ("avx512f", "HW_CPU_X86_AVX512F"),
    ];
    loaded();
    let daemon = Daemon::start();
    let folder = tempfile::tempdir().expect("a folder");
    for (model, is_newer) in [("Haswell-noTSX", false), ("Skylake-Server", true)] {
        let driver = LibvirtDriver::new(LibvirtOptions {
            cpu_mode: CpuMode::Custom,
            cpu_model: Some(model.to_owned()),
            ..driver_options(&daemon)
        });
        let node = crate::node(&driver).await;
        let reported = |name: &str| node.traits.iter().any(|it| it.as_str() == name);
        let spec = GuestSpec {
            cpu_model: CpuModel::Named(CpuModelName::new(model).expect("a name")),
            ..guest_spec(folder.path(), GuestDisks::default())
        };
        let _ = driver.spawn(&spec).await.expect("it starts");
        let connect = Connect::open(Some(&daemon.uri())).expect("libvirtd runs");
        let domain = connect.lookup_domain_by_uuid(*spec.uuid.as_uuid());
        let text = domain.and_then(|domain| domain.xml_desc(0));
        let text = text.expect("it runs");
        // libvirt lists the features of the model that the running guest lacks.
        let lacks =
            |feature: &str| text.contains(&format!("<feature policy='disable' name='{feature}'/>"));
        for (feature, name) in OLDER {
            assert!(reported(name), "{name}");
            assert!(!lacks(feature), "{text}");
        }
        for (feature, name) in NOT_EMULATED {
            assert!(!reported(name), "{name}");
            assert!(!is_newer || lacks(feature), "{text}");
        }
        // Whatever the host has, the models have none of them.
        for name in [
            "HW_CPU_X86_AVX512VNNI",
            "HW_CPU_X86_SHA",
            "HW_CPU_X86_SSE4A",
        ] {
            assert!(!reported(name), "{name}");
        }
        let _ = driver.destroy(spec.uuid).await.expect("it ends");
    }
}

#[tokio::test]
async fn a_guest_with_a_port_opens_the_tap_that_the_agent_made() {
    loaded();
    let daemon = Daemon::start_with_bridge();
    let folder = tempfile::tempdir().expect("a folder");
    let driver = LibvirtDriver::new(LibvirtOptions {
        sysfs: None,
        ..driver_options(&daemon)
    });
    let disks = disks(folder.path());
    let port = GuestPort::new(
        Uuid::from_u128(0x88a1_5950_b8b3 << 80),
        Label::new("private").expect("a name"),
        vec!["10.55.0.7".parse().expect("an address")],
        Some(1442),
        PortConnection::OpenVswitch {
            bridge: LinkName::new("br-int").expect("a bridge's name"),
            signal: PlugSignal::OvnInstalled,
        },
    );
    let port = port.expect("a port");
    let interface = GuestInterface {
        mac: "fa:16:3e:54:eb:90".parse().expect("a MAC address"),
        source: InterfaceSource::Port(Box::new(port)),
    };
    let spec = GuestSpec {
        interfaces: GuestInterfaces::new(vec![interface]).expect("one interface"),
        ..guest_spec(folder.path(), disks)
    };
    let _ = driver.spawn(&spec).await.expect("it starts");
    let connect = Connect::open(Some(&daemon.uri())).expect("libvirtd runs");
    let domain = connect.lookup_domain_by_uuid(*spec.uuid.as_uuid());
    let text = domain.and_then(|domain| domain.xml_desc(0));
    let text = text.expect("it runs");
    for part in [
        "<interface type='ethernet'>",
        "<target dev='tap88a15950-b8' managed='no'/>",
        "<mac address='fa:16:3e:54:eb:90'/>",
        "<mtu size='1442'/>",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let guests = driver.guests().await.expect("libvirtd runs");
    let has = guests[&spec.uuid].hardware.clone().expect("its hardware");
    assert_eq!(has.difference(&GuestHardware::of(&spec)), None);
    let _ = driver.destroy(spec.uuid).await.expect("it ends");
}
