//! Reads the tree: completely at first, later only what changed.

use std::collections::BTreeSet;

use berth_client::PlacementError;
use berth_client::placement::WithGeneration;
use berth_model::{AggregateUuid, Provider, ProviderTree, ProviderUuid, Usages};
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::Instant;

use crate::report_client::{CachedTree, ReportClient, ReportError};

impl ReportClient {
    /// The tree in Placement. A fresh cache needs no request. An old cache is compared by its generations with one
    /// request, and only changed providers are read again. If Placement does not have the root, the result is a root
    /// without a generation.
    pub async fn current_tree(&mut self, now: Instant) -> Result<ProviderTree, ReportError> {
        if let Some(cached) = &self.cached {
            let aged = self
                .association_refresh
                .is_some_and(|limit| now.duration_since(cached.compared_at) >= limit);
            if !aged {
                return Ok(cached.tree.clone());
            }
        }
        let before = self.cached.take().map(|cached| cached.tree);
        let read = self.read_tree(before.as_ref()).await;
        // Valid for one attempt only: after that, another client may have put the providers into an aggregate.
        self.new.clear();
        let tree = read?;
        for provider in tree.all() {
            self.classes.extend(provider.inventories.keys().cloned());
            self.traits.extend(provider.traits.iter().cloned());
        }
        self.cached = Some(CachedTree {
            tree: tree.clone(),
            compared_at: now,
        });
        Ok(tree)
    }

    async fn read_tree(&self, before: Option<&ProviderTree>) -> Result<ProviderTree, ReportError> {
        let doing = || format!("reading the provider tree of {}", self.node);
        let listed = self
            .placement
            .providers_in_tree(self.root)
            .await
            .map_err(|source| ReportError::new(doing(), source))?;
        if listed.is_empty() {
            return Ok(ProviderTree::new(Provider::root(
                self.root,
                self.node.root_name().clone(),
            )));
        }
        let own = self.read_associations(listed, before).await?;
        let aggregates: BTreeSet<AggregateUuid> = own
            .iter()
            .flat_map(|provider| provider.aggregates.iter().copied())
            .collect();
        let mut providers = own;
        if !aggregates.is_empty() {
            let sharing = self.read_sharing(&aggregates, before, &providers).await?;
            providers.extend(sharing);
        }
        ProviderTree::from_providers(self.root, providers)
            .map_err(|source| ReportError::no_tree(doing(), source))
    }

    /// Inventories, traits and aggregates of each provider, unless its generation is unchanged.
    async fn read_associations(
        &self,
        listed: Vec<Provider>,
        before: Option<&ProviderTree>,
    ) -> Result<Vec<Provider>, ReportError> {
        stream::iter(listed)
            .map(|provider| self.read_one(provider, before))
            .buffered(self.readers)
            .try_collect()
            .await
    }

    async fn read_one(
        &self,
        listed: Provider,
        before: Option<&ProviderTree>,
    ) -> Result<Provider, ReportError> {
        if let Some(known) = before.and_then(|before| before.get(listed.uuid()))
            && known.generation == listed.generation
            && known.name == listed.name
            && known.parent() == listed.parent()
        {
            return Ok(known.clone());
        }
        let failed = |source| ReportError::new(format!("reading provider {}", listed.name), source);
        let mut provider = listed.clone();
        let (inventories, traits, aggregates) = futures_util::try_join!(
            self.placement.inventories(listed.uuid()),
            self.placement.traits(listed.uuid()),
            self.aggregates(listed.uuid()),
        )
        .map_err(failed)?;
        // The three reads are not atomic: the oldest generation is kept, so that a write conflicts if something changed
        // between them.
        let generations = [inventories.generation, traits.generation];
        let aggregated = aggregates.as_ref().map(|found| found.generation);
        provider.generation = listed
            .generation
            .into_iter()
            .chain(generations)
            .chain(aggregated)
            .min();
        provider.inventories = inventories.value;
        provider.traits = traits.value;
        provider.aggregates = aggregates.map(|found| found.value).unwrap_or_default();
        Ok(provider)
    }

    /// The aggregates of a provider. A provider that was just created has none, which saves one request for each child
    /// of a reshape.
    async fn aggregates(
        &self,
        uuid: ProviderUuid,
    ) -> Result<Option<WithGeneration<BTreeSet<AggregateUuid>>>, PlacementError> {
        if self.new.contains(&uuid) {
            return Ok(None);
        }
        self.placement.aggregates(uuid).await.map(Some)
    }

    async fn read_sharing(
        &self,
        aggregates: &BTreeSet<AggregateUuid>,
        before: Option<&ProviderTree>,
        own: &[Provider],
    ) -> Result<Vec<Provider>, ReportError> {
        let mut seen: BTreeSet<ProviderUuid> = own.iter().map(Provider::uuid).collect();
        let found = self
            .placement
            .sharing_providers(aggregates)
            .await
            .map_err(|source| {
                ReportError::new(
                    format!("reading the sharing providers of {}", self.node),
                    source,
                )
            })?;
        // A sharing provider may be a child in its own tree; here it has no parent.
        let found = found
            .into_iter()
            .filter(|provider| seen.insert(provider.uuid()))
            .map(Provider::without_parent)
            .collect();
        self.read_associations(found, before).await
    }

    /// The tree and the usages of each provider. Sends one request for each provider.
    pub async fn tree_with_usages(
        &mut self,
        now: Instant,
    ) -> Result<(ProviderTree, Usages), ReportError> {
        let tree = self.current_tree(now).await?;
        let known = tree.all().into_iter();
        let known = known.filter(|provider| provider.generation.is_some());
        let providers = known.map(berth_model::Provider::uuid).collect();
        let usages = self.usages(&providers).await?;
        Ok((tree, usages))
    }

    /// Used amounts on these providers; sends one request for each.
    pub async fn usages(&self, providers: &BTreeSet<ProviderUuid>) -> Result<Usages, ReportError> {
        let mut usages = Usages::new();
        for uuid in providers {
            let found = self.placement.usages(*uuid).await.map_err(|source| {
                ReportError::new(format!("reading the usages of provider {uuid}"), source)
            })?;
            usages.extend(
                found
                    .value
                    .into_iter()
                    .map(|(class, used)| ((*uuid, class), used)),
            );
        }
        Ok(usages)
    }
}
