//! Children created by others or under another host name: they are found by name and keep their UUID.

use berth_model::{Allocations, NodeName, Plan, ProviderTree, ProviderUuid, Trait, Usages, plan};
use berth_virt::{
    GuestCpuPolicy, HostView, NodeView, NumaModel, PcpuModel, ResourceModel, Resources, TreePair,
    VgpuModel, guest_allocations, homes, provider_tree,
};
use uuid::Uuid;

use crate::view::{
    OLD, bare, cell, class, consumer, gpu, guest, held, holding, host, mdevs, modelled, name, node,
    reported, root_uuid, shown, two_cells,
};

/// The same tree with foreign UUIDs of children, marked like nova-compute does.
fn foreign_children(tree: &ProviderTree) -> ProviderTree {
    let mut strange = ProviderTree::new(tree.root().clone());
    for (n, child) in (0xabc0_u128..).zip(tree.children(root_uuid())) {
        let mut copy = berth_model::Provider::child(
            Uuid::from_u128(n).into(),
            child.name.clone(),
            root_uuid(),
        );
        copy.inventories.clone_from(&child.inventories);
        copy.traits.clone_from(&child.traits);
        copy.traits.insert(Trait::OWNER_NOVA);
        strange.insert(copy).unwrap();
    }
    strange
}

fn uuids(tree: &ProviderTree) -> Vec<ProviderUuid> {
    tree.own().into_iter().map(|p| p.uuid()).collect()
}

/// Two GPUs in two cells; one guest on both of each, one pinned.
fn machine(model: ResourceModel, gpus_class: &str) -> NodeView {
    let mut node = modelled(&node(), model);
    node.cells = two_cells();
    node.cpus.dedicated = Some("2-3,6-7".parse().unwrap());
    node.cpus.shared = Some("0-1,4-5".parse().unwrap());
    node.gpus = vec![gpu(1, gpus_class, 4), gpu(2, gpus_class, 4)];
    let mut across = guest(2, 1024);
    across.mdevs = mdevs(&[1, 2]);
    across.cells = vec![cell(0, 1, 512), cell(1, 1, 512)];
    let mut pinned = guest(2, 512);
    pinned.cpu_policy = GuestCpuPolicy::Dedicated;
    pinned.cells = vec![cell(1, 2, 512)];
    node.guests = [(consumer(1), across), (consumer(2), pinned)].into();
    node
}

const NEW: ResourceModel = ResourceModel {
    vgpu: VgpuModel::PerGpu,
    numa: NumaModel::Cells,
    pcpu: PcpuModel::Pcpu,
};

/// The allocations and the tree after the node's model changed.
fn remodelled(
    node: &NodeView,
    at: &NodeName,
    current: &ProviderTree,
    held: &Allocations,
) -> (ProviderTree, Allocations) {
    let view = HostView {
        nodes: [(at.clone(), node.clone())].into(),
        ..host(node.clone())
    };
    let desired = provider_tree(&view, current, at).unwrap();
    let Plan::ReshapeNeeded(pending) = plan(current, desired, &held.usages()) else {
        panic!("no reshape");
    };
    let wanted = pending.desired().tree.clone();
    let trees = TreePair {
        current,
        desired: &wanted,
    };
    let request = pending
        .resolve(held, |allocation, all| {
            homes(&view, at, trees, allocation, all)
        })
        .unwrap();
    assert!(request.held().is_empty(), "{request}");
    (request.tree().clone(), request.afterwards(held))
}

fn by_provider(all: &Allocations, tree: &ProviderTree, n: u128) -> Vec<String> {
    shown(all, [tree, tree], consumer(n))
}

/// The allocations of a guest under a migration unknown to the hypervisor, so that the guest must be inferred.
fn as_a_migration(held: &Allocations, n: u128) -> Allocations {
    held.consumers()
        .map(|(uuid, held)| {
            let uuid = if *uuid == consumer(n) {
                consumer(0x900 + n)
            } else {
                *uuid
            };
            (uuid, held.clone())
        })
        .collect()
}

#[test]
fn units_leave_children_of_any_uuid_and_come_back_to_them_by_name() {
    // The class is unknown now, so only the providers' names identify them.
    let new = machine(NEW, "CUSTOM_GRID");
    let tree = foreign_children(&reported(&new, &bare()));
    let before = held(&new, &tree);
    let old = machine(OLD, "VGPU");
    let (flat, on_root) = remodelled(&old, &name(), &tree, &before);
    assert_eq!(uuids(&flat), [root_uuid()]);
    assert_eq!(
        by_provider(&on_root, &flat, 1),
        ["n1 MEMORY_MB 1024", "n1 VCPU 2", "n1 VGPU 2"]
    );
    assert_eq!(
        by_provider(&on_root, &flat, 2),
        ["n1 MEMORY_MB 512", "n1 VCPU 2"]
    );
    let (again, back) = remodelled(&machine(NEW, "VGPU"), &name(), &flat, &on_root);
    assert_eq!(
        by_provider(&back, &again, 1),
        [
            "numa0 MEMORY_MB 512",
            "numa0 VCPU 1",
            "numa1 MEMORY_MB 512",
            "numa1 VCPU 1",
            "pci_0000_01_00_0 VGPU 1",
            "pci_0000_02_00_0 VGPU 1"
        ]
    );
    assert_eq!(
        by_provider(&back, &again, 2),
        ["numa1 MEMORY_MB 512", "numa1 PCPU 2"]
    );
}

#[test]
fn a_guest_is_inferred_from_what_a_migration_holds_on_children_of_any_uuid() {
    // Units on three children: the moved ones, and the ones that identify the guest.
    let vcpu_cells = ResourceModel {
        pcpu: PcpuModel::Vcpu,
        ..NEW
    };
    let mut cells = machine(vcpu_cells, "VGPU");
    cells.guests.get_mut(&consumer(2)).unwrap().cells = vec![cell(0, 1, 256), cell(1, 1, 256)];
    let tree = foreign_children(&reported(&cells, &bare()));
    let before = as_a_migration(&held(&cells, &tree), 2);
    let mut flat = modelled(&cells, NEW);
    flat.model.numa = NumaModel::Flat;
    let (tree, after) = remodelled(&flat, &name(), &tree, &before);
    assert_eq!(
        by_provider(&after, &tree, 0x902),
        ["n1 MEMORY_MB 512", "n1 PCPU 2"]
    );
}

#[test]
fn a_renamed_hosts_children_keep_their_uuids_through_reshapes() {
    let new = machine(NEW, "VGPU");
    let tree = reported(&new, &bare());
    let at = NodeName::new("n2").unwrap();
    let mut renamed = tree.clone();
    for uuid in uuids(&tree) {
        let provider = renamed.get_mut(uuid).unwrap();
        provider.name = provider.name.as_str().replace("n1", "n2").parse().unwrap();
        provider.traits.insert(Trait::OWNER_NOVA);
    }
    let before = held(&new, &tree);
    let view = HostView {
        nodes: [(at.clone(), new.clone())].into(),
        ..host(new.clone())
    };
    let same = provider_tree(&view, &renamed, &at).unwrap();
    assert_eq!(uuids(&same.tree), uuids(&tree));
    assert_eq!(same.moves, []);
    assert_eq!(
        guest_allocations(&new, &at, &renamed),
        guest_allocations(&new, &name(), &tree)
    );
    let (flat, on_root) = remodelled(&machine(OLD, "VGPU"), &at, &renamed, &before);
    assert_eq!(uuids(&flat), [root_uuid()]);
    let (again, back) = remodelled(&new, &at, &flat, &on_root);
    let units = |all: &Allocations, tree: &ProviderTree| -> Vec<Vec<String>> {
        [1, 2].map(|n| by_provider(all, tree, n)).into()
    };
    let gone = units(&before, &renamed);
    assert_eq!(units(&back, &again), gone);
}

#[test]
fn children_without_a_mark_are_marked_before_anything_is_taken_from_them() {
    let seen = machine(NEW, "VGPU");
    let mut tree = foreign_children(&reported(&seen, &bare()));
    for uuid in uuids(&tree) {
        tree.get_mut(uuid)
            .unwrap()
            .traits
            .remove(&Trait::OWNER_NOVA);
    }
    let allocations = held(&seen, &tree);
    // In step: marked with all the rest.
    let desired = provider_tree(&host(seen.clone()), &tree, &name()).unwrap();
    assert_eq!(uuids(&desired.tree), uuids(&tree));
    assert!(
        uuids(&tree)[1..]
            .iter()
            .all(|child| desired.tree.is_ours(*child))
    );
    // With another model or class: marked first.
    for other in [machine(OLD, "VGPU"), machine(NEW, "CUSTOM_GRID")] {
        let desired = provider_tree(&host(other.clone()), &tree, &name()).unwrap();
        assert_eq!(desired.moves, []);
        let Plan::Update { diff, .. } = plan(&tree, desired, &Usages::new()) else {
            panic!("no update");
        };
        let marked = diff.apply(&tree).unwrap();
        assert_eq!(uuids(&marked), uuids(&tree));
        for child in tree.children(root_uuid()) {
            let marked = marked.get(child.uuid()).unwrap();
            assert_eq!(marked.inventories, child.inventories);
            assert!(marked.traits.contains(&Trait::OWNER_NOVA));
        }
        remodelled(&other, &name(), &marked, &allocations);
    }
}

#[test]
fn empty_children_that_a_failed_reshape_of_nova_left_are_used() {
    let old = machine(OLD, "VGPU");
    let tree = reported(&old, &bare());
    let mut halfway = tree.clone();
    for child in foreign_children(&reported(&machine(NEW, "VGPU"), &bare())).children(root_uuid()) {
        if child.name.as_str().contains("_pci_") {
            let empty = berth_model::Provider::child(child.uuid(), child.name.clone(), root_uuid());
            halfway.insert(empty).unwrap();
        }
    }
    let before = held(&old, &tree);
    let per_gpu = ResourceModel {
        vgpu: VgpuModel::PerGpu,
        ..OLD
    };
    let upgraded = modelled(&old, per_gpu);
    let first = provider_tree(&host(upgraded.clone()), &halfway, &name()).unwrap();
    let Plan::Update { diff, .. } = plan(&halfway, first, &Usages::new()) else {
        panic!("no update");
    };
    let marked = diff.apply(&halfway).unwrap();
    let (after, allocations) = remodelled(&upgraded, &name(), &marked, &before);
    assert_eq!(uuids(&after), uuids(&halfway));
    assert_eq!(
        by_provider(&allocations, &after, 1)[2..],
        ["pci_0000_01_00_0 VGPU 1", "pci_0000_02_00_0 VGPU 1"]
    );
}

#[test]
fn an_allocation_on_a_child_of_any_uuid_has_a_home_though_its_class_is_known_to_nobody() {
    let per_gpu = ResourceModel {
        vgpu: VgpuModel::PerGpu,
        ..OLD
    };
    let seen = machine(per_gpu, "CUSTOM_GRID");
    let tree = foreign_children(&reported(&seen, &bare()));
    let gpu = tree.children(root_uuid())[0].uuid();
    let orphan: Resources = [((gpu, class("CUSTOM_GRID")), 1)].into();
    let all: Allocations = [(consumer(9), holding(orphan))].into_iter().collect();
    let (_, after) = remodelled(&machine(OLD, "VGPU"), &name(), &tree, &all);
    assert_eq!(by_provider(&after, &tree, 9), ["n1 VGPU 1"]);
}
