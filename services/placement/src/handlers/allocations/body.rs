//! The allocations of a consumer as every version since 1.0 sends them.

use std::collections::BTreeMap;

use berth_http::Microversion;
use berth_http::schema::whole;
use serde::Deserialize;
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

#[derive(Deserialize)]
#[serde(untagged)]
enum Allocations {
    /// From 1.12.
    ByProvider(BTreeMap<String, AtProvider>),
    /// Before 1.12.
    Listed(Vec<Listed>),
}

#[derive(Deserialize)]
struct AtProvider {
    resources: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct Listed {
    resource_provider: ProviderReference,
    resources: BTreeMap<String, Value>,
}

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
            allocations: self.allocations.by_provider(),
        }
    }
}

impl Allocations {
    fn by_provider(self) -> Vec<(String, Vec<(String, i64)>)> {
        let providers: BTreeMap<String, BTreeMap<String, Value>> = match self {
            Self::ByProvider(map) => map
                .into_iter()
                .map(|(uuid, at)| (uuid, at.resources))
                .collect(),
            // Of a provider that is listed twice the last counts.
            Self::Listed(list) => list
                .into_iter()
                .map(|one| (one.resource_provider.uuid, one.resources))
                .collect(),
        };
        providers
            .into_iter()
            .map(|(uuid, resources)| (uuid, amounts(resources)))
            .collect()
    }
}

fn amounts(resources: BTreeMap<String, Value>) -> Vec<(String, i64)> {
    resources
        .into_iter()
        .map(|(class, amount)| (class, whole(&amount)))
        .collect()
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
