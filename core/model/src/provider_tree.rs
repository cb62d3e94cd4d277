//! The provider tree as a value: the host's own root with its descendants, and the sharing providers.

mod provider;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::{Inventory, ProviderName, ProviderUuid, ResourceClass, Trait};

pub use provider::Provider;

/// Traits of providers that the compute service writes.
pub const OWNER_TRAITS: [Trait; 2] = [Trait::OWNER_NOVA, Trait::CUSTOM_OWNER_BERTH];

/// The providers do not form a tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// The parent is not in the tree, or the parents form a cycle.
    #[error("provider {name} ({uuid}) names parent {parent}, which is not above it in the tree")]
    Orphan {
        /// The name of the misplaced provider.
        name: ProviderName,
        /// The UUID of the misplaced provider.
        uuid: ProviderUuid,
        /// The parent it names.
        parent: ProviderUuid,
    },
    /// Two providers share a UUID.
    #[error("two providers have UUID {uuid}")]
    SameUuid {
        /// The UUID that is duplicate or unknown.
        uuid: ProviderUuid,
    },
    /// Two providers share a name.
    #[error("two providers are named {name}")]
    SameName {
        /// The name that two providers share.
        name: ProviderName,
    },
    /// No provider has this UUID.
    #[error("no provider of the tree has UUID {uuid}")]
    Unknown {
        /// The UUID that is duplicate or unknown.
        uuid: ProviderUuid,
    },
    /// The own root is not among the providers.
    #[error("the tree's root {uuid} is not among its providers")]
    NoRoot {
        /// The UUID that the root should have.
        uuid: ProviderUuid,
    },
}

/// The providers of a host and the sharing providers that it uses. Names and UUIDs are unique, and every parent exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderTree {
    own_root: ProviderUuid,
    providers: BTreeMap<ProviderUuid, Provider>,
}

impl ProviderTree {
    /// A tree of one provider.
    #[must_use]
    pub fn new(root: Provider) -> Self {
        let root = Provider {
            parent: None,
            ..root
        };
        Self {
            own_root: root.uuid,
            providers: BTreeMap::from([(root.uuid, root)]),
        }
    }

    /// A tree of these providers, given in any order. Fails if the root is missing, a parent is missing, or two
    /// providers share a name or UUID.
    pub fn from_providers(
        own_root: ProviderUuid,
        providers: impl IntoIterator<Item = Provider>,
    ) -> Result<Self, TreeError> {
        let mut waiting: Vec<Provider> = providers.into_iter().collect();
        let position = waiting
            .iter()
            .position(|provider| provider.uuid == own_root && provider.parent.is_none())
            .ok_or(TreeError::NoRoot { uuid: own_root })?;
        let mut tree = Self::new(waiting.swap_remove(position));
        loop {
            let before = waiting.len();
            let (ready, later): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|provider| {
                provider
                    .parent
                    .is_none_or(|parent| tree.providers.contains_key(&parent))
            });
            for provider in ready {
                tree.insert(provider)?;
            }
            waiting = later;
            let Some(first) = waiting.first() else {
                return Ok(tree);
            };
            if waiting.len() == before {
                let parent = first.parent.unwrap_or(first.uuid);
                return Err(TreeError::Orphan {
                    name: first.name.clone(),
                    uuid: first.uuid,
                    parent,
                });
            }
        }
    }

    /// Adds a provider: a child of a provider in the tree, or a sharing provider (without parent). Fails if its parent
    /// is not in the tree, or its name or UUID is taken.
    pub fn insert(&mut self, provider: Provider) -> Result<(), TreeError> {
        if self.providers.contains_key(&provider.uuid) {
            return Err(TreeError::SameUuid {
                uuid: provider.uuid,
            });
        }
        if self.by_name(&provider.name).is_some() {
            return Err(TreeError::SameName {
                name: provider.name,
            });
        }
        if let Some(parent) = provider.parent
            && !self.providers.contains_key(&parent)
        {
            return Err(TreeError::Orphan {
                name: provider.name,
                uuid: provider.uuid,
                parent,
            });
        }
        self.providers.insert(provider.uuid, provider);
        Ok(())
    }

    /// Moves a provider of the own tree under another parent in it. Fails if either is not in the own tree, or the new
    /// parent is the provider itself or below it.
    pub fn place_under(
        &mut self,
        uuid: ProviderUuid,
        parent: ProviderUuid,
    ) -> Result<(), TreeError> {
        let below = self
            .subtree(uuid)
            .iter()
            .any(|provider| provider.uuid == parent);
        let known = self.is_own(parent) && uuid != self.own_root;
        match self.providers.get_mut(&uuid) {
            Some(provider) if known && !below => {
                provider.parent = Some(parent);
                Ok(())
            }
            Some(provider) => Err(TreeError::Orphan {
                name: provider.name.clone(),
                uuid,
                parent,
            }),
            None => Err(TreeError::Unknown { uuid }),
        }
    }

    /// Checks that names are unique, because [`ProviderTree::get_mut`] allows changing them. Fails if two
    /// providers share a name.
    pub(crate) fn with_unique_names(self) -> Result<Self, TreeError> {
        let mut names = BTreeSet::new();
        for provider in self.providers.values() {
            if !names.insert(&provider.name) {
                let name = provider.name.clone();
                return Err(TreeError::SameName { name });
            }
        }
        Ok(self)
    }

    /// Removes a provider with all its descendants. The own root cannot be removed.
    pub fn remove(&mut self, uuid: ProviderUuid) {
        if uuid == self.own_root {
            return;
        }
        let gone: Vec<_> = self
            .subtree(uuid)
            .iter()
            .map(|provider| provider.uuid)
            .collect();
        for uuid in gone {
            self.providers.remove(&uuid);
        }
    }

    /// The host's own root.
    #[must_use]
    pub fn root(&self) -> &Provider {
        self.providers
            .get(&self.own_root)
            .expect("a tree is made with its root, and remove keeps it")
    }

    /// The host's own root, mutably.
    pub fn root_mut(&mut self) -> &mut Provider {
        self.providers
            .get_mut(&self.own_root)
            .expect("a tree is made with its root, and remove keeps it")
    }

    /// A provider by its UUID.
    #[must_use]
    pub fn get(&self, uuid: ProviderUuid) -> Option<&Provider> {
        self.providers.get(&uuid)
    }

    /// A provider by its UUID, mutably.
    pub fn get_mut(&mut self, uuid: ProviderUuid) -> Option<&mut Provider> {
        self.providers.get_mut(&uuid)
    }

    /// A provider by its name.
    #[must_use]
    pub fn by_name(&self, name: &ProviderName) -> Option<&Provider> {
        self.providers
            .values()
            .find(|provider| provider.name == *name)
    }

    /// One class's inventory on one provider.
    #[must_use]
    pub fn inventory(&self, uuid: ProviderUuid, class: &ResourceClass) -> Option<&Inventory> {
        self.providers.get(&uuid)?.inventories.get(class)
    }

    /// A provider's children, by name.
    #[must_use]
    pub fn children(&self, uuid: ProviderUuid) -> Vec<&Provider> {
        let mut children: Vec<_> = self
            .providers
            .values()
            .filter(|provider| provider.parent == Some(uuid))
            .collect();
        children.sort_by(|a, b| a.name.cmp(&b.name));
        children
    }

    /// A provider with all its descendants, parents before children, siblings by name.
    #[must_use]
    pub fn subtree(&self, uuid: ProviderUuid) -> Vec<&Provider> {
        let mut by_parent: BTreeMap<ProviderUuid, Vec<&Provider>> = BTreeMap::new();
        for provider in self.providers.values() {
            if let Some(parent) = provider.parent {
                by_parent.entry(parent).or_default().push(provider);
            }
        }
        let mut found = Vec::new();
        let mut waiting: Vec<&Provider> = self.providers.get(&uuid).into_iter().collect();
        while let Some(provider) = waiting.pop() {
            found.push(provider);
            if let Some(mut children) = by_parent.remove(&provider.uuid) {
                children.sort_by(|a, b| b.name.cmp(&a.name));
                waiting.extend(children);
            }
        }
        found
    }

    /// The own tree, parents before children.
    #[must_use]
    pub fn own(&self) -> Vec<&Provider> {
        self.subtree(self.own_root)
    }

    /// Whether the provider belongs to the own tree.
    #[must_use]
    pub fn is_own(&self, uuid: ProviderUuid) -> bool {
        let mut here = self.providers.get(&uuid);
        while let Some(provider) = here {
            if provider.uuid == self.own_root {
                return true;
            }
            here = provider
                .parent
                .and_then(|parent| self.providers.get(&parent));
        }
        false
    }

    /// The sharing providers: every provider that is not in the own tree.
    #[must_use]
    pub fn sharing(&self) -> Vec<&Provider> {
        self.providers
            .values()
            .filter(|provider| !self.is_own(provider.uuid))
            .collect()
    }

    /// All providers, the own tree first.
    #[must_use]
    pub fn all(&self) -> Vec<&Provider> {
        let mut all = self.own();
        all.extend(self.sharing());
        all
    }

    /// Whether Berth writes the provider: the own root, and children that Berth created (shown by their UUID) or that
    /// have an owner trait. Children of other owners do not count, nor do Cyborg's. The exception is a device of Cyborg
    /// for which Berth writes the provider in place of Cyborg's conductor: it has both OWNER_CYBORG (the owner of the
    /// device) and CUSTOM_OWNER_BERTH (the writer of its provider).
    #[must_use]
    pub fn is_ours(&self, uuid: ProviderUuid) -> bool {
        let Some(provider) = self.providers.get(&uuid) else {
            return false;
        };
        if uuid == self.own_root {
            return true;
        }
        if provider.traits.contains(&Trait::OWNER_CYBORG) {
            return self.is_own(uuid) && provider.traits.contains(&Trait::CUSTOM_OWNER_BERTH);
        }
        self.is_own(uuid)
            && (self.own_root.child(&provider.name) == uuid
                || OWNER_TRAITS
                    .iter()
                    .any(|owner| provider.traits.contains(owner)))
    }
}

impl fmt::Display for ProviderTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut depth: BTreeMap<ProviderUuid, usize> = BTreeMap::new();
        for provider in self.own() {
            let level = provider
                .parent
                .and_then(|parent| depth.get(&parent))
                .map_or(0, |d| d + 1);
            depth.insert(provider.uuid, level);
            write_provider(f, provider, level, "")?;
        }
        for provider in self.sharing() {
            write_provider(f, provider, 0, " (sharing)")?;
        }
        Ok(())
    }
}

fn write_provider(
    f: &mut fmt::Formatter<'_>,
    provider: &Provider,
    level: usize,
    remark: &str,
) -> fmt::Result {
    let indent = "  ".repeat(level);
    writeln!(f, "{indent}{}{remark}", provider.name)?;
    for (class, inventory) in &provider.inventories {
        writeln!(f, "{indent}    {class} {inventory}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uuid(n: u8) -> ProviderUuid {
        uuid::Uuid::from_bytes([n; 16]).into()
    }

    fn name(text: &str) -> ProviderName {
        ProviderName::new(text).unwrap()
    }

    #[test]
    fn a_tree_is_built_from_providers_in_any_order() {
        let tree = ProviderTree::from_providers(
            uuid(1),
            [
                Provider::child(uuid(3), name("c"), uuid(2)),
                Provider::root(uuid(9), name("nfs")),
                Provider::child(uuid(2), name("b"), uuid(1)),
                Provider::root(uuid(1), name("a")),
            ],
        )
        .unwrap();
        let names: Vec<_> = tree.own().iter().map(|p| p.name.to_string()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(tree.sharing().len(), 1);
    }

    #[test]
    fn orphans_rings_and_doubles_are_refused() {
        let ring = [
            Provider::root(uuid(1), name("a")),
            Provider::child(uuid(2), name("b"), uuid(3)),
            Provider::child(uuid(3), name("c"), uuid(2)),
        ];
        assert!(matches!(
            ProviderTree::from_providers(uuid(1), ring),
            Err(TreeError::Orphan { .. })
        ));
        let mut tree = ProviderTree::new(Provider::root(uuid(1), name("a")));
        assert!(tree.insert(Provider::root(uuid(2), name("a"))).is_err());
        assert!(tree.insert(Provider::root(uuid(1), name("b"))).is_err());
        assert!(ProviderTree::from_providers(uuid(7), []).is_err());
    }

    #[test]
    fn a_provider_cannot_be_placed_below_itself() {
        let mut tree = ProviderTree::new(Provider::root(uuid(1), name("a")));
        tree.insert(Provider::child(uuid(2), name("b"), uuid(1)))
            .unwrap();
        tree.insert(Provider::child(uuid(3), name("c"), uuid(2)))
            .unwrap();
        assert!(tree.place_under(uuid(2), uuid(3)).is_err());
        assert!(tree.place_under(uuid(1), uuid(3)).is_err());
        assert_eq!(
            tree.place_under(uuid(8), uuid(1)),
            Err(TreeError::Unknown { uuid: uuid(8) })
        );
        tree.place_under(uuid(3), uuid(1)).unwrap();
        assert_eq!(tree.children(uuid(1)).len(), 2);
    }

    #[test]
    fn cyborgs_children_are_not_ours() {
        let mut tree = ProviderTree::new(Provider::root(uuid(1), name("a")));
        let made = name("a_pci");
        tree.insert(Provider::child(uuid(1).child(&made), made.clone(), uuid(1)))
            .unwrap();
        let mut cyborgs = Provider::child(uuid(4), name("a_fpga"), uuid(1));
        cyborgs.traits.insert(Trait::OWNER_CYBORG);
        tree.insert(cyborgs).unwrap();
        let mut novas = Provider::child(uuid(5), name("a_gpu"), uuid(1));
        novas.traits.insert(Trait::OWNER_NOVA);
        tree.insert(novas).unwrap();
        assert!(
            tree.is_ours(uuid(1)) && tree.is_ours(uuid(1).child(&made)) && tree.is_ours(uuid(5))
        );
        assert!(!tree.is_ours(uuid(4)));
        let cyborgs = tree.get_mut(uuid(4)).unwrap();
        cyborgs.traits.insert(Trait::CUSTOM_OWNER_BERTH);
        assert!(tree.is_ours(uuid(4)), "written in the place of Cyborg");
    }
}
