//! The proof that a reshape is lawful. It compares only the state before with the request to be sent, and shares no code with the allocation mover,
//! so that it finds mistakes of the mover.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::{PendingReshape, ReshapeRefused, ReshapeRequest};
use crate::{
    Allocations, ConsumerAllocations, ConsumerUuid, Inventory, ProviderUuid, ResourceClass, Usages,
};

/// What is to be proved, and what follows from it: the world after the call.
struct ReshapeProof<'a> {
    pending: &'a PendingReshape,
    request: &'a ReshapeRequest,
    before: &'a Allocations,
    after: Allocations,
}

pub(super) fn prove(
    pending: &PendingReshape,
    before: &Allocations,
    request: &ReshapeRequest,
) -> Result<(), ReshapeRefused> {
    let proof = ReshapeProof {
        pending,
        request,
        before,
        after: request.afterwards(before),
    };
    proof.consumers_are_unchanged()?;
    proof.amounts_are_conserved()?;
    proof.only_moves_change_places()?;
    proof.inventories_are_those_of_the_tree()?;
    proof.everything_fits()?;
    proof.amounts_match_unit_sizes()
}

impl ReshapeProof<'_> {
    fn consumers_are_unchanged(&self) -> Result<(), ReshapeRefused> {
        for (consumer, sent) in self.request.allocations() {
            let same = self.before.of(consumer).is_some_and(|held| {
                held.project_id == sent.project_id
                    && held.user_id == sent.user_id
                    && held.generation == sent.generation
            });
            if !same {
                let consumer = *consumer;
                return Err(ReshapeRefused::ConsumerChanged { consumer });
            }
        }
        Ok(())
    }

    /// Per consumer and class, after renames, the amount is the same.
    fn amounts_are_conserved(&self) -> Result<(), ReshapeRefused> {
        let one_class = renamed_classes(self.pending);
        let sums = |held: &ConsumerAllocations| {
            let mut sums: BTreeMap<ResourceClass, u64> = BTreeMap::new();
            for ((_, class), amount) in &held.resources {
                let class = one_class.get(class).unwrap_or(class);
                let sum = sums.entry(class.clone()).or_insert(0);
                *sum = sum.saturating_add(*amount);
            }
            sums
        };
        for (consumer, before, after) in self.consumers() {
            let (was, is) = (sums(before), sums(after));
            for class in was.keys().chain(is.keys()) {
                let [before, after] = [&was, &is].map(|sums| sums.get(class).copied().unwrap_or(0));
                if before != after {
                    return Err(ReshapeRefused::NotConserved {
                        consumer: *consumer,
                        class: class.clone(),
                        before,
                        after,
                    });
                }
            }
        }
        Ok(())
    }

    /// Units leave only where a move permits it, and arrive only on the own tree in a class of such a move.
    fn only_moves_change_places(&self) -> Result<(), ReshapeRefused> {
        for (consumer, before, after) in self.consumers() {
            let amount = |held: &ConsumerAllocations, place| held.resources.get(place).copied();
            let places: BTreeSet<_> = before
                .resources
                .keys()
                .chain(after.resources.keys())
                .collect();
            let left: BTreeSet<_> = places
                .iter()
                .filter(|place| amount(before, place) > amount(after, place))
                .map(|(provider, class)| (*provider, class))
                .collect();
            for place in places {
                let (was, is) = (amount(before, place), amount(after, place));
                let lawful = if was > is {
                    self.pending.is_source(place.0, &place.1)
                } else {
                    was == is || self.may_arrive(place, &left)
                };
                if !lawful {
                    return Err(ReshapeRefused::OutsideTheMoves {
                        consumer: *consumer,
                        provider: self.request.name(place.0),
                        class: place.1.clone(),
                        before: was.unwrap_or(0),
                        after: is.unwrap_or(0),
                    });
                }
            }
        }
        Ok(())
    }

    fn may_arrive(
        &self,
        (provider, class): &(ProviderUuid, ResourceClass),
        left: &BTreeSet<(ProviderUuid, &ResourceClass)>,
    ) -> bool {
        let moves = &self.pending.desired().moves;
        self.request.tree().is_own(*provider)
            && moves
                .iter()
                .any(|m| m.to.contains(class) && left.contains(&(m.provider, &m.class)))
    }

    /// The request contains exactly the planned inventories, and changes no provider of another owner.
    fn inventories_are_those_of_the_tree(&self) -> Result<(), ReshapeRefused> {
        let current = self.pending.current();
        let tree = self.request.tree();
        let none = BTreeMap::new();
        let known = current.all().into_iter().chain(tree.all());
        let providers: BTreeSet<_> = known.map(crate::Provider::uuid).collect();
        let sent = self.request.inventories();
        for provider in providers.iter().chain(sent.keys()).copied() {
            let before = current.get(provider).map_or(&none, |p| &p.inventories);
            let sent = sent.get(&provider).unwrap_or(before);
            let foreign = current.is_own(provider) && !current.is_ours(provider);
            let lawful = match tree.get(provider) {
                Some(planned) => *sent == planned.inventories && !(foreign && sent != before),
                None if foreign => sent == before,
                None => sent.is_empty() || !current.is_own(provider) && sent == before,
            };
            if !lawful {
                return Err(ReshapeRefused::NotAsPlanned { provider });
            }
        }
        Ok(())
    }

    /// Per provider and class: all users together fit, or the class is held and its usage did not grow, or it was over
    /// before, offers as much as it did and is not worse.
    fn everything_fits(&self) -> Result<(), ReshapeRefused> {
        let current = self.pending.current();
        let (before, after): (Usages, Usages) = (self.before.usages(), self.after.usages());
        for (place, used) in &after {
            let (uuid, class) = place;
            let tree = self.request.tree();
            let Some(provider) = tree.get(*uuid).or_else(|| current.get(*uuid)) else {
                // Another host's: nothing arrives there, as proved above.
                continue;
            };
            let inventory = self.inventory(*uuid, class);
            let capacity = inventory.map_or(0, Inventory::capacity);
            let grew = *used > before.get(place).copied().unwrap_or(0);
            let held = inventory.is_some_and(|i| i.is_held() && u64::from(i.total) == *used);
            let was = current.inventory(*uuid, class);
            let as_before = inventory
                .zip(was)
                .is_some_and(|(is, was)| offers_as(is, was));
            if *used <= capacity || ((held || as_before) && !grew) {
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

    /// Placement checks every amount of a consumer in the call, even unchanged ones.
    fn amounts_match_unit_sizes(&self) -> Result<(), ReshapeRefused> {
        let tree = self.request.tree();
        for (consumer, sent) in self.request.allocations() {
            for ((uuid, class), amount) in &sent.resources {
                let Some((provider, inventory)) = tree.get(*uuid).zip(self.inventory(*uuid, class))
                else {
                    continue;
                };
                if !inventory.accepts_amount(*amount) {
                    return Err(ReshapeRefused::UnitSize {
                        consumer: *consumer,
                        provider: provider.name.clone(),
                        class: class.clone(),
                        amount: *amount,
                        inventory: inventory.clone(),
                    });
                }
            }
        }
        Ok(())
    }

    /// Each consumer with what it holds before and afterwards.
    fn consumers(
        &self,
    ) -> impl Iterator<Item = (&ConsumerUuid, &ConsumerAllocations, &ConsumerAllocations)> {
        self.before.consumers().filter_map(|(consumer, before)| {
            let after = self.after.of(consumer)?;
            Some((consumer, before, after))
        })
    }

    /// The inventory after the call, by what is sent.
    fn inventory(&self, provider: ProviderUuid, class: &ResourceClass) -> Option<&Inventory> {
        match self.request.inventories().get(&provider) {
            Some(sent) => sent.get(class),
            None => self.pending.current().inventory(provider, class),
        }
    }
}

/// Whether as much is offered as before. Unit sizes say nothing about how much: they may be wider.
fn offers_as(is: &Inventory, was: &Inventory) -> bool {
    let offer = |i: &Inventory| (i.total, i.reserved, i.allocation_ratio);
    offer(is) == offer(was)
}

/// Each class that a move turns into others, mapped to one name for all of them. Renamed units may also stay (held, or not
/// concerned), so the old name and the new ones are one class to the proof.
fn renamed_classes(pending: &PendingReshape) -> BTreeMap<ResourceClass, ResourceClass> {
    let mut names: BTreeMap<ResourceClass, ResourceClass> = BTreeMap::new();
    for m in &pending.desired().moves {
        let members: Vec<_> = m.to.iter().chain([&m.class]).cloned().collect();
        let joined: BTreeSet<_> = members
            .iter()
            .map(|member| names.get(member).unwrap_or(member).clone())
            .collect();
        let name = joined.first().unwrap_or(&m.class).clone();
        for other in names.values_mut().filter(|other| joined.contains(*other)) {
            *other = name.clone();
        }
        names.extend(members.into_iter().map(|member| (member, name.clone())));
    }
    names
}
