//! The proof that a reshape is lawful. It looks only at what was before and what would be sent, not at how that was
//! made, so that a mistake in the placing cannot hide here.

use std::collections::BTreeMap;

use super::{PendingReshape, ReshapeRefused, ReshapeRequest};
use crate::{Allocations, ConsumerUuid, ProviderTree, ResourceClass, Usages};

pub(super) fn prove(
    pending: &PendingReshape,
    before: &Allocations,
    request: &ReshapeRequest,
) -> Result<(), ReshapeRefused> {
    let after: Allocations = before
        .consumers()
        .map(|(consumer, held)| {
            let sent = request.allocations().get(consumer).unwrap_or(held);
            (*consumer, sent.clone())
        })
        .collect();
    conserved(pending, before, &after)?;
    within_capacity(
        pending.current(),
        request.tree(),
        &before.usages(),
        &after.usages(),
    )
}

/// Per consumer and class, after renames, the amount is the same.
fn conserved(
    pending: &PendingReshape,
    before: &Allocations,
    after: &Allocations,
) -> Result<(), ReshapeRefused> {
    let one_class = classes_that_count_as_one(pending);
    let sums = |consumer: &ConsumerUuid, allocations: &Allocations| {
        let mut sums: BTreeMap<ResourceClass, u64> = BTreeMap::new();
        for ((_, class), amount) in allocations
            .of(consumer)
            .iter()
            .flat_map(|held| &held.resources)
        {
            *sums
                .entry(one_class.get(class).unwrap_or(class).clone())
                .or_insert(0) += amount;
        }
        sums
    };
    for (consumer, _) in before.consumers() {
        let (was, is) = (sums(consumer, before), sums(consumer, after));
        for class in was.keys().chain(is.keys()) {
            let [before, after] = [&was, &is].map(|sums| sums.get(class).copied().unwrap_or(0));
            if before != after {
                let (consumer, class) = (*consumer, class.clone());
                return Err(ReshapeRefused::NotConserved {
                    consumer,
                    class,
                    before,
                    after,
                });
            }
        }
    }
    Ok(())
}

/// Each class that a move turns into others, mapped to one name for all of them. Renamed units may also stay (held, or not
/// concerned), so the old name and the new ones are one class to the proof.
fn classes_that_count_as_one(pending: &PendingReshape) -> BTreeMap<ResourceClass, ResourceClass> {
    let mut names: BTreeMap<ResourceClass, ResourceClass> = BTreeMap::new();
    for m in &pending.desired().moves {
        let members: Vec<_> = m.to.iter().chain([&m.class]).cloned().collect();
        let known = members.iter().find_map(|member| names.get(member)).cloned();
        let name = known.unwrap_or_else(|| m.class.clone());
        let joined: Vec<_> = members
            .iter()
            .filter_map(|member| names.get(member).cloned())
            .collect();
        for other in names.values_mut().filter(|other| joined.contains(other)) {
            *other = name.clone();
        }
        names.extend(members.into_iter().map(|member| (member, name.clone())));
    }
    names
}

/// Per provider and class: all users together fit, or the class is held and its usage did not grow, or it was over
/// before, stays as it was and is not worse.
fn within_capacity(
    current: &ProviderTree,
    tree: &ProviderTree,
    before: &Usages,
    after: &Usages,
) -> Result<(), ReshapeRefused> {
    for (place, used) in after {
        let (uuid, class) = place;
        let Some(provider) = tree.get(*uuid).or_else(|| current.get(*uuid)) else {
            continue;
        };
        let inventory = tree.inventory(*uuid, class);
        let capacity = inventory.map_or(0, crate::Inventory::capacity);
        let grew = *used > before.get(place).copied().unwrap_or(0);
        let held = inventory.is_some_and(|i| i.is_held() && u64::from(i.total) == *used);
        let unchanged = inventory.is_some() && inventory == current.inventory(*uuid, class);
        if *used <= capacity || (held && !grew) || (unchanged && !grew) {
            continue;
        }
        let (provider, class, used) = (provider.name.clone(), class.clone(), *used);
        return Err(if current.is_own(*uuid) || tree.is_own(*uuid) {
            ReshapeRefused::OverCapacity {
                provider,
                class,
                used,
                capacity,
            }
        } else {
            ReshapeRefused::SharingProviderShrinks {
                provider,
                class,
                used,
                capacity,
            }
        });
    }
    Ok(())
}
