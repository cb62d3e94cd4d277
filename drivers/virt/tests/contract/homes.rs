//! Each kind of move on a small machine, with the destination of every unit.

use std::collections::BTreeSet;

use berth_model::{HomelessReason, Inventory, MemoryEncryption, PendingReshape, ResourceClass};
use berth_virt::{
    GuestCpuPolicy, NodeView, NumaModel, PcpuModel, ResourceModel, Resources, UnreadableGuest,
    VgpuModel, provider_tree,
};

use crate::view::{
    OLD, bare, card, cell, consumer, custom, gpu, guest, held, holding, host, mdevs, modelled,
    name, node, pending, reported, resolved, root_uuid, two_cells, upgrade,
};

const PER_GPU: ResourceModel = ResourceModel {
    vgpu: VgpuModel::PerGpu,
    ..OLD
};
const CELLS: ResourceModel = ResourceModel {
    numa: NumaModel::Cells,
    ..OLD
};
const PCPU: ResourceModel = ResourceModel {
    pcpu: PcpuModel::Pcpu,
    ..OLD
};

fn gpus() -> NodeView {
    let mut node = node();
    node.gpus = vec![gpu(1, "VGPU", 4), gpu(2, "VGPU", 4)];
    node
}

fn unreadable() -> UnreadableGuest {
    UnreadableGuest {
        name: "odd".to_owned(),
        reason: "a guest is not XML".to_owned(),
    }
}

#[test]
fn what_a_guest_that_cannot_be_read_holds_stays_and_the_rest_moves() {
    let mut node = gpus();
    with_mdevs(&mut node, 1, &[1]);
    with_mdevs(&mut node, 2, &[2]);
    let mut after = modelled(&node, PER_GPU);
    let mut odd = after.guests.remove(&consumer(2)).unwrap();
    odd.also.clear();
    after.unreadable.insert(consumer(2), unreadable());
    let done = upgrade(&node, &after, []);
    assert_eq!(done.shown(consumer(1))[2], "pci_0000_01_00_0 VGPU 1");
    assert_eq!(
        done.shown(consumer(2)),
        ["n1 MEMORY_MB 512", "n1 VCPU 1", "n1 VGPU 1"]
    );
    let [(_, reason)] = done.request.homeless() else {
        panic!("{}", done.request);
    };
    assert_eq!(*reason, HomelessReason::UnreadableGuest);
    assert_eq!(done.request.held().len(), 1);
}

#[test]
fn no_guest_is_inferred_while_one_that_cannot_be_read_may_be_the_one() {
    let mut node = gpus();
    with_mdevs(&mut node, 1, &[1]);
    let mut after = modelled(&node, PER_GPU);
    let root = root_uuid();
    let units = |vcpus| -> Resources {
        [
            ((root, ResourceClass::VGPU), 1),
            ((root, ResourceClass::VCPU), vcpus),
        ]
        .into()
    };
    // A migration holds what the guest uses. One of the two unreadable guests has its own allocations, so the migration
    // is not for it.
    let unknown = |consumer, resources| (consumer, holding(resources));
    let current = reported(&node, &bare());
    for (claims, moves) in [(units(2), true), (Resources::new(), false)] {
        after.unreadable = [(consumer(2), unreadable())].into();
        let held = [unknown(consumer(9), units(1)), unknown(consumer(2), claims)];
        let held = held
            .into_iter()
            .filter(|(_, held)| !held.resources.is_empty())
            .collect();
        let pending = pending(&after, &current).unwrap();
        let request = resolved(&after, pending, &held).unwrap();
        let moved = request.allocations().contains_key(&consumer(9));
        assert_eq!(moved, moves, "{request}");
    }
}

fn with_mdevs(node: &mut NodeView, n: u128, buses: &[u8]) {
    let mut guest = guest(1, 512);
    guest.mdevs = mdevs(buses);
    node.guests.insert(consumer(n), guest);
}

#[test]
fn each_unit_goes_to_the_gpu_of_the_guests_device() {
    let mut node = gpus();
    with_mdevs(&mut node, 1, &[1]);
    with_mdevs(&mut node, 2, &[2, 1, 2]);
    let done = upgrade(&node, &modelled(&node, PER_GPU), []);
    assert_eq!(
        done.shown(consumer(1)),
        ["n1 MEMORY_MB 512", "n1 VCPU 1", "pci_0000_01_00_0 VGPU 1"]
    );
    assert_eq!(
        done.shown(consumer(2)),
        [
            "n1 MEMORY_MB 512",
            "n1 VCPU 1",
            "pci_0000_01_00_0 VGPU 1",
            "pci_0000_02_00_0 VGPU 2"
        ]
    );
    assert!(done.request.held().is_empty());
}

#[test]
fn units_without_a_home_are_held_and_say_why() {
    let mut node = gpus();
    with_mdevs(&mut node, 1, &[2, 1]);
    let mut after = modelled(&node, PER_GPU);
    after.gpus[1].offered = None;
    after.guests.insert(consumer(3), {
        let mut guest = guest(1, 1);
        guest.mdevs = mdevs(&[0]);
        guest
    });
    let vgpu = (root_uuid(), ResourceClass::VGPU);
    let others = [9, 3].map(|n| (consumer(n), [(vgpu.clone(), 1)].into()));
    let done = upgrade(&node, &after, others);
    assert_eq!(done.shown(consumer(9)), ["n1 VGPU 1"]);
    let mut reasons: Vec<_> = done
        .request
        .homeless()
        .iter()
        .map(|(allocation, reason)| (allocation.consumer, allocation.amount, reason.clone()))
        .collect();
    reasons.sort_by_key(|(consumer, ..)| *consumer);
    let device = "n1_pci_0000_02_00_0".to_owned();
    assert_eq!(
        reasons,
        [
            (consumer(1), 1, HomelessReason::DeviceGone { device }),
            (consumer(3), 1, HomelessReason::Unknown),
            (consumer(9), 1, HomelessReason::NoGuest),
        ]
    );
    let [held] = done.request.held() else {
        panic!("{:?}", done.request.held())
    };
    assert_eq!((held.provider, held.used), (root_uuid(), 3));
}

#[test]
fn contexts_of_encrypted_memory_leave_the_root_for_those_of_sev() {
    let mut before = node();
    before.customs = vec![custom("MEM_ENCRYPTION_CONTEXT", &[], 16)];
    let mut after = node();
    after.encryption_contexts = [
        (MemoryEncryption::AmdSev, 16),
        (MemoryEncryption::AmdSevEs, 8),
    ]
    .into();
    let place = (root_uuid(), ResourceClass::MEM_ENCRYPTION_CONTEXT);
    let done = upgrade(&before, &after, [(consumer(9), [(place, 1)].into())]);
    assert_eq!(
        done.shown(consumer(9)),
        ["amd_sev MEM_ENCRYPTION_CONTEXT 1"]
    );
    assert!(done.request.homeless().is_empty());
}

#[test]
fn several_classes_of_the_root_each_find_their_gpu() {
    let mut node = node();
    node.gpus = vec![gpu(1, "VGPU", 4), gpu(2, "CUSTOM_BIG_VGPU", 2)];
    with_mdevs(&mut node, 1, &[1, 1, 2]);
    let done = upgrade(&node, &modelled(&node, PER_GPU), []);
    assert_eq!(
        done.shown(consumer(1))[2..],
        [
            "pci_0000_01_00_0 VGPU 2",
            "pci_0000_02_00_0 CUSTOM_BIG_VGPU 1"
        ]
    );
}

#[test]
fn a_gpus_class_may_change_on_the_way_and_in_its_place() {
    let mut node = gpus();
    with_mdevs(&mut node, 1, &[1, 2]);
    let mut after = modelled(&node, PER_GPU);
    after.gpus[1] = gpu(2, "CUSTOM_BIG_VGPU", 4);
    let done = upgrade(&node, &after, []);
    let parted = [
        "pci_0000_01_00_0 VGPU 1",
        "pci_0000_02_00_0 CUSTOM_BIG_VGPU 1",
    ];
    assert_eq!(done.shown(consumer(1))[2..], parted);

    let done = upgrade(&modelled(&node, PER_GPU), &after, []);
    assert_eq!(done.shown(consumer(1))[2..], parted);
    let done = upgrade(&after, &modelled(&node, PER_GPU), []);
    assert_eq!(
        done.shown(consumer(1))[2..],
        ["pci_0000_01_00_0 VGPU 1", "pci_0000_02_00_0 VGPU 1"]
    );
}

#[test]
fn gpus_go_back_to_the_root_with_everybodys_units() {
    let mut node = gpus();
    with_mdevs(&mut node, 1, &[1, 2]);
    let done = upgrade(&modelled(&node, PER_GPU), &node, []);
    assert_eq!(done.shown(consumer(1))[2..], ["n1 VGPU 2"]);
    assert!(done.request.homeless().is_empty());
}

#[test]
fn a_migrations_guest_is_inferred_only_where_it_is_the_only_one() {
    let mut node = gpus();
    with_mdevs(&mut node, 1, &[2, 2]);
    with_mdevs(&mut node, 2, &[1]);
    let vgpu = (root_uuid(), ResourceClass::VGPU);
    let mut before = node.clone();
    before.guests.clear();
    let held = |n: u128, amount: u64| (consumer(n), [(vgpu.clone(), amount)].into());
    let after = modelled(&node, PER_GPU);
    for (others, landed, why) in [
        (
            vec![held(9, 2), held(2, 1)],
            "pci_0000_02_00_0 VGPU 2",
            "the only one of two units",
        ),
        (
            vec![held(9, 2), held(8, 2)],
            "n1 VGPU 2",
            "two unknown consumers compete",
        ),
        (
            vec![held(9, 2), held(1, 2)],
            "n1 VGPU 2",
            "the guest holds its own",
        ),
        (vec![held(9, 3)], "n1 VGPU 3", "no guest uses three"),
    ] {
        let done = upgrade(&before, &after, others);
        assert_eq!(done.shown(consumer(9)), [landed], "{why}");
    }
    let mut twins = after.clone();
    with_mdevs(&mut twins, 3, &[1, 1]);
    let done = upgrade(&before, &twins, [held(9, 2)]);
    assert_eq!(done.shown(consumer(9)), ["n1 VGPU 2"], "two guests fit");
    let mut known = twins;
    known.guests.get_mut(&consumer(3)).unwrap().also = BTreeSet::from([consumer(9)]);
    let done = upgrade(&before, &known, [held(9, 2)]);
    assert_eq!(
        done.shown(consumer(9)),
        ["pci_0000_01_00_0 VGPU 2"],
        "the hypervisor knows"
    );
}

#[test]
fn a_migration_is_distinguished_by_all_that_it_holds() {
    let mut node = gpus();
    with_mdevs(&mut node, 1, &[1]);
    with_mdevs(&mut node, 2, &[2]);
    node.guests.get_mut(&consumer(2)).unwrap().memory_mib = 1024;
    let mut before = node.clone();
    before.guests.clear();
    let migration = [
        ((root_uuid(), ResourceClass::VGPU), 1),
        ((root_uuid(), ResourceClass::MEMORY_MB), 1024),
    ];
    let done = upgrade(
        &before,
        &modelled(&node, PER_GPU),
        [(consumer(9), migration.into())],
    );
    assert_eq!(
        done.shown(consumer(9)),
        ["n1 MEMORY_MB 1024", "pci_0000_02_00_0 VGPU 1"]
    );
}

fn celled() -> NodeView {
    let mut node = node();
    node.cells = two_cells();
    node.functions = vec![card(3, 4, Some(1)), card(4, 2, None)];
    node
}

#[test]
fn classes_go_to_the_cells_of_the_guest() {
    let mut node = celled();
    let mut spread = guest(4, 3072);
    spread.cells = vec![cell(1, 3, 1024), cell(0, 1, 2048)];
    spread.functions = ["03:10.0", "03:10.1", "04:10.0"]
        .map(|a| a.parse().unwrap())
        .into();
    node.guests.insert(consumer(1), spread);
    let done = upgrade(&node, &modelled(&node, CELLS), []);
    assert_eq!(
        done.shown(consumer(1)),
        [
            "numa0 MEMORY_MB 2048",
            "numa0 SRIOV_NET_VF 1",
            "numa0 VCPU 1",
            "numa1 MEMORY_MB 1024",
            "numa1 SRIOV_NET_VF 2",
            "numa1 VCPU 3"
        ]
    );
    let back = upgrade(&modelled(&node, CELLS), &node, []);
    assert_eq!(
        back.shown(consumer(1)),
        ["n1 MEMORY_MB 3072", "n1 SRIOV_NET_VF 3", "n1 VCPU 4"]
    );
}

#[test]
fn shares_that_do_not_sum_up_fill_the_cells_in_order_and_end_on_the_first() {
    let mut node = celled();
    let mut odd = guest(4, 2000);
    odd.cells = vec![cell(0, 1, 1500), cell(1, 1, 1500)];
    node.guests.insert(consumer(1), odd);
    let done = upgrade(&node, &modelled(&node, CELLS), []);
    assert_eq!(
        done.shown(consumer(1)),
        [
            "numa0 MEMORY_MB 1500",
            "numa0 VCPU 3",
            "numa1 MEMORY_MB 500",
            "numa1 VCPU 1"
        ]
    );
}

#[test]
fn a_guest_without_cells_goes_whole_to_the_first_with_room() {
    let mut node = celled();
    let mut first = guest(4, 4000);
    first.cells = vec![cell(0, 4, 4000)];
    node.guests.insert(consumer(1), first);
    node.guests.insert(consumer(2), guest(2, 200));
    let done = upgrade(&node, &modelled(&node, CELLS), []);
    assert_eq!(
        done.shown(consumer(2)),
        ["numa1 MEMORY_MB 200", "numa1 VCPU 2"]
    );
}

#[test]
fn an_orphan_and_a_guest_on_a_vanished_cell_stay_on_the_root() {
    let mut node = celled();
    let mut lost = guest(2, 100);
    lost.cells = vec![cell(0, 1, 40), cell(7, 1, 60)];
    node.guests.insert(consumer(1), lost);
    let orphan = [
        ((root_uuid(), ResourceClass::VCPU), 1),
        ((root_uuid(), ResourceClass::MEMORY_MB), 64),
    ];
    let done = upgrade(
        &node,
        &modelled(&node, CELLS),
        [(consumer(9), orphan.into())],
    );
    assert_eq!(done.shown(consumer(9)), ["n1 MEMORY_MB 64", "n1 VCPU 1"]);
    assert_eq!(
        done.shown(consumer(1)),
        [
            "n1 MEMORY_MB 60",
            "n1 VCPU 1",
            "numa0 MEMORY_MB 40",
            "numa0 VCPU 1"
        ]
    );
    assert_eq!(done.request.held().len(), 2);
}

#[test]
fn pinned_cpus_become_pcpu_and_shared_ones_stay() {
    let mut node = node();
    node.cpus.shared = Some("0-3".parse().unwrap());
    node.cpus.dedicated = Some("4-7".parse().unwrap());
    for (n, policy) in [
        (1, GuestCpuPolicy::Shared),
        (2, GuestCpuPolicy::Dedicated),
        (3, GuestCpuPolicy::Mixed { dedicated: 1 }),
    ] {
        let mut guest = guest(2, 100);
        guest.cpu_policy = policy;
        node.guests.insert(consumer(n), guest);
    }
    let orphan = [((root_uuid(), ResourceClass::VCPU), 1)];
    let done = upgrade(
        &node,
        &modelled(&node, PCPU),
        [(consumer(9), orphan.into())],
    );
    assert_eq!(done.shown(consumer(1))[1..], ["n1 VCPU 2"]);
    assert_eq!(done.shown(consumer(2))[1..], ["n1 PCPU 2"]);
    assert_eq!(done.shown(consumer(3))[1..], ["n1 PCPU 1", "n1 VCPU 1"]);
    assert_eq!(done.shown(consumer(9)), ["n1 VCPU 1"]);
    assert!(done.request.homeless().is_empty());

    let back = upgrade(&modelled(&node, PCPU), &node, []);
    assert_eq!(back.shown(consumer(3))[1..], ["n1 VCPU 2"]);
    assert_eq!(back.shown(consumer(2))[1..], ["n1 VCPU 2"]);
}

#[test]
fn an_orphans_vcpus_are_held_where_all_cpus_are_dedicated() {
    let mut node = node();
    node.cpus.dedicated = Some("0-7".parse().unwrap());
    let orphan = [((root_uuid(), ResourceClass::VCPU), 1)];
    let done = upgrade(
        &node,
        &modelled(&node, PCPU),
        [(consumer(9), orphan.into())],
    );
    assert_eq!(done.shown(consumer(9)), ["n1 VCPU 1"]);
    assert_eq!(done.request.held().len(), 1);
}

#[test]
fn cells_and_pinning_may_come_at_once_and_one_after_the_other() {
    let mut node = celled();
    node.cpus.shared = Some("0-1,4-5".parse().unwrap());
    node.cpus.dedicated = Some("2-3,6-7".parse().unwrap());
    let mut mixed = guest(4, 1024);
    mixed.cpu_policy = GuestCpuPolicy::Mixed { dedicated: 2 };
    mixed.cells = vec![cell(0, 3, 512), cell(1, 1, 512)];
    node.guests.insert(consumer(1), mixed.clone());
    mixed.cells.clear();
    mixed.vcpus = 2;
    mixed.cpu_policy = GuestCpuPolicy::Mixed { dedicated: 1 };
    node.guests.insert(consumer(2), mixed);
    let both = ResourceModel {
        numa: NumaModel::Cells,
        ..PCPU
    };
    let landed = [
        "numa0 MEMORY_MB 512",
        "numa0 PCPU 2",
        "numa0 VCPU 1",
        "numa1 MEMORY_MB 512",
        "numa1 VCPU 1",
    ];
    for from in [OLD, PCPU] {
        let done = upgrade(&modelled(&node, from), &modelled(&node, both), []);
        assert_eq!(done.shown(consumer(1)), landed, "{from:?}");
        assert_eq!(
            done.shown(consumer(2)),
            ["numa1 MEMORY_MB 1024", "numa1 PCPU 1", "numa1 VCPU 1"],
            "{from:?}"
        );
    }
    let done = upgrade(&modelled(&node, CELLS), &modelled(&node, both), []);
    assert!(done.request.homeless().is_empty());
    let back = upgrade(&modelled(&node, both), &node, []);
    assert_eq!(back.shown(consumer(1)), ["n1 MEMORY_MB 1024", "n1 VCPU 4"]);
}

#[test]
fn pinned_cpus_are_dealt_out_to_a_guests_cells_once() {
    let mut node = celled();
    node.cpus.shared = Some("0-1,4-5".parse().unwrap());
    node.cpus.dedicated = Some("2-3,6-7".parse().unwrap());
    let both = ResourceModel {
        numa: NumaModel::Cells,
        ..PCPU
    };
    for (dedicated, order, landed) in [
        (0, [0, 1], &["numa0 VCPU 2", "numa1 VCPU 2"][..]),
        (1, [0, 1], &["numa0 PCPU 1", "numa0 VCPU 1", "numa1 VCPU 2"]),
        (1, [1, 0], &["numa0 VCPU 2", "numa1 PCPU 1", "numa1 VCPU 1"]),
        (3, [0, 1], &["numa0 PCPU 2", "numa1 PCPU 1", "numa1 VCPU 1"]),
        (4, [1, 0], &["numa0 PCPU 2", "numa1 PCPU 2"]),
        (9, [0, 1], &["numa0 PCPU 2", "numa1 PCPU 2"]),
    ] {
        let mut mixed = guest(4, 1024);
        mixed.cpu_policy = GuestCpuPolicy::Mixed { dedicated };
        mixed.cells = order.map(|id| cell(id, 2, 512)).to_vec();
        node.guests.insert(consumer(1), mixed);
        for from in [OLD, CELLS, PCPU] {
            let done = upgrade(&modelled(&node, from), &modelled(&node, both), []);
            let cpus: Vec<_> = done.shown(consumer(1));
            let cpus: Vec<_> = cpus.iter().filter(|line| line.contains("CPU")).collect();
            assert_eq!(cpus, landed, "{dedicated} over {order:?} from {from:?}");
        }
    }
}

#[test]
fn what_was_left_behind_follows_to_the_cell_that_lacks_it() {
    let mut node = modelled(&celled(), CELLS);
    let mut parted = guest(4, 1024);
    parted.cells = vec![cell(0, 2, 512), cell(1, 2, 512)];
    node.guests.insert(consumer(1), parted);
    let tree = reported(&node, &bare());
    let numa0 = tree.by_name(&"n1_numa0".parse().unwrap()).unwrap().uuid();
    let mut current = tree.clone();
    let mut all = Resources::new();
    for (class, amount) in [(ResourceClass::VCPU, 2), (ResourceClass::MEMORY_MB, 512)] {
        let hold = Inventory::holding(amount).unwrap();
        current.root_mut().inventories.insert(class.clone(), hold);
        all.insert((numa0, class.clone()), amount);
        all.insert((root_uuid(), class), amount);
    }
    let all = [(consumer(1), holding(all))].into_iter().collect();
    let desired = provider_tree(&host(node.clone()), &current, &name()).unwrap();
    let pending = PendingReshape::rehoming(&current, &desired).unwrap();
    let request = resolved(&node, pending, &all).unwrap();
    let after = request.afterwards(&all);
    assert_eq!(after, held(&node, &tree));
    assert_eq!(request.tree(), &tree);
}

#[test]
fn a_renamed_class_takes_everybody_along() {
    let mut before = node();
    before.customs = vec![custom("CUSTOM_CARD", &["CUSTOM_CARD"], 4)];
    let mut after = node();
    after.customs = vec![custom("FPGA", &["CUSTOM_CARD"], 4)];
    let held = [((root_uuid(), crate::view::class("CUSTOM_CARD")), 3)];
    let done = upgrade(&before, &after, [(consumer(9), held.into())]);
    assert_eq!(done.shown(consumer(9)), ["n1 FPGA 3"]);
    assert!(done.request.held().is_empty());
}
