//! /resource_providers/{uuid}/aggregates: show and replace the aggregates of a provider.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use serde::{Deserialize, Serialize};

use super::{GENERATION_CHANGED, codes, database, modified, provider_fault, read, require};
use crate::router::Placement;
use crate::store::aggregates::{self, AggregateError, SetProviderAggregates};
use crate::store::providers::{self, ProviderRow};
use crate::{microversions, policies, schemas};

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

pub(crate) async fn show(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    call.check_accept()?;
    require(&call, microversions::AGGREGATES)?;
    placement.allow(&call, policies::AGGREGATES_LIST)?;
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

pub(crate) async fn set(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    call.require_json()?;
    require(&call, microversions::AGGREGATES)?;
    placement.allow(&call, policies::AGGREGATES_UPDATE)?;
    let uuid = call.path("uuid")?;
    {
        let mut tx = read(&placement.store).await?;
        providers::get(&mut tx, uuid)
            .await
            .map_err(provider_fault)?;
    }
    let (generation, aggregates) = wanted(&call)?;
    let set = SetProviderAggregates {
        uuid: uuid.to_owned(),
        generation,
        aggregates,
    };
    let provider = placement
        .snapshots
        .write(&set)
        .await
        .map_err(|error| match error {
            AggregateError::Generation => {
                Fault::conflict(GENERATION_CHANGED).with_code(codes::CONCURRENT_UPDATE)
            }
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
