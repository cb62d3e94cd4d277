//! A resource provider. Only the tree changes the parent of a provider in it.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    AggregateUuid, Generation, Inventory, ProviderName, ProviderUuid, ResourceClass, Trait,
};

/// A resource provider: a node of the tree with inventory, traits and aggregates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    pub(super) uuid: ProviderUuid,
    pub(super) parent: Option<ProviderUuid>,
    /// Unique in one Placement.
    pub name: ProviderName,
    /// The generation as Placement returned it; `None` for a provider that Placement does not have yet.
    pub generation: Option<Generation>,
    /// The inventories by class.
    pub inventories: BTreeMap<ResourceClass, Inventory>,
    /// The traits of the provider, standard and custom.
    pub traits: BTreeSet<Trait>,
    /// Aggregates the provider is a member of.
    pub aggregates: BTreeSet<AggregateUuid>,
}

impl Provider {
    /// A root without inventory.
    #[must_use]
    pub fn root(uuid: ProviderUuid, name: ProviderName) -> Self {
        Self {
            uuid,
            parent: None,
            name,
            generation: None,
            inventories: BTreeMap::new(),
            traits: BTreeSet::new(),
            aggregates: BTreeSet::new(),
        }
    }

    /// A child without inventory.
    #[must_use]
    pub fn child(uuid: ProviderUuid, name: ProviderName, parent: ProviderUuid) -> Self {
        Self {
            parent: Some(parent),
            ..Self::root(uuid, name)
        }
    }

    /// The same provider as a root: a sharing provider that is a child in its own tree has no parent in other trees.
    #[must_use]
    pub fn without_parent(self) -> Self {
        Self {
            parent: None,
            ..self
        }
    }

    /// UUID of the provider.
    #[must_use]
    pub fn uuid(&self) -> ProviderUuid {
        self.uuid
    }

    /// UUID of the parent; `None` for a root.
    #[must_use]
    pub fn parent(&self) -> Option<ProviderUuid> {
        self.parent
    }
}
