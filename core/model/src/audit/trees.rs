//! S11: trees are trees, and a refused reshape leaves no trace.

use std::collections::{BTreeMap, BTreeSet};

use super::{InvariantId, PlacementWorld, Refusal, Violation, Worlds};

pub(super) fn s11(worlds: &Worlds) -> Vec<Violation> {
    let placement = &worlds.placement;
    parents(placement)
        .into_iter()
        .chain(names(placement))
        .chain(roots(worlds))
        .chain(worlds.histories.refusals.iter().flat_map(refusal))
        .map(|finding| Violation::of(InvariantId::S11, finding))
        .collect()
}

/// Every chain of parents ends at the root that Placement says.
fn parents(placement: &PlacementWorld) -> Vec<String> {
    let rows = placement.providers.iter();
    rows.filter_map(|(uuid, row)| match placement.top(*uuid) {
        None => Some(format!("the parents of {} end nowhere", row.name)),
        Some(top) if top != row.root => {
            let (says, is) = (placement.name(row.root), placement.name(top));
            Some(format!(
                "{} says its root is {says}, but it is {is}",
                row.name
            ))
        }
        Some(_) => None,
    })
    .collect()
}

fn names(placement: &PlacementWorld) -> Vec<String> {
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for row in placement.providers.values() {
        *count.entry(&row.name).or_insert(0) += 1;
    }
    let doubled = count.into_iter().filter(|(_, count)| *count > 1);
    doubled
        .map(|(name, count)| format!("{count} providers are named {name}"))
        .collect()
}

/// A node's own provider is a root: a child of that name would hide it.
fn roots(worlds: &Worlds) -> Vec<String> {
    let rows = worlds.placement.providers.values();
    rows.filter(|row| row.parent.is_some() && worlds.desired.contains_key(&row.name))
        .map(|row| format!("node {} is no root", row.name))
        .collect()
}

/// Rows that differ from those before, generations apart (a child that was made and removed may move its parent's).
fn refusal(refusal: &Refusal) -> Vec<String> {
    let (before, after) = (
        refusal.before.without_generations(),
        refusal.after.without_generations(),
    );
    let providers: BTreeSet<_> = before
        .providers
        .keys()
        .chain(after.providers.keys())
        .collect();
    let mut findings = Vec::new();
    for uuid in providers {
        let name = || refusal.after.name(*uuid);
        let finding = match (before.providers.get(uuid), after.providers.get(uuid)) {
            (None, Some(row)) => format!("a refused reshape left {} behind", row.name),
            (Some(row), None) => format!("a refused reshape removed {}", row.name),
            (was, is) if was != is => format!("a refused reshape changed {}", name()),
            _ => continue,
        };
        findings.push(finding);
    }
    if before.consumers != after.consumers {
        findings.push("a refused reshape changed allocations".to_owned());
    }
    findings
}
