//! What the files say, laid over the tree that the driver wants. Pure.

use std::collections::BTreeMap;

use berth_model::{Disposition, ProviderName, ProviderTree, ProviderUuid, ResourceClass};

use crate::provider_config::applied::Applied;
use crate::provider_config::entry::{ConfiguredProvider, ProviderConfigs, ProviderIdentification};

/// What the files say cannot be laid over this host's tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayOverError {
    /// The driver reports the same item.
    #[error(
        "{file}: the entry of {provider} has {item}, which the driver reports of {name} itself; take it out of the file"
    )]
    Drivers {
        file: String,
        /// How the entry names the provider.
        provider: ProviderIdentification,
        name: ProviderName,
        /// The inventory or trait.
        item: String,
    },
    /// The provider is somebody else's.
    #[error(
        "{file}: the entry of {provider} means {name}, which another service writes; add to it through that service"
    )]
    AnothersProvider {
        file: String,
        /// How the entry names the provider.
        provider: ProviderIdentification,
        name: ProviderName,
    },
    /// Two entries mean one provider.
    #[error(
        "{file}: the entry of {provider} and that of {other} in {other_file} both mean {name}; write all it is to have into one"
    )]
    Twice {
        file: String,
        /// How the entry names the provider.
        provider: ProviderIdentification,
        name: ProviderName,
        /// How the other entry names it.
        other: ProviderIdentification,
        other_file: String,
    },
}

impl LayOverError {
    /// An operator is to mend it.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        Disposition::Fatal
    }
}

/// An entry whose provider is not in the tree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Absent {
    pub(crate) file: String,
    /// How it names the provider.
    pub(crate) provider: ProviderIdentification,
}

/// The tree without what came from files, then or now: what the driver is to see, so that it keeps none of it as another's.
pub(crate) fn cleared(
    current: &ProviderTree,
    configs: &ProviderConfigs,
    applied: &Applied,
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
    // Entries that contradict each other are refused afterwards.
    for (uuid, entry) in meant(configs, current).unwrap_or_default() {
        if let Some(provider) = tree.get_mut(uuid) {
            provider
                .inventories
                .retain(|class, _| !entry.inventories.contains_key(class));
            provider.traits.retain(|name| !entry.traits.contains(name));
        }
    }
    tree
}

/// Writes what the files say into the tree that the driver made of a [`cleared`] one. Returns what of it is theirs, and the
/// entries whose provider is not there.
pub(crate) fn lay_over(
    tree: &mut ProviderTree,
    configs: &ProviderConfigs,
) -> Result<(Applied, Vec<Absent>), LayOverError> {
    let mut applied = Applied::default();
    for (uuid, entry) in meant(configs, tree)? {
        let ours = tree.is_ours(uuid);
        let Some(provider) = tree.get_mut(uuid) else {
            continue;
        };
        if !ours {
            return Err(LayOverError::AnothersProvider {
                file: entry.file.clone(),
                provider: entry.provider.clone(),
                name: provider.name.clone(),
            });
        }
        let has = |class: &&ResourceClass| provider.inventories.contains_key(*class);
        let class = entry.inventories.keys().find(has);
        let class = class.map(|class| format!("the inventory {class}"));
        let shared = entry.traits.intersection(&provider.traits).next();
        if let Some(item) = class.or_else(|| shared.map(|name| format!("the trait {name}"))) {
            return Err(LayOverError::Drivers {
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
    let absent = configs
        .entries
        .iter()
        .filter(|entry| entry.of(tree).is_none());
    let absent = absent.map(|entry| Absent {
        file: entry.file.clone(),
        provider: entry.provider.clone(),
    });
    Ok((applied, absent.collect()))
}

/// The entry of each provider of this tree; one that names the root beats `$COMPUTE_NODE`.
fn meant<'a>(
    configs: &'a ProviderConfigs,
    tree: &ProviderTree,
) -> Result<BTreeMap<ProviderUuid, &'a ConfiguredProvider>, LayOverError> {
    let mut meant: BTreeMap<ProviderUuid, &ConfiguredProvider> = BTreeMap::new();
    let is_default =
        |entry: &&ConfiguredProvider| entry.provider == ProviderIdentification::ComputeNode;
    for entry in configs.entries.iter().filter(|entry| !is_default(entry)) {
        let Some(provider) = entry.of(tree).and_then(|uuid| tree.get(uuid)) else {
            continue;
        };
        if let Some(other) = meant.insert(provider.uuid(), entry) {
            return Err(LayOverError::Twice {
                file: entry.file.clone(),
                provider: entry.provider.clone(),
                name: provider.name.clone(),
                other: other.provider.clone(),
                other_file: other.file.clone(),
            });
        }
    }
    if let Some(entry) = configs.entries.iter().find(is_default) {
        meant.entry(tree.root().uuid()).or_insert(entry);
    }
    Ok(meant)
}
