//! S10: generations only grow, and each has one winner.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Answer, Fact, InvariantId, SystemSnapshot, Violation};
use berth_model::{Generation, ProviderUuid};

pub(crate) fn s10(snapshot: &SystemSnapshot) -> Vec<Violation> {
    let mut violations = Vec::new();
    two_winners(snapshot, &mut violations);
    falls(snapshot, &mut violations);
    violations
}

/// Two acknowledged writes were based on the same generation of the same provider.
fn two_winners(snapshot: &SystemSnapshot, violations: &mut Vec<Violation>) {
    let mut won: BTreeSet<(ProviderUuid, Generation)> = BTreeSet::new();
    for request in &snapshot.histories.requests {
        if request.answer != Answer::Acknowledged {
            continue;
        }
        for fact in &request.facts {
            // A provider that is created again starts from zero.
            if let Fact::NoProvider(gone) = fact {
                won.retain(|(provider, _)| provider != gone);
            }
        }
        for (provider, generation) in &request.based_on {
            if !won.insert((*provider, *generation)) {
                let name = snapshot.placement.name(*provider);
                let finding = format!("two writes won generation {generation} of {name}");
                violations.push(Violation::of(InvariantId::S10, finding));
            }
        }
    }
}

/// A generation is lower than one that was seen before it.
fn falls(snapshot: &SystemSnapshot, violations: &mut Vec<Violation>) {
    let removed: BTreeSet<ProviderUuid> = snapshot
        .histories
        .requests
        .iter()
        .filter(|request| request.answer != Answer::Refused)
        .flat_map(|request| &request.facts)
        .filter_map(|fact| match fact {
            Fact::NoProvider(uuid) => Some(*uuid),
            _ => None,
        })
        .collect();
    let rows = |world: &crate::PlacementSnapshot| -> Vec<(ProviderUuid, Generation)> {
        let rows = world.providers.iter();
        rows.map(|(uuid, row)| (*uuid, row.generation)).collect()
    };
    let began = snapshot
        .histories
        .began
        .as_ref()
        .map(rows)
        .unwrap_or_default();
    let now = rows(&snapshot.placement);
    let seen = snapshot.histories.generations.iter().copied();
    let mut last: BTreeMap<ProviderUuid, Generation> = BTreeMap::new();
    for (provider, generation) in began.into_iter().chain(seen).chain(now) {
        let before = last.insert(provider, generation);
        if before.is_some_and(|before| generation < before) && !removed.contains(&provider) {
            let name = snapshot.placement.name(provider);
            let finding = format!("the generation of {name} fell to {generation}");
            violations.push(Violation::of(InvariantId::S10, finding));
        }
    }
}
