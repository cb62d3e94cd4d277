use proptest::prelude::*;

use super::*;
use crate::{CpuSet, HostDeviceId};

const UUID: &str = "11111111-2222-4333-8444-555555555555";
const ARQ: &str = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee";

fn path(text: &str) -> HostPath {
    HostPath::new(text).unwrap()
}

fn cpus(text: &str) -> CpuSet {
    text.parse().unwrap()
}

fn cell(vcpus: &str, memory_mib: u64, host_cell: u32) -> GuestNumaCell {
    GuestNumaCell {
        vcpus: cpus(vcpus),
        memory_mib,
        host_cell,
    }
}

fn disk(text: &str, base: Option<&str>) -> QcowDisk {
    QcowDisk {
        path: path(text),
        base: base.map(|base| BaseImage {
            path: path(base),
            format: DiskFormat::Raw,
        }),
    }
}

fn pinning(dedicated: &[u32]) -> CpuPinning {
    let pins = dedicated.iter().map(|cpu| VcpuPin::Dedicated(*cpu));
    CpuPinning::new(pins.collect(), cpus("0-1")).unwrap()
}

fn function(address: &str, origin: DeviceOrigin) -> AttachedDevice {
    AttachedDevice {
        device: GuestDevice::Pci {
            address: address.parse().unwrap(),
            managed: PciManagement::Hypervisor,
        },
        origin,
    }
}

/// Of the function of [`rich`], and of a device that it does not have.
fn places() -> HostPciPlaces {
    let place = HostPciPlace {
        numa_node: Some(1),
        switch: Some("0000:80:00.0".parse().unwrap()),
    };
    let function = |address: &str| HostDeviceId::Function(address.parse().unwrap());
    let places = ["0000:84:00.0", "0000:85:00.0"].map(|address| (function(address), place));
    places.into_iter().collect()
}

fn rich() -> GuestSpec {
    GuestSpec {
        uuid: UUID.parse().unwrap(),
        node: None,
        name: GuestName::new("instance-00000001").unwrap(),
        owner: GuestOwner {
            project: ProjectId::new("a project").unwrap(),
            consumer: UUID.parse().unwrap(),
        },
        description: None,
        topology: GuestTopology::plain(4, 2048)
            .and_then(|topology| topology.pinned(pinning(&[4, 5, 6, 7])))
            .and_then(|topology| {
                topology.on_cells(vec![cell("0-1", 1024, 0), cell("2-3", 1024, 1)])
            })
            .and_then(|topology| topology.with_pages(MemoryPages::Huge { size_kib: 2048 }))
            .unwrap(),
        cpu_model: CpuModel::Named(CpuModelName::new("Haswell-noTSX").unwrap()),
        machine: MachineOptions::default(),
        boot: GuestBoot::Kernel {
            kernel: path("/boot/vmlinuz"),
            ramdisk: Some(path("/boot/initrd.img")),
            command_line: KernelCommandLine::new("console=ttyS0 quiet").unwrap(),
        },
        disks: GuestDisks::new(
            Some(disk("/instances/1/disk", Some("/instances/_base/abc"))),
            vec![disk("/instances/1/disk.eph0", None)],
            Some(path("/instances/1/disk.config")),
        )
        .unwrap(),
        interfaces: GuestInterfaces::new(vec![GuestInterface {
            mac: "52:54:00:12:34:56".parse().unwrap(),
            source: InterfaceSource::Bridge(LinkName::new("br0").unwrap()),
        }])
        .unwrap(),
        console_log: path("/instances/1/console.log"),
        devices: GuestDevices::new(vec![
            function("0000:84:00.0", DeviceOrigin::Arq(ARQ.parse().unwrap())),
            AttachedDevice {
                device: GuestDevice::Mdev {
                    uuid: UUID.parse().unwrap(),
                },
                origin: DeviceOrigin::Flavor,
            },
        ])
        .unwrap()
        .with_places(&places()),
        power: DesiredPower::Running,
    }
}

#[test]
fn a_spec_comes_out_of_a_journal_as_it_went_in() {
    let spec = rich();
    let text = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<GuestSpec>(&text).unwrap(), spec);
    assert_eq!(text.matches("0000:80:00.0").count(), 1, "{text}");
}

#[test]
fn a_journal_that_was_tampered_with_makes_no_spec() {
    let good = serde_json::to_value(rich()).unwrap();
    for (pointer, value) in [
        ("/topology/vcpus", serde_json::json!(5)),
        ("/topology/memory_mib", serde_json::json!(4096)),
        ("/topology/cells/0/vcpus", serde_json::json!("0-2")),
        ("/topology/pinning/emulator", serde_json::json!("")),
        ("/name", serde_json::json!("../x")),
        (
            "/disks/ephemeral/0/path",
            serde_json::json!("/instances/1/disk"),
        ),
        (
            "/disks/root/base/path",
            serde_json::json!("/a/../etc/shadow"),
        ),
        ("/interfaces/0/mac", serde_json::json!("01:00:00:00:00:00")),
        ("/devices/1", good["devices"][0].clone()),
        ("/uuid", serde_json::json!("x")),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).expect(pointer) = value;
        assert!(
            serde_json::from_value::<GuestSpec>(bad).is_err(),
            "{pointer}"
        );
    }
    let mut more = good;
    more["admin_pass"] = serde_json::json!("x");
    assert!(serde_json::from_value::<GuestSpec>(more).is_err());
}

fn refused<T: std::fmt::Debug>(made: Result<T, GuestSpecError>) -> (&'static str, String) {
    let error = made.expect_err("it must not be");
    (error.field(), error.to_string())
}

#[test]
fn a_topology_that_cannot_be_is_refused_by_field() {
    let plain = || GuestTopology::plain(4, 2048).unwrap();
    let parted = |cells| plain().on_cells(cells);
    for (made, field, words) in [
        (GuestTopology::plain(0, 1), "topology.vcpus", "1 to 4096"),
        (GuestTopology::plain(1, 0), "topology.memory_mib", "1 PiB"),
        (
            plain().pinned(pinning(&[4, 5])),
            "topology.pinning",
            "leaves out the virtual CPUs 2-3",
        ),
        (
            plain().pinned(pinning(&[4, 5, 6, 7, 8])),
            "topology.pinning",
            "the virtual CPUs 4,",
        ),
        (
            plain()
                .floating_on(cpus("0-3"))
                .unwrap()
                .pinned(pinning(&[4, 5, 6, 7])),
            "topology.pinning",
            "float",
        ),
        (
            plain().floating_on(CpuSet::default()),
            "topology.cpu_set",
            "at least one",
        ),
        (
            parted(vec![cell("0-2", 1024, 0), cell("2-3", 1024, 1)]),
            "topology.cells",
            "the CPUs 2 in two places",
        ),
        (
            parted(vec![cell("0-2", 2048, 0)]),
            "topology.cells",
            "leaves out the virtual CPUs 3",
        ),
        (
            parted(vec![cell("0-4", 2048, 0)]),
            "topology.cells",
            "names the virtual CPUs 4",
        ),
        (
            parted(vec![]),
            "topology.cells",
            "leaves out the virtual CPUs 0-3",
        ),
        (
            parted(vec![cell("0-3", 1024, 0)]),
            "topology.cells.memory_mib",
            "1024 in all, the guest has 2048",
        ),
        (
            parted(vec![cell("0-3", u64::MAX, 0), cell("", u64::MAX, 0)]),
            "topology.cells.memory_mib",
            "in all",
        ),
        (
            plain().with_pages(MemoryPages::Huge { size_kib: 3000 }),
            "topology.pages.size_kib",
            "power of two",
        ),
        (
            plain().with_pages(MemoryPages::Huge { size_kib: 4 << 20 }),
            "topology.memory_mib",
            "must be a multiple",
        ),
        (
            parted(vec![cell("0-1", 1023, 0), cell("2-3", 1025, 1)])
                .unwrap()
                .with_pages(MemoryPages::Huge { size_kib: 2048 }),
            "topology.memory_mib",
            "must be a multiple",
        ),
    ] {
        let (at, text) = refused(made);
        assert!(
            at == field && text.contains(words),
            "{field}, {words}: {at}: {text}"
        );
    }
}

#[test]
fn a_dedicated_cpu_is_one_virtual_cpus_alone() {
    use VcpuPin::{Dedicated, Shared};
    let on = |pins| CpuPinning::new(pins, cpus("0"));
    assert_eq!(
        refused(on(vec![Dedicated(4), Dedicated(4)])).0,
        "topology.pinning"
    );
    assert_eq!(
        refused(on(vec![Dedicated(4), Shared(cpus("3-5"))])).0,
        "topology.pinning"
    );
    assert_eq!(refused(on(vec![Shared(cpus(""))])).0, "topology.pinning");
    let unheld = CpuPinning::new(vec![Dedicated(4)], CpuSet::default());
    assert_eq!(refused(unheld).0, "topology.pinning.emulator");
    let mixed = on(vec![Dedicated(4), Shared(cpus("0-3")), Shared(cpus("0-3"))]).unwrap();
    assert_eq!(mixed.dedicated(), cpus("4"));
}

#[test]
fn a_device_is_given_once_and_a_request_has_one() {
    let arq = DeviceOrigin::Arq(ARQ.parse().unwrap());
    let twice = vec![
        function("84:00.0", arq),
        function("0000:84:00.0", DeviceOrigin::Flavor),
    ];
    assert_eq!(refused(GuestDevices::new(twice)).0, "devices");
    let as_vendors = AttachedDevice {
        device: GuestDevice::VendorVfio {
            address: "84:00.0".parse().unwrap(),
        },
        origin: DeviceOrigin::Flavor,
    };
    let in_two_ways = vec![function("84:00.0", arq), as_vendors];
    assert_eq!(refused(GuestDevices::new(in_two_ways)).0, "devices");
    let two = vec![function("84:00.0", arq), function("85:00.0", arq)];
    assert_eq!(refused(GuestDevices::new(two)).0, "devices.origin");
}

#[test]
fn an_alias_carries_the_arq() {
    let of_arq = function("84:00.0", DeviceOrigin::Arq(ARQ.parse().unwrap()));
    assert_eq!(of_arq.alias(), format!("ua-berth-arq-{ARQ}"));
    assert_eq!(
        AttachedDevice::arq_of_alias(&of_arq.alias()),
        Some(ARQ.parse().unwrap())
    );
    let of_flavor = function("84:00.0", DeviceOrigin::Flavor);
    assert_eq!(of_flavor.alias(), "ua-berth-pci-0000-84-00-0");
    for other in [
        "ua-berth-pci-0000-84-00-0",
        "hostdev0",
        "ua-berth-arq-x",
        "",
    ] {
        assert_eq!(AttachedDevice::arq_of_alias(other), None, "{other}");
    }
}

#[test]
fn two_disks_are_two_files() {
    let twice = GuestDisks::new(Some(disk("/a/b", None)), vec![disk("/a/b", None)], None);
    assert_eq!(refused(twice).0, "disks");
    let own_base = GuestDisks::new(
        Some(disk("/a/b", Some("/a/c"))),
        vec![disk("/a/c", None)],
        None,
    );
    assert_eq!(refused(own_base).0, "disks");
    let one_base = GuestDisks::new(
        Some(disk("/a/b", Some("/a/c"))),
        vec![disk("/a/d", Some("/a/c"))],
        None,
    );
    assert!(one_base.is_ok());
}

#[test]
fn names_that_a_hypervisor_or_a_file_system_would_misread_are_refused() {
    let longest = "n".repeat(240);
    for good in [
        "a",
        "instance-0001",
        "<&'\">",
        "ünï cödé ✓",
        "-rm",
        "a,b=c",
        &longest,
    ] {
        assert_eq!(GuestName::new(good).unwrap().as_str(), good);
    }
    let too_long = "n".repeat(241);
    for bad in [
        "",
        " ",
        ".",
        "..",
        "a/b",
        "a\nb",
        "a\0b",
        " a",
        "a\u{2028}b",
        "\u{ffff}",
        &too_long,
    ] {
        assert_eq!(refused(GuestName::new(bad)).0, "name", "{bad:?}");
    }
    for bad in [
        "", "/", "a/b", "/a/../b", "/a/./b", "/a//b", "/a/", "/a\n", "//a",
    ] {
        assert_eq!(refused(HostPath::new(bad)).0, "path", "{bad:?}");
    }
    for bad in ["", "br 0", "br/0", "..", "ü"] {
        assert_eq!(
            refused(LinkName::new(bad)).0,
            "interfaces.source",
            "{bad:?}"
        );
    }
}

#[test]
fn a_bridges_name_is_as_long_as_linux_takes() {
    let plugged = |source| {
        GuestInterfaces::new(vec![GuestInterface {
            mac: "52:54:00:12:34:56".parse().unwrap(),
            source,
        }])
    };
    let name = || LinkName::new("a-name-of-16-byt").unwrap();
    assert_eq!(
        refused(plugged(InterfaceSource::Bridge(name()))).0,
        "interfaces.source"
    );
    assert!(plugged(InterfaceSource::Network(name())).is_ok());
}

proptest! {
    #[test]
    fn no_text_makes_a_constructor_panic(text in any::<String>()) {
        let _ = GuestName::new(&text);
        let _ = HostPath::new(&text);
        let _ = KernelCommandLine::new(&text);
        let _ = AttachedDevice::arq_of_alias(&text);
    }

    #[test]
    fn cells_are_taken_only_if_each_virtual_cpu_is_on_one(
        vcpus in 1..6_u32,
        cells in proptest::collection::vec(proptest::collection::btree_set(0..7_u32, 0..5), 0..4),
    ) {
        let memory = 64 * cells.len().max(1) as u64;
        let lawful = (0..8).all(|cpu| {
            cells.iter().filter(|cell| cell.contains(&cpu)).count() == usize::from(cpu < vcpus)
        });
        let cells = cells.into_iter().map(|set| GuestNumaCell {
            vcpus: set.into_iter().collect(), memory_mib: 64, host_cell: 0,
        });
        let made = GuestTopology::plain(vcpus, memory).unwrap().on_cells(cells.collect());
        prop_assert_eq!(made.is_ok(), lawful);
    }
}
