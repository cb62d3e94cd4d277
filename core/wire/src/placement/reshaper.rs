//! The body of POST /reshaper, 1.30 to 1.37 (and 1.38, with the consumers' types).

use std::collections::BTreeMap;

use berth_model::{
    ConsumerAllocations, ConsumerUuid, Generation, Inventory, ProviderUuid, ResourceClass,
};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{PutAllocations, PutInventories};

/// The generation of a provider is unknown: the provider must be created or read first.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the generation of provider {provider} is not known; the provider has to be created or read before the reshape"
)]
pub struct GenerationUnknown {
    pub provider: ProviderUuid,
}

type Inventories = BTreeMap<ProviderUuid, BTreeMap<ResourceClass, Inventory>>;
type Consumers = BTreeMap<ConsumerUuid, ConsumerAllocations>;

/// The body of a reshape. It borrows its values, because with 1,000 consumers it has 400 kB.
#[derive(Debug, Clone, Serialize)]
pub struct ReshaperBody<'a> {
    #[serde(serialize_with = "map")]
    inventories: Vec<(ProviderUuid, PutInventories<'a>)>,
    #[serde(serialize_with = "map")]
    allocations: Vec<(ConsumerUuid, PutAllocations<'a>)>,
}

impl<'a> ReshaperBody<'a> {
    /// The body for microversions 1.30 to 1.37. `generations` are the providers' as last answered.
    pub fn new(
        inventories: &'a Inventories,
        allocations: &'a Consumers,
        generations: &BTreeMap<ProviderUuid, Generation>,
    ) -> Result<Self, GenerationUnknown> {
        let inventories = inventories
            .iter()
            .map(|(provider, inventories)| {
                let generation = generations.get(provider).ok_or(GenerationUnknown {
                    provider: *provider,
                })?;
                Ok((*provider, PutInventories::new(*generation, inventories)))
            })
            .collect::<Result<_, _>>()?;
        let allocations = allocations
            .iter()
            .map(|(consumer, held)| (*consumer, PutAllocations::new(held)))
            .collect();
        Ok(Self {
            inventories,
            allocations,
        })
    }

    /// The body for microversion 1.38, with consumer types; `unknown` for consumers that `types` does not have.
    #[must_use]
    pub fn typed(
        self,
        allocations: &'a Consumers,
        types: &'a BTreeMap<ConsumerUuid, String>,
    ) -> Self {
        let typed = |(consumer, held)| {
            let consumer_type = types.get(consumer).map_or("unknown", String::as_str);
            (*consumer, PutAllocations::typed(held, consumer_type))
        };
        Self {
            allocations: allocations.iter().map(typed).collect(),
            ..self
        }
    }
}

fn map<S: Serializer, K: std::fmt::Display, V: Serialize>(
    entries: &[(K, V)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(entries.len()))?;
    for (key, value) in entries {
        map.serialize_entry(&format_args!("{key}"), value)?;
    }
    map.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode;
    use uuid::Uuid;

    #[test]
    fn a_reshape_carries_generations_inventories_and_allocations() {
        let (root, gpu) = (
            ProviderUuid::from(Uuid::from_u128(1)),
            ProviderUuid::from(Uuid::from_u128(2)),
        );
        let consumer = ConsumerUuid::from(Uuid::from_u128(3));
        let inventories = BTreeMap::from([
            (root, BTreeMap::new()),
            (
                gpu,
                BTreeMap::from([(ResourceClass::VGPU, Inventory::of(8).unwrap())]),
            ),
        ]);
        let allocations = BTreeMap::from([(
            consumer,
            ConsumerAllocations {
                project_id: "p".into(),
                user_id: "u".into(),
                generation: Some(Generation::answered(1)),
                resources: BTreeMap::from([((gpu, ResourceClass::VGPU), 2)]),
            },
        )]);
        let mut generations = BTreeMap::from([(root, Generation::answered(9))]);
        let unknown = ReshaperBody::new(&inventories, &allocations, &generations).unwrap_err();
        assert_eq!(unknown.provider, gpu);
        generations.insert(gpu, Generation::answered(0));
        let body = ReshaperBody::new(&inventories, &allocations, &generations).unwrap();
        insta::assert_snapshot!(String::from_utf8_lossy(&encode(&body)), @r#"{"inventories":{"00000000-0000-0000-0000-000000000001":{"resource_provider_generation":9,"inventories":{}},"00000000-0000-0000-0000-000000000002":{"resource_provider_generation":0,"inventories":{"VGPU":{"total":8,"reserved":0,"min_unit":1,"max_unit":8,"step_size":1,"allocation_ratio":1.0}}}},"allocations":{"00000000-0000-0000-0000-000000000003":{"allocations":{"00000000-0000-0000-0000-000000000002":{"resources":{"VGPU":2}}},"project_id":"p","user_id":"u","consumer_generation":1}}}"#);
        let types = BTreeMap::from([(consumer, "MIGRATION".to_owned())]);
        let typed = String::from_utf8(encode(&body.typed(&allocations, &types))).unwrap();
        assert!(typed.contains(r#""consumer_type":"MIGRATION""#), "{typed}");
    }
}
