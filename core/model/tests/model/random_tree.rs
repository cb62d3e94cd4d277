//! Properties of the diff and the plan over random trees.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    DesiredTree, Plan, Provider, ProviderTree, ProviderUuid, Trait, Usages, diff, plan,
    usages_to_probe,
};
use proptest::prelude::*;
use proptest::sample::subsequence;

use super::build::*;

const CLASSES: [&str; 4] = ["VCPU", "MEMORY_MB", "VGPU", "CUSTOM_FPGA"];
const TRAITS: [&str; 3] = ["COMPUTE_NODE", "HW_NUMA_ROOT", "CUSTOM_FAST"];
/// Devices 0 to 5 are Berth's; 6 and 7 have another owner.
const DEVICES: usize = 8;

#[derive(Debug, Clone)]
struct Shape {
    /// Whether it is there, and under which earlier device (none: the root).
    there: bool,
    under: Option<usize>,
    inventories: Vec<(&'static str, u64, u64)>,
    traits: Vec<&'static str>,
    aggregates: BTreeSet<u128>,
}

fn shapes() -> impl Strategy<Value = Shape> {
    let amounts = prop::collection::vec((1..20_u64, 0..3_u64), CLASSES.len());
    let inventories = (subsequence(CLASSES.to_vec(), 0..=CLASSES.len()), amounts).prop_map(
        |(classes, amounts)| {
            classes
                .into_iter()
                .zip(amounts)
                .map(|(c, (t, r))| (c, t, r))
                .collect()
        },
    );
    (
        any::<bool>(),
        prop::option::of(0..DEVICES),
        inventories,
        subsequence(TRAITS.to_vec(), 0..=TRAITS.len()),
        prop::collection::btree_set(0..3_u128, 0..3),
    )
        .prop_map(|(there, under, inventories, traits, aggregates)| Shape {
            there,
            under,
            inventories,
            traits,
            aggregates,
        })
}

fn worlds() -> impl Strategy<Value = Vec<Shape>> {
    prop::collection::vec(shapes(), DEVICES + 1)
}

fn device_uuid(device: usize) -> ProviderUuid {
    if device < 6 {
        child_uuid(&device.to_string())
    } else {
        uuid(0x100 + device as u128)
    }
}

fn dress(mut provider: Provider, shape: &Shape) -> Provider {
    for (text, total, reserved) in &shape.inventories {
        let reserved = u32::try_from(*reserved).unwrap();
        provider
            .inventories
            .insert(class(text), of(*total).reserving(reserved));
    }
    provider
        .traits
        .extend(shape.traits.iter().map(|text| Trait::new(text).unwrap()));
    let aggregates = shape.aggregates.iter();
    provider
        .aggregates
        .extend(aggregates.map(|n| berth_model::AggregateUuid::from(uuid::Uuid::from_u128(*n))));
    provider
}

/// A tree in which a device may hang below any other that stands before it in `order`.
fn grow(world: &[Shape], order: &[usize]) -> ProviderTree {
    let mut tree = ProviderTree::new(dress(root(&[]), &world[DEVICES]));
    for device in order {
        let shape = &world[*device];
        if !shape.there {
            continue;
        }
        let parent = shape
            .under
            .map(device_uuid)
            .filter(|parent| tree.get(*parent).is_some());
        let parent = parent.unwrap_or(root_uuid());
        let provider = Provider::child(
            device_uuid(*device),
            name(&format!("gpu-01_{device}")),
            parent,
        );
        tree.insert(dress(provider, shape)).unwrap();
    }
    tree
}

/// What a driver does: foreign providers stay as they are, where their parent does.
fn keep_foreign(current: &ProviderTree, desired: &mut ProviderTree) {
    for provider in current.own() {
        if !current.is_ours(provider.uuid()) {
            desired.remove(provider.uuid());
        }
    }
    for provider in current.own() {
        if !current.is_ours(provider.uuid()) {
            let _ = desired.insert(provider.clone());
        }
    }
}

fn usages_of(tree: &ProviderTree, used: &[u64]) -> Usages {
    let places = tree.own().into_iter().flat_map(|provider| {
        provider
            .inventories
            .keys()
            .map(|class| (provider.uuid(), class.clone()))
    });
    places.zip(used.iter().copied().cycle()).collect()
}

fn desired(tree: ProviderTree) -> DesiredTree {
    DesiredTree {
        tree,
        moves: Vec::new(),
        held_traits: std::collections::BTreeMap::new(),
    }
}

fn orders() -> impl Strategy<Value = Vec<usize>> {
    Just((0..DEVICES).collect::<Vec<_>>()).prop_shuffle()
}

proptest! {
    #![proptest_config(unsaved())]

    #[test]
    fn a_plan_that_was_carried_out_leaves_nothing_to_do(
        now in worlds(), order_now in orders(),
        wanted in worlds(), order_wanted in orders(),
        used in prop::collection::vec(0..6_u64, 1..8),
        known in any::<bool>(),
    ) {
        let current = grow(&now, &order_now);
        let mut wanted = grow(&wanted, &order_wanted);
        keep_foreign(&current, &mut wanted);
        let mut usages = usages_of(&current, &used);
        if !known {
            usages.clear();
        }
        let (tree, held) = match plan(&current, desired(wanted.clone()), &usages) {
            Plan::InSync { held } => (current.clone(), held),
            Plan::Update { diff, held } => (diff.apply(&current).unwrap(), held),
            Plan::ReshapeNeeded(_) => panic!("nothing moves"),
        };
        let again = plan(&tree, desired(wanted.clone()), &usages);
        // Unknown usage counted as fully used; the held inventory now gives the amount.
        prop_assert_eq!(&again, &Plan::InSync { held: held.clone() }, "{}", again);
        for held in &held {
            let inventory = tree.inventory(held.provider, &held.class).unwrap();
            prop_assert!(inventory.is_held() && u64::from(inventory.total) == held.used);
            prop_assert!(usages_to_probe(&tree, &desired(wanted.clone())).contains(&held.provider));
        }
    }

    #[test]
    fn no_unit_in_use_loses_its_inventory(
        now in worlds(), order_now in orders(),
        wanted in worlds(), order_wanted in orders(),
        used in prop::collection::vec(0..6_u64, 1..8),
    ) {
        let current = grow(&now, &order_now);
        let mut wanted = grow(&wanted, &order_wanted);
        keep_foreign(&current, &mut wanted);
        let usages = usages_of(&current, &used);
        if let Plan::Update { diff, .. } = plan(&current, desired(wanted), &usages) {
            let tree = diff.apply(&current).unwrap();
            for ((provider, class), used) in &usages {
                let there = tree.inventory(*provider, class).is_some();
                prop_assert!(there || *used == 0, "{used} {class} on {provider}");
            }
        }
    }

    #[test]
    fn what_others_made_is_left_alone(
        now in worlds(), order_now in orders(),
        wanted in worlds(), order_wanted in orders(),
    ) {
        let current = grow(&now, &order_now);
        // A driver that forgets everybody else's children.
        let mut wanted = grow(&wanted, &order_wanted);
        for device in 6..DEVICES {
            wanted.remove(device_uuid(device));
        }
        let tree = diff(&current, &wanted).apply(&current).unwrap();
        for provider in current.own() {
            if !current.is_ours(provider.uuid()) {
                prop_assert_eq!(tree.get(provider.uuid()), Some(provider));
            } else if wanted.get(provider.uuid()).is_none() {
                let left = tree.get(provider.uuid());
                prop_assert!(left.is_none_or(|left| left.inventories.is_empty()));
            }
        }
    }

    #[test]
    fn the_same_tree_in_another_order_makes_the_same_diff(
        now in worlds(), order_now in orders(),
        wanted in worlds(), order_wanted in orders(),
        seed in any::<u64>(),
    ) {
        let (current, wanted) = (grow(&now, &order_now), grow(&wanted, &order_wanted));
        let shuffled = |tree: &ProviderTree| {
            let providers = (1..).zip(tree.all());
            let providers: BTreeMap<(u64, u64), Provider> = providers
                .map(|(n, provider)| ((seed.wrapping_mul(n).rotate_left(7), n), provider.clone()))
                .collect();
            ProviderTree::from_providers(root_uuid(), providers.into_values()).unwrap()
        };
        let (one, other) = (diff(&current, &wanted), diff(&shuffled(&current), &shuffled(&wanted)));
        prop_assert_eq!(one.to_string(), other.to_string());
        prop_assert_eq!(one, other);
    }

    #[test]
    fn equal_trees_make_no_plan(now in worlds(), order in orders()) {
        let current = grow(&now, &order);
        let plan = plan(&current, desired(current.clone()), &Usages::new());
        prop_assert_eq!(plan, Plan::InSync { held: Vec::new() });
        prop_assert!(diff(&current, &current).is_empty());
    }
}

#[test]
fn a_provider_goes_in_the_same_step_in_which_its_child_moves_out() {
    let mut current = tree([root(&[]), child("card", &[]), child("port", &[("VGPU", 1)])]);
    current
        .place_under(child_uuid("port"), child_uuid("card"))
        .unwrap();
    let wanted = tree([root(&[]), child("port", &[("VGPU", 1)])]);
    let diff = diff(&current, &wanted);
    assert_eq!(diff.removed.len(), 1);
    assert_eq!(diff.apply(&current).unwrap(), wanted);
}

#[test]
fn a_diff_that_does_not_fit_the_tree_is_refused() {
    let current = tree([root(&[]), child("a", &[("VGPU", 1)])]);
    let wanted = tree([root(&[]), child("a", &[("VGPU", 2)])]);
    let change = diff(&current, &wanted);
    assert!(change.apply(&tree([root(&[])])).is_err());
    let mut renamed = wanted.clone();
    renamed.get_mut(child_uuid("a")).unwrap().name = name("gpu-01");
    let change = diff(&current, &renamed);
    assert!(
        change.apply(&current).is_err(),
        "two providers would have one name"
    );
}
