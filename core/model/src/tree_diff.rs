//! The difference between two provider trees. Its `Display` is the log line, the dry run and the test snapshot.

use std::collections::BTreeSet;
use std::fmt;

use crate::{
    AggregateUuid, Inventory, Provider, ProviderName, ProviderTree, ProviderUuid, ResourceClass,
    Trait, TreeError,
};

/// The changes of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeSet<T: Ord> {
    /// Members that only the new set has.
    pub added: BTreeSet<T>,
    /// Members that only the old set has.
    pub removed: BTreeSet<T>,
}

impl<T: Ord + Clone> ChangeSet<T> {
    fn between(current: &BTreeSet<T>, desired: &BTreeSet<T>) -> Self {
        Self {
            added: desired.difference(current).cloned().collect(),
            removed: current.difference(desired).cloned().collect(),
        }
    }

    /// Whether there is no change to apply.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }

    fn apply(&self, set: &mut BTreeSet<T>) {
        set.retain(|item| !self.removed.contains(item));
        set.extend(self.added.iter().cloned());
    }
}

/// The change of one inventory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InventoryChange {
    /// Inventory of a class that the provider did not have.
    Added(Inventory),
    /// Inventory of a class that the provider had, with other fields.
    Changed {
        /// The inventory before the change.
        from: Inventory,
        /// The inventory after the change.
        to: Inventory,
    },
    /// Inventory of a class that the provider no longer has.
    Removed(Inventory),
}

/// The changes of one provider that stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderChange {
    /// UUID of the provider.
    pub uuid: ProviderUuid,
    /// The name before the change, by which an operator knows the provider.
    pub name: ProviderName,
    /// Its new name, if it changes.
    pub renamed: Option<ProviderName>,
    /// Its new parent, if it changes.
    pub placed_under: Option<(ProviderUuid, ProviderName)>,
    /// Changed inventories, one entry per resource class.
    pub inventories: Vec<(ResourceClass, InventoryChange)>,
    /// Added and removed traits of the provider.
    pub traits: ChangeSet<Trait>,
    /// Added and removed aggregates of the provider.
    pub aggregates: ChangeSet<AggregateUuid>,
}

impl ProviderChange {
    fn is_empty(&self) -> bool {
        self.renamed.is_none()
            && self.placed_under.is_none()
            && self.inventories.is_empty()
            && self.traits.is_empty()
            && self.aggregates.is_empty()
    }
}

/// The changes from one tree to another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TreeDiff {
    /// Providers to create, parents before children.
    pub created: Vec<Provider>,
    /// Providers that change, in the tree's order.
    pub changed: Vec<ProviderChange>,
    /// Providers to delete, children before parents.
    pub removed: Vec<(ProviderUuid, ProviderName)>,
}

impl TreeDiff {
    /// Whether the trees are the same.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.created.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }

    /// The tree after the changes. Generations do not change: only answers of Placement change them. Fails if the diff
    /// does not fit this tree: a provider or the parent of a new provider does not exist, or a name is taken.
    pub fn apply(&self, tree: &ProviderTree) -> Result<ProviderTree, TreeError> {
        let mut tree = tree.clone();
        for provider in &self.created {
            let mut provider = provider.clone();
            provider.generation = None;
            tree.insert(provider)?;
        }
        for change in &self.changed {
            let Some(provider) = tree.get_mut(change.uuid) else {
                return Err(TreeError::Unknown { uuid: change.uuid });
            };
            if let Some(name) = &change.renamed {
                provider.name = name.clone();
            }
            for (class, inventory) in &change.inventories {
                match inventory {
                    InventoryChange::Added(to) | InventoryChange::Changed { to, .. } => {
                        provider.inventories.insert(class.clone(), to.clone());
                    }
                    InventoryChange::Removed(_) => {
                        provider.inventories.remove(class);
                    }
                }
            }
            change.traits.apply(&mut provider.traits);
            change.aggregates.apply(&mut provider.aggregates);
            if let Some((parent, _)) = &change.placed_under {
                tree.place_under(change.uuid, *parent)?;
            }
        }
        for (uuid, _) in &self.removed {
            tree.remove(*uuid);
        }
        tree.with_unique_names()
    }
}

/// The changes from `current` to `desired`. Children that Berth does not write ([`ProviderTree::is_ours`]) and sharing providers stay if
/// `desired` does not have them. A provider that must stay because such a child is below it loses its inventory.
#[must_use]
pub fn diff(current: &ProviderTree, desired: &ProviderTree) -> TreeDiff {
    let created = desired
        .own()
        .into_iter()
        .filter(|provider| current.get(provider.uuid()).is_none())
        .cloned()
        .collect();
    let changed = desired
        .all()
        .into_iter()
        .filter_map(|to| current.get(to.uuid()).map(|from| change(from, to, desired)))
        .filter(|change| !change.is_empty())
        .collect();
    let mut diff = TreeDiff {
        created,
        changed,
        removed: Vec::new(),
    };
    diff.remove_remaining(current, desired);
    diff
}

impl TreeDiff {
    /// What `current` has of ours and `desired` has not. Judged after the placings: what moves out from under a provider
    /// does not keep it.
    fn remove_remaining(&mut self, current: &ProviderTree, desired: &ProviderTree) {
        let gone = |provider: &&Provider| {
            current.is_ours(provider.uuid()) && desired.get(provider.uuid()).is_none()
        };
        let mut gone: Vec<_> = current.own().into_iter().filter(gone).collect();
        if gone.is_empty() {
            return;
        }
        gone.reverse();
        let placed = self.apply(current);
        let placed = placed.as_ref().unwrap_or(current);
        for provider in gone {
            let below = placed.subtree(provider.uuid());
            let stays = below
                .iter()
                .any(|below| desired.get(below.uuid()).is_some() || !current.is_ours(below.uuid()));
            if !stays {
                self.removed.push((provider.uuid(), provider.name.clone()));
            } else if !provider.inventories.is_empty() {
                let mut emptied = provider.clone();
                emptied.inventories.clear();
                self.changed.push(change(provider, &emptied, current));
            }
        }
    }
}

/// The changes of a provider; `desired` has the name of its parent.
fn change(from: &Provider, to: &Provider, desired: &ProviderTree) -> ProviderChange {
    let mut inventories = Vec::new();
    for (class, inventory) in &to.inventories {
        match from.inventories.get(class) {
            None => inventories.push((class.clone(), InventoryChange::Added(inventory.clone()))),
            Some(before) if before != inventory => inventories.push((
                class.clone(),
                InventoryChange::Changed {
                    from: before.clone(),
                    to: inventory.clone(),
                },
            )),
            Some(_) => {}
        }
    }
    for (class, before) in &from.inventories {
        if !to.inventories.contains_key(class) {
            inventories.push((class.clone(), InventoryChange::Removed(before.clone())));
        }
    }
    ProviderChange {
        uuid: to.uuid(),
        name: from.name.clone(),
        renamed: (from.name != to.name).then(|| to.name.clone()),
        placed_under: to
            .parent()
            .filter(|_| from.parent() != to.parent())
            .and_then(|parent| Some((parent, desired.get(parent)?.name.clone()))),
        inventories,
        traits: ChangeSet::between(&from.traits, &to.traits),
        aggregates: ChangeSet::between(&from.aggregates, &to.aggregates),
    }
}

impl fmt::Display for TreeDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for provider in &self.created {
            writeln!(f, "+ {}", provider.name)?;
            for (class, inventory) in &provider.inventories {
                writeln!(f, "    inventory {class}: {inventory}")?;
            }
            write_names(f, "traits", '+', &provider.traits)?;
            write_names(f, "aggregates", '+', &provider.aggregates)?;
        }
        for change in &self.changed {
            write!(f, "{change}")?;
        }
        for (_, name) in &self.removed {
            writeln!(f, "- {name}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ProviderChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "~ {}", self.name)?;
        if let Some(name) = &self.renamed {
            writeln!(f, "    name: {} -> {name}", self.name)?;
        }
        if let Some((_, parent)) = &self.placed_under {
            writeln!(f, "    parent: {parent}")?;
        }
        for (class, change) in &self.inventories {
            match change {
                InventoryChange::Added(to) => writeln!(f, "    inventory {class}: none -> {to}")?,
                InventoryChange::Changed { from, to } => {
                    writeln!(f, "    inventory {class}: {from} -> {to}")?;
                }
                InventoryChange::Removed(from) => {
                    writeln!(f, "    inventory {class}: {from} -> none")?;
                }
            }
        }
        write_names(f, "traits", '+', &self.traits.added)?;
        write_names(f, "traits", '-', &self.traits.removed)?;
        write_names(f, "aggregates", '+', &self.aggregates.added)?;
        write_names(f, "aggregates", '-', &self.aggregates.removed)
    }
}

fn write_names<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    sign: char,
    names: &BTreeSet<T>,
) -> fmt::Result {
    if names.is_empty() {
        return Ok(());
    }
    write!(f, "    {what}:")?;
    for name in names {
        write!(f, " {sign}{name}")?;
    }
    writeln!(f)
}
