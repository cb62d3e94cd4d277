//! What to do about the difference between the tree Placement has and the tree the driver wants.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::{
    Inventory, PendingReshape, Provider, ProviderName, ProviderTree, ProviderUuid, ResourceClass,
    Trait, TreeDiff, diff,
};

/// Usages by provider and class, in the class's unit, as far as they are known.
pub type Usages = BTreeMap<(ProviderUuid, ResourceClass), u64>;

/// Inventory that the driver models elsewhere from now on: the allocations on it must move with it. A difference of
/// trees alone cannot tell "moved" from "one gone, one new".
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Move {
    /// Where the inventory was.
    pub provider: ProviderUuid,
    /// Its class there.
    pub class: ResourceClass,
    /// The classes it may have where it goes: the same, the new name of a renamed class, or several where the units part
    /// (VCPU into VCPU and PCPU). They count as one class in the proof that nothing is lost.
    pub to: BTreeSet<ResourceClass>,
    /// Why, in a few words for the plan's reader.
    pub reason: &'static str,
}

/// What a driver wants the tree to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Desired {
    /// The whole tree, foreign children and sharing providers included as they are.
    pub tree: ProviderTree,
    /// Which inventories moved. Naming one that the current tree does not have is harmless.
    pub moves: Vec<Move>,
    /// What a provider that is not in the tree says of itself while it has to stay for the units on it. Naming one that goes is
    /// harmless.
    pub held_traits: BTreeMap<ProviderUuid, BTreeSet<Trait>>,
}

/// Units that have no new home and stay where they are, on inventory with total = reserved = those units: nobody can
/// claim there, and the inventory goes when the units are freed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    /// Where they stay.
    pub provider: ProviderUuid,
    /// That provider's name.
    pub name: ProviderName,
    /// Their class.
    pub class: ResourceClass,
    /// How many, in the class's unit.
    pub used: u64,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} held on {}", self.used, self.class, self.name)
    }
}

/// The verdict on a difference. All three arms must be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a plan is to be carried out or shown"]
pub enum Plan {
    /// Nothing to send.
    InSync {
        /// Units held without a home.
        held: Vec<Held>,
    },
    /// Plain updates of providers, inventories, traits and aggregates.
    Update {
        /// What changes.
        diff: TreeDiff,
        /// Units held without a home.
        held: Vec<Held>,
    },
    /// Inventory with allocations moves: only a startup may do that, and only with the allocations in hand.
    ReshapeNeeded(PendingReshape),
}

/// The providers whose usages [`plan`] must know: those that lose inventory, and those that hold units without a home.
/// Usually none, so a steady tick asks nothing.
#[must_use]
pub fn usages_to_probe(current: &ProviderTree, desired: &Desired) -> BTreeSet<ProviderUuid> {
    let sources = open_moves(current, desired);
    let mut probe = BTreeSet::new();
    for provider in current
        .own()
        .into_iter()
        .filter(|p| current.is_ours(p.uuid()))
    {
        let wanted = desired.tree.get(provider.uuid());
        for (class, inventory) in &provider.inventories {
            let wanted = wanted.and_then(|provider| provider.inventories.get(class));
            let moving = sources
                .iter()
                .any(|m| m.provider == provider.uuid() && m.class == *class);
            if !moving && may_have_to_hold(inventory, wanted) {
                probe.insert(provider.uuid());
            }
        }
    }
    probe
}

/// Compares the tree Placement has with the tree the driver wants. `usages` must cover [`usages_to_probe`]; a usage that
/// is missing counts as "in use to the last unit", so that nothing is dropped unseen.
///
/// A needed reshape always changes inventory, so that the start that does it leaves nothing a later tick would end for: a
/// move by which nothing leaves and nothing finds more room is none, whatever else changes in the tree.
pub fn plan(current: &ProviderTree, desired: Desired, usages: &Usages) -> Plan {
    let moves = open_moves(current, &desired);
    if !moves.is_empty() {
        return Plan::ReshapeNeeded(PendingReshape::new(
            current.clone(),
            Desired { moves, ..desired },
        ));
    }
    let (tree, held) = hold_what_is_in_use(current, desired, usages);
    let diff = diff(current, &tree);
    if diff.is_empty() {
        Plan::InSync { held }
    } else {
        Plan::Update { diff, held }
    }
}

/// The moves whose inventory is there and not merely held, and whose units have a reason to go: it is to be another one or
/// none, or there is more room for them elsewhere.
fn open_moves(current: &ProviderTree, desired: &Desired) -> Vec<Move> {
    let mut moves = moves_where(current, desired, |inventory| !inventory.is_held());
    moves.retain(|m| {
        let place = |tree: &ProviderTree| tree.inventory(m.provider, &m.class).cloned();
        place(current) != place(&desired.tree) || finds_room(m, current, &desired.tree)
    });
    moves
}

/// Whether inventory that the units may go to comes or grows.
fn finds_room(m: &Move, current: &ProviderTree, desired: &ProviderTree) -> bool {
    let room = |tree: &ProviderTree, provider, class| {
        tree.inventory(provider, class)
            .map_or(0, Inventory::capacity)
    };
    desired.own().into_iter().any(|provider| {
        let uuid = provider.uuid();
        m.to.iter()
            .any(|class| room(desired, uuid, class) > room(current, uuid, class))
    })
}

/// The moves whose inventory is there and answers the question with yes; in order, each once.
pub(crate) fn moves_where(
    current: &ProviderTree,
    desired: &Desired,
    question: impl Fn(&Inventory) -> bool,
) -> Vec<Move> {
    let moves: BTreeSet<_> = desired
        .moves
        .iter()
        .filter(|m| {
            current
                .inventory(m.provider, &m.class)
                .is_some_and(&question)
        })
        .collect();
    moves.into_iter().cloned().collect()
}

/// Whether units could stay behind: the inventory goes, or it is held already and what is wanted has less room.
fn may_have_to_hold(current: &Inventory, wanted: Option<&Inventory>) -> bool {
    match wanted {
        None => true,
        Some(wanted) => {
            current.is_held() && wanted != current && wanted.capacity() < u64::from(current.total)
        }
    }
}

/// Keeps units that would lose their inventory: where something is in use, the inventory stays as total = reserved = used,
/// and its provider with it.
pub(crate) fn hold_what_is_in_use(
    current: &ProviderTree,
    desired: Desired,
    usages: &Usages,
) -> (ProviderTree, Vec<Held>) {
    let Desired {
        tree: mut desired,
        held_traits,
        ..
    } = desired;
    let mut held = Vec::new();
    for provider in current
        .own()
        .into_iter()
        .filter(|p| current.is_ours(p.uuid()))
    {
        for (class, inventory) in &provider.inventories {
            let wanted = desired.inventory(provider.uuid(), class);
            if !may_have_to_hold(inventory, wanted) {
                continue;
            }
            let place = (provider.uuid(), class.clone());
            let all = u64::from(inventory.total).max(inventory.capacity());
            let used = usages.get(&place).copied().unwrap_or(all);
            if used == 0 || wanted.is_some_and(|wanted| used <= wanted.capacity()) {
                continue;
            }
            // More than a hold can say stays as it is: Placement would refuse to drop it.
            let holding = Inventory::holding(used).unwrap_or_else(|_| inventory.clone());
            keep_provider(current, &mut desired, provider, &held_traits);
            if let Some(kept) = desired.get_mut(provider.uuid()) {
                kept.inventories.insert(class.clone(), holding);
            }
            held.push(Held {
                provider: place.0,
                name: provider.name.clone(),
                class: place.1,
                used,
            });
        }
    }
    held.sort();
    (desired, held)
}

/// Puts a provider that was to go back into the tree under the parent it has; without inventory if that is ours to say.
fn keep_provider(
    current: &ProviderTree,
    desired: &mut ProviderTree,
    provider: &Provider,
    held_traits: &BTreeMap<ProviderUuid, BTreeSet<Trait>>,
) {
    if desired.get(provider.uuid()).is_some() {
        return;
    }
    if let Some(parent) = provider.parent().and_then(|parent| current.get(parent)) {
        keep_provider(current, desired, parent, held_traits);
    }
    let mut kept = provider.clone();
    if current.is_ours(provider.uuid()) {
        kept.inventories.clear();
        let traits = held_traits.get(&provider.uuid()).into_iter().flatten();
        kept.traits.extend(traits.cloned());
    }
    // The parent stands by now, and a name another provider took keeps this one out: Placement then refuses the
    // removal, and the next pass sees it again.
    let _ = desired.insert(kept);
}

impl Plan {
    /// Units held without a home, as far as the plan already knows them.
    #[must_use]
    pub fn held(&self) -> &[Held] {
        match self {
            Plan::InSync { held } | Plan::Update { held, .. } => held,
            Plan::ReshapeNeeded(_) => &[],
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Plan::InSync { .. } => writeln!(f, "in sync")?,
            Plan::Update { diff, .. } => write!(f, "update\n{diff}")?,
            Plan::ReshapeNeeded(pending) => write!(f, "{pending}")?,
        }
        for held in self.held() {
            writeln!(f, "! {held}")?;
        }
        Ok(())
    }
}
