//! The allocations of a consumer, in the formats of all versions since 1.0.

use std::collections::BTreeMap;
use std::fmt;

use berth_http::Microversion;
use berth_http::schema::whole;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::filters::as_stored;
use crate::microversions;
use crate::router::PlacementApiOptions;
use crate::store::replace::{DesiredAllocations, ExpectedGeneration};

/// The body for one consumer. The schema has already enforced what the version requires.
#[derive(Deserialize)]
pub(crate) struct ConsumerBody {
    allocations: AllocationsBody,
    project_id: Option<String>,
    user_id: Option<String>,
    consumer_generation: Option<i64>,
    consumer_type: Option<String>,
}

/// Provider uuid, then class and amount. From 1.12 on a map by provider, before a list. Read without a detour:
/// one reshape brings thousands.
struct AllocationsBody(Vec<(String, Vec<(String, i64)>)>);

#[derive(Deserialize)]
struct AtProviderBody {
    resources: ResourcesBody,
}

#[derive(Deserialize)]
struct ListedAllocation {
    resource_provider: ProviderReference,
    resources: ResourcesBody,
}

struct ResourcesBody(Vec<(String, i64)>);

#[derive(Deserialize)]
struct ProviderReference {
    uuid: String,
}

impl ConsumerBody {
    /// Converts the body to one form for all versions.
    pub(crate) fn into_desired(
        self,
        consumer: &str,
        version: Microversion,
        options: &PlacementApiOptions,
    ) -> DesiredAllocations {
        let generation = match self.consumer_generation {
            _ if !version.has(microversions::CONSUMER_GENERATIONS) => ExpectedGeneration::Any,
            None => ExpectedGeneration::Absent,
            Some(generation) => ExpectedGeneration::At(generation),
        };
        let incomplete_project = || options.incomplete_consumer_project_id.clone();
        let incomplete_user = || options.incomplete_consumer_user_id.clone();
        DesiredAllocations {
            consumer: consumer.to_owned(),
            project: self.project_id.unwrap_or_else(incomplete_project),
            user: self.user_id.unwrap_or_else(incomplete_user),
            generation,
            consumer_type: self.consumer_type,
            allocations: self.allocations.0,
        }
    }
}

impl<'de> Deserialize<'de> for AllocationsBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MapOrList;

        impl<'de> Visitor<'de> for MapOrList {
            type Value = AllocationsBody;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of providers, or a list")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AllocationsBody, A::Error> {
                // Of a duplicate key the last one counts, as usual in JSON.
                let mut all = BTreeMap::new();
                while let Some((uuid, at)) = map.next_entry::<String, AtProviderBody>()? {
                    all.insert(as_stored(uuid), at.resources.0);
                }
                Ok(AllocationsBody(all.into_iter().collect()))
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> Result<AllocationsBody, A::Error> {
                // Of a provider that is listed twice the last counts.
                let mut all = BTreeMap::new();
                while let Some(one) = list.next_element::<ListedAllocation>()? {
                    all.insert(as_stored(one.resource_provider.uuid), one.resources.0);
                }
                Ok(AllocationsBody(all.into_iter().collect()))
            }
        }

        deserializer.deserialize_any(MapOrList)
    }
}

impl<'de> Deserialize<'de> for ResourcesBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AmountsBody;

        impl<'de> Visitor<'de> for AmountsBody {
            type Value = ResourcesBody;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of amounts by resource class")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ResourcesBody, A::Error> {
                let mut all = BTreeMap::new();
                while let Some((class, amount)) = map.next_entry::<String, Value>()? {
                    all.insert(class, whole(&amount));
                }
                Ok(ResourcesBody(all.into_iter().collect()))
            }
        }

        deserializer.deserialize_map(AmountsBody)
    }
}

/// The consumers of a body that names several.
pub(crate) fn consumers(
    bodies: BTreeMap<String, ConsumerBody>,
    version: Microversion,
    options: &PlacementApiOptions,
) -> Vec<DesiredAllocations> {
    bodies
        .into_iter()
        .map(|(consumer, body)| body.into_desired(&as_stored(consumer), version, options))
        .collect()
}
