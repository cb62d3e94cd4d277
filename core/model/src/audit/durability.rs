//! S8: what was acknowledged is there until something newer replaces it.

use super::{Answer, Fact, InvariantId, PlacementWorld, Violation, Worlds};
use crate::{ConsumerUuid, ProviderUuid};

/// What a fact is about: a newer one about the same thing replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    Provider(ProviderUuid),
    Inventories(ProviderUuid),
    Traits(ProviderUuid),
    Aggregates(ProviderUuid),
    Allocations(ConsumerUuid),
}

impl Thing {
    fn of(fact: &Fact) -> Self {
        match fact {
            Fact::Provider { uuid, .. } | Fact::NoProvider(uuid) => Thing::Provider(*uuid),
            Fact::Inventories(uuid, _) => Thing::Inventories(*uuid),
            Fact::Traits(uuid, _) => Thing::Traits(*uuid),
            Fact::Aggregates(uuid, _) => Thing::Aggregates(*uuid),
            Fact::Allocations(consumer, _) => Thing::Allocations(*consumer),
        }
    }

    /// The provider whose removal makes the thing void.
    fn provider(self) -> Option<ProviderUuid> {
        match self {
            Thing::Inventories(uuid) | Thing::Traits(uuid) | Thing::Aggregates(uuid) => Some(uuid),
            Thing::Provider(_) | Thing::Allocations(_) => None,
        }
    }
}

/// For each thing that was ever acknowledged: the world agrees with the last acknowledged fact, or with one sent after it
/// whose answer was lost.
pub(super) fn s8(worlds: &Worlds) -> Vec<Violation> {
    let facts: Vec<(Answer, &Fact)> = worlds
        .histories
        .requests
        .iter()
        .filter(|request| request.answer != Answer::Refused)
        .flat_map(|request| request.facts.iter().map(|fact| (request.answer, fact)))
        .collect();
    let mut violations = Vec::new();
    for (at, (answer, fact)) in facts.iter().enumerate() {
        let thing = Thing::of(fact);
        let later = &facts[at + 1..];
        let replaced = later
            .iter()
            .any(|(answer, later)| *answer == Answer::Acknowledged && Thing::of(later) == thing);
        if *answer != Answer::Acknowledged || replaced || is_void(thing, later) {
            continue;
        }
        let mut possible = later.iter().filter(|(_, later)| Thing::of(later) == thing);
        if !holds(&worlds.placement, fact) && !possible.any(|(_, f)| holds(&worlds.placement, f)) {
            let finding = format!("{} was acknowledged, but it is not so", in_words(fact));
            violations.push(Violation::of(InvariantId::S8, finding));
        }
    }
    violations
}

/// Whether its provider may have been removed since.
fn is_void(thing: Thing, later: &[(Answer, &Fact)]) -> bool {
    thing.provider().is_some_and(|provider| {
        later
            .iter()
            .any(|(_, fact)| **fact == Fact::NoProvider(provider))
    })
}

/// Whether the world agrees.
fn holds(placement: &PlacementWorld, fact: &Fact) -> bool {
    let row = |uuid: &ProviderUuid| placement.providers.get(uuid);
    match fact {
        Fact::Provider { uuid, name, parent } => {
            row(uuid).is_some_and(|row| row.name == *name && row.parent == *parent)
        }
        Fact::NoProvider(uuid) => row(uuid).is_none(),
        Fact::Inventories(uuid, all) => row(uuid).is_some_and(|row| row.inventories == *all),
        Fact::Traits(uuid, all) => row(uuid).is_some_and(|row| row.traits == *all),
        Fact::Aggregates(uuid, all) => row(uuid).is_some_and(|row| row.aggregates == *all),
        Fact::Allocations(consumer, all) => placement
            .consumers
            .get(consumer)
            .map_or(all.is_empty(), |row| row.allocated == *all),
    }
}

fn in_words(fact: &Fact) -> String {
    match fact {
        Fact::Provider { uuid, name, .. } => format!("provider {name} ({uuid})"),
        Fact::NoProvider(uuid) => format!("the removal of provider {uuid}"),
        Fact::Inventories(uuid, all) => {
            let all: Vec<_> = all
                .iter()
                .map(|(class, i)| format!("{class} {i}"))
                .collect();
            format!("inventory of {uuid} [{}]", all.join(", "))
        }
        Fact::Traits(uuid, all) => format!("{} traits of {uuid}", all.len()),
        Fact::Aggregates(uuid, all) => format!("{} aggregates of {uuid}", all.len()),
        Fact::Allocations(consumer, all) => {
            let all: Vec<_> = all
                .iter()
                .map(|((provider, class), amount)| format!("{amount} {class} on {provider}"))
                .collect();
            format!("allocation of {consumer} [{}]", all.join(", "))
        }
    }
}
