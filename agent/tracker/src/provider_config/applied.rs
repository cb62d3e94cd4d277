//! Record of the items from provider files that were written to Placement, in the state folder. An item that was
//! removed from the files can then be removed from Placement.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_model::{Disposition, ProviderTree, ProviderUuid, ResourceClass, Trait};
use berth_store::state_dir::{StateFileError, StateFiles};
use serde::{Deserialize, Serialize};

/// Items of one provider that come from a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Items {
    pub inventories: BTreeSet<ResourceClass>,
    pub traits: BTreeSet<Trait>,
}

/// Items that come from files, by provider. Each entry has at least one item.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AppliedItems(pub(super) BTreeMap<ProviderUuid, Items>);

impl AppliedItems {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The record to store before `configured` is written: its items, and previously recorded items that Placement
    /// still has. Such an item may be in use and is then removed later.
    pub(crate) fn next_record(&self, current: &ProviderTree, configured: &Self) -> Self {
        let mut next = configured.clone();
        for (uuid, items) in &self.0 {
            let Some(provider) = current.get(*uuid) else {
                continue;
            };
            let is_there = |class: &&ResourceClass| provider.inventories.contains_key(*class);
            let inventories: Vec<_> = items.inventories.iter().filter(is_there).cloned().collect();
            let traits: Vec<_> = items
                .traits
                .intersection(&provider.traits)
                .cloned()
                .collect();
            if !(inventories.is_empty() && traits.is_empty()) {
                let loaded = next.0.entry(*uuid).or_default();
                loaded.inventories.extend(inventories);
                loaded.traits.extend(traits);
            }
        }
        next
    }
}

/// The record cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum AppliedError {
    #[error("the record of items from provider files cannot be used")]
    File(#[from] StateFileError),
    /// The content of the file is invalid.
    #[error(
        "{path} is invalid ({reason}); remove it. Items that were removed from the provider files meanwhile then stay in \
         Placement, and must be removed manually"
    )]
    Malformed { path: String, reason: String },
}

impl AppliedError {
    /// What the caller should do.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::File(_) => Disposition::Retry,
            Self::Malformed { .. } => Disposition::Fatal,
        }
    }
}

/// The record file of one node, with its cached content.
pub(crate) struct AppliedFile {
    files: Option<Arc<dyn StateFiles>>,
    name: String,
    loaded: Option<AppliedItems>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    providers: BTreeMap<String, ItemNames>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemNames {
    inventories: BTreeSet<String>,
    traits: BTreeSet<String>,
}

impl AppliedFile {
    /// The file for the node with this root. Reads nothing yet.
    pub(crate) fn of(files: Arc<dyn StateFiles>, root: ProviderUuid) -> Self {
        Self {
            files: Some(files),
            name: format!("provider-config.{root}.json"),
            loaded: None,
        }
    }

    /// A record without a file, which ends with the process.
    pub(crate) fn in_memory() -> Self {
        Self {
            files: None,
            name: String::new(),
            loaded: Some(AppliedItems::default()),
        }
    }

    pub(crate) async fn read(&mut self) -> Result<&AppliedItems, AppliedError> {
        let loaded = match self.loaded.take() {
            Some(loaded) => loaded,
            None => self.load_file().await?,
        };
        Ok(self.loaded.insert(loaded))
    }

    async fn load_file(&self) -> Result<AppliedItems, AppliedError> {
        let Some(files) = &self.files else {
            return Ok(AppliedItems::default());
        };
        match files.read(&self.name).await? {
            None => Ok(AppliedItems::default()),
            Some(content) => read(&content).map_err(|reason| AppliedError::Malformed {
                path: files.path(&self.name),
                reason,
            }),
        }
    }

    /// Stores the record durably, if it has changed.
    pub(crate) async fn store(&mut self, applied: AppliedItems) -> Result<(), AppliedError> {
        if *self.read().await? == applied {
            return Ok(());
        }
        if let Some(files) = &self.files {
            // After a failed write, the content of the file is unknown.
            self.loaded = None;
            if applied.is_empty() {
                files.remove(&self.name).await?;
            } else {
                files.write(&self.name, &encode(&applied)).await?;
            }
        }
        self.loaded = Some(applied);
        Ok(())
    }
}

fn encode(applied: &AppliedItems) -> Vec<u8> {
    let providers = applied.0.iter().map(|(uuid, items)| {
        let names = ItemNames {
            inventories: items.inventories.iter().map(ToString::to_string).collect(),
            traits: items.traits.iter().map(ToString::to_string).collect(),
        };
        (uuid.to_string(), names)
    });
    let content = Content {
        version: 1,
        providers: providers.collect(),
    };
    // Maps of strings can always be serialised.
    serde_json::to_vec_pretty(&content).unwrap_or_default()
}

fn read(content: &[u8]) -> Result<AppliedItems, String> {
    let text_of = |error: &dyn std::fmt::Display| error.to_string();
    let content: Content = serde_json::from_slice(content).map_err(|error| text_of(&error))?;
    if content.version != 1 {
        return Err(format!("its version is {}, expected 1", content.version));
    }
    let mut applied = AppliedItems::default();
    for (uuid, names) in content.providers {
        let uuid: ProviderUuid = uuid.parse().map_err(|error| text_of(&error))?;
        let items = applied.0.entry(uuid).or_default();
        for class in names.inventories {
            items
                .inventories
                .insert(ResourceClass::new(&class).map_err(|error| text_of(&error))?);
        }
        for name in names.traits {
            items
                .traits
                .insert(Trait::new(&name).map_err(|error| text_of(&error))?);
        }
    }
    Ok(applied)
}
