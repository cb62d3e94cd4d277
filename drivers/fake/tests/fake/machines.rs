//! The shipped machines: each one is valid, and each upgrade moves every unit to the right provider.

use std::collections::BTreeMap;

use berth_fake::{GpuHost, Machine, initial_allocations, initial_tree, machines};
use berth_model::{
    Allocations, ConsumerUuid, Inventory, NodeName, Plan, Provider, ProviderTree, ProviderUuid,
    ReshapeRequest, ResourceClass, Trait, plan,
};
use berth_virt::{ResourceModel, TreePair, VgpuModel, homes, provider_tree};
use uuid::Uuid;

fn shipped(name: &str) -> &'static str {
    let (_, text) = machines()
        .into_iter()
        .find(|(one, _)| *one == name)
        .unwrap();
    text
}

fn root() -> ProviderUuid {
    Uuid::from_u128(1).into()
}

fn machine(name: &str, text: &str) -> Machine {
    Machine::from_text(name, text).unwrap_or_else(|error| panic!("{error}"))
}

/// The text after the upgrade that its comment describes, and the old and new value.
fn upgraded(text: &str) -> (String, String, String) {
    let line = text
        .lines()
        .find(|line| line.contains("# to upgrade, change this word: "))
        .unwrap();
    let words: Vec<_> = line.split('"').skip(1).step_by(2).collect();
    let changed = line.replacen(words[0], words[1], 1);
    (
        text.replace(line, &changed),
        words[0].to_owned(),
        words[1].to_owned(),
    )
}

/// The world before the upgrade on one node, with its sharing provider.
fn before(machine: &Machine, node: &NodeName) -> (ProviderTree, Allocations) {
    let mut tree = initial_tree(machine, node, root()).unwrap();
    let mut nfs = Provider::root(Uuid::from_u128(2).into(), "nfs".parse().unwrap());
    nfs.traits.insert(Trait::MISC_SHARES_VIA_AGGREGATE);
    nfs.inventories
        .insert(ResourceClass::DISK_GB, Inventory::of(10_000).unwrap());
    tree.insert(nfs).unwrap();
    let held = initial_allocations(machine, node, &tree);
    (tree, held)
}

fn reshape(
    upgraded: &Machine,
    node: &NodeName,
    tree: &ProviderTree,
    held: &Allocations,
) -> ReshapeRequest {
    let view = upgraded.view();
    let desired = provider_tree(&view, tree, node).unwrap();
    let wanted = desired.tree.clone();
    let Plan::ReshapeNeeded(pending) = plan(tree, desired, &held.usages()) else {
        panic!("the upgrade of {node} is no reshape");
    };
    let trees = TreePair {
        current: tree,
        desired: &wanted,
    };
    pending
        .resolve(held, |allocation, all| {
            homes(&view, node, trees, allocation, all)
        })
        .unwrap()
}

#[test]
fn the_old_world_fits_and_the_upgrade_lands_where_the_new_world_is() {
    for (name, text) in machines() {
        let (new_text, ..) = upgraded(text);
        let (old, new) = (machine(name, text), machine(name, &new_text));
        for node in &old.nodes {
            assert!(!node.guests.is_empty(), "{name} has no guests");
            let (tree, held) = before(&old, &node.name);
            for ((provider, class), used) in held.usages() {
                let capacity = tree.inventory(provider, &class).unwrap().capacity();
                assert!(used <= capacity, "{name}: {used} {class} of {capacity}");
            }
            let request = reshape(&new, &node.name, &tree, &held);
            assert_eq!(request.homeless(), [], "{name}");
            assert_eq!(request.held(), [], "{name}");
            let expected = initial_allocations(&new, &node.name, request.tree());
            assert_eq!(request.afterwards(&held), expected, "{name}");
        }
    }
}

#[test]
fn each_unit_of_the_eight_gpu_host_goes_to_its_own_gpu() {
    let (text, from, to) = upgraded(shipped("eight-gpu-flat"));
    assert_eq!((from.as_str(), to.as_str()), ("root", "per-gpu"));
    let old = machine("eight-gpu-flat", shipped("eight-gpu-flat"));
    let node = &old.nodes[0];
    let (tree, held) = before(&old, &node.name);
    let request = reshape(&machine("eight-gpu-flat", &text), &node.name, &tree, &held);
    let name_of = |consumer: ConsumerUuid| {
        let holds = |guest: &&berth_fake::MachineGuest| {
            guest.migration.map_or(guest.uuid, |held| held.consumer) == consumer
        };
        &node.guests.iter().find(holds).unwrap().seen.name
    };
    let mut moved: Vec<_> = request
        .moved()
        .iter()
        .map(|units| {
            let gpu = &request.tree().get(units.to).unwrap().name;
            let amount = units.amount;
            format!("{}: {amount} to {gpu}", name_of(units.consumer))
        })
        .collect();
    moved.sort();
    assert_eq!(
        moved,
        [
            "asleep: 1 to gpu-01_pci_0000_85_00_0",
            "drifting: 2 to gpu-01_pci_0000_c4_00_0",
            "full: 8 to gpu-01_pci_0000_84_00_0",
            "pair: 1 to gpu-01_pci_0000_04_00_0",
            "pair: 1 to gpu-01_pci_0000_c5_00_0",
            "single: 1 to gpu-01_pci_0000_04_00_0",
            "trio: 1 to gpu-01_pci_0000_45_00_0",
            "trio: 2 to gpu-01_pci_0000_44_00_0",
        ]
    );
}

#[test]
fn a_word_that_is_not_changed_is_no_upgrade() {
    for (name, text) in machines() {
        let machine = machine(name, text);
        for node in &machine.nodes {
            let (tree, held) = before(&machine, &node.name);
            let desired = provider_tree(&machine.view(), &tree, &node.name).unwrap();
            let verdict = plan(&tree, desired, &held.usages());
            assert!(matches!(verdict, Plan::InSync { .. }), "{name}: {verdict}");
        }
    }
}

#[test]
fn every_consumer_of_the_shipped_machines_is_one_of_their_guests_or_migrations() {
    let mut holders: BTreeMap<ConsumerUuid, usize> = BTreeMap::new();
    for (name, text) in machines() {
        let machine = machine(name, text);
        for node in &machine.nodes {
            let (_, held) = before(&machine, &node.name);
            for (consumer, _) in held.consumers() {
                *holders.entry(*consumer).or_insert(0) += 1;
            }
            assert_eq!(held.len(), node.guests.len());
        }
    }
    assert!(
        holders.values().all(|times| *times == 1),
        "a UUID is used twice"
    );
}

#[test]
fn a_thousand_guests_land_on_their_gpus_migrations_included() {
    let shape = |vgpu| GpuHost {
        name: NodeName::new("big-01").unwrap(),
        gpus: 8,
        guests: 1000,
        second_unit_every: 5,
        migration_every: 7,
        model: ResourceModel {
            vgpu,
            ..ResourceModel::default()
        },
    };
    let (old, new) = [VgpuModel::Root, VgpuModel::PerGpu]
        .map(|vgpu| Machine::gpu_host(&shape(vgpu)))
        .into();
    let node = &old.nodes[0].name;
    let (tree, held) = before(&old, node);
    let request = reshape(&new, node, &tree, &held);
    assert_eq!((request.homeless(), request.held()), (&[][..], &[][..]));
    let expected = initial_allocations(&new, node, request.tree());
    assert_eq!(request.afterwards(&held), expected);
}
