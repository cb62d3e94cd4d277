//! The plan: compares the current tree of Placement with the desired tree of the driver. `InSync`, `Update` or `ReshapeNeeded`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::{
    Inventory, PendingReshape, Provider, ProviderName, ProviderTree, ProviderUuid, ResourceClass,
    Trait, TreeDiff, diff,
};

/// Usages by provider and class, in the class's unit, as far as they are known.
pub type Usages = BTreeMap<(ProviderUuid, ResourceClass), u64>;

/// Inventory that the driver models on other providers from now on; the allocations must move with it. A diff of trees cannot tell a move
/// from a removal and an addition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Move {
    /// Where the inventory was.
    pub provider: ProviderUuid,
    /// Its class there.
    pub class: ResourceClass,
    /// Its classes after the move: the same class, the new name of a renamed class, or several if the units are split (VCPU into VCPU and
    /// PCPU). The proof of the reshape counts them as one class.
    pub to: BTreeSet<ResourceClass>,
    /// The reason, for the output of the plan.
    pub reason: &'static str,
}

/// The desired state of the tree, as the driver computes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredTree {
    /// The whole tree, foreign children and sharing providers included as they are.
    pub tree: ProviderTree,
    /// The inventories that moved. Moves of inventory that the current tree does not have are ignored.
    pub moves: Vec<Move>,
    /// The content of providers that are not in the tree, in case they have to stay for the units on them. Providers
    /// that can be removed are ignored.
    pub held_traits: BTreeMap<ProviderUuid, BTreeSet<Trait>>,
}

/// Held units: they have no new home and stay where they are, on inventory with total = reserved = usage. Nothing can be claimed from it,
/// and it is removed when the units are freed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldUnits {
    /// The provider that has them.
    pub provider: ProviderUuid,
    /// The name of the provider that has the units.
    pub name: ProviderName,
    /// The resource class of the held units.
    pub class: ResourceClass,
    /// The amount, in the unit of the class.
    pub used: u64,
}

impl fmt::Display for HeldUnits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} held on {}", self.used, self.class, self.name)
    }
}

/// The result of [`plan`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a plan must be executed or shown"]
pub enum Plan {
    /// Placement has the desired tree; there is nothing to send.
    InSync {
        /// Units held without a home.
        held: Vec<HeldUnits>,
    },
    /// Plain updates of providers, inventories, traits and aggregates.
    Update {
        /// The changes from the current tree to the desired tree.
        diff: TreeDiff,
        /// Units held without a home.
        held: Vec<HeldUnits>,
    },
    /// Inventory with allocations moves. Only a startup may do that, once it has read the allocations.
    ReshapeNeeded(PendingReshape),
}

/// The providers for which [`plan`] needs usages: those that lose inventory, and those with held units. Usually there
/// are none, so a tick of a settled node reads no usages.
#[must_use]
pub fn usages_to_probe(current: &ProviderTree, desired: &DesiredTree) -> BTreeSet<ProviderUuid> {
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

/// Compares the current tree of Placement with the desired tree. `usages` must contain the providers of
/// [`usages_to_probe`]; inventory with an unknown usage counts as fully used, so that no used inventory is removed.
///
/// A needed reshape always changes inventory. Without this rule the tick after the startup would find the same reshape
/// and end the agent again. A move is therefore ignored if no unit leaves and no target gets more room.
pub fn plan(current: &ProviderTree, desired: DesiredTree, usages: &Usages) -> Plan {
    let moves = open_moves(current, &desired);
    if !moves.is_empty() {
        return Plan::ReshapeNeeded(PendingReshape::new(
            current.clone(),
            DesiredTree { moves, ..desired },
        ));
    }
    let (tree, held) = hold_used_inventory(current, desired, usages);
    let diff = diff(current, &tree);
    if diff.is_empty() {
        Plan::InSync { held }
    } else {
        Plan::Update { diff, held }
    }
}

/// The moves with units to move: the inventory exists, is not held, and either changes, is removed, or its targets get more room.
fn open_moves(current: &ProviderTree, desired: &DesiredTree) -> Vec<Move> {
    let mut moves = moves_where(current, desired, |inventory| !inventory.is_held());
    moves.retain(|m| {
        let place = |tree: &ProviderTree| tree.inventory(m.provider, &m.class).cloned();
        place(current) != place(&desired.tree) || has_more_capacity(m, current, &desired.tree)
    });
    moves
}

/// Whether a target of the move is added or grows.
fn has_more_capacity(m: &Move, current: &ProviderTree, desired: &ProviderTree) -> bool {
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

/// The moves of existing inventory that satisfy the predicate; in order, without duplicates.
pub(crate) fn moves_where(
    current: &ProviderTree,
    desired: &DesiredTree,
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

/// Whether units could be left without inventory: it is removed, or it is held already and the desired inventory has less room.
fn may_have_to_hold(current: &Inventory, wanted: Option<&Inventory>) -> bool {
    match wanted {
        None => true,
        Some(wanted) => {
            current.is_held() && wanted != current && wanted.capacity() < u64::from(current.total)
        }
    }
}

/// Holds units that would lose their inventory: used inventory stays with total = reserved = usage, and its provider stays with it.
pub(crate) fn hold_used_inventory(
    current: &ProviderTree,
    desired: DesiredTree,
    usages: &Usages,
) -> (ProviderTree, Vec<HeldUnits>) {
    let DesiredTree {
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
            // An amount that a held inventory cannot express stays as it is: Placement would refuse to remove it.
            let holding = Inventory::holding(used).unwrap_or_else(|_| inventory.clone());
            retain_provider(current, &mut desired, provider, &held_traits);
            if let Some(kept) = desired.get_mut(provider.uuid()) {
                kept.inventories.insert(class.clone(), holding);
            }
            held.push(HeldUnits {
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

/// Keeps a provider that would be removed in the tree, under its present parent; without inventory if Berth writes it.
fn retain_provider(
    current: &ProviderTree,
    desired: &mut ProviderTree,
    provider: &Provider,
    held_traits: &BTreeMap<ProviderUuid, BTreeSet<Trait>>,
) {
    if desired.get(provider.uuid()).is_some() {
        return;
    }
    if let Some(parent) = provider.parent().and_then(|parent| current.get(parent)) {
        retain_provider(current, desired, parent, held_traits);
    }
    let mut kept = provider.clone();
    if current.is_ours(provider.uuid()) {
        kept.inventories.clear();
        let traits = held_traits.get(&provider.uuid()).into_iter().flatten();
        kept.traits.extend(traits.cloned());
    }
    // The parent is in the tree. If another provider took the name, this provider cannot be inserted: Placement then
    // refuses the removal, and the next pass retries.
    let _ = desired.insert(kept);
}

impl Plan {
    /// The held units, as far as the plan knows them.
    #[must_use]
    pub fn held(&self) -> &[HeldUnits] {
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
