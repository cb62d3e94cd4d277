//! The tree that a reshape can reach in one call: the desired tree, with held inventory for what stays in use.

use std::collections::BTreeMap;

use super::{PendingReshape, ReshapeRefused};
use crate::plan::hold_used_inventory;
use crate::{
    Allocations, DesiredTree, HeldUnits, Inventory, ProviderName, ProviderTree, ProviderUuid,
    ResourceClass, Usages,
};

/// The desired tree with used inventory held. Two changes are left for the update that follows, which Placement accepts
/// without loss: inventory outside the moves that shrinks below its usage, and unit sizes (min_unit, max_unit,
/// step_size) that a consumer in the call does not meet.
pub(super) fn lawful_tree(
    pending: &PendingReshape,
    before: &Allocations,
    after: &Allocations,
) -> Result<(ProviderTree, Vec<HeldUnits>), ReshapeRefused> {
    let usages = after.usages();
    let mut tree = pending.desired.tree.clone();
    reserve_capacity(pending, &usages, &mut tree)?;
    let desired = DesiredTree {
        tree,
        ..pending.desired.clone()
    };
    let known = all_known(pending, &usages);
    let (mut tree, _) = hold_used_inventory(&pending.current, desired, &known);
    widen_units(pending, before, after, &mut tree);
    let held = held_units(pending, &tree, &usages);
    Ok((tree, held))
}

/// Inventory that would be smaller than its usage is held if its units were to leave, else left as it is.
fn reserve_capacity(
    pending: &PendingReshape,
    usages: &Usages,
    tree: &mut ProviderTree,
) -> Result<(), ReshapeRefused> {
    for ((uuid, class), used) in usages {
        let Some(before) = pending.current.inventory(*uuid, class) else {
            continue;
        };
        if !pending.current.is_own(*uuid) {
            continue;
        }
        let is_source = pending.is_source(*uuid, class);
        let holding = Inventory::holding(*used);
        let wanted = tree
            .get_mut(*uuid)
            .and_then(|provider| provider.inventories.get_mut(class));
        match (wanted, holding) {
            (Some(wanted), _) if *used <= wanted.capacity() => {}
            (Some(wanted), _) if !is_source => *wanted = before.clone(),
            (Some(wanted), Ok(holding)) => *wanted = holding,
            // What leaves the tree is held below.
            (None, Ok(_)) => {}
            (_, Err(source)) => {
                return Err(ReshapeRefused::CannotHold {
                    provider: name(&pending.current, *uuid),
                    class: class.clone(),
                    source,
                });
            }
        }
    }
    Ok(())
}

fn name(tree: &ProviderTree, uuid: ProviderUuid) -> ProviderName {
    tree.get(uuid).unwrap_or(tree.root()).name.clone()
}

/// An unknown usage is 0, because all consumers of the tree are known.
fn all_known(pending: &PendingReshape, usages: &Usages) -> Usages {
    let mut known = usages.clone();
    for provider in pending.current.own() {
        for class in provider.inventories.keys() {
            known.entry((provider.uuid(), class.clone())).or_insert(0);
        }
    }
    known
}

/// Widens the unit sizes: Placement checks every amount of each consumer in the call, even unchanged ones.
fn widen_units(
    pending: &PendingReshape,
    before: &Allocations,
    after: &Allocations,
    tree: &mut ProviderTree,
) {
    let mut named: BTreeMap<(ProviderUuid, &ResourceClass), Vec<u64>> = BTreeMap::new();
    for (_, held) in after
        .consumers()
        .filter(|(consumer, held)| before.of(consumer) != Some(*held))
    {
        for ((provider, class), amount) in &held.resources {
            named.entry((*provider, class)).or_default().push(*amount);
        }
    }
    for ((uuid, class), amounts) in named {
        if !tree.is_own(uuid) || !(tree.is_ours(uuid) || pending.current.is_ours(uuid)) {
            continue;
        }
        let inventory = tree
            .get_mut(uuid)
            .and_then(|provider| provider.inventories.get_mut(class));
        if let Some(inventory) = inventory {
            take_all(inventory, &amounts);
        }
    }
}

fn take_all(inventory: &mut Inventory, amounts: &[u64]) {
    for amount in amounts {
        if inventory.accepts_amount(*amount) {
            continue;
        }
        let amount = u32::try_from(*amount).unwrap_or(u32::MAX);
        inventory.min_unit = inventory.min_unit.min(amount.max(1));
        inventory.max_unit = inventory.max_unit.max(amount);
        if !amount.is_multiple_of(inventory.step_size.max(1)) {
            inventory.step_size = 1;
        }
    }
}

/// The held inventories of the tree.
fn held_units(pending: &PendingReshape, tree: &ProviderTree, usages: &Usages) -> Vec<HeldUnits> {
    let mut held = Vec::new();
    for ((uuid, class), used) in usages {
        let Some(provider) = tree.get(*uuid).filter(|_| pending.current.is_ours(*uuid)) else {
            continue;
        };
        if provider
            .inventories
            .get(class)
            .is_some_and(Inventory::is_held)
        {
            held.push(HeldUnits {
                provider: *uuid,
                name: provider.name.clone(),
                class: class.clone(),
                used: *used,
            });
        }
    }
    held
}
