//! Sends a reshape, and clears away what a refused one leaves: POST /reshaper itself is atomic, but the providers it gives
//! inventory to must exist before.

use std::collections::BTreeSet;

use berth_model::{Provider, ProviderUuid, ReshapeRequest};

use crate::report_client::{ReportClient, ReportError};

impl ReportClient {
    /// Makes the new providers and sends the reshape: one POST. Traits, aggregates and removals are left to the plain
    /// update that follows.
    ///
    /// Errors: Placement does not answer or refuses. A lost answer may stand for a done reshape: the next plan will
    /// show.
    pub async fn reshape(&mut self, request: &ReshapeRequest) -> Result<(), ReportError> {
        let sent = self.send(request).await;
        // The generations moved by more than one (facts of the peer), so a done reshape is read again as well.
        self.forget();
        self.new = sent?;
        Ok(())
    }

    /// Answers the providers that it made.
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

    /// Deletes the providers that were made for a reshape that Placement refused: those of the request's tree that have
    /// no inventory in Placement, and that this process made or nobody has given traits or aggregates.
    pub async fn clear_half_made(
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
                doing: format!("deleting {}, made for the reshape", names.join(", ")),
                source: first.source,
            });
        }
        Ok(half_made.iter().map(Provider::uuid).collect())
    }
}
