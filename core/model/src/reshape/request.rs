//! The lawful reshape: the request to Placement, and what it moves and holds.

use std::collections::BTreeMap;
use std::fmt;

use super::allocation_mover::MovedAllocations;
use super::lost_reservation::{LostReservation, unreserved};
use super::{HomelessReason, PendingReshape};
use crate::{
    Allocation, Allocations, ConsumerAllocations, ConsumerUuid, HeldUnits, Inventory, Provider,
    ProviderTree, ProviderUuid, ResourceClass, TreeDiff, diff,
};

/// Units that move to another provider or class.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MovedUnits {
    /// The consumer (instance or migration) of the moved units.
    pub consumer: ConsumerUuid,
    /// The provider they leave.
    pub from: ProviderUuid,
    /// The resource class of the units before the move.
    pub from_class: ResourceClass,
    /// The provider they go to.
    pub to: ProviderUuid,
    /// The resource class of the units after the move.
    pub to_class: ResourceClass,
    /// The number of units, in the unit of the class.
    pub amount: u64,
}

/// A lawful reshape, ready to be sent. Only [`PendingReshape::resolve`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReshapeRequest {
    pub(super) current: ProviderTree,
    pub(super) tree: ProviderTree,
    pub(super) inventories: BTreeMap<ProviderUuid, BTreeMap<ResourceClass, Inventory>>,
    pub(super) allocations: BTreeMap<ConsumerUuid, ConsumerAllocations>,
    pub(super) moved: Vec<MovedUnits>,
    pub(super) homeless: Vec<(Allocation, HomelessReason)>,
    pub(super) held: Vec<HeldUnits>,
    unreserved: Vec<LostReservation>,
}

impl ReshapeRequest {
    pub(super) fn new(
        pending: &PendingReshape,
        tree: ProviderTree,
        before: &Allocations,
        placed: MovedAllocations,
        held: Vec<HeldUnits>,
    ) -> Self {
        let current = pending.current();
        let changed = |provider: &&Provider| {
            let known = current
                .get(provider.uuid())
                .map(|before| &before.inventories);
            known.map_or(!provider.inventories.is_empty(), |known| {
                *known != provider.inventories
            })
        };
        let mut inventories: BTreeMap<_, _> = tree
            .all()
            .into_iter()
            .filter(changed)
            .map(|provider| (provider.uuid(), provider.inventories.clone()))
            .collect();
        for provider in current.own() {
            let leaves = tree.get(provider.uuid()).is_none() && current.is_ours(provider.uuid());
            if leaves && !provider.inventories.is_empty() {
                inventories.insert(provider.uuid(), BTreeMap::new());
            }
        }
        let allocations = placed
            .after
            .consumers()
            .filter(|(consumer, after)| before.of(consumer) != Some(*after))
            .map(|(consumer, after)| (*consumer, after.clone()))
            .collect();
        Self {
            current: current.clone(),
            unreserved: unreserved(pending, &tree),
            tree,
            inventories,
            allocations,
            moved: placed.moved,
            homeless: placed.homeless,
            held,
        }
    }

    /// The tree before the reshape.
    #[must_use]
    pub fn current(&self) -> &ProviderTree {
        &self.current
    }

    /// The tree after the reshape, including held inventory.
    #[must_use]
    pub fn tree(&self) -> &ProviderTree {
        &self.tree
    }

    /// The inventories to send: all inventories of each provider with a change. An empty list removes all.
    #[must_use]
    pub fn inventories(&self) -> &BTreeMap<ProviderUuid, BTreeMap<ResourceClass, Inventory>> {
        &self.inventories
    }

    /// The allocations to send: all allocations of each consumer with a change.
    #[must_use]
    pub fn allocations(&self) -> &BTreeMap<ConsumerUuid, ConsumerAllocations> {
        &self.allocations
    }

    /// All allocations after the reshape, also those of consumers without a change. `before` are the allocations that
    /// it was resolved with.
    #[must_use]
    pub fn afterwards(&self, before: &Allocations) -> Allocations {
        let after = |(consumer, held)| {
            let held: &ConsumerAllocations = self.allocations.get(consumer).unwrap_or(held);
            (*consumer, held.clone())
        };
        before.consumers().map(after).collect()
    }

    /// The units that move.
    #[must_use]
    pub fn moved(&self) -> &[MovedUnits] {
        &self.moved
    }

    /// Allocations, whole or in part, without a new home, and why.
    #[must_use]
    pub fn homeless(&self) -> &[(Allocation, HomelessReason)] {
        &self.homeless
    }

    /// The inventories that are held after the reshape.
    #[must_use]
    pub fn held(&self) -> &[HeldUnits] {
        &self.held
    }

    /// Whether neither inventory nor allocations change: there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inventories.is_empty() && self.allocations.is_empty()
    }

    /// The diff of the tree, including traits and providers.
    #[must_use]
    pub fn diff(&self) -> TreeDiff {
        diff(&self.current, &self.tree)
    }

    pub(super) fn name(&self, uuid: ProviderUuid) -> String {
        self.tree
            .get(uuid)
            .or_else(|| self.current.get(uuid))
            .map_or_else(|| uuid.to_string(), |provider| provider.name.to_string())
    }
}

impl fmt::Display for ReshapeRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = |count: usize, noun: &str| match count {
            1 => format!("1 {noun}"),
            _ => format!("{count} {noun}s"),
        };
        let providers = counted(self.inventories.len(), "provider");
        let consumers = counted(self.allocations.len(), "consumer");
        writeln!(
            f,
            "reshape: inventory of {providers}, allocations of {consumers}"
        )?;
        write!(f, "{}", self.diff())?;
        for m in &self.moved {
            writeln!(
                f,
                "> {} {} of {}: {} -> {}{}",
                m.amount,
                m.from_class,
                m.consumer,
                self.name(m.from),
                self.name(m.to),
                if m.from_class == m.to_class {
                    String::new()
                } else {
                    format!(" as {}", m.to_class)
                }
            )?;
        }
        for (allocation, reason) in &self.homeless {
            writeln!(
                f,
                "! {} {} of {} stay on {}: {reason}",
                allocation.amount,
                allocation.class,
                allocation.consumer,
                self.name(allocation.provider)
            )?;
        }
        for unreserved in &self.unreserved {
            writeln!(f, "! {unreserved}")?;
        }
        Ok(())
    }
}
