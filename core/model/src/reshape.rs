//! The reshape: inventory and its allocations moved in one call (spec reshape-provider-tree, POST /reshaper since 1.30).
//!
//! A [`PendingReshape`] knows that inventory moved, not yet who holds it. [`PendingReshape::resolve`] is given all
//! allocations of the tree and asks the driver for each one's new home; it alone makes a [`ReshapeRequest`], and only one
//! it has proved lawful: per consumer and class (after renames) the amount is conserved; per provider and class all users
//! together stay within capacity, or the class is held; nothing outside the moves changes.

mod placing;
mod proof;

use std::collections::BTreeMap;
use std::fmt;

use crate::plan::hold_what_is_in_use;
use crate::{
    Allocation, Allocations, ConsumerAllocations, ConsumerUuid, Desired, Held, Inventory,
    InventoryError, ProviderName, ProviderTree, ProviderUuid, ResourceClass, TreeDiff, diff,
};

/// A place for units: so many of a class on a provider.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Home {
    /// Where.
    pub provider: ProviderUuid,
    /// Of which class: one of the move's `to`, or the old class on the old provider for units that stay.
    pub class: ResourceClass,
    /// How many, in the class's unit.
    pub amount: u64,
}

/// Why units have no new home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HomelessReason {
    /// The consumer has no guest on this node: an orphan, or a migration whose guest is unknown.
    NoGuest,
    /// The device the guest uses is gone or not configured any more.
    DeviceGone {
        /// The device, by the name its provider would have.
        device: String,
    },
    /// The new home has no room left.
    NoRoom {
        /// The new home.
        provider: ProviderName,
    },
    /// The new home takes no such amount at once (min_unit, max_unit, step_size).
    UnitSize {
        /// The new home.
        provider: ProviderName,
    },
    /// The guest does not say which of several homes is its own.
    Unknown,
}

impl fmt::Display for HomelessReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HomelessReason::NoGuest => f.write_str("no guest of this node is the consumer"),
            HomelessReason::DeviceGone { device } => {
                write!(f, "its device {device} is gone or not configured")
            }
            HomelessReason::NoRoom { provider } => write!(f, "no room on {provider}"),
            HomelessReason::UnitSize { provider } => {
                write!(f, "{provider} takes no such amount at once")
            }
            HomelessReason::Unknown => f.write_str("the guest does not show where they belong"),
        }
    }
}

/// Where an allocation goes when its inventory moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Homes {
    /// Exactly here; one allocation may be split over several homes. What the homes do not cover has no home for the
    /// given reason.
    At {
        /// The homes, together at most the allocation's amount.
        homes: Vec<Home>,
        /// Why a rest, if there is one, has no home.
        rest: HomelessReason,
    },
    /// Whole, with all of the consumer's other such allocations, to the first of these providers that has room for all.
    AnyOf {
        /// Of which class.
        class: ResourceClass,
        /// The providers, the best first.
        providers: Vec<ProviderUuid>,
    },
    /// Nowhere: the units are held where they are.
    Nowhere(HomelessReason),
}

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

/// A reshape that no lawful inventory can hold, or whose homes the driver got wrong. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReshapeRefused {
    /// A sharing provider would offer less than its consumers use; consumers that hold only there cannot be found.
    #[error(
        "{class} on sharing provider {provider} would shrink to {capacity} although {used} are in use"
    )]
    SharingProviderShrinks {
        /// The sharing provider.
        provider: ProviderName,
        /// The class.
        class: ResourceClass,
        /// Units in use by the consumers that are known.
        used: u64,
        /// Capacity wanted.
        capacity: u64,
    },
    /// The driver named a provider that its own tree does not have.
    #[error(
        "the driver sends {class} of consumer {consumer} to provider {provider}, which is not in its tree"
    )]
    UnknownHome {
        /// The consumer.
        consumer: ConsumerUuid,
        /// The class.
        class: ResourceClass,
        /// The provider named.
        provider: ProviderUuid,
    },
    /// The driver named another class than the move says.
    #[error(
        "the driver sends {from} of consumer {consumer} to class {to}, which the move does not name"
    )]
    ForeignClass {
        /// The consumer.
        consumer: ConsumerUuid,
        /// The class held.
        from: ResourceClass,
        /// The class named.
        to: ResourceClass,
    },
    /// The driver found more units than the consumer holds.
    #[error(
        "the driver finds homes for {given} {class} of consumer {consumer}, which holds {amount}"
    )]
    MoreThanHeld {
        /// The consumer.
        consumer: ConsumerUuid,
        /// The class.
        class: ResourceClass,
        /// Units held.
        amount: u64,
        /// Units given homes.
        given: u64,
    },
    /// An amount changed: the proof caught a bug.
    #[error("consumer {consumer} would hold {after} {class} instead of {before}")]
    NotConserved {
        /// The consumer.
        consumer: ConsumerUuid,
        /// The class, after renames.
        class: ResourceClass,
        /// Units before.
        before: u64,
        /// Units afterwards.
        after: u64,
    },
    /// All users of a provider's class together would exceed it.
    #[error("{used} {class} on {provider} would be in use, but only {capacity} fit")]
    OverCapacity {
        /// The provider.
        provider: ProviderName,
        /// The class.
        class: ResourceClass,
        /// Units in use afterwards.
        used: u64,
        /// Units that fit.
        capacity: u64,
    },
    /// Units to be held are more than one inventory can say.
    #[error("{class} on {provider} cannot be held: {source}")]
    CannotHold {
        /// The provider.
        provider: ProviderName,
        /// The class.
        class: ResourceClass,
        /// Why.
        source: InventoryError,
    },
}

/// A reshape that still lacks the allocations. It cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingReshape {
    current: ProviderTree,
    desired: Desired,
}

impl PendingReshape {
    /// Every named move is pending.
    pub(crate) fn new(current: ProviderTree, desired: Desired) -> Self {
        Self { current, desired }
    }

    /// The moves whose inventory is only held by now: at a start their units may have found a home (a device that came
    /// back, a guest that is known again). None where nothing is held.
    #[must_use]
    pub fn rehoming(current: &ProviderTree, desired: &Desired) -> Option<Self> {
        let mut moves: Vec<_> = desired
            .moves
            .iter()
            .filter(|m| current.inventory(m.provider, &m.class).is_some())
            .cloned()
            .collect();
        moves.sort();
        moves.dedup();
        let desired = Desired {
            tree: desired.tree.clone(),
            moves,
        };
        (!desired.moves.is_empty()).then(|| Self {
            current: current.clone(),
            desired,
        })
    }

    /// The tree Placement has.
    #[must_use]
    pub fn current(&self) -> &ProviderTree {
        &self.current
    }

    /// What the driver wants, with the moves that are pending.
    #[must_use]
    pub fn desired(&self) -> &Desired {
        &self.desired
    }

    /// Gives every allocation on moved inventory its new home and proves the outcome lawful. `allocations` are those of
    /// every consumer of every provider of the own tree; `homes` is the driver's answer for one allocation, asked with
    /// all of them in hand. Units without a home are held, not lost. Pure, and independent of the order of its input.
    ///
    /// # Errors
    /// No lawful inventory could hold the outcome, or the driver contradicts itself.
    pub fn resolve(
        self,
        allocations: &Allocations,
        homes: impl Fn(&Allocation, &Allocations) -> Homes,
    ) -> Result<ReshapeRequest, ReshapeRefused> {
        let placed = placing::place(&self, allocations, homes)?;
        let usages = placed.after.usages();
        let (tree, held) = self.lawful_tree(&usages)?;
        let request = ReshapeRequest::new(&self.current, tree, allocations, placed, held);
        proof::prove(&self, allocations, &request)?;
        Ok(request)
    }

    /// The desired tree with what stays in use held, and with shrinkings that have nothing to do with the moves left for
    /// the plain update that follows (Placement takes those, an operator may mean them, and they lose nothing).
    fn lawful_tree(
        &self,
        usages: &crate::Usages,
    ) -> Result<(ProviderTree, Vec<Held>), ReshapeRefused> {
        let mut tree = self.desired.tree.clone();
        // A usage nobody reported is none: every consumer of the tree is in hand.
        let mut known = usages.clone();
        for provider in self.current.own() {
            for class in provider.inventories.keys() {
                known.entry((provider.uuid(), class.clone())).or_insert(0);
            }
        }
        let mut held = Vec::new();
        for ((uuid, class), used) in usages {
            let Some(wanted) = tree.inventory(*uuid, class) else {
                continue;
            };
            if *used <= wanted.capacity() || !self.current.is_own(*uuid) {
                continue;
            }
            let (Some(before), Some(provider)) =
                (self.current.inventory(*uuid, class), tree.get(*uuid))
            else {
                continue;
            };
            let name = provider.name.clone();
            let is_source = self
                .desired
                .moves
                .iter()
                .any(|m| m.provider == *uuid && m.class == *class);
            let keep = if is_source {
                let holding =
                    Inventory::holding(*used).map_err(|source| ReshapeRefused::CannotHold {
                        provider: name.clone(),
                        class: class.clone(),
                        source,
                    })?;
                held.push(Held {
                    provider: *uuid,
                    name,
                    class: class.clone(),
                    used: *used,
                });
                holding
            } else {
                before.clone()
            };
            if let Some(provider) = tree.get_mut(*uuid) {
                provider.inventories.insert(class.clone(), keep);
            }
        }
        let (tree, more) = hold_what_is_in_use(&self.current, tree, &known);
        for one in more {
            if !held.contains(&one) {
                held.push(one);
            }
        }
        held.sort();
        Ok((tree, held))
    }
}

impl fmt::Display for PendingReshape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "reshape needed")?;
        for m in &self.desired.moves {
            let name = self.current.get(m.provider).map_or_else(
                || m.provider.to_string(),
                |provider| provider.name.to_string(),
            );
            let to: Vec<_> = m.to.iter().map(ResourceClass::as_str).collect();
            if to == [m.class.as_str()] {
                writeln!(f, "  {} leaves {name}: {}", m.class, m.reason)?;
            } else {
                let to = to.join(" and ");
                writeln!(f, "  {} on {name} becomes {to}: {}", m.class, m.reason)?;
            }
        }
        write!(f, "{}", diff(&self.current, &self.desired.tree))
    }
}

/// A lawful reshape, ready to be sent. Only [`PendingReshape::resolve`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReshapeRequest {
    current: ProviderTree,
    tree: ProviderTree,
    inventories: BTreeMap<ProviderUuid, BTreeMap<ResourceClass, Inventory>>,
    allocations: BTreeMap<ConsumerUuid, ConsumerAllocations>,
    moved: Vec<MovedUnits>,
    homeless: Vec<(Allocation, HomelessReason)>,
    held: Vec<Held>,
}

impl ReshapeRequest {
    fn new(
        current: &ProviderTree,
        tree: ProviderTree,
        before: &Allocations,
        placed: placing::Placed,
        held: Vec<Held>,
    ) -> Self {
        let changed = |provider: &&crate::Provider| {
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

    fn name(&self, uuid: ProviderUuid) -> String {
        self.tree
            .get(uuid)
            .or_else(|| self.current.get(uuid))
            .map_or_else(|| uuid.to_string(), |provider| provider.name.to_string())
    }
}

impl fmt::Display for ReshapeRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "reshape: {} providers' inventories, {} consumers' allocations",
            self.inventories.len(),
            self.allocations.len()
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
        Ok(())
    }
}
