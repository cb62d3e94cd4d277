//! S11: provider trees are valid, and a refused reshape leaves all rows unchanged.

use std::collections::{BTreeMap, BTreeSet};

use crate::{InvariantId, PlacementSnapshot, RefusedReshape, SystemSnapshot, Violation};

pub(crate) fn s11(snapshot: &SystemSnapshot) -> Vec<Violation> {
    let placement = &snapshot.placement;
    parents(placement)
        .into_iter()
        .chain(names(placement))
        .chain(roots(snapshot))
        .chain(snapshot.histories.refusals.iter().flat_map(refusal))
        .map(|finding| Violation::of(InvariantId::S11, finding))
        .collect()
}

/// Every chain of parents ends at the root in the row.
fn parents(placement: &PlacementSnapshot) -> Vec<String> {
    let rows = placement.providers.iter();
    rows.filter_map(|(uuid, row)| match placement.top(*uuid) {
        None => Some(format!("the parents of {} end nowhere", row.name)),
        Some(top) if top != row.root => {
            let (recorded, actual) = (placement.name(row.root), placement.name(top));
            Some(format!(
                "{} says its root is {recorded}, but it is {actual}",
                row.name
            ))
        }
        Some(_) => None,
    })
    .collect()
}

fn names(placement: &PlacementSnapshot) -> Vec<String> {
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for row in placement.providers.values() {
        *count.entry(&row.name).or_insert(0) += 1;
    }
    let doubled = count.into_iter().filter(|(_, count)| *count > 1);
    doubled
        .map(|(name, count)| format!("{count} providers are named {name}"))
        .collect()
}

/// The provider of a node is a root: a child of that name would hide it.
fn roots(snapshot: &SystemSnapshot) -> Vec<String> {
    let rows = snapshot.placement.providers.values();
    rows.filter(|row| row.parent.is_some() && snapshot.desired.contains_key(&row.name))
        .map(|row| format!("node {} is no root", row.name))
        .collect()
}

/// Rows that differ from those before, generations apart (a child that was made and removed may move its parent's).
fn refusal(refusal: &RefusedReshape) -> Vec<String> {
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
            (was, actual) if was != actual => format!("a refused reshape changed {}", name()),
            _ => continue,
        };
        findings.push(finding);
    }
    if before.consumers != after.consumers {
        findings.push("a refused reshape changed allocations".to_owned());
    }
    findings
}
