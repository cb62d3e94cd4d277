//! /reshaper: replaces inventories and allocations in one atomic step.

use std::collections::BTreeMap;

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault, Microversion};
use serde::Deserialize;

use super::allocations::{ConsumerBody, consumers, replace_fault};
use crate::filters::as_stored;
use crate::inventory::InventoryRecord;
use crate::microversions::RANGE;
use crate::policies::service;
use crate::router::{Placement, PlacementApiOptions, PlacementOperation};
use crate::store::replace::{Replace, ReplaceError, ReshapedProvider};
use crate::{microversions, schemas};

pub(super) fn operations() -> Vec<PlacementOperation> {
    vec![
        PlacementOperation::post("/reshaper", reshape)
            .rule(service("placement:reshaper:reshape"))
            .large_body()
            .since(microversions::RESHAPER)
            .id("reshape")
            .summary("Replaces inventories and allocations in one transaction, all or nothing.")
            .older("`mappings` from 1.34, `consumer_type` from 1.38.")
            .body(|| schemas::reshape(RANGE.max).to_json_schema())
            .returns_nothing(204, "The action is done."),
    ]
}

/// The body. The schema has already enforced what the version requires.
#[derive(Deserialize)]
pub(crate) struct Reshape {
    inventories: BTreeMap<String, ReshapedProviderBody>,
    allocations: BTreeMap<String, ConsumerBody>,
}

#[derive(Deserialize)]
struct ReshapedProviderBody {
    resource_provider_generation: i64,
    inventories: BTreeMap<String, InventoryRecord>,
}

impl Reshape {
    /// Converts the body to the write.
    pub(crate) fn replace(self, version: Microversion, options: &PlacementApiOptions) -> Replace {
        let providers = self.inventories.into_iter();
        let providers = providers.map(|(provider, at)| ReshapedProvider {
            provider: as_stored(provider),
            generation: at.resource_provider_generation,
            inventories: at.inventories,
        });
        Replace {
            providers: providers.collect(),
            consumers: consumers(self.allocations, version, options),
            only_host: None,
        }
    }
}

async fn reshape(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    call.require_json()?;
    placement.allow(&call)?;
    let body: Reshape = call.body(&schemas::reshape(call.version))?;
    let replace = Replace {
        only_host: call.caller.only_host().map(str::to_owned),
        ..body.replace(call.version, &placement.options)
    };
    placement
        .snapshots
        .write(&replace)
        .await
        .map_err(|error| match error {
            ReplaceError::NoSuchClass(_) => {
                Fault::bad_request(format!("malformed reshaper data: {error}"))
            }
            other => replace_fault(&other),
        })?;
    Ok(ApiResponse::no_content())
}
