//! Reads the allocations of the whole tree: the consumers of each provider, then all allocations of each consumer.
//! Placement's API has no shorter way (see the spec reshape-provider-tree). Consumers are read concurrently.

use std::collections::BTreeSet;

use berth_model::{Allocations, ConsumerUuid, ProviderTree};
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::report_client::{ReportClient, ReportError};

impl ReportClient {
    /// The allocations of every consumer that holds anything on the node's own providers, including what it holds
    /// elsewhere. Calls `progress` with the number of consumers read and their total number.
    pub async fn allocations(
        &self,
        tree: &ProviderTree,
        progress: impl Fn(usize, usize),
    ) -> Result<Allocations, ReportError> {
        let mut consumers: BTreeSet<ConsumerUuid> = BTreeSet::new();
        let with_inventory = tree.own().into_iter().filter(|p| !p.inventories.is_empty());
        for provider in with_inventory {
            let found = self
                .placement
                .provider_allocations(provider.uuid())
                .await
                .map_err(|source| {
                    ReportError::new(
                        format!("reading the allocations on {}", provider.name),
                        source,
                    )
                })?;
            consumers.extend(found.value.into_keys());
        }
        let all = consumers.len();
        let mut read = stream::iter(consumers)
            .map(|consumer| async move {
                let held = self
                    .placement
                    .allocations(consumer)
                    .await
                    .map_err(|source| {
                        ReportError::new(
                            format!("reading the allocations of consumer {consumer}"),
                            source,
                        )
                    })?;
                Ok::<_, ReportError>((consumer, held))
            })
            .buffer_unordered(self.readers);
        let mut allocations = Allocations::none();
        let mut done = 0;
        while let Some((consumer, held)) = read.try_next().await? {
            done += 1;
            progress(done, all);
            // `None`: the allocation was removed after its provider was read, which changed the provider's generation.
            if let Some(held) = held {
                allocations.insert(consumer, held);
            }
        }
        Ok(allocations)
    }
}
