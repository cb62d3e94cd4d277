//! The lawful reshape: what is sent, and the account of it.

use std::collections::BTreeMap;
use std::fmt;

use super::placing::Placed;
use super::unreserved::{Unreserved, unreserved};
use super::{HomelessReason, PendingReshape};
use crate::{
    Allocation, Allocations, ConsumerAllocations, ConsumerUuid, Held, Inventory, Provider,
    ProviderTree, ProviderUuid, ResourceClass, TreeDiff, diff,
};

/// Units that change their place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MovedUnits {
    /// Who holds them.
    pub consumer: ConsumerUuid,
    /// The provider they leave.
    pub from: ProviderUuid,
    /// Their class there.
    pub from_class: ResourceClass,
    /// The provider they go to.
    pub to: ProviderUuid,
    /// Their class there.
    pub to_class: ResourceClass,
    /// How many.
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
    pub(super) held: Vec<Held>,
    unreserved: Vec<Unreserved>,
}

impl ReshapeRequest {
    pub(super) fn new(
        pending: &PendingReshape,
        tree: ProviderTree,
        before: &Allocations,
        placed: Placed,
        held: Vec<Held>,
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

    /// The tree this was planned against.
    #[must_use]
    pub fn current(&self) -> &ProviderTree {
        &self.current
    }

    /// The tree afterwards, held inventory included.
    #[must_use]
    pub fn tree(&self) -> &ProviderTree {
        &self.tree
    }

    /// The inventories to send, whole per provider: only of providers whose inventory changes. An empty one is emptied.
    #[must_use]
    pub fn inventories(&self) -> &BTreeMap<ProviderUuid, BTreeMap<ResourceClass, Inventory>> {
        &self.inventories
    }

    /// The allocations to send, whole per consumer: only of consumers that change.
    #[must_use]
    pub fn allocations(&self) -> &BTreeMap<ConsumerUuid, ConsumerAllocations> {
        &self.allocations
    }

    /// All allocations once it is carried out, those of consumers that do not change included; `before` are those it was
    /// resolved with.
    #[must_use]
    pub fn afterwards(&self, before: &Allocations) -> Allocations {
        let after = |(consumer, held)| {
            let held: &ConsumerAllocations = self.allocations.get(consumer).unwrap_or(held);
            (*consumer, held.clone())
        };
        before.consumers().map(after).collect()
    }

    /// What changes its place.
    #[must_use]
    pub fn moved(&self) -> &[MovedUnits] {
        &self.moved
    }

    /// Allocations (or the rest of one) that found no new home, and why.
    #[must_use]
    pub fn homeless(&self) -> &[(Allocation, HomelessReason)] {
        &self.homeless
    }

    /// Inventory that holds units without a home afterwards.
    #[must_use]
    pub fn held(&self) -> &[Held] {
        &self.held
    }

    /// Whether neither inventory nor allocations change: there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inventories.is_empty() && self.allocations.is_empty()
    }

    /// All that changes in the tree, traits and providers included.
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
