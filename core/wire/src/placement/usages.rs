//! Usages of one provider.

use std::collections::BTreeMap;

use berth_model::{Generation, ResourceClass};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::BodyError;

/// `{"usages", "resource_provider_generation"}`: GET /resource_providers/{uuid}/usages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderUsages {
    /// The provider's generation at the time of reading.
    pub resource_provider_generation: i64,
    /// The sum of all allocations, by class; every class with inventory is listed, also unused ones.
    pub usages: BTreeMap<String, u64>,
}

impl ProviderUsages {
    /// The provider's generation at the time of reading.
    #[must_use]
    pub fn generation(&self) -> Generation {
        Generation::answered(self.resource_provider_generation)
    }

    /// The usages as the model has them. Fails if a class's name has another form than Placement promises.
    pub fn usages(&self) -> Result<BTreeMap<ResourceClass, u64>, BodyError> {
        self.usages
            .iter()
            .map(|(class, used)| {
                let class = ResourceClass::answered(class)
                    .map_err(|error| BodyError::field("usages", error))?;
                Ok((class, *used))
            })
            .collect()
    }
}
