//! Properties of any machine, before and after any change of it.

use std::collections::BTreeMap;

use berth_model::{Allocations, Inventory, Plan, Provider, ProviderTree, Trait, Usages, plan};
use berth_virt::{
    CpuSet, GuestCpuPolicy, GuestView, HostNumaCell, NodeDisk, NodeView, ResourceModel,
    provider_tree,
};
use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use uuid::Uuid;

use crate::view::{
    bare, card, cell, class, consumer, custom, gpu, guest, held, holding, host, mdevs, modelled,
    name, node, pending, reported, resolved, root_uuid,
};

fn a_model() -> impl Strategy<Value = ResourceModel> {
    prop::sample::select(ResourceModel::all().collect::<Vec<_>>())
}

fn a_guest() -> impl Strategy<Value = GuestView> {
    let policy = prop_oneof![
        Just(GuestCpuPolicy::Shared),
        Just(GuestCpuPolicy::Dedicated),
        (0..4u64).prop_map(|dedicated| GuestCpuPolicy::Mixed { dedicated }),
    ];
    let cells = vec((0..4u32, 0..3u64, 0..600u64), 0..3);
    let functions = btree_set((0x20..0x23u8, 0..4u8), 0..3);
    let parts = (
        cells,
        vec(0..6u8, 0..3),
        functions,
        btree_set(90..94u128, 0..2),
    );
    ((1..5u64, 1..1200u64), policy, parts).prop_map(|(size, policy, parts)| {
        let mut guest = guest(size.0, size.1);
        guest.cpu_policy = policy;
        guest.cells = parts
            .0
            .iter()
            .map(|(id, cpus, memory)| cell(*id, *cpus, *memory))
            .collect();
        guest.mdevs = mdevs(&parts.1);
        guest.functions = parts
            .2
            .iter()
            .map(|(bus, n)| format!("{bus:02x}:10.{n}").parse().unwrap())
            .collect();
        guest.also = parts.3.into_iter().map(consumer).collect();
        guest
    })
}

const GPU_CLASSES: [&str; 3] = ["VGPU", "CUSTOM_A", "CUSTOM_B"];
const CUSTOMS: [(&str, &[&str]); 4] = [
    ("CUSTOM_CARD", &[]),
    ("PGPU", &["CUSTOM_CARD"]),
    ("CUSTOM_CARD", &["PGPU", "CUSTOM_CARD"]),
    ("FPGA", &["CUSTOM_CARD", "PGPU"]),
];

fn hardware() -> impl Strategy<Value = NodeView> {
    let cpus = (1..12u32, 0..12u32, any::<bool>(), 0..4u32);
    let devices = (
        vec((0..3usize, 0..4u64), 0..5),
        vec((0..4u8, option::of(0..4u32)), 0..3),
        option::of((0..4usize, 0..4u64)),
        0..3u8,
    );
    (cpus, 1..5000u64, devices).prop_map(|((online, dedicated, shares, cells), memory, devices)| {
        let mut node = node();
        node.cpus.online = CpuSet::first(online);
        let pinned: CpuSet = (online.saturating_sub(dedicated)..online).collect();
        if shares {
            node.cpus.shared = Some(node.cpus.online.difference(&pinned));
        }
        node.cpus.dedicated = (!pinned.is_empty()).then_some(pinned);
        node.memory_mib = memory;
        node.cells = (0..cells)
            .map(|id| {
                let cpus = (0..online).filter(|cpu| cpu % cells == id).collect();
                HostNumaCell::new(id, cpus, memory / u64::from(cells))
            })
            .collect();
        let (gpus, cards, customs, disk) = devices;
        node.gpus = (1..)
            .zip(gpus)
            .map(|(bus, (class, total))| gpu(bus, GPU_CLASSES[class], total))
            .collect();
        node.functions = (0x20..)
            .zip(cards)
            .map(|(bus, (count, numa))| card(bus, count, numa))
            .collect();
        node.customs = customs
            .map(|(which, total)| custom(CUSTOMS[which].0, CUSTOMS[which].1, total))
            .into_iter()
            .collect();
        node.disk = [
            NodeDisk::Local { gib: 50 },
            NodeDisk::Shared,
            NodeDisk::None,
        ][usize::from(disk)];
        node
    })
}

fn a_node() -> impl Strategy<Value = NodeView> {
    (hardware(), vec((1..10u128, a_guest()), 0..6), a_model()).prop_map(
        |(mut node, guests, model)| {
            node.guests = guests
                .into_iter()
                .map(|(n, guest)| (consumer(n), guest))
                .collect();
            node.model = model;
            node
        },
    )
}

/// Foreign parts of Placement's tree.
fn add_what_is_foreign(tree: &mut ProviderTree) -> Vec<Provider> {
    let root = tree.root_mut();
    root.inventories
        .insert(class("CUSTOM_WATTS"), Inventory::of(9).unwrap());
    root.traits.insert(Trait::new("CUSTOM_RACK").unwrap());
    root.traits.insert(Trait::COMPUTE_NODE);
    let id = |n: u128| Uuid::from_u128(n).into();
    let mut cyborgs = Provider::child(id(0xc), "n1_fpga".parse().unwrap(), root_uuid());
    cyborgs.traits.insert(Trait::OWNER_CYBORG);
    cyborgs
        .inventories
        .insert(class("VGPU"), Inventory::of(3).unwrap());
    let mut pci = Provider::child(id(0xd), "n1_0000:AA:00.0".parse().unwrap(), root_uuid());
    pci.traits.insert(Trait::OWNER_NOVA);
    pci.inventories
        .insert(class("CUSTOM_PCI_1"), Inventory::of(1).unwrap());
    let mut share = Provider::root(id(0xe), "nfs".parse().unwrap());
    share
        .inventories
        .insert(class("DISK_GB"), Inventory::of(99).unwrap());
    let foreign = vec![cyborgs, pci, share];
    for provider in &foreign {
        tree.insert(provider.clone()).unwrap();
    }
    foreign
}

/// Allocations of guests and others as far as they fit, if `crowd` times the current capacity had been available.
fn claimed(
    node: &NodeView,
    tree: &ProviderTree,
    others: &[(u128, usize, u64)],
    crowd: u64,
) -> Allocations {
    let places: Vec<_> = tree
        .all()
        .iter()
        .flat_map(|p| p.inventories.keys().map(|class| (p.uuid(), class.clone())))
        .collect();
    let mut wishes = BTreeMap::new();
    for (consumer, allocations) in held(node, tree).consumers() {
        wishes.insert(*consumer, allocations.resources.clone());
    }
    for (n, place, amount) in others {
        let wish = wishes.entry(consumer(*n)).or_default();
        wish.insert(places[place % places.len()].clone(), *amount);
    }
    let mut used = Usages::new();
    let mut claimed = Allocations::none();
    for (consumer, mut wish) in wishes {
        wish.retain(|place, amount| {
            let capacity = tree
                .inventory(place.0, &place.1)
                .map_or(0, Inventory::capacity);
            let used = used.entry(place.clone()).or_insert(0);
            let fits = *used + *amount <= capacity * crowd && *amount <= capacity;
            *used += if fits { *amount } else { 0 };
            fits
        });
        if !wish.is_empty() {
            claimed.insert(consumer, holding(wish));
        }
    }
    claimed
}

/// The tree and the allocations after the agent has executed the plan, as at a start.
fn carried_out(
    node: &NodeView,
    current: &ProviderTree,
    all: &Allocations,
) -> Result<(ProviderTree, Allocations), TestCaseError> {
    let desired = provider_tree(&host(node.clone()), current, &name())
        .map_err(|error| TestCaseError::fail(error.to_string()))?;
    Ok(match plan(current, desired, &all.usages()) {
        Plan::InSync { .. } => (current.clone(), all.clone()),
        Plan::Update { diff, .. } => (diff.apply(current).unwrap(), all.clone()),
        Plan::ReshapeNeeded(pending) => {
            let request = resolved(node, pending, all)
                .map_err(|refused| TestCaseError::fail(refused.to_string()))?;
            let after = request.afterwards(all);
            (request.tree().clone(), after)
        }
    })
}

/// Only guests on existing cells with the right sum, so that there is only one right result.
fn only_plain_guests(node: &NodeView) -> NodeView {
    let mut node = node.clone();
    node.guests.retain(|_, guest| {
        guest.also.clear();
        let cells = node.cells.len();
        guest
            .cells
            .retain(|cell| (cell.host_cell as usize) < cells && cell.vcpus > 0);
        guest.cells.dedup_by_key(|cell| cell.host_cell);
        guest.vcpus = guest.cells.iter().map(|cell| cell.vcpus).sum();
        guest.memory_mib = guest.cells.iter().map(|cell| cell.memory_mib).sum();
        guest.mdevs.retain(|mdev| mdev.parent.is_some());
        !guest.cells.is_empty()
    });
    node
}

fn totals(all: &Allocations) -> BTreeMap<berth_model::ConsumerUuid, u64> {
    all.consumers()
        .map(|(consumer, held)| (*consumer, held.resources.values().sum()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        max_global_rejects: 1 << 20,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_carried_out_is_in_sync_loses_nothing_and_leaves_the_rest_alone(
        before in a_node(),
        changed in a_node(),
        keeps_hardware in any::<bool>(),
        crowd in 1..4u64,
        others in vec((80..95u128, any::<prop::sample::Index>(), 1..3u64), 0..6),
    ) {
        let after = if keeps_hardware { modelled(&before, changed.model) } else { changed };
        let mut current = reported(&before, &bare());
        let foreign = add_what_is_foreign(&mut current);
        let others: Vec<_> =
            others.into_iter().map(|(n, place, amount)| (n, place.index(64), amount)).collect();
        let all = claimed(&before, &current, &others, crowd);

        let (tree, moved) = carried_out(&after, &current, &all)?;
        prop_assert_eq!(totals(&all), totals(&moved));
        for ((provider, class), used) in moved.usages() {
            let inventory = tree.inventory(provider, &class).unwrap();
            prop_assert!(
                used <= inventory.capacity()
                    || (inventory.is_held() && u64::from(inventory.total) == used)
                    || Some(&used) <= all.usages().get(&(provider, class.clone())),
                "{used} {class} of {inventory} in\n{tree}"
            );
        }
        for provider in &foreign {
            prop_assert_eq!(tree.get(provider.uuid()), Some(provider));
        }
        prop_assert!(tree.root().inventories.contains_key(&class("CUSTOM_WATTS")));
        prop_assert!(tree.root().traits.contains(&Trait::COMPUTE_NODE));

        // A shrinking that has nothing to do with the moves is the plain update after them.
        prop_assert!(pending(&after, &tree).is_none(), "asked for again");
        let (settled, same) = carried_out(&after, &tree, &moved)?;
        prop_assert_eq!(&same, &moved);
        let desired = provider_tree(&host(after), &settled, &name()).unwrap();
        let verdict = plan(&settled, desired, &moved.usages());
        prop_assert!(matches!(verdict, Plan::InSync { .. }), "{verdict}");
    }

    #[test]
    fn a_reshape_and_its_inverse_give_the_tree_back(node in a_node(), model in a_model()) {
        let first = reported(&node, &bare());
        let none = Allocations::none();
        let other = modelled(&node, model);
        let (second, _) = carried_out(&other, &first, &none)?;
        prop_assert_eq!(&second, &reported(&other, &bare()));
        let (third, _) = carried_out(&node, &second, &none)?;
        prop_assert_eq!(third, first);
    }

    #[test]
    fn guests_that_fit_the_new_model_find_their_way_there_and_back(
        node in a_node(),
        models in (a_model(), a_model()),
    ) {
        let old = only_plain_guests(&modelled(&node, models.0));
        let current = reported(&old, &bare());
        let all = claimed(&old, &current, &[], 1);
        prop_assume!(all == held(&old, &current));
        let new = modelled(&old, models.1);
        let (tree, moved) = carried_out(&new, &current, &all)?;
        prop_assume!(tree == reported(&new, &bare()));
        prop_assume!(claimed(&new, &tree, &[], 1) == held(&new, &tree));
        prop_assert_eq!(&moved, &held(&new, &tree));
        let (back, again) = carried_out(&old, &tree, &moved)?;
        prop_assert_eq!(back, current);
        prop_assert_eq!(again, all);
    }
}
