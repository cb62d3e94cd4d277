//! What is amiss with the allocations on a node's tree: what nobody's guest holds, and what guests use and do not hold. Pure.
//!
//! The hypervisor is the truth: its guests are the consumers, their processors, memory and devices what they hold, each on the
//! provider that it belongs to, however deep. What it does not show (disk, resources of a flavor's own) is left as it is held.
//! Placement's peer of Nova knows flat nodes alone and refuses guests with virtual GPUs and device profiles.
//!
//! Callers: `berth placement audit` and `berth placement heal-allocations`.

mod heal;

use std::collections::{BTreeMap, BTreeSet};

use berth_agent_journal::{Goal, GuestRecord};
use berth_model::{
    Allocations, ConsumerAllocations, ConsumerUuid, NodeName, ProviderTree, ProviderUuid,
    ResourceClass,
};
use berth_virt::{NodeView, Resources, Trees, device_places, guest_allocations, guest_behind};

use crate::allocation_audit::heal::Wanted;

pub use heal::healed;

/// What is compared: one node, as it is seen and as Placement has it.
#[derive(Debug, Clone, Copy)]
pub struct Audited<'a> {
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
    pub consumer: ConsumerUuid,
    /// What it holds of the tree.
    pub here: Resources,
    pub amiss: Amiss,
}

/// What is amiss with a consumer's allocations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Amiss {
    /// No guest of the node is the consumer, nor can it be one's move: it may be taken away.
    Orphan,
    /// No guest of the node is the consumer, and it may still be one's: nobody may take it away without looking.
    Unclear {
        /// Why, as the rest of a sentence about the consumer.
        why: String,
    },
    /// A guest holds less than it uses, or holds it where it does not use it.
    Guest {
        /// Its name on the hypervisor.
        guest: String,
        /// What of the tree it should hold; all else that it holds stays.
        wanted: Resources,
    },
    /// The same, and what it should hold cannot be told.
    GuestUnclear {
        /// Its name on the hypervisor.
        guest: String,
        /// Why, as the rest of a sentence about the guest.
        why: String,
    },
}

impl Amiss {
    /// The word for it that scripts go by.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Orphan => "orphan",
            Self::Unclear { .. } => "unclear",
            Self::Guest { .. } => "guest",
            Self::GuestUnclear { .. } => "guest-unclear",
        }
    }
}

/// All that is amiss, in the order of the consumers' UUIDs.
#[must_use]
pub fn audit(audited: &Audited<'_>) -> Vec<Finding> {
    let own: BTreeMap<ConsumerUuid, Guest<'_>> = guests(audited);
    let also: BTreeSet<ConsumerUuid> = own.values().flat_map(|it| it.also.clone()).collect();
    let mut wanting = wanting(audited, &own);
    let mut found = Vec::new();
    // Guests that may be behind a consumer of another name: nothing is given to them.
    let mut suspected = BTreeSet::new();
    for (consumer, held) in audited.held.consumers() {
        if own.contains_key(consumer) || also.contains(consumer) {
            continue;
        }
        let here = on_tree(audited.tree, held);
        let is_unreadable = audited.seen.unreadable.contains_key(consumer);
        if here.is_empty() || is_unreadable || is_known(audited, consumer) {
            continue;
        }
        let amiss = match behind(audited, *consumer) {
            Some(guest) => {
                let why =
                    format!("it holds just what guest {guest} uses: the migration of a move?");
                suspected.insert(guest);
                Amiss::Unclear { why }
            }
            None => strangers(audited, held, &wanting),
        };
        found.push(Finding {
            consumer: *consumer,
            here,
            amiss,
        });
    }
    wanting.retain(|finding| match &finding.amiss {
        Amiss::Guest { guest, .. } => !suspected.contains(guest),
        _ => true,
    });
    found.extend(wanting);
    found.sort_by_key(|finding| finding.consumer);
    found
}

/// What a consumer is that no guest can be told of.
fn strangers(audited: &Audited<'_>, held: &ConsumerAllocations, wanting: &[Finding]) -> Amiss {
    let unclear = |why: &str| Amiss::Unclear {
        why: why.to_owned(),
    };
    let elsewhere = held
        .resources
        .keys()
        .any(|(provider, class)| !audited.tree.is_own(*provider) && heal::is_spread(class));
    match () {
        () if elsewhere => {
            unclear("it holds processors or memory elsewhere too: a guest on its way?")
        }
        () if !audited.seen.unreadable.is_empty() => {
            unclear("a guest of this node cannot be read, and may be the one it holds for")
        }
        () if !wanting.is_empty() => unclear(
            "a guest of this node lacks what it uses, and may be the one it holds for; heal first",
        ),
        () => Amiss::Orphan,
    }
}

/// The guest that a consumer of another name holds for, where only one can be.
fn behind(audited: &Audited<'_>, consumer: ConsumerUuid) -> Option<String> {
    let Audited {
        node,
        seen,
        tree,
        held,
        ..
    } = *audited;
    let trees = Trees {
        current: tree,
        desired: tree,
    };
    let of = held.iter().filter(|it| it.consumer == consumer);
    let one = of.into_iter().find(|it| tree.is_own(it.provider))?;
    let guest = guest_behind(seen, node, trees, &one, held)?;
    Some(guest.name.clone())
}

/// The guests that do not hold what they use.
fn wanting(audited: &Audited<'_>, own: &BTreeMap<ConsumerUuid, Guest<'_>>) -> Vec<Finding> {
    let Audited {
        node, seen, tree, ..
    } = *audited;
    let claims = guest_allocations(seen, node, tree);
    let devices = device_places(seen, node, tree);
    let mut found = Vec::new();
    for (consumer, guest) in own {
        // A move holds the same twice, or under two names, for as long as it lasts.
        let is_moving = guest.also.iter().any(|it| audited.held.of(it).is_some());
        let Some(uses) = claims.get(&guest.uuid).filter(|_| !is_moving) else {
            continue;
        };
        if guest.is_under_way {
            continue;
        }
        let held = audited.held.of(consumer);
        let here = held.map_or_else(Resources::new, |held| on_tree(tree, held));
        let spread = |(place, _): (&(ProviderUuid, ResourceClass), &u64)| heal::is_spread(&place.1);
        let is_elsewhere =
            !here.iter().any(spread) && held.is_some_and(|held| held.resources.iter().any(spread));
        let is_placed = !seen.guests[&guest.uuid].cells.is_empty();
        let name = guest.name.to_owned();
        let amiss = match heal::wanted(&here, uses, is_placed, &devices) {
            Wanted::Known(wanted) if wanted == here => continue,
            _ if is_elsewhere => Amiss::GuestUnclear {
                guest: name,
                why: "its processors and memory are held elsewhere: it moved, and what is left here is to be ended".to_owned(),
            },
            Wanted::Known(wanted) => Amiss::Guest {
                guest: name,
                wanted,
            },
            Wanted::Unclear { class } => Amiss::GuestUnclear {
                guest: name,
                why: format!("it holds {class} where it is not seen to use any, and lacks it where it does"),
            },
        };
        found.push(Finding {
            consumer: *consumer,
            here,
            amiss,
        });
    }
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
            |record: &&GuestRecord| record.open().is_some() || record.course != Goal::Spawn;
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
