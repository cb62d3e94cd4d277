//! Units without a home: they hold their inventory, shrink it as they leave, and nothing else changes it.

use berth_model::{DesiredTree, Inventory, Plan, ProviderTree, Usages, plan, usages_to_probe};

use super::build::*;

/// Placement has VGPU on the root and on a GPU's provider; the driver reports neither.
fn current() -> ProviderTree {
    tree([
        root(&[("VCPU", 16), ("VGPU", 8)]),
        child("gone", &[("VGPU", 4)]),
    ])
}

fn desired() -> DesiredTree {
    DesiredTree {
        tree: tree([root(&[("VCPU", 16)])]),
        moves: Vec::new(),
        held_traits: std::collections::BTreeMap::new(),
    }
}

fn used(root: u64, gone: u64) -> Usages {
    [
        ((root_uuid(), class("VGPU")), root),
        ((child_uuid("gone"), class("VGPU")), gone),
    ]
    .into()
}

/// The tree after the plan was carried out, and the units it holds.
fn step(current: &ProviderTree, desired: DesiredTree, usages: &Usages) -> (ProviderTree, Vec<u64>) {
    let plan = plan(current, desired, usages);
    let held = plan.held().iter().map(|held| held.used).collect();
    let tree = match &plan {
        Plan::InSync { .. } => current.clone(),
        Plan::Update { diff, .. } => diff.apply(current).unwrap(),
        Plan::ReshapeNeeded(_) => panic!("a tick would have to reshape:\n{plan}"),
    };
    (tree, held)
}

fn vgpus(tree: &ProviderTree) -> [Option<(u32, bool)>; 2] {
    [root_uuid(), child_uuid("gone")].map(|provider| {
        let inventory = tree.inventory(provider, &class("VGPU"))?;
        Some((inventory.total, inventory.is_held()))
    })
}

#[test]
fn held_units_shrink_when_usage_falls_and_go_when_they_are_free() {
    let mut tree = current();
    for (usages, left, held) in [
        (used(3, 2), [Some((3, true)), Some((2, true))], vec![3, 2]),
        (used(3, 2), [Some((3, true)), Some((2, true))], vec![3, 2]),
        (used(1, 2), [Some((1, true)), Some((2, true))], vec![1, 2]),
        (used(1, 0), [Some((1, true)), None], vec![1]),
        (used(0, 0), [None, None], vec![]),
    ] {
        let (next, now_held) = step(&tree, desired(), &usages);
        assert_eq!((vgpus(&next), now_held), (left, held));
        tree = next;
    }
    assert!(tree.get(child_uuid("gone")).is_none());
    assert_eq!(tree, desired().tree);
}

#[test]
fn a_steady_hold_is_probed_and_otherwise_left_alone() {
    let (held, _) = step(&current(), desired(), &used(3, 2));
    assert!(
        matches!(plan(&held, desired(), &used(3, 2)), Plan::InSync { held } if held.len() == 2)
    );
    let probe = usages_to_probe(&held, &desired());
    assert_eq!(probe, [root_uuid(), child_uuid("gone")].into());
    let (free, _) = step(&held, desired(), &used(0, 0));
    assert!(
        usages_to_probe(&free, &desired()).is_empty(),
        "a steady tick asks nothing"
    );
}

#[test]
fn a_usage_that_is_not_known_counts_as_everything() {
    let (tree, held) = step(&current(), desired(), &Usages::new());
    assert_eq!(held, [8, 4]);
    assert_eq!(vgpus(&tree), [Some((8, true)), Some((4, true))]);
    let mut shared = current();
    let ratio = berth_model::AllocationRatio::new(4.0).unwrap();
    let vgpu = shared
        .root_mut()
        .inventories
        .get_mut(&class("VGPU"))
        .unwrap();
    *vgpu = vgpu.clone().with_ratio(ratio);
    let (_, held) = step(&shared, desired(), &Usages::new());
    assert_eq!(held, [32, 4], "more may be in use than there is");
}

#[test]
fn a_device_that_comes_back_takes_its_units_out_of_the_hold() {
    let (held, _) = step(&current(), desired(), &used(0, 2));
    let back = DesiredTree {
        tree: tree([root(&[("VCPU", 16)]), child("gone", &[("VGPU", 4)])]),
        moves: Vec::new(),
        held_traits: std::collections::BTreeMap::new(),
    };
    let (tree, held) = step(&held, back, &used(0, 2));
    assert_eq!((vgpus(&tree)[1], held), (Some((4, false)), vec![]));
}

#[test]
fn a_device_that_comes_back_too_small_stays_held_until_its_users_fit() {
    let (held, _) = step(&current(), desired(), &used(0, 3));
    let back = || DesiredTree {
        tree: tree([root(&[("VCPU", 16)]), child("gone", &[("VGPU", 2)])]),
        moves: Vec::new(),
        held_traits: std::collections::BTreeMap::new(),
    };
    assert!(usages_to_probe(&held, &back()).contains(&child_uuid("gone")));
    let (still, units) = step(&held, back(), &used(0, 3));
    assert_eq!((vgpus(&still)[1], units), (Some((3, true)), vec![3]));
    let (tree, units) = step(&still, back(), &used(0, 2));
    assert_eq!((vgpus(&tree)[1], units), (Some((2, false)), vec![]));
}

#[test]
fn inventory_that_an_operator_reserved_whole_is_no_hold() {
    let mut closed = tree([root(&[("VCPU", 16), ("VGPU", 8)])]);
    let vgpu = closed
        .root_mut()
        .inventories
        .get_mut(&class("VGPU"))
        .unwrap();
    *vgpu = vgpu.clone().reserving(8);
    let kept = DesiredTree {
        tree: closed.clone(),
        moves: Vec::new(),
        held_traits: std::collections::BTreeMap::new(),
    };
    assert!(
        matches!(plan(&closed, kept, &Usages::new()), Plan::InSync { held } if held.is_empty())
    );
    let moved = DesiredTree {
        tree: tree([root(&[("VCPU", 16)]), child("a", &[("VGPU", 8)])]),
        moves: vec![leaves(root_uuid(), "VGPU", &["VGPU"])],
        held_traits: std::collections::BTreeMap::new(),
    };
    assert!(matches!(
        plan(&closed, moved, &Usages::new()),
        Plan::ReshapeNeeded(_)
    ));
}

#[test]
fn more_than_a_hold_can_say_is_left_as_it_is() {
    let usages = used(u64::from(u32::MAX), 0);
    let (tree, held) = step(&current(), desired(), &usages);
    assert_eq!(tree.inventory(root_uuid(), &class("VGPU")), Some(&of(8)));
    assert_eq!(held, [u64::from(u32::MAX)]);
}

#[test]
fn a_move_off_a_hold_is_for_a_start_not_for_a_tick() {
    let (held, _) = step(&current(), desired(), &used(3, 0));
    let moves = vec![leaves(root_uuid(), "VGPU", &["VGPU"])];
    let desired = DesiredTree { moves, ..desired() };
    assert!(matches!(
        plan(&held, desired.clone(), &used(3, 0)),
        Plan::InSync { .. }
    ));
    assert!(berth_model::PendingReshape::rehoming(&held, &desired).is_some());
    let (free, _) = step(&held, desired.clone(), &used(0, 0));
    assert!(berth_model::PendingReshape::rehoming(&free, &desired).is_none());
    assert_eq!(Inventory::holding(3).unwrap().capacity(), 0);
}

#[test]
fn a_provider_that_is_held_says_why_until_it_goes() {
    let reason_trait: berth_model::Trait = "CUSTOM_GONE".parse().unwrap();
    let wanted = || DesiredTree {
        held_traits: [(child_uuid("gone"), [reason_trait.clone()].into())].into(),
        ..desired()
    };
    let (held, _) = step(&current(), wanted(), &used(0, 2));
    assert!(
        held.get(child_uuid("gone"))
            .unwrap()
            .traits
            .contains(&reason_trait)
    );
    let (again, _) = step(&held, wanted(), &used(0, 1));
    assert!(
        again
            .get(child_uuid("gone"))
            .unwrap()
            .traits
            .contains(&reason_trait)
    );
    let (free, _) = step(&again, wanted(), &used(0, 0));
    assert_eq!(free.get(child_uuid("gone")), None);
}
