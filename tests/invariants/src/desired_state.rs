//! L5: Placement has the desired tree of the driver, except held units.

use std::collections::BTreeSet;

use crate::{InvariantId, ProviderRow, SystemSnapshot, Violation};
use berth_model::{
    OWNER_TRAITS, Provider, ProviderName, ProviderTree, ProviderUuid, ResourceClass, Trait, Usages,
};

pub(crate) fn l5(snapshot: &SystemSnapshot) -> Vec<Violation> {
    let usages = snapshot.placement.usages();
    let mut findings = Vec::new();
    for tree in snapshot.desired.values() {
        for wanted in tree.own() {
            match snapshot.placement.providers.get(&wanted.uuid()) {
                None => findings.push(format!("{} does not exist", wanted.name)),
                Some(row) => compare(wanted, row, &usages, &mut findings),
            }
        }
        left_over(snapshot, tree, &usages, &mut findings);
    }
    findings
        .into_iter()
        .map(|finding| Violation::of(InvariantId::L5, finding))
        .collect()
}

fn compare(wanted: &Provider, row: &ProviderRow, usages: &Usages, findings: &mut Vec<String>) {
    let name = &wanted.name;
    if row.name != name.as_str() {
        findings.push(format!("{name} is named {}", row.name));
    }
    if row.parent != wanted.parent() {
        findings.push(format!("{name} is at the wrong place"));
    }
    if row.traits != wanted.traits {
        let odd: Vec<_> = row
            .traits
            .symmetric_difference(&wanted.traits)
            .map(Trait::as_str)
            .collect();
        findings.push(format!("{name} differs in traits {}", odd.join(" ")));
    }
    if row.aggregates != wanted.aggregates {
        findings.push(format!("{name} differs in aggregates"));
    }
    let classes: BTreeSet<_> = row
        .inventories
        .keys()
        .chain(wanted.inventories.keys())
        .collect();
    for class in classes {
        let same = row.inventories.get(class) == wanted.inventories.get(class);
        if !same && !is_held(wanted.uuid(), row, class, usages) {
            findings.push(format!("{name} differs in inventory {class}"));
        }
    }
}

/// Inventory of exactly what is in use, closed to everybody else.
fn is_held(uuid: ProviderUuid, row: &ProviderRow, class: &ResourceClass, usages: &Usages) -> bool {
    let used = usages.get(&(uuid, class.clone())).copied().unwrap_or(0);
    let inventory = row.inventories.get(class);
    inventory.is_some_and(|i| i.is_held() && u64::from(i.total) == used)
}

/// Providers below the root that the driver does not want: those of other owners are allowed, ours only while they hold
/// units (or have a provider below them that must be kept).
fn left_over(
    snapshot: &SystemSnapshot,
    tree: &ProviderTree,
    usages: &Usages,
    findings: &mut Vec<String>,
) {
    let root = tree.root().uuid();
    let placement = &snapshot.placement;
    let extra = placement
        .providers
        .iter()
        .filter(|(uuid, _)| placement.top(**uuid) == Some(root) && tree.get(**uuid).is_none());
    for (uuid, row) in extra {
        if !is_ours(root, *uuid, row) {
            continue;
        }
        let mut classes = row.inventories.keys();
        let all_held = classes.all(|class| is_held(*uuid, row, class, usages));
        let is_needed = !row.inventories.is_empty()
            || placement
                .providers
                .values()
                .any(|below| below.parent == Some(*uuid));
        if !all_held || !is_needed {
            findings.push(format!("{} is left over", row.name));
        }
    }
}

fn is_ours(root: ProviderUuid, uuid: ProviderUuid, row: &ProviderRow) -> bool {
    let made = ProviderName::new(&row.name).is_ok_and(|name| root.child(&name) == uuid);
    let owned = OWNER_TRAITS.iter().any(|owner| row.traits.contains(owner));
    match row.traits.contains(&Trait::OWNER_CYBORG) {
        true => row.traits.contains(&Trait::CUSTOM_OWNER_BERTH),
        false => made || owned,
    }
}
