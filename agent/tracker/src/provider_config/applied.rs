//! What of the files was given to Placement: kept in the state folder, so that it is taken back when it leaves the files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_model::{Disposition, ProviderTree, ProviderUuid, ResourceClass, Trait};
use berth_store::state_dir::{StateFileError, StateFiles};
use serde::{Deserialize, Serialize};

/// What of one provider came from a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Items {
    pub inventories: BTreeSet<ResourceClass>,
    pub traits: BTreeSet<Trait>,
}

/// What came from files, by provider. No provider has nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Applied(pub(super) BTreeMap<ProviderUuid, Items>);

impl Applied {
    /// Whether nothing came from files.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is to be remembered before `configured` is written: that, and what was remembered and Placement still has (units of
    /// it may be in use, and then it goes later).
    pub(crate) fn before_writing(&self, current: &ProviderTree, configured: &Self) -> Self {
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
                let kept = next.0.entry(*uuid).or_default();
                kept.inventories.extend(inventories);
                kept.traits.extend(traits);
            }
        }
        next
    }
}

/// What was given to Placement is not known, or cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum AppliedError {
    /// The file cannot be read or written.
    #[error("what of the provider files Placement was given")]
    File(#[from] StateFileError),
    /// The file is not one of these.
    #[error(
        "{path} is not what was written there ({reason}): remove it; what left the provider files since stays in Placement \
         then, to be taken away by hand"
    )]
    Malformed { path: String, reason: String },
}

impl AppliedError {
    /// What a loop should do.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::File(_) => Disposition::Retry,
            Self::Malformed { .. } => Disposition::Fatal,
        }
    }
}

/// The file of one node, and what it says.
pub(crate) struct AppliedFile {
    files: Option<Arc<dyn StateFiles>>,
    name: String,
    kept: Option<Applied>,
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
    /// The file of the node with this root; nothing is read yet.
    pub(crate) fn of(files: Arc<dyn StateFiles>, root: ProviderUuid) -> Self {
        Self {
            files: Some(files),
            name: format!("provider-config.{root}.json"),
            kept: None,
        }
    }

    /// No file: what is kept goes with the process.
    pub(crate) fn in_memory() -> Self {
        Self {
            files: None,
            name: String::new(),
            kept: Some(Applied::default()),
        }
    }

    pub(crate) async fn read(&mut self) -> Result<&Applied, AppliedError> {
        let kept = match self.kept.take() {
            Some(kept) => kept,
            None => self.read_file().await?,
        };
        Ok(self.kept.insert(kept))
    }

    async fn read_file(&self) -> Result<Applied, AppliedError> {
        let Some(files) = &self.files else {
            return Ok(Applied::default());
        };
        match files.read(&self.name).await? {
            None => Ok(Applied::default()),
            Some(content) => read(&content).map_err(|reason| AppliedError::Malformed {
                path: files.path(&self.name),
                reason,
            }),
        }
    }

    /// Keeps this; it is on the disk when this returns. Nothing is written that is there already.
    pub(crate) async fn keep(&mut self, applied: Applied) -> Result<(), AppliedError> {
        if *self.read().await? == applied {
            return Ok(());
        }
        if let Some(files) = &self.files {
            // After a failure nobody knows which of the two is there.
            self.kept = None;
            if applied.is_empty() {
                files.remove(&self.name).await?;
            } else {
                files.write(&self.name, &written(&applied)).await?;
            }
        }
        self.kept = Some(applied);
        Ok(())
    }
}

fn written(applied: &Applied) -> Vec<u8> {
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
    // Texts in tables: there is nothing that JSON cannot say.
    serde_json::to_vec_pretty(&content).unwrap_or_default()
}

fn read(content: &[u8]) -> Result<Applied, String> {
    let said = |error: &dyn std::fmt::Display| error.to_string();
    let content: Content = serde_json::from_slice(content).map_err(|error| said(&error))?;
    if content.version != 1 {
        return Err(format!("its version is {}", content.version));
    }
    let mut applied = Applied::default();
    for (uuid, names) in content.providers {
        let uuid: ProviderUuid = uuid.parse().map_err(|error| said(&error))?;
        let items = applied.0.entry(uuid).or_default();
        for class in names.inventories {
            items
                .inventories
                .insert(ResourceClass::new(&class).map_err(|error| said(&error))?);
        }
        for name in names.traits {
            items
                .traits
                .insert(Trait::new(&name).map_err(|error| said(&error))?);
        }
    }
    Ok(applied)
}
