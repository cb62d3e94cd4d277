//! /resource_providers/{uuid}/aggregates: show and replace the aggregates of a provider.

use std::collections::BTreeSet;

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_wire::placement as wire;
use serde::{Deserialize, Serialize};

use super::{GENERATION_CHANGED, codes, database, modified, provider_fault, read};
use crate::filters::as_stored;
use crate::policies::admin_or_service;
use crate::router::{Placement, PlacementOperation};
use crate::store::aggregates::{self, AggregateError, SetProviderAggregates};
use crate::store::providers::{self, ProviderRow};
use crate::{microversions, schemas};

pub(super) fn operations() -> Vec<PlacementOperation> {
    vec![
        PlacementOperation::get("/resource_providers/{uuid}/aggregates", show)
            .rule(admin_or_service(
                "placement:resource_providers:aggregates:list",
            ))
            .since_by_handler(microversions::AGGREGATES)
            .id("showAggregates")
            .summary("Lists the aggregates of a provider.")
            .older("The generation from 1.19.")
            .returns::<wire::ProviderAggregates>(200, "The current state."),
        PlacementOperation::put("/resource_providers/{uuid}/aggregates", set)
            .rule(admin_or_service(
                "placement:resource_providers:aggregates:update",
            ))
            .since_by_handler(microversions::AGGREGATES)
            .id("setAggregates")
            .summary("Replaces the aggregates of a provider.")
            .older("Before 1.19 the body is the list alone, without a generation.")
            .body(|| schemas::AGGREGATES.to_json_schema())
            .returns::<wire::ProviderAggregates>(200, "The state after the change."),
    ]
}

#[derive(Serialize)]
struct AggregatesDocument<'a> {
    aggregates: Vec<&'a String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_provider_generation: Option<i64>,
}

fn answer<'a>(
    call: &ApiRequest,
    provider: &ProviderRow,
    uuids: impl Iterator<Item = &'a String>,
) -> Result<ApiResponse, Fault> {
    let shown = call.version.has(microversions::AGGREGATES_GENERATION);
    let document = AggregatesDocument {
        aggregates: uuids.collect(),
        resource_provider_generation: shown.then_some(provider.generation),
    };
    Ok(modified(ApiResponse::ok(&document)?, call, None))
}

/// As in OpenStack's Placement, the header `accept` or `content-type` is checked before the version.
fn check_version(call: &ApiRequest) -> Result<(), Fault> {
    match call.version.has(microversions::AGGREGATES) {
        true => Ok(()),
        false => Err(Fault::no_such_route()),
    }
}

async fn show(State(placement): State<Placement>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    call.check_accept()?;
    check_version(&call)?;
    placement.allow(&call)?;
    let mut tx = read(&placement.store).await?;
    let provider = providers::get(&mut tx, call.path("uuid")?)
        .await
        .map_err(provider_fault)?;
    let found = aggregates::of_provider(&mut tx, provider.id)
        .await
        .map_err(database)?;
    answer(&call, &provider, found.keys())
}

#[derive(Deserialize)]
struct AggregatesRequest {
    aggregates: Vec<String>,
    resource_provider_generation: i64,
}

async fn set(State(placement): State<Placement>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    call.require_json()?;
    check_version(&call)?;
    placement.allow_change(&call).await?;
    let uuid = call.path("uuid")?;
    {
        let mut tx = read(&placement.store).await?;
        providers::get(&mut tx, uuid)
            .await
            .map_err(provider_fault)?;
    }
    let (generation, aggregates) = wanted(&call)?;
    let mut aggregates: Vec<String> = aggregates.into_iter().map(as_stored).collect();
    let mut seen = BTreeSet::new();
    aggregates.retain(|uuid| seen.insert(uuid.clone()));
    let set = SetProviderAggregates {
        uuid: uuid.to_owned(),
        generation,
        aggregates,
        only_host: call.caller.only_host().map(str::to_owned),
    };
    let provider = placement
        .snapshots
        .write(&set)
        .await
        .map_err(|error| match error {
            AggregateError::Generation => {
                Fault::conflict(GENERATION_CHANGED).with_code(codes::CONCURRENT_UPDATE)
            }
            AggregateError::JoinByHost { .. } => Fault::forbidden(error.to_string()),
            AggregateError::Provider(error) => provider_fault(error),
            AggregateError::Sql(error) => database(error),
        })?;
    answer(&call, &provider, set.aggregates.iter())
}

fn wanted(call: &ApiRequest) -> Result<(Option<i64>, Vec<String>), Fault> {
    if call.version.has(microversions::AGGREGATES_GENERATION) {
        let wanted: AggregatesRequest = call.body(&schemas::AGGREGATES)?;
        Ok((Some(wanted.resource_provider_generation), wanted.aggregates))
    } else {
        Ok((None, call.body(&schemas::AGGREGATE_LIST)?))
    }
}
