//! Writes a difference to Placement: new providers from the root down, then inventories, traits and aggregates, then
//! removals from the leaves up. Each write sends the generation of the last response. The cache follows each response,
//! and a failure clears it.
//!
//! New traits precede the inventories of their provider, and old ones are removed after these. A trait says why units are
//! reserved: after a kill between two writes, a reservation without its trait would count as an operator's and stay.

use std::collections::BTreeSet;

use berth_client::PlacementError;
use berth_model::{
    Provider, ProviderChange, ProviderName, ProviderTree, ProviderUuid, Trait, TreeDiff,
};

use crate::report_client::{ReportCause, ReportClient, ReportError};

/// Whether this call created a provider.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ProviderOrigin {
    Created,
    AlreadyExisted,
}

/// Whether a provider has the wanted name and parent.
fn is_placed_as(existing: &Provider, wanted: &Provider) -> bool {
    existing.name == wanted.name && existing.parent() == wanted.parent()
}

impl ReportClient {
    /// Writes `diff`, the difference between the known tree and `desired`.
    ///
    /// # Errors
    ///
    /// Placement does not answer or refuses. Finished writes stay, and the next pass continues.
    pub async fn flush(
        &mut self,
        diff: &TreeDiff,
        desired: &ProviderTree,
    ) -> Result<(), ReportError> {
        let written = self.write(diff, desired).await;
        if written.is_err() {
            self.forget();
        }
        written
    }

    async fn write(&mut self, diff: &TreeDiff, desired: &ProviderTree) -> Result<(), ReportError> {
        self.ensure_root().await?;
        self.create(&diff.created).await?;
        for change in &diff.changed {
            self.rename_or_move(change).await?;
        }
        self.ensure_classes(desired.all().into_iter().flat_map(|p| p.inventories.keys()))
            .await?;
        self.ensure_traits(desired.all().into_iter().flat_map(|p| &p.traits))
            .await?;
        for provider in &diff.created {
            self.write_new(provider).await?;
        }
        for change in &diff.changed {
            self.write_change(change, desired).await?;
        }
        for (uuid, name) in &diff.removed {
            self.remove(*uuid, name).await?;
        }
        Ok(())
    }

    /// Creates the node's root provider if Placement does not have it.
    pub(super) async fn ensure_root(&mut self) -> Result<(), ReportError> {
        let missing = self
            .known_tree()
            .is_some_and(|tree| tree.root().generation.is_none());
        if !missing {
            return Ok(());
        }
        let name = self.node.root_name().clone();
        let (made, _) = self
            .ensure_provider(&Provider::root(self.root, name))
            .await?;
        self.update_cached(self.root, |root| root.generation = made.generation);
        Ok(())
    }

    /// Creates the new providers without inventory, parents first. Returns those that did not exist before.
    pub(super) async fn create(
        &mut self,
        created: &[Provider],
    ) -> Result<BTreeSet<ProviderUuid>, ReportError> {
        let mut new = BTreeSet::new();
        for provider in created {
            let (made, when) = self.ensure_provider(provider).await?;
            if when == ProviderOrigin::Created {
                new.insert(provider.uuid());
                self.made.insert(provider.uuid());
            }
            if let Some(cached) = &mut self.cached {
                // The cache may already contain it, if an earlier response was lost.
                let _ = cached.tree.insert(made.clone());
            }
            self.update_cached(provider.uuid(), |known| known.generation = made.generation);
        }
        Ok(new)
    }

    /// Creates a provider. If it exists with the same UUID, name and parent, an earlier response was lost.
    async fn ensure_provider(
        &self,
        provider: &Provider,
    ) -> Result<(Provider, ProviderOrigin), ReportError> {
        let failed =
            |source| ReportError::new(format!("creating provider {}", provider.name), source);
        let refused = match self.placement.create_provider(provider).await {
            Ok(made) => return Ok((made, ProviderOrigin::Created)),
            Err(source @ PlacementError::NameTaken(_)) => source,
            Err(source) => return Err(failed(source)),
        };
        let by_uuid = self.placement.provider(provider.uuid()).await;
        let existing = match by_uuid.map_err(failed)? {
            Some(existing) => Some(existing),
            // The child of a renamed host has the UUID of its first name.
            None => {
                let by_name = self.placement.provider_by_name(&provider.name).await;
                by_name.map_err(failed)?
            }
        };
        match existing {
            Some(existing)
                if existing.uuid() == provider.uuid() && is_placed_as(&existing, provider) =>
            {
                Ok((existing, ProviderOrigin::AlreadyExisted))
            }
            Some(existing) if provider.parent().is_some() && existing.parent().is_some() => {
                Err(self.explain_elsewhere(provider, existing, refused).await)
            }
            _ => Err(failed(refused)),
        }
    }

    /// Why an existing child cannot be created: it was moved to another tree, or into this one since it was read.
    async fn explain_elsewhere(
        &self,
        wanted: &Provider,
        existing: Provider,
        refused: PlacementError,
    ) -> ReportError {
        let doing = format!("creating provider {}", wanted.name);
        let tree = match self.placement.providers_in_tree(existing.uuid()).await {
            Ok(tree) => tree,
            Err(source) => return ReportError::new(doing, source),
        };
        match tree.into_iter().find(|above| above.parent().is_none()) {
            Some(root) if root.uuid() != self.root => {
                let cause = ReportCause::Elsewhere {
                    uuid: existing.uuid(),
                    name: existing.name,
                    root_uuid: root.uuid(),
                    root: root.name,
                    own: self.root,
                    refused,
                };
                let source = Box::new(cause);
                ReportError { doing, source }
            }
            _ => ReportError::changed_meanwhile(doing),
        }
    }

    /// Renames a provider or changes its parent.
    async fn rename_or_move(&mut self, change: &ProviderChange) -> Result<(), ReportError> {
        if change.renamed.is_none() && change.placed_under.is_none() {
            return Ok(());
        }
        let name = change.renamed.as_ref().unwrap_or(&change.name).clone();
        let answered = match &change.placed_under {
            Some((parent, _)) => {
                self.placement
                    .place_provider_under(change.uuid, &name, *parent)
                    .await
            }
            None => self.placement.rename_provider(change.uuid, &name).await,
        };
        let answered = answered.map_err(|source| {
            let doing = match &change.placed_under {
                Some((_, parent)) => format!("moving provider {} below {parent}", change.name),
                None => format!("renaming provider {} to {name}", change.name),
            };
            ReportError::new(doing, source)
        })?;
        self.update_cached(change.uuid, |known| {
            known.generation = answered.generation;
            known.name = name;
        });
        if let (Some(cached), Some((parent, _))) = (&mut self.cached, &change.placed_under) {
            // With the old parent in the cache, the next pass would move it again.
            let _ = cached.tree.place_under(change.uuid, *parent);
        }
        Ok(())
    }

    async fn write_new(&mut self, provider: &Provider) -> Result<(), ReportError> {
        if !provider.traits.is_empty() {
            self.write_traits(provider, &provider.traits).await?;
        }
        if !provider.inventories.is_empty() {
            self.write_inventories(provider).await?;
        }
        if !provider.aggregates.is_empty() {
            self.write_aggregates(provider).await?;
        }
        Ok(())
    }

    async fn write_change(
        &mut self,
        change: &ProviderChange,
        desired: &ProviderTree,
    ) -> Result<(), ReportError> {
        let Some(provider) = desired.get(change.uuid) else {
            return Ok(());
        };
        let (added, removed) = (&change.traits.added, &change.traits.removed);
        if !change.inventories.is_empty() {
            if !added.is_empty() {
                let traits = provider.traits.union(removed).cloned().collect();
                self.write_traits(provider, &traits).await?;
            }
            self.write_inventories(provider).await?;
        }
        if !removed.is_empty() || (change.inventories.is_empty() && !added.is_empty()) {
            self.write_traits(provider, &provider.traits).await?;
        }
        if !change.aggregates.is_empty() {
            self.write_aggregates(provider).await?;
        }
        Ok(())
    }

    async fn write_inventories(&mut self, provider: &Provider) -> Result<(), ReportError> {
        let Some(generation) = self.generation(provider.uuid()) else {
            return Ok(());
        };
        let generation = self
            .placement
            .put_inventories(provider.uuid(), generation, &provider.inventories)
            .await
            .map_err(|source| {
                ReportError::new(
                    format!("writing the inventories of {}", provider.name),
                    source,
                )
            })?;
        self.update_cached(provider.uuid(), |known| {
            known.generation = Some(generation);
            known.inventories.clone_from(&provider.inventories);
        });
        Ok(())
    }

    async fn write_traits(
        &mut self,
        provider: &Provider,
        traits: &BTreeSet<Trait>,
    ) -> Result<(), ReportError> {
        let Some(generation) = self.generation(provider.uuid()) else {
            return Ok(());
        };
        let generation = self
            .placement
            .put_traits(provider.uuid(), generation, traits)
            .await
            .map_err(|source| {
                ReportError::new(format!("writing the traits of {}", provider.name), source)
            })?;
        self.update_cached(provider.uuid(), |known| {
            known.generation = Some(generation);
            known.traits.clone_from(traits);
        });
        Ok(())
    }

    async fn write_aggregates(&mut self, provider: &Provider) -> Result<(), ReportError> {
        let Some(generation) = self.generation(provider.uuid()) else {
            return Ok(());
        };
        let generation = self
            .placement
            .put_aggregates(provider.uuid(), generation, &provider.aggregates)
            .await
            .map_err(|source| {
                ReportError::new(
                    format!("writing the aggregates of {}", provider.name),
                    source,
                )
            })?;
        self.update_cached(provider.uuid(), |known| {
            known.generation = Some(generation);
            known.aggregates.clone_from(&provider.aggregates);
        });
        Ok(())
    }

    pub(super) async fn remove(
        &mut self,
        uuid: ProviderUuid,
        name: &ProviderName,
    ) -> Result<(), ReportError> {
        self.placement
            .delete_provider(uuid)
            .await
            .map_err(|source| ReportError::new(format!("deleting provider {name}"), source))?;
        if let Some(cached) = &mut self.cached {
            cached.tree.remove(uuid);
        }
        Ok(())
    }

    pub(super) fn generation(&self, uuid: ProviderUuid) -> Option<berth_model::Generation> {
        self.known_tree()?.get(uuid)?.generation
    }

    pub(super) fn update_cached(&mut self, uuid: ProviderUuid, change: impl FnOnce(&mut Provider)) {
        if let Some(provider) = self
            .cached
            .as_mut()
            .and_then(|cached| cached.tree.get_mut(uuid))
        {
            change(provider);
        }
    }
}
