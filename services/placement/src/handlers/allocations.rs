//! /allocations and /resource_providers/{uuid}/allocations: show, replace and delete allocations.

mod body;

use std::collections::BTreeMap;

use axum::extract::State;
use berth_http::schema::normal_uuid;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_store::SqlTimestamp;
use berth_wire::placement as wire;
use serde::Serialize;

use super::{codes, database, modified, provider_fault, read, write_error};
use crate::microversions::RANGE;
use crate::policies::admin_or_service;
use crate::router::{Placement, PlacementOperation};
use crate::store::allocations::{
    self, Consumer, HeldAllocation, ProviderAllocation, Release, ReleaseError,
};
use crate::store::providers::{self, ProviderError};
use crate::store::replace::{Replace, ReplaceError};
use crate::store::usages::UNTYPED;
use crate::{microversions, schemas};

pub(crate) use body::{ConsumerBody, consumers};

pub(super) fn operations() -> Vec<PlacementOperation> {
    vec![
        PlacementOperation::get("/resource_providers/{uuid}/allocations", of_provider).rule(admin_or_service("placement:resource_providers:allocations:list")).id("listProviderAllocations").summary("Lists the allocations on a provider by consumer.").older("Consumers' generations from 1.28.").returns::<wire::AllocationsOfProvider>(200, "The current state."),
        PlacementOperation::post("/allocations", post).rule(admin_or_service("placement:allocations:manage")).large_body().since(microversions::POST_ALLOCATIONS).id("replaceAllocations").summary("Replaces the allocations of several consumers in one transaction.").older("`consumer_generation` from 1.28, `mappings` from 1.34, `consumer_type` from 1.38.").body(|| schemas::post_allocations(RANGE.max).to_json_schema()).returns_nothing(204, "The action is done."),
        PlacementOperation::get("/allocations/{consumer_uuid}", show).rule(admin_or_service("placement:allocations:list")).id("showAllocations").summary("Lists a consumer's allocations. The list of an unknown consumer is empty.").older("Project and user from 1.12, the generation from 1.28, the type from 1.38.").returns::<wire::AllocationsOfConsumer>(200, "The current state."),
        PlacementOperation::put("/allocations/{consumer_uuid}", put).rule(admin_or_service("placement:allocations:update")).id("setAllocations").summary("Replaces the allocations of a consumer; an empty body releases all of them.").older("Before 1.12 the allocations are a list, before 1.28 there must be one; project and user from 1.8, \
                 `consumer_generation` from 1.28, `mappings` from 1.34, `consumer_type` from 1.38.").body(|| schemas::put_allocations(RANGE.max).to_json_schema()).returns_nothing(204, "The action is done."),
        PlacementOperation::delete("/allocations/{consumer_uuid}", delete).rule(admin_or_service("placement:allocations:delete")).id("deleteAllocations").summary("Releases all allocations of a consumer.").returns_nothing(204, "The action is done."),
    ]
}

#[derive(Serialize, Default)]
struct AllocationsAtProvider<'a> {
    resources: BTreeMap<&'a str, i64>,
    generation: i64,
}

#[derive(Serialize)]
struct OfConsumer<'a> {
    allocations: BTreeMap<&'a str, AllocationsAtProvider<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    project_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumer_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumer_type: Option<&'a str>,
}

async fn show(State(placement): State<Placement>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    call.check_accept()?;
    placement.allow(&call)?;
    let consumer = placement
        .consumers
        .read(call.path("consumer_uuid")?)
        .await
        .map_err(database)?;
    let held = consumer.as_ref().map_or(&[][..], |consumer| &consumer.held);
    let answer = ApiResponse::ok(&of_consumer(&call, consumer.as_deref(), held))?;
    let newest = held.iter().filter_map(|one| one.modified).max();
    Ok(modified(answer, &call, newest))
}

fn of_consumer<'a>(
    call: &ApiRequest,
    consumer: Option<&'a Consumer>,
    held: &'a [HeldAllocation],
) -> OfConsumer<'a> {
    let mut allocations: BTreeMap<&str, AllocationsAtProvider> = BTreeMap::new();
    for one in held {
        let at = allocations.entry(&one.provider_uuid).or_default();
        at.generation = one.provider_generation;
        at.resources.insert(&one.class, one.used);
    }
    let since = |feature| consumer.filter(|_| call.version.has(feature));
    OfConsumer {
        allocations,
        project_id: since(microversions::ALLOCATIONS_BY_PROVIDER).map(|one| one.project.as_str()),
        user_id: since(microversions::ALLOCATIONS_BY_PROVIDER).map(|one| one.user.as_str()),
        consumer_generation: since(microversions::CONSUMER_GENERATIONS).map(|one| one.generation),
        consumer_type: since(microversions::CONSUMER_TYPES)
            .map(|one| one.consumer_type.as_deref().unwrap_or(UNTYPED)),
    }
}

#[derive(Serialize, Default)]
struct ByConsumer<'a> {
    resources: BTreeMap<&'a str, i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumer_generation: Option<i64>,
}

#[derive(Serialize)]
struct ProviderAllocationsDocument<'a> {
    allocations: BTreeMap<&'a str, ByConsumer<'a>>,
    resource_provider_generation: i64,
}

async fn of_provider(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    call.check_accept()?;
    placement.allow(&call)?;
    let uuid = call.path("uuid")?;
    let mut tx = read(&placement.store).await?;
    let provider = providers::get(&mut tx, uuid)
        .await
        .map_err(|error| match error {
            ProviderError::NotFound(_) => {
                Fault::not_found(format!("Resource provider '{uuid}' not found: {error}"))
            }
            other => provider_fault(other),
        })?;
    let holdings = allocations::of_provider(&mut tx, provider.id)
        .await
        .map_err(database)?;
    let document = ProviderAllocationsDocument {
        allocations: by_consumer(&call, &holdings),
        resource_provider_generation: provider.generation,
    };
    let newest: Option<SqlTimestamp> = holdings.iter().filter_map(|one| one.modified).max();
    Ok(modified(ApiResponse::ok(&document)?, &call, newest))
}

fn by_consumer<'a>(
    call: &ApiRequest,
    holdings: &'a [ProviderAllocation],
) -> BTreeMap<&'a str, ByConsumer<'a>> {
    let shown = call.version.has(microversions::CONSUMER_GENERATIONS);
    let mut consumers: BTreeMap<&str, ByConsumer> = BTreeMap::new();
    for one in holdings {
        let of = consumers.entry(&one.consumer_uuid).or_default();
        of.consumer_generation = shown.then_some(one.consumer_generation);
        of.resources.insert(&one.class, one.used);
    }
    consumers
}

async fn put(State(placement): State<Placement>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    call.require_json()?;
    placement.allow(&call)?;
    let given = call.path("consumer_uuid")?;
    let consumer = normal_uuid(given)
        .ok_or_else(|| Fault::bad_request(format!("Malformed consumer_uuid: {given}")))?;
    let body: ConsumerBody = call.body(&schemas::put_allocations(call.version))?;
    let replace = Replace {
        providers: Vec::new(),
        consumers: vec![body.into_desired(&consumer, call.version, &placement.options)],
        only_host: call.caller.only_host().map(str::to_owned),
    };
    placement
        .claims
        .claim(replace)
        .await
        .map_err(|error| match error {
            ReplaceError::NoSuchClass(_) => Fault::bad_request(format!(
                "Unable to allocate inventory for consumer {consumer}: {error}"
            )),
            other => claim_fault(&other),
        })?;
    Ok(ApiResponse::no_content())
}

async fn post(State(placement): State<Placement>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    call.require_json()?;
    placement.allow(&call)?;
    let bodies: BTreeMap<String, ConsumerBody> =
        call.body(&schemas::post_allocations(call.version))?;
    let replace = Replace {
        providers: Vec::new(),
        consumers: consumers(bodies, call.version, &placement.options),
        only_host: call.caller.only_host().map(str::to_owned),
    };
    placement
        .snapshots
        .write(&replace)
        .await
        .map_err(|error| match error {
            ReplaceError::NoSuchClass(_) => {
                Fault::bad_request(format!("Unable to allocate inventory {error}"))
            }
            other => claim_fault(&other),
        })?;
    Ok(ApiResponse::no_content())
}

fn claim_fault(error: &ReplaceError) -> Fault {
    match error {
        ReplaceError::Together(error) => claim_fault(error),
        ReplaceError::ConcurrentUpdate => Fault::conflict(format!(
            "Inventory and/or allocations changed while attempting to allocate: {error}"
        ))
        .with_code(codes::CONCURRENT_UPDATE),
        other => replace_fault(other),
    }
}

/// The response to errors that claims and reshapes share.
pub(crate) fn replace_fault(error: &ReplaceError) -> Fault {
    match error {
        ReplaceError::Together(error) => replace_fault(error),
        ReplaceError::Sql(error) => write_error(error),
        ReplaceError::OtherHost(mismatch) => mismatch.clone().into(),
        ReplaceError::OwnerByHost { .. } => Fault::forbidden(error.to_string()),
        ReplaceError::ConsumerGeneration { .. } | ReplaceError::ProviderGeneration { .. } => {
            Fault::conflict(error.to_string()).with_code(codes::CONCURRENT_UPDATE)
        }
        ReplaceError::NoSuchInventoryProvider(_) => {
            Fault::bad_request(error.to_string()).with_code(codes::PROVIDER_NOT_FOUND)
        }
        ReplaceError::NoSuchProvider(_) | ReplaceError::NoSuchClass(_) => {
            Fault::bad_request(error.to_string())
        }
        ReplaceError::InUse { .. } => {
            Fault::conflict(format!("update conflict: {error}")).with_code(codes::INVENTORY_INUSE)
        }
        ReplaceError::ConcurrentUpdate => {
            Fault::conflict(format!("update conflict: {error}")).with_code(codes::CONCURRENT_UPDATE)
        }
        ReplaceError::NoInventory { .. }
        | ReplaceError::Constraints { .. }
        | ReplaceError::Capacity { .. } => {
            Fault::conflict(format!("Unable to allocate inventory: {error}"))
        }
    }
}

async fn delete(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    placement.allow(&call)?;
    let release = Release {
        consumer: call.path("consumer_uuid")?.to_owned(),
        only_host: call.caller.only_host().map(str::to_owned),
    };
    placement
        .snapshots
        .write(&release)
        .await
        .map_err(|error| match error {
            ReleaseError::NotFound(_) => Fault::not_found(error.to_string()),
            ReleaseError::OtherHost(mismatch) => mismatch.into(),
            ReleaseError::Sql(error) => write_error(&error),
        })?;
    Ok(ApiResponse::no_content())
}
