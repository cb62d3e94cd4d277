//! Aggregates of one provider.

use std::collections::BTreeSet;

use berth_model::{AggregateUuid, Generation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// `{"aggregates", "resource_provider_generation"}`: GET and PUT, from 1.19.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderAggregates {
    /// UUIDs of the aggregates that the provider belongs to.
    pub aggregates: Vec<Uuid>,
    /// The provider's generation, for the next write.
    pub resource_provider_generation: i64,
}

impl ProviderAggregates {
    /// The provider's aggregates are replaced by these if its generation is `generation`.
    #[must_use]
    pub fn new(generation: Generation, aggregates: &BTreeSet<AggregateUuid>) -> Self {
        Self {
            aggregates: aggregates
                .iter()
                .map(|aggregate| *aggregate.as_uuid())
                .collect(),
            resource_provider_generation: generation.as_i64(),
        }
    }

    /// The provider's generation, for the next write.
    #[must_use]
    pub fn generation(&self) -> Generation {
        Generation::answered(self.resource_provider_generation)
    }

    /// The aggregates as the model has them.
    #[must_use]
    pub fn aggregates(&self) -> BTreeSet<AggregateUuid> {
        self.aggregates
            .iter()
            .copied()
            .map(AggregateUuid::from)
            .collect()
    }
}
