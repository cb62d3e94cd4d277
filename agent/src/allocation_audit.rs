//! What is amiss with the allocations on a node's tree: what nobody's guest holds, and what guests use and do not hold. Pure.
//!
//! The hypervisor is the truth: its guests are the consumers, their processors, memory and devices what they hold, each on the
//! provider that it belongs to, however deep. What it does not show (disk, resources of a flavor's own) is left as it is held.
//! Placement's peer of Nova knows flat nodes alone and refuses guests with virtual GPUs and device profiles.
//!
//! Callers: `berth placement audit` and `berth placement heal-allocations`.

mod heal;

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    Allocations, ConsumerAllocations, ConsumerUuid, NodeName, ProviderTree, ProviderUuid,
    ResourceClass,
};
use berth_virt::{NodeView, Resources, Trees, guest_allocations, guest_behind};

pub use heal::healed;

use crate::guest::journal::{Course, GuestRecord};

/// What is compared: one node, as it is seen and as Placement has it.
#[derive(Debug, Clone, Copy)]
pub struct Audited<'a> {
    /// The node.
    pub node: &'a NodeName,
    /// What the hypervisor shows of it.
    pub seen: &'a NodeView,
    /// The tree Placement has. It is the one that this version wants: what guests hold is looked for by its model.
    pub tree: &'a ProviderTree,
    /// Everything that those hold who hold anything of the tree, and what the node's guests hold elsewhere.
    pub held: &'a Allocations,
    /// The guests that the agent knows.
    pub journal: &'a [GuestRecord],
}

/// One consumer of whose allocations something is amiss.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The consumer.
    pub consumer: ConsumerUuid,
    /// What is amiss.
    pub amiss: Amiss,
}

/// What is amiss with a consumer's allocations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Amiss {
    /// No guest of the node is the consumer.
    Orphan {
        /// What it holds of the tree.
        here: Resources,
    },
    /// No guest is the consumer, but it holds exactly what one uses that holds nothing: the migration of a move, or the guest's
    /// own by another UUID. Nobody may take it away without looking.
    Behind {
        /// What it holds of the tree.
        here: Resources,
        /// The guest's name on the hypervisor.
        guest: String,
    },
    /// A guest holds less than it uses, or holds it where it does not use it.
    Guest {
        /// Its name on the hypervisor.
        guest: String,
        /// What it holds of the tree.
        here: Resources,
        /// What of the tree it should hold; all else that it holds stays.
        wanted: Resources,
    },
}

impl Amiss {
    /// The word for it that scripts go by.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Orphan { .. } => "orphan",
            Self::Behind { .. } => "migration",
            Self::Guest { .. } => "guest",
        }
    }
}

/// All that is amiss, in the order of the consumers' UUIDs.
#[must_use]
pub fn audit(audited: &Audited<'_>) -> Vec<Finding> {
    let Audited {
        node, seen, tree, ..
    } = *audited;
    let claims = guest_allocations(seen, node, tree);
    let own: BTreeMap<ConsumerUuid, Guest<'_>> = guests(audited);
    let also: BTreeSet<ConsumerUuid> = own.values().flat_map(|it| it.also.clone()).collect();
    let mut found = Vec::new();
    for (consumer, held) in audited.held.consumers() {
        if own.contains_key(consumer) || also.contains(consumer) {
            continue;
        }
        let here = on_tree(tree, held);
        if here.is_empty() || seen.unreadable.contains_key(consumer) || is_known(audited, consumer)
        {
            continue;
        }
        let trees = Trees {
            current: tree,
            desired: tree,
        };
        let mut one = audited.held.iter().filter(|it| it.consumer == *consumer);
        let one = one.find(|it| tree.is_own(it.provider));
        let guest = one.and_then(|one| {
            let guest = guest_behind(seen, node, trees, &one, audited.held)?;
            Some(guest.name.clone())
        });
        let amiss = match guest {
            Some(guest) => Amiss::Behind { here, guest },
            None => Amiss::Orphan { here },
        };
        found.push(Finding {
            consumer: *consumer,
            amiss,
        });
    }
    for (consumer, guest) in own {
        // A move holds the same twice, or under two names, for as long as it lasts.
        let is_moving = guest.also.iter().any(|it| audited.held.of(it).is_some());
        if is_moving || guest.is_under_way {
            continue;
        }
        let here = audited.held.of(&consumer);
        let here = here.map_or_else(Resources::new, |held| on_tree(tree, held));
        let Some(uses) = claims.get(&guest.uuid) else {
            continue;
        };
        let is_placed = !seen.guests[&guest.uuid].cells.is_empty();
        let wanted = heal::wanted(&here, uses, is_placed);
        if wanted != here {
            found.push(Finding {
                consumer,
                amiss: Amiss::Guest {
                    guest: guest.name.to_owned(),
                    here,
                    wanted,
                },
            });
        }
    }
    found.sort_by_key(|finding| finding.consumer);
    found
}

/// A guest that can be read.
struct Guest<'a> {
    uuid: ConsumerUuid,
    name: &'a str,
    /// Other consumers that may hold something for it.
    also: BTreeSet<ConsumerUuid>,
    /// Whether the agent has something to do with it that is not done.
    is_under_way: bool,
}

/// The node's guests by the consumer that holds for each.
fn guests<'a>(audited: &Audited<'a>) -> BTreeMap<ConsumerUuid, Guest<'a>> {
    let records: BTreeMap<ConsumerUuid, &GuestRecord> = audited
        .journal
        .iter()
        .map(|record| (record.request.uuid(), record))
        .collect();
    let guest = |(uuid, guest): (&ConsumerUuid, &'a berth_virt::GuestView)| {
        let record = records.get(uuid);
        let consumer = record.map_or(*uuid, |record| record.request.spec().owner.consumer);
        let mut also = guest.also.clone();
        also.insert(*uuid);
        also.remove(&consumer);
        let is_under_way =
            |record: &&GuestRecord| record.open().is_some() || record.course != Course::Spawn;
        let guest = Guest {
            uuid: *uuid,
            name: &guest.name,
            also,
            is_under_way: record.is_some_and(is_under_way),
        };
        (consumer, guest)
    };
    audited.seen.guests.iter().map(guest).collect()
}

/// Whether the agent knows a guest that this consumer holds for, though the hypervisor does not show it (yet, or for now).
fn is_known(audited: &Audited<'_>, consumer: &ConsumerUuid) -> bool {
    audited.journal.iter().any(|record| {
        record.request.uuid() == *consumer || record.request.spec().owner.consumer == *consumer
    })
}

/// What a consumer holds of the node's own providers.
#[must_use]
pub fn on_tree(tree: &ProviderTree, held: &ConsumerAllocations) -> Resources {
    let own = |((provider, _), _): &(&(ProviderUuid, ResourceClass), &u64)| tree.is_own(*provider);
    let held = held.resources.iter().filter(own);
    held.map(|(place, amount)| (place.clone(), *amount))
        .collect()
}

#[cfg(test)]
mod tests;
