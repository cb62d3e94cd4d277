//! The allocations of a consumer as every version since 1.0 sends them.

use std::collections::BTreeMap;
use std::fmt;

use berth_http::Microversion;
use berth_http::schema::whole;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::microversions;
use crate::router::Options;
use crate::store::replace::{ExpectedGeneration, Wanting};

/// One consumer's body. The schema has checked what the version demands.
#[derive(Deserialize)]
pub(crate) struct Body {
    allocations: Allocations,
    project_id: Option<String>,
    user_id: Option<String>,
    consumer_generation: Option<i64>,
    consumer_type: Option<String>,
}

/// Provider uuid, then class and amount. From 1.12 on a map by provider, before a list. Read without a detour: one reshape
/// brings thousands.
struct Allocations(Vec<(String, Vec<(String, i64)>)>);

#[derive(Deserialize)]
struct AtProvider {
    resources: Resources,
}

#[derive(Deserialize)]
struct Listed {
    resource_provider: ProviderReference,
    resources: Resources,
}

struct Resources(Vec<(String, i64)>);

#[derive(Deserialize)]
struct ProviderReference {
    uuid: String,
}

impl Body {
    /// What is asked for, in one form for all versions.
    pub(crate) fn wanting(
        self,
        consumer: &str,
        version: Microversion,
        options: &Options,
    ) -> Wanting {
        let generation = match self.consumer_generation {
            _ if !version.has(microversions::CONSUMER_GENERATIONS) => ExpectedGeneration::Any,
            None => ExpectedGeneration::Absent,
            Some(generation) => ExpectedGeneration::At(generation),
        };
        let incomplete_project = || options.incomplete_consumer_project_id.clone();
        let incomplete_user = || options.incomplete_consumer_user_id.clone();
        Wanting {
            consumer: consumer.to_owned(),
            project: self.project_id.unwrap_or_else(incomplete_project),
            user: self.user_id.unwrap_or_else(incomplete_user),
            generation,
            consumer_type: self.consumer_type,
            allocations: self.allocations.0,
        }
    }
}

impl<'de> Deserialize<'de> for Allocations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MapOrList;

        impl<'de> Visitor<'de> for MapOrList {
            type Value = Allocations;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of providers, or a list")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Allocations, A::Error> {
                // Of a key that comes twice the last counts, as everywhere in JSON.
                let mut all = BTreeMap::new();
                while let Some((uuid, at)) = map.next_entry::<String, AtProvider>()? {
                    all.insert(uuid, at.resources.0);
                }
                Ok(Allocations(all.into_iter().collect()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Allocations, A::Error> {
                // Of a provider that is listed twice the last counts.
                let mut all = BTreeMap::new();
                while let Some(one) = list.next_element::<Listed>()? {
                    all.insert(one.resource_provider.uuid, one.resources.0);
                }
                Ok(Allocations(all.into_iter().collect()))
            }
        }

        deserializer.deserialize_any(MapOrList)
    }
}

impl<'de> Deserialize<'de> for Resources {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Amounts;

        impl<'de> Visitor<'de> for Amounts {
            type Value = Resources;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of amounts by resource class")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Resources, A::Error> {
                let mut all = BTreeMap::new();
                while let Some((class, amount)) = map.next_entry::<String, Value>()? {
                    all.insert(class, whole(&amount));
                }
                Ok(Resources(all.into_iter().collect()))
            }
        }

        deserializer.deserialize_map(Amounts)
    }
}

/// The consumers of a body that names several.
pub(crate) fn consumers(
    bodies: BTreeMap<String, Body>,
    version: Microversion,
    options: &Options,
) -> Vec<Wanting> {
    bodies
        .into_iter()
        .map(|(consumer, body)| body.wanting(&consumer, version, options))
        .collect()
}
