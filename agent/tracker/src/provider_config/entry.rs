//! Parsed and validated entries of the provider files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use berth_model::{Inventory, ProviderName, ProviderTree, ProviderUuid, ResourceClass, Trait};

/// Identification of the provider that an entry configures.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProviderIdentification {
    /// `uuid: $COMPUTE_NODE`: the root of each node without an entry of its own.
    ComputeNode,
    Uuid(ProviderUuid),
    Name(ProviderName),
}

impl fmt::Display for ProviderIdentification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ComputeNode => f.write_str("$COMPUTE_NODE"),
            Self::Uuid(uuid) => uuid.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

/// One entry of the list `providers` in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredProvider {
    /// Path of the file, for messages.
    pub file: String,
    pub provider: ProviderIdentification,
    /// From `inventories.additional`.
    pub inventories: BTreeMap<ResourceClass, Inventory>,
    /// From `traits.additional`.
    pub traits: BTreeSet<Trait>,
}

/// Entries of all files in one directory. No two entries identify their provider in the same way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProviderConfigs {
    pub(super) entries: Vec<ConfiguredProvider>,
}

impl ProviderConfigs {
    /// The entries, in the order of the file names.
    #[must_use]
    pub fn entries(&self) -> &[ConfiguredProvider] {
        &self.entries
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl ConfiguredProvider {
    /// The provider of this tree that the entry means, if it is one of the node's own.
    pub(super) fn of(&self, tree: &ProviderTree) -> Option<ProviderUuid> {
        let uuid = match &self.provider {
            ProviderIdentification::ComputeNode => tree.root().uuid(),
            ProviderIdentification::Uuid(uuid) => tree.get(*uuid)?.uuid(),
            ProviderIdentification::Name(name) => tree.by_name(name)?.uuid(),
        };
        tree.is_own(uuid).then_some(uuid)
    }
}
