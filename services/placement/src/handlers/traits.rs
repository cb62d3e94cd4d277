//! /traits and /resource_providers/{uuid}/traits: list, create, delete and assign traits.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault, QueryString};
use berth_store::SqlTimestamp;
use berth_wire::placement as wire;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    GENERATION_CHANGED, codes, database, modified, provider_fault, provider_of_path, read,
};
use crate::openapi::query;
use crate::policies::admin_or_service;
use crate::router::{Placement, PlacementOperation};
use crate::store::traits::{
    self, DeleteTrait, EnsureTrait, SetProviderTraits, TraitAssociation, TraitEnsured,
    TraitFilters, TraitRow, TraitTableError,
};
use crate::{microversions, schemas};

pub(super) fn operations() -> Vec<PlacementOperation> {
    vec![
        PlacementOperation::get("/resource_providers/{uuid}/traits", of_provider)
            .rule(admin_or_service("placement:resource_providers:traits:list"))
            .since(microversions::TRAITS)
            .id("showTraits")
            .summary("Lists the traits of a provider.")
            .returns::<wire::ProviderTraits>(200, "The current state."),
        PlacementOperation::put("/resource_providers/{uuid}/traits", set_of_provider)
            .rule(admin_or_service(
                "placement:resource_providers:traits:update",
            ))
            .since(microversions::TRAITS)
            .id("setTraits")
            .summary("Replaces the traits of a provider.")
            .body(|| schemas::PROVIDER_TRAITS.to_json_schema())
            .returns::<wire::ProviderTraits>(200, "The state after the change."),
        PlacementOperation::delete("/resource_providers/{uuid}/traits", delete_of_provider)
            .rule(admin_or_service(
                "placement:resource_providers:traits:delete",
            ))
            .since(microversions::TRAITS)
            .id("deleteTraits")
            .summary("Removes all traits from a provider.")
            .returns_nothing(204, "The action is done."),
        PlacementOperation::get("/traits", list)
            .rule(admin_or_service("placement:traits:list"))
            .since(microversions::TRAITS)
            .id("listTraits")
            .summary("Lists traits.")
            .query_parameters(|| query::keys_of(&schemas::LIST_TRAITS))
            .returns::<wire::TraitList>(200, "The current state."),
        PlacementOperation::get("/traits/{name}", show)
            .rule(admin_or_service("placement:traits:show"))
            .since(microversions::TRAITS)
            .id("showTrait")
            .summary("Checks whether a trait exists.")
            .returns_nothing(204, "The object exists."),
        PlacementOperation::put("/traits/{name}", update)
            .rule(admin_or_service("placement:traits:update"))
            .since(microversions::TRAITS)
            .id("ensureTrait")
            .summary("Creates a trait unless it exists.")
            .returns_nothing(201, "The object is created.")
            .returns_nothing(204, "The object already existed."),
        PlacementOperation::delete("/traits/{name}", delete)
            .rule(admin_or_service("placement:traits:delete"))
            .since(microversions::TRAITS)
            .id("deleteTrait")
            .summary("Deletes a custom trait that no provider has.")
            .returns_nothing(204, "The action is done."),
    ]
}

#[derive(Serialize)]
struct TraitList<'a> {
    traits: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_provider_generation: Option<i64>,
}

fn listing(traits: &[TraitRow], generation: Option<i64>) -> TraitList<'_> {
    TraitList {
        traits: traits.iter().map(|one| one.name.as_str()).collect(),
        resource_provider_generation: generation,
    }
}

fn newest(traits: &[TraitRow]) -> Option<SqlTimestamp> {
    traits.iter().filter_map(|one| one.modified).max()
}

fn fault(error: TraitTableError) -> Fault {
    match error {
        TraitTableError::NotFound(_) => Fault::not_found(error.to_string()),
        TraitTableError::DeleteStandard(_) | TraitTableError::Unknown(_) => {
            Fault::bad_request(error.to_string())
        }
        TraitTableError::InUse(_) => Fault::conflict(error.to_string()),
        TraitTableError::Generation => {
            Fault::conflict(GENERATION_CHANGED).with_code(codes::CONCURRENT_UPDATE)
        }
        TraitTableError::SharesByHost { .. } => Fault::forbidden(error.to_string()),
        TraitTableError::Provider(error) => provider_fault(error),
        TraitTableError::Sql(error) => database(error),
    }
}

pub(crate) fn filters(query: &QueryString) -> Result<TraitFilters, Fault> {
    let mut filters = TraitFilters::default();
    if let Some(name) = query.last("name") {
        match name.split_once(':') {
            Some(("in", names)) => {
                filters.names = Some(names.split(',').map(str::to_owned).collect());
            }
            Some(("startswith", prefix)) => filters.prefix = Some(prefix.to_owned()),
            Some(_) => {}
            None => {
                return Err(Fault::bad_request(format!(
                    "Badly formatted name parameter. Expected name query string parameter in \
                     form: ?name=[in|startswith]:[name1,name2|prefix]. Got: \"{name}\""
                )));
            }
        }
    }
    filters.associated = match query
        .last("associated")
        .map(str::to_ascii_lowercase)
        .as_deref()
    {
        None => None,
        Some("true") => Some(TraitAssociation::Yes),
        Some("false") => Some(TraitAssociation::No),
        Some(_) => {
            return Err(Fault::bad_request(
                "The query parameter \"associated\" only accepts \"true\" or \"false\"",
            ));
        }
    };
    Ok(filters)
}

async fn list(State(placement): State<Placement>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    call.check_accept()?;
    placement.allow(&call)?;
    call.check_query(&schemas::LIST_TRAITS)?;
    let filters = filters(&call.query)?;
    let mut tx = read(&placement.store).await?;
    let found = traits::list(&mut tx, &filters).await.map_err(database)?;
    let answer = ApiResponse::ok(&listing(&found, None))?;
    Ok(modified(answer, &call, newest(&found)))
}

async fn show(State(placement): State<Placement>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    placement.allow(&call)?;
    let mut tx = read(&placement.store).await?;
    let found = traits::get(&mut tx, call.path("name")?)
        .await
        .map_err(fault)?;
    Ok(modified(ApiResponse::no_content(), &call, found.modified))
}

async fn update(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    placement.allow(&call)?;
    let name = call.path("name")?;
    if schemas::CUSTOM_TRAIT.check(&Value::from(name)).is_err() {
        return Err(Fault::bad_request(
            "The trait is invalid. A valid trait must be no longer than 255 characters, start \
             with the prefix \"CUSTOM_\" and use following characters: \"A\"-\"Z\", \"0\"-\"9\" \
             and \"_\"",
        ));
    }
    let ensure = EnsureTrait {
        name: name.to_owned(),
    };
    let (answer, found) = match placement.snapshots.write(&ensure).await.map_err(fault)? {
        TraitEnsured::Made(made) => (ApiResponse::empty(StatusCode::CREATED), made),
        TraitEnsured::Found(found) => (ApiResponse::no_content(), found),
    };
    let answer = answer.located(&call, &format!("/traits/{}", found.name));
    Ok(modified(answer, &call, found.modified))
}

async fn delete(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    placement.allow(&call)?;
    call.refuse_host_account()?;
    let delete = DeleteTrait {
        name: call.path("name")?.to_owned(),
    };
    placement.snapshots.write(&delete).await.map_err(fault)?;
    Ok(ApiResponse::no_content())
}

async fn of_provider(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    call.check_accept()?;
    placement.allow(&call)?;
    let uuid = call.path("uuid")?;
    let mut tx = read(&placement.store).await?;
    let provider = provider_of_path(&mut tx, uuid).await?;
    let found = traits::of_provider(&mut tx, provider.id)
        .await
        .map_err(database)?;
    let answer = ApiResponse::ok(&listing(&found, Some(provider.generation)))?;
    Ok(modified(answer, &call, newest(&found)))
}

#[derive(Deserialize)]
struct WantedTraits {
    traits: Vec<String>,
    resource_provider_generation: i64,
}

async fn set_of_provider(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    call.require_json()?;
    placement.allow_change(&call).await?;
    let body: WantedTraits = call.body(&schemas::PROVIDER_TRAITS)?;
    let set = SetProviderTraits {
        uuid: call.path("uuid")?.to_owned(),
        generation: Some(body.resource_provider_generation),
        names: body.traits,
        only_host: call.caller.only_host().map(str::to_owned),
    };
    let (provider, found) = placement.snapshots.write(&set).await.map_err(fault)?;
    let answer = ApiResponse::ok(&listing(&found, Some(provider.generation)))?;
    Ok(modified(answer, &call, newest(&found)))
}

async fn delete_of_provider(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    placement.allow_change(&call).await?;
    let none = SetProviderTraits {
        uuid: call.path("uuid")?.to_owned(),
        generation: None,
        names: Vec::new(),
        only_host: call.caller.only_host().map(str::to_owned),
    };
    placement.snapshots.write(&none).await.map_err(fault)?;
    Ok(ApiResponse::no_content())
}
