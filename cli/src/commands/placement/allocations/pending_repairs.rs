//! Orders the repairs: a guest may hold what another guest lacks, and two guests may each hold the other's resources.

use std::collections::BTreeMap;

use berth_client::PlacementClient;
use berth_client::placement::{PlacementError, TypedAllocations};
use berth_model::{ConsumerAllocations, ConsumerUuid, NodeName};
use berth_wire::placement::ErrorCode;
use http::StatusCode;

use super::outcome::{RepairOutcome, RepairOutcomes};

/// The consumer type of a guest in Placement.
const INSTANCE: &str = "INSTANCE";

type NodeConsumer = (NodeName, ConsumerUuid);

/// The repairs that are still to be done.
#[derive(Debug, Default)]
pub(super) struct PendingRepairs {
    waiting: BTreeMap<NodeConsumer, ConsumerAllocations>,
}

impl PendingRepairs {
    /// Adds a guest with all allocations that its consumer is to have.
    pub(super) fn wait(&mut self, key: NodeConsumer, allocations: ConsumerAllocations) {
        self.waiting.insert(key, allocations);
    }

    /// Writes each repair by its consumer's generation; a consumer that changed meanwhile is skipped. A repair that
    /// does not fit is retried after each successful one, and those that still do not fit are written together at last.
    pub(super) async fn put(mut self, placement: &PlacementClient) -> RepairOutcomes {
        let mut outcomes = RepairOutcomes::new();
        loop {
            let before = self.waiting.len();
            let mut refused = BTreeMap::new();
            for (key, allocations) in std::mem::take(&mut self.waiting) {
                match put(placement, key.1, &allocations).await {
                    Ok(()) => {
                        outcomes.insert(key, RepairOutcome::Done("healed"));
                    }
                    Err(error) if does_not_fit(&error) => {
                        outcomes.insert(key.clone(), RepairOutcome::Not(error.to_string()));
                        refused.insert(key, allocations);
                    }
                    Err(error) => {
                        outcomes.insert(key, RepairOutcome::Not(error.to_string()));
                    }
                }
            }
            self.waiting = refused;
            if self.waiting.len() == before && !self.put_together(placement, &mut outcomes).await {
                return outcomes;
            }
            if self.waiting.is_empty() {
                return outcomes;
            }
        }
    }

    /// Whether the remaining guests that hold something were healed in one request. Guests that hold nothing cannot
    /// free resources for others.
    async fn put_together(
        &mut self,
        placement: &PlacementClient,
        outcomes: &mut RepairOutcomes,
    ) -> bool {
        let holding = self.waiting.iter();
        let holding: BTreeMap<NodeConsumer, ConsumerAllocations> = holding
            .filter(|(_, allocations)| allocations.generation.is_some())
            .map(|(key, allocations)| (key.clone(), allocations.clone()))
            .collect();
        if holding.len() < 2 {
            return false;
        }
        let all = holding.iter();
        let all = all.map(|((_, consumer), allocations)| (*consumer, allocations.clone()));
        if let Err(error) = placement.post_allocations(&all.collect()).await {
            for key in holding.into_keys() {
                outcomes.insert(key, RepairOutcome::Not(error.to_string()));
            }
            return false;
        }
        for key in holding.into_keys() {
            self.waiting.remove(&key);
            outcomes.insert(key, RepairOutcome::Done("healed"));
        }
        true
    }
}

async fn put(
    placement: &PlacementClient,
    consumer: ConsumerUuid,
    allocations: &ConsumerAllocations,
) -> Result<(), PlacementError> {
    match allocations.generation {
        Some(_) => placement.put_allocations(consumer, allocations).await,
        None => {
            let typed = TypedAllocations {
                allocations: allocations.clone(),
                consumer_type: INSTANCE.to_owned(),
            };
            placement.put_typed_allocations(consumer, &typed).await
        }
    }
}

/// Whether Placement refused because the other consumers leave too little room.
fn does_not_fit(error: &PlacementError) -> bool {
    error.refusal().is_some_and(|refusal| {
        refusal.status == StatusCode::CONFLICT && !refusal.has(&ErrorCode::ConcurrentUpdate)
    })
}
