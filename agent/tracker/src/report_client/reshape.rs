//! Sends a reshape, and deletes what a refused one leaves. POST /reshaper is atomic, but the providers that get
//! inventory must exist before.

use std::collections::BTreeSet;

use berth_model::{Provider, ProviderUuid, ReshapeRequest};

use crate::report_client::{ReportClient, ReportError};

impl ReportClient {
    /// Creates the new providers and sends the reshape in one POST. Traits, aggregates and removals are written by the
    /// next plain update.
    ///
    /// # Errors
    ///
    /// Placement does not answer or refuses. If only the response is lost, the reshape may be done; the next plan detects that.
    pub async fn reshape(&mut self, request: &ReshapeRequest) -> Result<(), ReportError> {
        let sent = self.send(request).await;
        // The generations changed by more than one, so the tree is read again after a successful reshape as well.
        self.forget();
        self.new = sent?;
        Ok(())
    }

    /// Returns the created providers.
    async fn send(
        &mut self,
        request: &ReshapeRequest,
    ) -> Result<BTreeSet<ProviderUuid>, ReportError> {
        self.ensure_root().await?;
        let new = self.create(&request.diff().created).await?;
        let classes = request
            .inventories()
            .values()
            .flat_map(|inventories| inventories.keys());
        self.ensure_classes(classes).await?;
        let generations = request
            .inventories()
            .keys()
            .filter_map(|uuid| self.generation(*uuid).map(|generation| (*uuid, generation)))
            .collect();
        let doing = || format!("reshaping the provider tree of {}", self.node);
        self.placement
            .reshape(request, &generations)
            .await
            .map_err(|source| ReportError::new(doing(), source))?;
        Ok(new)
    }

    /// Deletes the providers that were created for a refused reshape: providers of the request without inventory that
    /// this process created, or that have no traits and aggregates.
    pub async fn delete_unused_providers(
        &mut self,
        request: &ReshapeRequest,
        now: tokio::time::Instant,
    ) -> Result<Vec<ProviderUuid>, ReportError> {
        let tree = self.current_tree(now).await?;
        let mut half_made: Vec<Provider> = tree
            .own()
            .into_iter()
            .filter(|provider| provider.parent().is_some() && provider.inventories.is_empty())
            .filter(|provider| tree.is_ours(provider.uuid()))
            .filter(|provider| {
                let bare = provider.traits.is_empty() && provider.aggregates.is_empty();
                bare || self.made.contains(&provider.uuid())
            })
            .filter(|provider| request.inventories().contains_key(&provider.uuid()))
            .cloned()
            .collect();
        half_made.reverse();
        let mut left: Option<(Vec<String>, ReportError)> = None;
        for provider in &half_made {
            let Err(error) = self.remove(provider.uuid(), &provider.name).await else {
                continue;
            };
            let (names, _) = left.get_or_insert_with(|| (Vec::new(), error));
            names.push(provider.name.to_string());
        }
        if let Some((names, first)) = left {
            return Err(ReportError {
                doing: format!("deleting {}, created for the reshape", names.join(", ")),
                source: first.source,
            });
        }
        Ok(half_made.iter().map(Provider::uuid).collect())
    }
}
