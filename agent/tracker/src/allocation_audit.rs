//! Audit of the allocations on a node's provider tree. It finds consumers without a guest, and guests whose allocations
//! do not cover what they use. Pure functions: [`audit`] and [`heal_allocations`].
//!
//! The hypervisor is the source of truth: its guests are the consumers, and their CPUs, memory and devices are what they should hold, each on
//! the provider that it belongs to, at any depth of the tree. Resources that the hypervisor does not report (disk, custom resources of a
//! flavor) stay as they are. Nova's `nova-manage placement audit` knows only flat trees, and refuses guests with virtual GPUs or device profiles.
//!
//! Used by `berth placement audit` and `berth placement heal-allocations`.

mod heal;

use std::collections::{BTreeMap, BTreeSet};

use berth_agent_journal::{Goal, GuestRecord};
use berth_model::{
    Allocations, ConsumerAllocations, ConsumerUuid, NodeName, ProviderTree, ProviderUuid,
    ResourceClass,
};
use berth_virt::{NodeView, Resources, TreePair, device_places, guest_allocations, guest_behind};

use crate::allocation_audit::heal::DesiredAllocation;

pub use heal::heal_allocations;

/// Input of the audit of one node: the observed node and its state in Placement.
#[derive(Debug, Clone, Copy)]
pub struct AuditInput<'a> {
    pub node: &'a NodeName,
    /// The node as the driver observed it.
    pub seen: &'a NodeView,
    /// The provider tree in Placement. It must match the tree that this version of Berth reports, because allocations
    /// are compared with that model.
    pub tree: &'a ProviderTree,
    /// All allocations of each consumer that holds anything on the tree, and of each guest of the node.
    pub held: &'a Allocations,
    /// Guests in the agent's journal.
    pub journal: &'a [GuestRecord],
}

/// A consumer whose allocations are wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditFinding {
    pub consumer: ConsumerUuid,
    /// What the consumer holds on the tree.
    pub here: Resources,
    pub problem: AllocationProblem,
}

/// What is wrong with a consumer's allocations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllocationProblem {
    /// No guest of the node is the consumer, and no migration explains the allocation: it can be removed.
    Orphan,
    /// No guest of the node is the consumer, but the allocation may belong to one: an operator must check before it is
    /// removed.
    Unclear {
        /// Reason, as the rest of a sentence about the consumer.
        why: String,
    },
    /// A guest holds less than it uses, or holds it on the wrong provider.
    Guest {
        /// Name of the guest on the hypervisor.
        guest: String,
        /// What the guest should hold on the tree; its other allocations stay.
        wanted: Resources,
    },
    /// A guest's allocations are wrong, and the correct ones cannot be determined.
    GuestUnclear {
        /// Name of the guest on the hypervisor.
        guest: String,
        /// Reason, as the rest of a sentence about the guest.
        why: String,
    },
}

impl AllocationProblem {
    /// Stable name, for scripts.
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

/// Finds all wrong allocations, ordered by the consumer's UUID.
#[must_use]
pub fn audit(input: &AuditInput<'_>) -> Vec<AuditFinding> {
    let own: BTreeMap<ConsumerUuid, AuditedGuest<'_>> = guests(input);
    let also: BTreeSet<ConsumerUuid> = own.values().flat_map(|it| it.also.clone()).collect();
    let mut underallocated = underallocated(input, &own);
    let mut found = Vec::new();
    // Guests that may own the allocation of another consumer: they get no allocation.
    let mut suspected = BTreeSet::new();
    for (consumer, held) in input.held.consumers() {
        if own.contains_key(consumer) || also.contains(consumer) {
            continue;
        }
        let here = on_tree(input.tree, held);
        let is_unreadable = input.seen.unreadable.contains_key(consumer);
        if here.is_empty() || is_unreadable || is_in_journal(input, consumer) {
            continue;
        }
        let problem = match guest_of_other_consumer(input, *consumer) {
            Some(guest) => {
                let why = format!(
                    "it holds exactly what guest {guest} uses: is it the migration of a move?"
                );
                suspected.insert(guest);
                AllocationProblem::Unclear { why }
            }
            None => classify_consumer(input, held, &underallocated),
        };
        found.push(AuditFinding {
            consumer: *consumer,
            here,
            problem,
        });
    }
    underallocated.retain(|finding| match &finding.problem {
        AllocationProblem::Guest { guest, .. } => !suspected.contains(guest),
        _ => true,
    });
    found.extend(underallocated);
    found.sort_by_key(|finding| finding.consumer);
    found
}

/// Classifies a consumer that belongs to no known guest.
fn classify_consumer(
    input: &AuditInput<'_>,
    held: &ConsumerAllocations,
    underallocated: &[AuditFinding],
) -> AllocationProblem {
    let unclear = |why: &str| AllocationProblem::Unclear {
        why: why.to_owned(),
    };
    let elsewhere = held
        .resources
        .keys()
        .any(|(provider, class)| !input.tree.is_own(*provider) && heal::is_spread(class));
    match () {
        () if elsewhere => unclear(
            "it also holds processors or memory elsewhere: is it a guest that is being moved?",
        ),
        () if !input.seen.unreadable.is_empty() => {
            unclear("a guest of this node cannot be read, and the allocation may belong to it")
        }
        () if !underallocated.is_empty() => unclear(
            "a guest of this node lacks allocations, and the allocation may belong to it; heal first",
        ),
        () => AllocationProblem::Orphan,
    }
}

/// The guest whose allocation another consumer holds, for example a migration, if exactly one guest matches.
fn guest_of_other_consumer(input: &AuditInput<'_>, consumer: ConsumerUuid) -> Option<String> {
    let AuditInput {
        node,
        seen,
        tree,
        held,
        ..
    } = *input;
    let trees = TreePair {
        current: tree,
        desired: tree,
    };
    let of = held.iter().filter(|it| it.consumer == consumer);
    let one = of.into_iter().find(|it| tree.is_own(it.provider))?;
    let guest = guest_behind(seen, node, trees, &one, held)?;
    Some(guest.name.clone())
}

/// Guests that hold less than they use, or hold it on the wrong provider.
fn underallocated(
    input: &AuditInput<'_>,
    own: &BTreeMap<ConsumerUuid, AuditedGuest<'_>>,
) -> Vec<AuditFinding> {
    let AuditInput {
        node, seen, tree, ..
    } = *input;
    let claims = guest_allocations(seen, node, tree);
    let devices = device_places(seen, node, tree);
    let mut found = Vec::new();
    for (consumer, guest) in own {
        // During a move, the allocation exists twice, or for two consumers.
        let is_moving = guest.also.iter().any(|it| input.held.of(it).is_some());
        let Some(uses) = claims.get(&guest.uuid).filter(|_| !is_moving) else {
            continue;
        };
        if guest.is_in_progress {
            continue;
        }
        let held = input.held.of(consumer);
        let here = held.map_or_else(Resources::new, |held| on_tree(tree, held));
        let spread = |(place, _): (&(ProviderUuid, ResourceClass), &u64)| heal::is_spread(&place.1);
        let is_elsewhere =
            !here.iter().any(spread) && held.is_some_and(|held| held.resources.iter().any(spread));
        let is_placed = !seen.guests[&guest.uuid].cells.is_empty();
        let name = guest.name.to_owned();
        let problem = match heal::desired_allocation(&here, uses, is_placed, &devices) {
            DesiredAllocation::Known(wanted) if wanted == here => continue,
            _ if is_elsewhere => AllocationProblem::GuestUnclear {
                guest: name,
                why: "its processors and memory are held elsewhere: it was moved, and the allocations here should be removed".to_owned(),
            },
            DesiredAllocation::Known(wanted) => AllocationProblem::Guest {
                guest: name,
                wanted,
            },
            DesiredAllocation::Unclear { class } => AllocationProblem::GuestUnclear {
                guest: name,
                why: format!("it holds {class} on a provider where it uses none, and lacks it where it does"),
            },
        };
        found.push(AuditFinding {
            consumer: *consumer,
            here,
            problem,
        });
    }
    found
}

/// A guest that the driver could read.
struct AuditedGuest<'a> {
    uuid: ConsumerUuid,
    name: &'a str,
    /// Other consumers that may hold allocations for the guest.
    also: BTreeSet<ConsumerUuid>,
    /// Whether the agent has an unfinished operation on the guest.
    is_in_progress: bool,
}

/// The node's guests by their consumer.
fn guests<'a>(input: &AuditInput<'a>) -> BTreeMap<ConsumerUuid, AuditedGuest<'a>> {
    let records: BTreeMap<ConsumerUuid, &GuestRecord> = input
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
        let is_in_progress =
            |record: &&GuestRecord| record.open().is_some() || record.goal != Goal::Spawn;
        let guest = AuditedGuest {
            uuid: *uuid,
            name: &guest.name,
            also,
            is_in_progress: record.is_some_and(is_in_progress),
        };
        (consumer, guest)
    };
    input.seen.guests.iter().map(guest).collect()
}

/// Whether the journal has a guest for this consumer. The hypervisor may not show the guest at present.
fn is_in_journal(input: &AuditInput<'_>, consumer: &ConsumerUuid) -> bool {
    input.journal.iter().any(|record| {
        record.request.uuid() == *consumer || record.request.spec().owner.consumer == *consumer
    })
}

/// The part of a consumer's allocations that is on the node's own providers.
#[must_use]
pub fn on_tree(tree: &ProviderTree, held: &ConsumerAllocations) -> Resources {
    let own = |((provider, _), _): &(&(ProviderUuid, ResourceClass), &u64)| tree.is_own(*provider);
    let held = held.resources.iter().filter(own);
    held.map(|(place, amount)| (place.clone(), *amount))
        .collect()
}

#[cfg(test)]
mod tests;
