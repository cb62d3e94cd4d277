//! Nodes of several kinds, and what is told of them.

use berth_model::NodeName;
use berth_virt::{HypervisorInfo, NodeView};
use std::collections::{BTreeMap, BTreeSet};

use berth_agent_images::{DiskPlan, InstancesPath, RecreateDisks};
use berth_agent_instances::fit::{HostUsage, Limits, fit};
use berth_agent_journal::samples::{NODE, guest, spec};
use berth_agent_journal::{
    Goal, GuestRequest, HostPlacement, InstanceOverrides, PendingTransition, SchedulingFacts,
    StepRecord, TransitionKind, TransitionPhase,
};
use berth_model::FlavorPlacement;
use berth_model::{
    AllocationRatio, Inventory, Provider, ProviderName, ResourceClass as Class, Trait,
};
use berth_virt::guest_spec::{
    AttachedDevice, DeviceOrigin, GuestDevice, GuestDevices, HostPath, PciManagement,
};
use berth_virt::{
    ClassOrigin, CpuSet, DeviceCondition, DeviceOwner, DeviceType, DeviceUnit, GuestCell,
    GuestCpuPolicy, GuestView, HostNumaCell, NodeCapabilities, NodeCpus, NodeDisk, OfferedDevice,
    OfferedHandle, PciInPlacement, PowerState, Processor, ProcessorTopology, ResourceModel,
    SupportedInstance, UnfitReason, UnreadableGuest,
};
use serde_json::{Value, json};

use super::*;

const ROOT: &str = "6f2a4c2e-0f0e-4d0f-9d65-2b3c5f3a1c01";

/// A node and what is known of it.
struct World {
    hypervisor: HypervisorInfo,
    seen: NodeView,
    tree: ProviderTree,
    records: Vec<GuestRecord>,
}

impl World {
    /// Eight CPUs, 16 GiB of memory of which half a GiB is the host's, 100 GiB of disk; no guests.
    fn bare() -> Self {
        let mut root = Provider::root(ROOT.parse().unwrap(), ProviderName::new(NODE).unwrap());
        for (class, total, reserved, ratio) in [
            (Class::VCPU, 8, 0, 4.0),
            (Class::MEMORY_MB, 16_384, 512, 1.5),
            (Class::DISK_GB, 100, 2, 1.0),
        ] {
            let ratio = AllocationRatio::new(ratio).unwrap();
            let inventory = Inventory::of(total).unwrap().reserving(reserved);
            root.inventories.insert(class, inventory.with_ratio(ratio));
        }
        Self {
            hypervisor: HypervisorInfo {
                kind: "QEMU".to_owned(),
                version: "7.2.13".to_owned(),
                hostname: NODE.to_owned(),
            },
            seen: NodeView {
                uuid: None,
                cpus: NodeCpus {
                    online: "0-7".parse().unwrap(),
                    ..NodeCpus::default()
                },
                memory_mib: 16_384,
                disk: NodeDisk::Local { gib: 100 },
                cells: Vec::new(),
                gpus: Vec::new(),
                functions: Vec::new(),
                devices: Vec::new(),
                pci: PciInPlacement::default(),
                customs: Vec::new(),
                encryption_contexts: BTreeMap::new(),
                traits: BTreeSet::new(),
                capabilities: NodeCapabilities::default(),
                guests: BTreeMap::new(),
                unreadable: BTreeMap::new(),
                model: ResourceModel::default(),
            },
            tree: ProviderTree::new(root),
            records: Vec::new(),
        }
    }

    fn reported(&self) -> NodeStateBody {
        node_state(&NodeFacts {
            node: &NodeName::new(NODE).unwrap(),
            hypervisor: &self.hypervisor,
            seen: &self.seen,
            tree: &self.tree,
            records: &self.records.iter().collect::<Vec<_>>(),
            host_ip: Some("192.0.2.7".parse().unwrap()),
            failed_builds: 2,
            metrics: None,
        })
    }

    fn json(&self) -> Value {
        serde_json::to_value(self.reported()).unwrap()
    }

    /// Places a guest by its flavor beside those that are there.
    fn place(&mut self, number: u32, vcpus: u32, memory_mib: u64, specs: &[(&str, &str)]) {
        let specs = specs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let wanted = FlavorPlacement::of(vcpus, memory_mib, &specs.collect()).unwrap();
        let mut held = HostUsage::default();
        for record in &self.records {
            let spec = record.request.spec();
            held.add(&spec.topology, &record.request.reserved_cpus());
        }
        let placed = fit(&wanted, &self.seen, &held, &[], &Limits::default()).unwrap();
        let mut spec = spec(number);
        spec.topology = placed.topology;
        let request = GuestRequest::new(NodeName::new(NODE).unwrap(), Vec::new(), spec).unwrap();
        let described = SchedulingFacts {
            flavor: Some("m1.small".to_owned()),
            image_properties: [("os_distro".to_owned(), "debian".to_owned())].into(),
        };
        let picked =
            HostPlacement::new(None, placed.reserved, Vec::new()).with_scheduling_facts(described);
        self.records
            .push(record(request.with_host_placement(picked)));
    }
}

/// A guest that runs.
fn record(request: GuestRequest) -> GuestRecord {
    let started = StepRecord {
        state: StepState::Done,
        detail: "this boot".to_owned(),
    };
    GuestRecord {
        power: request.spec().power,
        request,
        goal: Goal::Spawn,
        steps: BTreeMap::from([(SpawnStep::Start, started)]),
        devices: None,
        overrides: InstanceOverrides::default(),
    }
}

fn plain(number: u32) -> GuestRecord {
    let node = NodeName::new(NODE).unwrap();
    record(GuestRequest::new(node, Vec::new(), spec(number)).unwrap())
}

/// A guest that berth did not make.
fn foreign(vcpus: u64, memory_mib: u64) -> GuestView {
    GuestView {
        name: "foreign".to_owned(),
        power: PowerState::Running,
        also: BTreeSet::new(),
        cpu_policy: GuestCpuPolicy::Shared,
        vcpus,
        memory_mib,
        cells: Vec::new(),
        mdevs: Vec::new(),
        functions: BTreeSet::new(),
    }
}

#[test]
fn a_bare_machine_is_reported_with_what_it_has_and_nothing_of_what_it_has_not() {
    assert_eq!(
        World::bare().json(),
        json!({
            "uuid": ROOT,
            "hypervisor_hostname": NODE,
            "hypervisor_type": "QEMU",
            "hypervisor_version": 7_002_013,
            "host_ip": "192.0.2.7",
            "vcpus": 8,
            "vcpus_used": 0,
            "memory_mb": 16_384,
            "memory_mb_used": 512,
            "local_gb": 100,
            "local_gb_used": 2,
            "cpu_allocation_ratio": 4.0,
            "ram_allocation_ratio": 1.5,
            "disk_allocation_ratio": 1.0,
            "supported_instances": [],
            "instances": {},
            "num_io_ops": 0,
            "failed_builds": 2,
            "stats": {},
        })
    );
}

#[test]
fn guests_count_from_the_moment_they_are_asked_for_whoever_made_them_and_once() {
    let mut world = World::bare();
    world.place(1, 2, 1024, &[]);
    let plan = DiskPlan::new(None, 20, vec![5], None).unwrap();
    let own = world.records.remove(0);
    let layout = InstancesPath::new(HostPath::new("/instances").unwrap());
    let mut with_disks = spec(2);
    with_disks.disks = layout.disks(guest(2), &plan).unwrap();
    let node = NodeName::new(NODE).unwrap();
    let request = GuestRequest::new(node, Vec::new(), with_disks).unwrap();
    let mut asked_for = record(request.with_disks(plan).unwrap());
    asked_for.steps.clear();
    let mut failed = plain(3);
    failed.goal = Goal::Undo {
        reason: "no image".to_owned(),
        blame: None,
    };
    failed.steps.clear();
    world.records = vec![own, asked_for, failed];
    // The hypervisor has one of them and another one.
    world.seen.guests.insert(guest(1), foreign(2, 1024));
    world.seen.guests.insert(guest(9), foreign(3, 2048));
    let unreadable = UnreadableGuest {
        name: "odd".to_owned(),
        reason: "no document".to_owned(),
    };
    world.seen.unreadable.insert(guest(8), unreadable);
    let reported = world.reported();
    assert_eq!(
        (reported.vcpus_used, reported.memory_mb_used),
        (2 + 1 + 3, 512 + 1024 + 128 + 2048)
    );
    assert_eq!(reported.local_gb_used, 2 + 25);
    let known = &reported.instances[guest(1).as_uuid()];
    assert_eq!(known.flavorid.as_deref(), Some("m1.small"));
    assert_eq!(known.image_properties["os_distro"], "debian");
    assert_eq!(
        reported.instances[guest(9).as_uuid()],
        NodeInstanceBody::default()
    );
    let there: Vec<_> = reported.instances.keys().copied().collect();
    assert_eq!(there, [1, 2, 8, 9].map(|number| *guest(number).as_uuid()));
    assert_eq!(reported.num_io_ops, 1);
}

#[test]
fn the_cpu_that_is_an_emulators_alone_is_in_use_and_one_that_it_shares_is_not_counted_twice() {
    for (policy, used) in [("isolate", 3), ("share", 2)] {
        let mut world = World::bare();
        world.seen.cpus.dedicated = Some("4-7".parse().unwrap());
        world.seen.cpus.shared = Some("0-3".parse().unwrap());
        let emulator = ("hw:emulator_threads_policy", policy);
        world.place(1, 2, 1024, &[("hw:cpu_policy", "dedicated"), emulator]);
        assert_eq!(world.reported().vcpus_used, used, "{policy}");
    }
}

#[test]
fn a_guest_counts_until_nothing_of_it_is_left() {
    let mut world = World::bare();
    let mut record = plain(1);
    for (goal, used) in [
        (Goal::Spawn, 1),
        (Goal::Destroy, 1),
        (
            Goal::Undo {
                reason: "no image".to_owned(),
                blame: None,
            },
            1,
        ),
    ] {
        record.goal = goal;
        world.records = vec![record.clone()];
        let reported = world.reported();
        let counted = (
            reported.vcpus_used,
            reported.instances.len(),
            reported.memory_mb_used,
        );
        assert_eq!(counted, (used, 1, 512 + 128), "{:?}", record.goal);
    }
    record.steps.clear();
    world.records = vec![record];
    let reported = world.reported();
    assert_eq!((reported.vcpus_used, reported.instances.len()), (0, 0));
}

#[test]
fn a_cpu_that_no_driver_puts_into_a_core_is_a_core_of_its_own() {
    let mut world = World::bare();
    world.seen.cells = vec![HostNumaCell {
        siblings: vec!["0,2".parse().unwrap()],
        ..HostNumaCell::new(0, "0-3".parse().unwrap(), 8192)
    }];
    let reported = world.json();
    let siblings = &reported["numa_topology"][0]["siblings"];
    assert_eq!(siblings, &json!([[0, 2], [1], [3]]));
    world.seen.cells[0].siblings.clear();
    let reported = world.json();
    let siblings = &reported["numa_topology"][0]["siblings"];
    assert_eq!(siblings, &json!([[0], [1], [2], [3]]));
}

#[test]
fn a_node_with_cells_reports_what_its_guests_have_of_each() {
    let mut world = World::bare();
    let cell = |id: u32, first: u32, huge: &[(u64, u64)]| HostNumaCell {
        siblings: [first, first + 1]
            .map(|cpu| CpuSet::from_iter([cpu, cpu + 2]))
            .to_vec(),
        huge_pages: huge.iter().copied().collect(),
        ..HostNumaCell::new(id, (first..first + 4).collect(), 8192)
    };
    world.seen.cells = vec![cell(0, 0, &[]), cell(1, 4, &[(2048, 512)])];
    world.seen.cells[1].socket = Some(3);
    world.seen.cpus.shared = Some("0,2,4,6".parse().unwrap());
    world.seen.cpus.dedicated = Some("1,3,5,7".parse().unwrap());
    world.place(
        1,
        2,
        1024,
        &[("hw:cpu_policy", "dedicated"), ("hw:mem_page_size", "2MB")],
    );
    world.place(2, 2, 512, &[("hw:numa_nodes", "1")]);
    let mut placed = foreign(1, 256);
    placed.cells = vec![GuestCell {
        host_cell: 1,
        vcpus: 1,
        memory_mib: 256,
    }];
    world.seen.guests.insert(guest(9), placed);
    let reported = world.json();
    let small =
        |total: u64, used: u64| json!({"size_kb": 4, "total": total, "used": used, "reserved": 0});
    let mut expected = json!([
        {
            "id": 0, "cpuset": [0, 2], "pcpuset": [1, 3], "memory": 8192, "cpu_usage": 0, "memory_usage": 0,
            "pinned_cpus": [], "siblings": [[0, 2], [1, 3]], "mempages": [small(2_097_152, 0)],
        },
        {
            "id": 1, "cpuset": [4, 6], "pcpuset": [5, 7], "memory": 8192, "cpu_usage": 1, "memory_usage": 1024 + 256,
            "pinned_cpus": [5, 7], "siblings": [[4, 6], [5, 7]], "socket": 3,
            "mempages": [
                small(2_097_152 - 262_144, 256 * 256),
                {"size_kb": 2048, "total": 512, "used": 512, "reserved": 0},
            ],
        },
    ]);
    // Where the second guest went is the fit's to say.
    let went = world.records[1].request.spec().topology.cells()[0].host_cell;
    let cell = &mut expected[usize::try_from(went).unwrap()];
    for (field, more) in [("cpu_usage", 2), ("memory_usage", 512)] {
        cell[field] = json!(cell[field].as_i64().unwrap() + more);
    }
    let used = &mut cell["mempages"][0]["used"];
    *used = json!(used.as_i64().unwrap() + 512 * 256);
    assert_eq!(reported["numa_topology"], expected);
    assert_eq!(
        (&reported["vcpus"], &reported["vcpus_used"]),
        (&json!(8), &json!(5))
    );
}

#[test]
fn pages_have_the_hosts_size_and_no_more_of_them_are_used_than_there_are() {
    for (size, foreign_mib, total, used) in [
        (4, 6144, 2_097_152, 1_572_864),
        (64, 6144, 131_072, 98_304),
        (64, 99_999, 131_072, 131_072),
    ] {
        let mut world = World::bare();
        world.seen.cells = vec![HostNumaCell {
            small_page_kib: size,
            ..HostNumaCell::new(0, (0..8).collect(), 8192)
        }];
        let mut placed = foreign(1, foreign_mib);
        placed.cells = vec![GuestCell {
            host_cell: 0,
            vcpus: 1,
            memory_mib: foreign_mib,
        }];
        world.seen.guests.insert(guest(9), placed);
        let reported = world.json();
        let pages = json!([{"size_kb": size, "total": total, "used": used, "reserved": 0}]);
        assert_eq!(reported["numa_topology"][0]["mempages"], pages);
        assert_eq!(
            reported["numa_topology"][0]["memory_usage"],
            json!(foreign_mib)
        );
    }
}

fn device(bus: u8, condition: DeviceCondition) -> OfferedDevice {
    let address = format!("0000:{bus:02x}:00.0").parse().unwrap();
    OfferedDevice {
        address,
        vendor_id: 0x10de,
        product_id: 0x1eb8,
        owner: DeviceOwner::Compute,
        device_type: DeviceType::Gpu,
        model: None,
        numa_node: Some(1),
        physical_network: None,
        network_functions: BTreeMap::new(),
        class: Class::PGPU,
        class_origin: ClassOrigin::Configured,
        traits: BTreeSet::new(),
        handles: vec![OfferedHandle::Function(address)],
        unit: DeviceUnit::Handle,
        unfit_handles: BTreeSet::new(),
        link_group: None,
        one_time_use: false,
        condition,
    }
}

fn with_device(number: u32, address: &str) -> GuestRecord {
    let mut spec = spec(number);
    let device = GuestDevice::Pci {
        address: address.parse().unwrap(),
        managed: PciManagement::Hypervisor,
    };
    let origin = DeviceOrigin::Flavor;
    spec.devices = GuestDevices::new(vec![AttachedDevice { device, origin }]).unwrap();
    let node = NodeName::new(NODE).unwrap();
    record(GuestRequest::new(node, Vec::new(), spec).unwrap())
}

#[test]
fn a_node_with_cards_reports_the_free_ones_in_pools_of_equal_cards() {
    let mut world = World::bare();
    let unfit = DeviceCondition::Unfit {
        reason: UnfitReason::Aer,
    };
    let mut card = device(0x20, DeviceCondition::Fit);
    card.product_id = 0x1889;
    card.vendor_id = 0x8086;
    card.numa_node = None;
    card.traits
        .insert(Trait::new("HW_PCI_LIVE_MIGRATABLE").unwrap());
    let parts = (1..5).map(|part| format!("0000:20:00.{part}").parse().unwrap());
    card.handles = parts.map(OfferedHandle::Function).collect();
    card.unfit_handles.insert(card.handles[3].clone());
    let mut accelerators = device(0x30, DeviceCondition::Fit);
    accelerators.owner = DeviceOwner::Accelerator;
    world.seen.devices = vec![
        device(0x10, DeviceCondition::Fit),
        device(0x11, DeviceCondition::Fit),
        device(0x12, DeviceCondition::Fit),
        device(0x13, unfit),
        device(0x14, DeviceCondition::Fit),
        card,
        accelerators,
    ];
    let parted = "0000:14:00.0".parse().unwrap();
    world.seen.capabilities.physical_functions.insert(parted);
    // One is a guest's of the journal, one part is a guest's that somebody else made.
    world.records = vec![with_device(1, "0000:12:00.0")];
    let mut other = foreign(1, 64);
    other.functions.insert("0000:20:00.2".parse().unwrap());
    world.seen.guests.insert(guest(9), other);
    let gpus = |count: u32, dev_type: &str| json!({"vendor_id": "10de", "product_id": "1eb8", "numa_node": 1, "count": count, "tags": {"dev_type": dev_type}});
    assert_eq!(
        world.json()["pci_device_pools"],
        json!([
            gpus(2, "type-PCI"),
            gpus(1, "type-PF"),
            {"vendor_id": "8086", "product_id": "1889", "count": 2,
             "tags": {"dev_type": "type-VF", "live_migratable": "true"}},
        ])
    );
}

#[test]
fn a_device_that_placement_knows_says_which_provider_it_is() {
    let mut world = World::bare();
    let offered = device(0x10, DeviceCondition::Fit);
    let root = world.tree.root().uuid();
    let name = offered.provider_name(&NodeName::new(NODE).unwrap());
    world
        .tree
        .insert(Provider::child(root.child(&name), name.clone(), root))
        .unwrap();
    world.seen.devices = vec![offered];
    let tags = |world: &World| world.reported().pci_device_pools.unwrap()[0].tags.clone();
    assert!(!tags(&world).contains_key("rp_uuid"));
    world.seen.pci = PciInPlacement::Reported;
    assert_eq!(tags(&world)["rp_uuid"], root.child(&name).to_string());
    // All of it in use is another thing than having none at all.
    world.records = vec![with_device(1, "0000:10:00.0")];
    assert_eq!(world.reported().pci_device_pools, Some(Vec::new()));
}

#[test]
fn what_the_driver_says_of_the_processor_and_its_guests_is_reported_as_nova_has_it() {
    let mut world = World::bare();
    world.seen.capabilities = NodeCapabilities {
        processor: Some(Processor {
            arch: "x86_64".to_owned(),
            model: Some("EPYC".to_owned()),
            vendor: Some("AMD".to_owned()),
            features: ["svm", "avx2"].map(str::to_owned).into(),
            topology: Some(ProcessorTopology {
                cells: 2,
                sockets: 1,
                cores: 4,
                threads: 2,
            }),
            physical_address_bits: Some(48),
        }),
        supported_instances: vec![SupportedInstance {
            arch: "x86_64".to_owned(),
            hv_type: "kvm".to_owned(),
            vm_mode: "hvm".to_owned(),
        }],
        ..NodeCapabilities::default()
    };
    let reported = world.reported();
    assert_eq!(
        reported.cpu_info.as_deref(),
        Some(
            r#"{"arch":"x86_64","model":"EPYC","vendor":"AMD","topology":{"cells":2,"sockets":1,"cores":4,"threads":2},"features":["avx2","svm"],"maxphysaddr":{"bits":48}}"#
        )
    );
    let kinds = [["x86_64", "kvm", "hvm"].map(str::to_owned)];
    assert_eq!(reported.supported_instances, kinds);
}

#[test]
fn what_keeps_disks_busy_is_counted() {
    let kind = |kind| {
        let mut record = plain(1);
        let phase = TransitionPhase::Rebuilding {
            recreate: RecreateDisks::Root,
        };
        record.overrides.transition = Some(PendingTransition { kind, phase });
        record
    };
    let building = || {
        let mut record = plain(1);
        record.steps.clear();
        record
    };
    let mut back_after_a_boot = plain(1);
    for step in back_after_a_boot.steps.values_mut() {
        step.state = StepState::Begun;
    }
    let mut ending = building();
    ending.goal = Goal::Destroy;
    for (record, counts) in [
        (plain(1), false),
        (building(), true),
        (back_after_a_boot, false),
        (kind(TransitionKind::Rebuild), true),
        (kind(TransitionKind::Rescue), true),
        (kind(TransitionKind::Unrescue), false),
        (ending, false),
    ] {
        assert_eq!(is_io_heavy(&record), counts, "{record:?}");
    }
}

#[test]
fn versions_are_numbers_of_novas() {
    for (text, number) in [
        ("7.2.13", Some(7_002_013)),
        ("10.0.0", Some(10_000_000)),
        ("1.0", Some(1_000_000)),
        ("3", Some(3_000_000)),
        ("", None),
        ("7.2.x", None),
        ("7.1000.0", None),
        ("1.2.3.4", None),
        ("-1.2.3", None),
    ] {
        assert_eq!(version(text), number, "{text}");
    }
}
