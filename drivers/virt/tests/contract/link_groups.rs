//! Link groups in the tree: introduced and dissolved under guests, after kills between two writes, with missing devices.

use berth_model::{
    Inventory, LinkGroupName, Plan, ProviderTree, ProviderUuid, Trait, TreeDiff, Usages, plan,
};
use berth_virt::{DeviceOwner, NodeView, OfferedDevice, provider_tree};

use crate::devices::{by_name, device, with};
use crate::view::{bare, guest, held, host, name, reported, root_uuid};

fn grouped(bus: u8, owner: DeviceOwner, group: &str) -> OfferedDevice {
    OfferedDevice {
        link_group: Some(LinkGroupName::new(group).unwrap()),
        ..device(bus, owner)
    }
}

/// Four GPUs of each owner in pairs.
fn pairs(owner: DeviceOwner) -> NodeView {
    with(vec![
        grouped(0xa0, owner, "left"),
        grouped(0xa1, owner, "left"),
        grouped(0xb0, owner, "right"),
        grouped(0xb1, owner, "right"),
    ])
}

fn apart(grouped: &NodeView) -> NodeView {
    let devices = grouped.devices.iter().cloned();
    let apart = devices.map(|one| OfferedDevice {
        link_group: None,
        ..one
    });
    with(apart.collect())
}

fn parent(tree: &ProviderTree, device: &OfferedDevice) -> ProviderUuid {
    let child = tree.by_name(&device.provider_name(&name())).unwrap();
    child.parent().unwrap()
}

fn update(node: &NodeView, current: &ProviderTree, usages: &Usages) -> TreeDiff {
    let desired = provider_tree(&host(node.clone()), current, &name()).unwrap();
    match plan(current, desired, usages) {
        Plan::InSync { .. } => TreeDiff::default(),
        Plan::Update { diff, .. } => diff,
        Plan::ReshapeNeeded(pending) => panic!("{pending}"),
    }
}

/// The trees that kills leave: after each creation, each new parent, and each other change of a provider.
fn interrupted(current: &ProviderTree, diff: &TreeDiff) -> Vec<ProviderTree> {
    let mut done = TreeDiff::default();
    let mut left = Vec::new();
    for made in &diff.created {
        let mut bare = made.clone();
        bare.traits.clear();
        bare.inventories.clear();
        done.created.push(bare);
        left.push(done.apply(current).unwrap());
    }
    for change in &diff.changed {
        let mut placed = change.clone();
        placed.inventories.clear();
        placed.traits.added.clear();
        placed.traits.removed.clear();
        done.changed.push(placed);
        left.push(done.apply(current).unwrap());
    }
    left
}

#[test]
fn the_devices_of_a_link_group_are_below_its_provider() {
    for owner in [DeviceOwner::Compute, DeviceOwner::Accelerator] {
        let view = pairs(owner);
        let tree = reported(&view, &bare());
        for (at, group) in ["left", "left", "right", "right"].into_iter().enumerate() {
            let group = by_name(&tree, &format!("n1_link-{group}"));
            assert_eq!(parent(&tree, &view.devices[at]), group.uuid());
            assert_eq!(group.parent(), Some(root_uuid()));
            assert!(group.traits.contains(&Trait::CUSTOM_LINK_GROUP));
            assert!(group.inventories.is_empty() && tree.is_ours(group.uuid()));
        }
        assert_eq!(tree.children(root_uuid()).len(), 2);
        assert_eq!(reported(&view, &tree), tree);
    }
}

#[test]
fn a_link_group_comes_and_goes_under_guests_whose_allocations_stay() {
    for owner in [DeviceOwner::Compute, DeviceOwner::Accelerator] {
        let mut view = pairs(owner);
        let mut user = guest(1, 512);
        user.functions = [0, 2].map(|at| view.devices[at].address).into();
        view.guests.insert(crate::view::consumer(1), user);
        let mut flat_view = apart(&view);
        flat_view.guests.clone_from(&view.guests);
        let flat = reported(&flat_view, &bare());
        let before = held(&flat_view, &flat);
        for (from, to) in [(&flat_view, &view), (&view, &flat_view)] {
            let current = reported(from, &bare());
            let diff = update(to, &current, &Usages::new());
            let after = diff.apply(&current).unwrap();
            assert_eq!(held(to, &after), before);
            assert_eq!(after, reported(to, &bare()));
            for left in interrupted(&current, &diff) {
                assert_eq!(held(to, &left), before, "{left}");
                assert_eq!(reported(to, &left), after, "{left}");
            }
        }
    }
}

#[test]
fn a_device_that_enters_another_link_group_takes_its_empty_group_along() {
    let view = with(vec![
        grouped(0xa0, DeviceOwner::Compute, "left"),
        grouped(0xa1, DeviceOwner::Compute, "right"),
    ]);
    let moved = with(vec![
        grouped(0xa0, DeviceOwner::Compute, "right"),
        grouped(0xa1, DeviceOwner::Compute, "right"),
    ]);
    let tree = reported(&moved, &reported(&view, &bare()));
    assert_eq!(tree, reported(&moved, &bare()));
}

#[test]
fn a_missing_device_in_use_is_held_in_its_link_group() {
    let view = pairs(DeviceOwner::Compute);
    let tree = reported(&view, &bare());
    let uuid = by_name(&tree, "n1_0000:A0:00.0").uuid();
    let place = (uuid, view.devices[0].class.clone());
    let gone = with(view.devices[2..].to_vec());
    let used = |amount| {
        Usages::from([
            (place.clone(), amount),
            (
                (by_name(&tree, "n1_0000:A1:00.0").uuid(), place.1.clone()),
                0,
            ),
        ])
    };
    let left = update(&gone, &tree, &used(1)).apply(&tree).unwrap();
    let group = by_name(&left, "n1_link-left");
    let children = left.children(group.uuid());
    assert_eq!(
        children.iter().map(|one| one.uuid()).collect::<Vec<_>>(),
        [uuid]
    );
    assert!(children[0].inventories.values().all(Inventory::is_held));
    assert!(update(&gone, &left, &used(1)).is_empty());
    let free = update(&gone, &left, &used(0)).apply(&left).unwrap();
    assert_eq!(free, reported(&gone, &bare()));
}

#[test]
fn the_provider_of_a_link_group_with_a_wrong_name_gets_its_name_back() {
    let view = pairs(DeviceOwner::Compute);
    let mut right = reported(&view, &bare());
    let uuid = by_name(&right, "n1_link-left").uuid();
    // As the agent marks each provider that it writes.
    let marks = &mut right.get_mut(uuid).unwrap().traits;
    marks.insert(Trait::OWNER_NOVA);
    for wrong in ["n0_link-left", "fast GPUs"] {
        let mut tree = right.clone();
        tree.get_mut(uuid).unwrap().name = wrong.parse().unwrap();
        assert_eq!(reported(&view, &tree), right);
    }
}
