//! What the files say, checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use berth_model::{Inventory, ProviderName, ProviderTree, ProviderUuid, ResourceClass, Trait};

/// Which provider an entry is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProviderIdentification {
    /// `uuid: $COMPUTE_NODE`: the root of each node that no other entry names.
    ComputeNode,
    /// The provider of this UUID.
    Uuid(ProviderUuid),
    /// The provider of this name.
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

/// One entry of a file's `providers`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredProvider {
    /// The file it stands in.
    pub file: String,
    /// Which provider it is about.
    pub provider: ProviderIdentification,
    /// `inventories.additional`.
    pub inventories: BTreeMap<ResourceClass, Inventory>,
    /// `traits.additional`.
    pub traits: BTreeSet<Trait>,
}

/// What the files of one directory say; each provider is identified in the same way once at most.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProviderConfigs {
    pub(super) entries: Vec<ConfiguredProvider>,
}

impl ProviderConfigs {
    /// The entries, in the order of the files' names.
    #[must_use]
    pub fn entries(&self) -> &[ConfiguredProvider] {
        &self.entries
    }

    /// Whether no file says anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl ConfiguredProvider {
    /// The provider of this tree's own that the entry means.
    pub(super) fn of(&self, tree: &ProviderTree) -> Option<ProviderUuid> {
        let uuid = match &self.provider {
            ProviderIdentification::ComputeNode => tree.root().uuid(),
            ProviderIdentification::Uuid(uuid) => tree.get(*uuid)?.uuid(),
            ProviderIdentification::Name(name) => tree.by_name(name)?.uuid(),
        };
        tree.is_own(uuid).then_some(uuid)
    }
}
