//! Merges the entries of provider files into the driver's desired tree. Pure.

use std::collections::BTreeMap;

use berth_model::{Disposition, ProviderName, ProviderTree, ProviderUuid, ResourceClass};

use crate::provider_config::applied::AppliedItems;
use crate::provider_config::entry::{ConfiguredProvider, ProviderConfigs, ProviderIdentification};

/// The entries cannot be merged into this host's tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderConfigMergeError {
    /// The driver reports the same item.
    #[error(
        "{file}: the entry of {provider} has {item}, which the driver also reports for {name}; remove it from the file"
    )]
    Drivers {
        file: String,
        /// Identification in the entry.
        provider: ProviderIdentification,
        name: ProviderName,
        /// Inventory or trait.
        item: String,
    },
    /// Another service owns the provider.
    #[error(
        "{file}: the entry of {provider} matches {name}, which another service owns; use that service to extend it"
    )]
    AnothersProvider {
        file: String,
        /// Identification in the entry.
        provider: ProviderIdentification,
        name: ProviderName,
    },
    /// Two entries match the same provider.
    #[error(
        "{file}: the entry of {provider} and the entry of {other} in {other_file} both match {name}; merge the two entries"
    )]
    Twice {
        file: String,
        /// Identification in the entry.
        provider: ProviderIdentification,
        name: ProviderName,
        /// Identification in the other entry.
        other: ProviderIdentification,
        other_file: String,
    },
}

impl ProviderConfigMergeError {
    /// An operator must correct the files.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        Disposition::Fatal
    }
}

/// An entry without a matching provider.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MissingProvider {
    pub(crate) file: String,
    /// Identification in the entry.
    pub(crate) provider: ProviderIdentification,
}

/// The tree without current and former items from files. The driver gets this tree, so that it does not keep them as
/// items of other services.
pub(crate) fn without_file_items(
    current: &ProviderTree,
    configs: &ProviderConfigs,
    applied: &AppliedItems,
) -> ProviderTree {
    let mut tree = current.clone();
    for (uuid, items) in &applied.0 {
        if let Some(provider) = tree.get_mut(*uuid) {
            provider
                .inventories
                .retain(|class, _| !items.inventories.contains(class));
            provider.traits.retain(|name| !items.traits.contains(name));
        }
    }
    // Contradicting entries are refused later.
    for (uuid, entry) in entries_by_provider(configs, current).unwrap_or_default() {
        if let Some(provider) = tree.get_mut(uuid) {
            provider
                .inventories
                .retain(|class, _| !entry.inventories.contains_key(class));
            provider.traits.retain(|name| !entry.traits.contains(name));
        }
    }
    tree
}

/// Merges the entries into the tree that the driver made from a tree [`without_file_items`]. Returns the merged items,
/// and the entries without a matching provider.
pub(crate) fn merge(
    tree: &mut ProviderTree,
    configs: &ProviderConfigs,
) -> Result<(AppliedItems, Vec<MissingProvider>), ProviderConfigMergeError> {
    let mut applied = AppliedItems::default();
    for (uuid, entry) in entries_by_provider(configs, tree)? {
        let ours = tree.is_ours(uuid);
        let Some(provider) = tree.get_mut(uuid) else {
            continue;
        };
        if !ours {
            return Err(ProviderConfigMergeError::AnothersProvider {
                file: entry.file.clone(),
                provider: entry.provider.clone(),
                name: provider.name.clone(),
            });
        }
        let has = |class: &&ResourceClass| provider.inventories.contains_key(*class);
        let class = entry.inventories.keys().find(has);
        let class = class.map(|class| format!("inventory {class}"));
        let shared = entry.traits.intersection(&provider.traits).next();
        if let Some(item) = class.or_else(|| shared.map(|name| format!("trait {name}"))) {
            return Err(ProviderConfigMergeError::Drivers {
                file: entry.file.clone(),
                provider: entry.provider.clone(),
                name: provider.name.clone(),
                item,
            });
        }
        provider.inventories.extend(entry.inventories.clone());
        provider.traits.extend(entry.traits.iter().cloned());
        if !(entry.inventories.is_empty() && entry.traits.is_empty()) {
            let items = applied.0.entry(uuid).or_default();
            items.inventories.extend(entry.inventories.keys().cloned());
            items.traits.extend(entry.traits.iter().cloned());
        }
    }
    let missing = configs
        .entries
        .iter()
        .filter(|entry| entry.of(tree).is_none());
    let missing = missing.map(|entry| MissingProvider {
        file: entry.file.clone(),
        provider: entry.provider.clone(),
    });
    Ok((applied, missing.collect()))
}

/// The entry of each provider of the tree. An entry for the root takes precedence over `$COMPUTE_NODE`.
fn entries_by_provider<'a>(
    configs: &'a ProviderConfigs,
    tree: &ProviderTree,
) -> Result<BTreeMap<ProviderUuid, &'a ConfiguredProvider>, ProviderConfigMergeError> {
    let mut entries_by_provider: BTreeMap<ProviderUuid, &ConfiguredProvider> = BTreeMap::new();
    let is_default =
        |entry: &&ConfiguredProvider| entry.provider == ProviderIdentification::ComputeNode;
    for entry in configs.entries.iter().filter(|entry| !is_default(entry)) {
        let Some(provider) = entry.of(tree).and_then(|uuid| tree.get(uuid)) else {
            continue;
        };
        if let Some(other) = entries_by_provider.insert(provider.uuid(), entry) {
            return Err(ProviderConfigMergeError::Twice {
                file: entry.file.clone(),
                provider: entry.provider.clone(),
                name: provider.name.clone(),
                other: other.provider.clone(),
                other_file: other.file.clone(),
            });
        }
    }
    if let Some(entry) = configs.entries.iter().find(is_default) {
        entries_by_provider
            .entry(tree.root().uuid())
            .or_insert(entry);
    }
    Ok(entries_by_provider)
}
