//! S8: an acknowledged write stays until a later write replaces it.

use crate::{Answer, Fact, InvariantId, PlacementSnapshot, SystemSnapshot, Violation};
use berth_model::{ConsumerUuid, ProviderUuid};

/// The subject of a fact: a later fact about the same subject replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FactSubject {
    Provider(ProviderUuid),
    Inventories(ProviderUuid),
    Traits(ProviderUuid),
    Aggregates(ProviderUuid),
    Allocations(ConsumerUuid),
}

impl FactSubject {
    fn of(fact: &Fact) -> Self {
        match fact {
            Fact::Provider { uuid, .. } | Fact::NoProvider(uuid) => FactSubject::Provider(*uuid),
            Fact::Inventories(uuid, _) => FactSubject::Inventories(*uuid),
            Fact::Traits(uuid, _) => FactSubject::Traits(*uuid),
            Fact::Aggregates(uuid, _) => FactSubject::Aggregates(*uuid),
            Fact::Allocations(consumer, _) => FactSubject::Allocations(*consumer),
        }
    }

    /// The provider that voids the subject when it is removed.
    fn provider(self) -> Option<ProviderUuid> {
        match self {
            FactSubject::Inventories(uuid)
            | FactSubject::Traits(uuid)
            | FactSubject::Aggregates(uuid) => Some(uuid),
            FactSubject::Provider(_) | FactSubject::Allocations(_) => None,
        }
    }
}

/// For each subject with an acknowledged fact: Placement agrees with the last acknowledged fact, or with a later one
/// that was not answered.
pub(crate) fn s8(snapshot: &SystemSnapshot) -> Vec<Violation> {
    let facts: Vec<(Answer, &Fact)> = snapshot
        .histories
        .requests
        .iter()
        .filter(|request| request.answer != Answer::Refused)
        .flat_map(|request| request.facts.iter().map(|fact| (request.answer, fact)))
        .collect();
    let mut violations = Vec::new();
    for (at, (answer, fact)) in facts.iter().enumerate() {
        let subject = FactSubject::of(fact);
        let later = &facts[at + 1..];
        let replaced = later.iter().any(|(answer, later)| {
            *answer == Answer::Acknowledged && FactSubject::of(later) == subject
        });
        if *answer != Answer::Acknowledged || replaced || is_void(subject, later) {
            continue;
        }
        let mut possible = later
            .iter()
            .filter(|(_, later)| FactSubject::of(later) == subject);
        if !holds(&snapshot.placement, fact)
            && !possible.any(|(_, f)| holds(&snapshot.placement, f))
        {
            let finding = format!("{} was acknowledged, but Placement differs", in_words(fact));
            violations.push(Violation::of(InvariantId::S8, finding));
        }
    }
    violations
}

/// Whether its provider may have been removed since.
fn is_void(subject: FactSubject, later: &[(Answer, &Fact)]) -> bool {
    subject.provider().is_some_and(|provider| {
        later
            .iter()
            .any(|(_, fact)| **fact == Fact::NoProvider(provider))
    })
}

/// Whether the world agrees.
fn holds(placement: &PlacementSnapshot, fact: &Fact) -> bool {
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
