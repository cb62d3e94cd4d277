//! Tests of flavors and fits.

mod oracle;

use std::collections::BTreeMap;

use berth_model::{FlavorPlacement, MachineOptions, MemoryEncryption, ThreadPolicy, WantedPages};
use berth_virt::guest_spec::{GuestTopology, MemoryPages, VcpuPin};
use berth_virt::{HostNumaCell, NodeCpus, NodeDisk, NodeView, ResourceModel};

use super::*;

fn specs(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split_whitespace().map(|pair| {
        let (key, value) = pair.split_once('=').unwrap();
        (key.to_owned(), value.replace('~', " "))
    });
    pairs.collect()
}

fn flavor(vcpus: u32, memory_mib: u64, text: &str) -> FlavorPlacement {
    FlavorPlacement::of(vcpus, memory_mib, &specs(text)).unwrap()
}

/// A host with these cells and without devices.
fn host(cells: Vec<HostNumaCell>, shared: &str, dedicated: &str) -> NodeView {
    let set = |text: &str| (!text.is_empty()).then(|| text.parse().unwrap());
    NodeView {
        uuid: None,
        cpus: NodeCpus {
            online: cells.iter().flat_map(|cell| cell.cpus.iter()).collect(),
            shared: set(shared),
            dedicated: set(dedicated),
        },
        memory_mib: cells.iter().map(|cell| cell.memory_mib).sum(),
        disk: NodeDisk::None,
        cells,
        gpus: Vec::new(),
        functions: Vec::new(),
        devices: Vec::new(),
        pci: berth_virt::PciInPlacement::default(),
        customs: Vec::new(),
        encryption_contexts: BTreeMap::new(),
        traits: BTreeSet::new(),
        capabilities: berth_virt::NodeCapabilities::default(),
        guests: BTreeMap::new(),
        unreadable: BTreeMap::new(),
        model: ResourceModel::default(),
    }
}

/// Two cells with four cores of two threads each: 0-3 and 8-11, 4-7 and 12-15 (thread n and n + 8). Each has 4096 MiB;
/// on cell 1, 1024 MiB of these are huge pages of 2 MiB.
fn two_cells() -> Vec<HostNumaCell> {
    let cell = |id: u32, first: u32, huge: &[(u64, u64)]| HostNumaCell {
        siblings: (first..first + 4)
            .map(|cpu| CpuSet::from_iter([cpu, cpu + 8]))
            .collect(),
        huge_pages: huge.iter().copied().collect(),
        ..HostNumaCell::new(
            id,
            (first..first + 4).chain(first + 8..first + 12).collect(),
            4096,
        )
    };
    vec![cell(0, 0, &[]), cell(1, 4, &[(2048, 512)])]
}

fn place(
    wanted: &FlavorPlacement,
    host: &NodeView,
    held: &HostUsage,
) -> Result<GuestFit, FitError> {
    fit(wanted, host, held, &[], &Limits::default())
}

fn pins(topology: &GuestTopology) -> Vec<String> {
    let pins = topology.pinning().unwrap().pins().iter();
    pins.map(|pin| match pin {
        VcpuPin::Dedicated(cpu) => cpu.to_string(),
        VcpuPin::Shared(cpus) => format!("({cpus})"),
    })
    .collect()
}

fn cells(topology: &GuestTopology) -> Vec<u32> {
    topology.cells().iter().map(|cell| cell.host_cell).collect()
}

#[test]
fn a_flavor_is_read_as_nova_reads_it() {
    for (text, cells, dedicated) in [
        ("", "", ""),
        ("hw:cpu_policy=shared", "", ""),
        ("hw:cpu_policy=dedicated", "0-3:1024", "0-3"),
        ("resources:PCPU=4", "0-3:1024", "0-3"),
        (
            "resources:PCPU=5 hw:emulator_threads_policy=isolate",
            "0-3:1024",
            "0-3",
        ),
        (
            "hw:cpu_policy=mixed hw:cpu_dedicated_mask=0-1",
            "0-3:1024",
            "0-1",
        ),
        (
            "hw:cpu_policy=mixed hw:cpu_dedicated_mask=^0-1",
            "0-3:1024",
            "2-3",
        ),
        (
            "hw:cpu_policy=mixed hw:cpu_dedicated_mask=0-2,^1",
            "0-3:1024",
            "0,2",
        ),
        ("hw:mem_page_size=large", "0-3:1024", ""),
        ("hw:numa_nodes=2", "0-1:512 2-3:512", ""),
        (
            "hw:numa_nodes=2 hw:numa_cpus.0=0 hw:numa_mem.0=24 hw:numa_cpus.1=1-3 hw:numa_mem.1=1000",
            "0:24 1-3:1000",
            "",
        ),
        ("trait:HW_CPU_HYPERTHREADING=forbidden", "", ""),
        (
            "capabilities:hw=x accel:device_profile=fpga hw_rng:allowed=True x=y",
            "",
            "",
        ),
    ] {
        let read = flavor(4, 1024, text);
        let shown: Vec<_> = read
            .cells()
            .iter()
            .map(|cell| format!("{}:{}", cell.vcpus, cell.memory_mib))
            .collect();
        assert_eq!(shown.join(" "), cells, "{text}");
        assert_eq!(read.dedicated().to_string(), dedicated, "{text}");
    }
    for (text, size_kib) in [
        ("2048", 2048),
        ("2MB", 2048),
        ("1GB", 1 << 20),
        ("64KiB", 64),
    ] {
        let read = flavor(1, 1024, &format!("hw:mem_page_size={text}"));
        assert_eq!(read.pages(), WantedPages::Of { size_kib });
    }
    assert_eq!(
        flavor(1, 1, "hw:mem_page_size=4").pages(),
        WantedPages::Small
    );
    let policy = flavor(
        2,
        1,
        "hw:cpu_policy=dedicated trait:HW_CPU_HYPERTHREADING=required",
    );
    assert_eq!(policy.threads(), ThreadPolicy::Require);
}

#[test]
fn a_flavor_that_makes_no_sense_is_refused_by_its_key() {
    let cell =
        "hw:numa_nodes=2 hw:numa_cpus.0=0-1 hw:numa_cpus.1=2-3 hw:numa_mem.0=512 hw:numa_mem.1=512";
    for (text, key, expected) in [
        ("hw:cpu_policy=pinned", "hw:cpu_policy", "dedicated"),
        (
            "hw:cpu_policy=mixed",
            "hw:cpu_policy",
            "hw:cpu_dedicated_mask",
        ),
        (
            "hw:cpu_policy=dedicated hw:cpu_dedicated_mask=0",
            "hw:cpu_dedicated_mask",
            "mixed",
        ),
        (
            "hw:cpu_policy=mixed hw:cpu_dedicated_mask=0-3",
            "hw:cpu_dedicated_mask",
            "all",
        ),
        (
            "hw:cpu_policy=mixed hw:cpu_dedicated_mask=0-9",
            "hw:cpu_dedicated_mask",
            "4-9",
        ),
        (
            "hw:cpu_policy=mixed hw:cpu_dedicated_mask=zero",
            "hw:cpu_dedicated_mask",
            "mask",
        ),
        (
            "hw:cpu_policy=mixed hw:cpu_dedicated_mask=^^0",
            "hw:cpu_dedicated_mask",
            "mask",
        ),
        (
            "hw:cpu_policy=dedicated resources:PCPU=4",
            "resources:PCPU",
            "already",
        ),
        (
            "resources:PCPU=4 resources:VCPU=1",
            "resources:PCPU",
            "mixed",
        ),
        ("resources:PCPU=3", "resources:PCPU", "takes 4"),
        (
            "hw:cpu_thread_policy=isolate",
            "hw:cpu_thread_policy",
            "hw:cpu_policy",
        ),
        (
            "hw:cpu_policy=shared hw:emulator_threads_policy=isolate",
            "hw:emulator_threads_policy",
            "dedicated",
        ),
        ("hw:numa_nodes=0", "hw:numa_nodes", "1 to 64"),
        ("hw:numa_nodes=-1", "hw:numa_nodes", "1 to 64"),
        ("hw:numa_nodes=5", "hw:numa_nodes", "has 4"),
        ("hw:numa_nodes=3", "hw:numa_nodes", "evenly"),
        ("hw:numa_cpus.0=0", "hw:numa_cpus.0", "hw:numa_nodes"),
        (
            "hw:numa_nodes=1 hw:numa_cpus.0=0-3",
            "hw:numa_nodes",
            "both or neither",
        ),
        (
            &format!("{cell} hw:numa_mem.2=1"),
            "hw:numa_mem.2",
            "from 0",
        ),
        (
            &cell.replace("0-1", "0-2"),
            "hw:numa_cpus.1",
            "another cell's",
        ),
        (&cell.replace("2-3", "2"), "hw:numa_nodes", "virtual CPUs 3"),
        (
            &cell.replace("mem.0=512", "mem.0=511"),
            "hw:numa_nodes",
            "1023 MiB",
        ),
        (
            &cell.replace("mem.0=512", "mem.0=-1"),
            "hw:numa_mem.0",
            "above 0",
        ),
        (
            &cell.replace("cpus.1", "cpus.01"),
            "hw:numa_cpus.01",
            "number",
        ),
        ("hw:mem_page_size=3MB", "hw:mem_page_size", "power of two"),
        (
            "hw:mem_page_size=99999999999999999999GB",
            "hw:mem_page_size",
            "power of two",
        ),
        (
            "hw:pci_numa_affinity_policy=socket",
            "hw:pci_numa_affinity_policy",
            "required",
        ),
    ] {
        let refused = FlavorPlacement::of(4, 1024, &specs(text)).unwrap_err();
        assert_eq!(refused.key, key, "{text}: {refused}");
        assert!(refused.to_string().contains(expected), "{text}: {refused}");
    }
}

#[test]
fn threads_of_a_core_are_packed_isolated_or_required() {
    let host = host(two_cells(), "", "0-15");
    for (text, expected, reserved) in [
        ("", "0 8 1", "0-1,8"),
        ("hw:cpu_thread_policy=require", "0 8 1", "0-1,8"),
        ("hw:cpu_thread_policy=isolate", "0 1 2", "0-2,8-10"),
        ("hw:emulator_threads_policy=isolate", "0 8 1", "0-1,8-9"),
    ] {
        let wanted = flavor(3, 300, &format!("hw:cpu_policy=dedicated {text}"));
        let placed = place(&wanted, &host, &HostUsage::default()).unwrap();
        assert_eq!(pins(&placed.topology).join(" "), expected, "{text}");
        assert_eq!(placed.reserved.to_string(), reserved, "{text}");
        assert_eq!(cells(&placed.topology), [0]);
    }
}

#[test]
fn the_emulator_threads_policy_is_applied() {
    let host = host(two_cells(), "0,4", "1-3,5-15");
    for (text, emulator) in [
        ("", "1-2,9-10"),
        ("hw:emulator_threads_policy=share", "0,4"),
        ("hw:emulator_threads_policy=isolate", "8"),
    ] {
        let wanted = flavor(4, 300, &format!("hw:cpu_policy=dedicated {text}"));
        let placed = place(&wanted, &host, &HostUsage::default()).unwrap();
        let pinning = placed.topology.pinning().unwrap();
        assert_eq!(pinning.emulator().to_string(), emulator, "{text}");
    }
}

#[test]
fn a_mixed_guest_has_pinned_and_shared_cpus_of_its_cell() {
    let host = host(two_cells(), "0,4", "1-3,5-15");
    let wanted = flavor(3, 300, "hw:cpu_policy=mixed hw:cpu_dedicated_mask=^1");
    let refused = place(
        &flavor(4, 300, "hw:cpu_policy=mixed hw:cpu_dedicated_mask=0-1"),
        &host,
        &HostUsage::default(),
    );
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("2 shared CPUs are needed, it has 1")
    );
    let placed = place(&wanted, &host, &HostUsage::default()).unwrap();
    assert_eq!(pins(&placed.topology), ["1", "(0)", "9"]);
    assert_eq!(placed.reserved.to_string(), "1,9");
}

#[test]
fn a_guest_without_cells_floats_over_the_shared_cpus() {
    for (shared, dedicated, expected) in [
        ("", "", None),
        ("0-1", "", Some("0-1")),
        ("4", "0", Some("4")),
    ] {
        let placed = place(
            &flavor(64, 1, ""),
            &host(two_cells(), shared, dedicated),
            &HostUsage::default(),
        );
        let placed = placed.unwrap();
        assert_eq!(
            placed
                .topology
                .cpu_set()
                .map(ToString::to_string)
                .as_deref(),
            expected
        );
        assert!(placed.reserved.is_empty());
    }
    let refused = place(
        &flavor(1, 1, ""),
        &host(two_cells(), "", "0-3"),
        &HostUsage::default(),
    );
    assert_eq!(refused.unwrap_err(), FitError::NoSharedCpus);
}

#[test]
fn huge_pages_are_found_where_they_are_and_counted() {
    let host = host(two_cells(), "", "");
    let wanted = |text: &str| flavor(2, 600, &format!("hw:mem_page_size={text}"));
    let mut held = HostUsage::default();
    let first = place(&wanted("2MB"), &host, &held).unwrap();
    assert_eq!(cells(&first.topology), [1]);
    assert_eq!(first.topology.pages(), MemoryPages::Huge { size_kib: 2048 });
    held.add(&first.topology, &first.reserved);
    let refused = place(&wanted("large"), &host, &held)
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("host cell 0: 300 pages of 2048 KiB are needed, 0 are free"),
        "{refused}"
    );
    assert!(
        refused.contains("host cell 1: 300 pages of 2048 KiB are needed, 212 are free"),
        "{refused}"
    );
    let any = place(&wanted("any"), &host, &held).unwrap();
    assert_eq!(any.topology.pages(), MemoryPages::Small);
    let refused = place(&flavor(1, 601, "hw:mem_page_size=2048"), &host, &held).unwrap_err();
    assert!(
        refused.to_string().contains("601 MiB are not a multiple"),
        "{refused}"
    );
    let bare =
        crate::fit::tests::host(vec![HostNumaCell::new(0, "0".parse().unwrap(), 64)], "", "");
    assert_eq!(
        place(&wanted("large"), &bare, &held).unwrap_err(),
        FitError::NoHugePages
    );
}

#[test]
fn cells_near_the_guests_devices_are_taken() {
    let host = host(two_cells(), "", "0-15");
    let wanted = flavor(2, 300, "hw:cpu_policy=dedicated");
    let mut full = HostUsage::default();
    let most = place(&flavor(8, 300, "hw:cpu_policy=dedicated"), &host, &full).unwrap();
    assert_eq!(cells(&most.topology), [0]);
    full.add(&most.topology, &most.reserved);
    for (cell, affinity, free, expected) in [
        (Some(1), Affinity::Preferred, true, Some(1)),
        (Some(1), Affinity::Required, true, Some(1)),
        (Some(1), Affinity::None, true, Some(0)),
        (Some(0), Affinity::Preferred, false, Some(1)),
        (Some(0), Affinity::Legacy, false, None),
        (Some(0), Affinity::Required, false, None),
        (None, Affinity::Required, true, None),
        (None, Affinity::Legacy, true, Some(0)),
        (Some(7), Affinity::Legacy, true, None),
    ] {
        let near = [NearDevice {
            what: "GPU 0000:81:00.0".to_owned(),
            cell,
            affinity,
        }];
        let held = if free {
            HostUsage::default()
        } else {
            full.clone()
        };
        let placed = fit(&wanted, &host, &held, &near, &Limits::default());
        match (placed, expected) {
            (Ok(placed), Some(expected)) => {
                assert_eq!(cells(&placed.topology), [expected], "{near:?}")
            }
            (Err(refused), None) => {
                assert!(refused.to_string().contains("0000:81:00.0"), "{refused}")
            }
            (placed, _) => panic!("{near:?}: {placed:?}"),
        }
    }
}

#[test]
fn the_schedulers_limits_hold() {
    let host = host(two_cells(), "0-15", "");
    let wanted = flavor(4, 300, "hw:numa_nodes=1");
    let mut held = HostUsage::default();
    let limits = Limits {
        host_cells: Some([1].into()),
        cpu_ratio: Some(1.0),
        ram_ratio: Some(0.1),
    };
    let placed = fit(&wanted, &host, &held, &[], &limits).unwrap();
    assert_eq!(cells(&placed.topology), [1]);
    held.add(&placed.topology, &placed.reserved);
    let refused = |held: &HostUsage, limits: &Limits| {
        fit(&wanted, &host, held, &[], limits)
            .unwrap_err()
            .to_string()
    };
    let message = refused(&held, &limits);
    assert!(
        message.contains("host cell 0: the scheduler's limits exclude it"),
        "{message}"
    );
    assert!(
        message.contains("guests have 300 MiB of its 4096 MiB"),
        "{message}"
    );
    held.add(&placed.topology, &placed.reserved);
    let limits = Limits {
        ram_ratio: None,
        ..limits
    };
    let message = refused(&held, &limits);
    assert!(
        message.contains("8 virtual CPUs share its 8 CPUs, 4 more pass"),
        "{message}"
    );
}

#[test]
fn more_cells_than_the_host_has_are_refused() {
    let refused = place(
        &flavor(3, 300, "hw:numa_nodes=3"),
        &host(two_cells(), "", ""),
        &HostUsage::default(),
    );
    assert_eq!(
        refused.unwrap_err(),
        FitError::TooFewCells {
            wanted: 3,
            found: 2
        }
    );
}

#[test]
fn a_host_that_shows_no_cells_is_one() {
    let mut bare = host(two_cells(), "", "0-15");
    bare.cells.clear();
    let mut held = HostUsage::default();
    for expected in ["0-7", "8-15"] {
        let placed = place(&flavor(8, 300, "hw:cpu_policy=dedicated"), &bare, &held).unwrap();
        assert_eq!(placed.reserved.to_string(), expected);
        assert!(placed.topology.cells().is_empty());
        held.add(&placed.topology, &placed.reserved);
    }
    let refused = place(&flavor(1, 300, "hw:cpu_policy=dedicated"), &bare, &held).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "no place for the guest: guest cell 0: 1 dedicated CPUs are needed, 0 of cpu_dedicated_set are free"
    );
}

#[test]
fn memory_of_a_guest_that_berth_did_not_make_is_not_free() {
    let host = host(two_cells(), "0-1,4-5", "2-3,6-7");
    let wanted = flavor(1, 2048, "hw:cpu_policy=dedicated");
    let guest = |cell: u32, memory_mib: u64| berth_virt::GuestView {
        name: "foreign".to_owned(),
        power: berth_virt::PowerState::Running,
        also: BTreeSet::new(),
        cpu_policy: berth_virt::GuestCpuPolicy::Shared,
        vcpus: 1,
        memory_mib,
        cells: vec![berth_virt::GuestCell {
            host_cell: cell,
            vcpus: 1,
            memory_mib,
        }],
        mdevs: Vec::new(),
        functions: BTreeSet::new(),
    };
    let mut held = HostUsage::default();
    held.add_foreign(&guest(0, 3072));
    let on = cells(&place(&wanted, &host, &held).unwrap().topology);
    assert_eq!(on, [1], "cell 0 has 1024 MiB left");
    held.add_foreign(&guest(1, 1536));
    let refused = place(&wanted, &host, &held).unwrap_err();
    let FitError::Refused { refusals } = refused else {
        panic!("{refused}");
    };
    assert_eq!(refusals.len(), 2);
    assert_eq!(held.of_cell(Some(1)).shared_vcpus, 1);
}

#[test]
fn a_guest_with_encrypted_memory_needs_a_host_with_its_model() {
    let mut host = host(two_cells(), "", "");
    host.encryption_contexts = [(MemoryEncryption::AmdSev, 16)].into();
    let missing = |model| {
        let machine = MachineOptions {
            memory_encryption: model,
            ..MachineOptions::default()
        };
        let checked = crate::create::check_machine(&machine, &host);
        checked.err().map(|missing| missing.to_string())
    };
    assert_eq!(missing(None), None);
    assert_eq!(missing(Some(MemoryEncryption::AmdSev)), None);
    assert_eq!(
        missing(Some(MemoryEncryption::AmdSevEs)).as_deref(),
        Some("hw:mem_encryption: this host does not have HW_CPU_X86_AMD_SEV_ES")
    );
}
