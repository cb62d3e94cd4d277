//! /traits and /resource_providers/{uuid}/traits: list, create, delete and assign traits.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault, QueryString};
use berth_store::SqlTimestamp;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    GENERATION_CHANGED, codes, database, modified, provider_fault, provider_of_path, read, require,
};
use crate::router::Placement;
use crate::store::traits::{
    self, DeleteTrait, EnsureTrait, SetProviderTraits, TraitAssociation, TraitEnsured,
    TraitFilters, TraitRow, TraitTableError,
};
use crate::{microversions, policies, schemas};

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

pub(crate) async fn list(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    require(&call, microversions::TRAITS)?;
    call.check_accept()?;
    placement.allow(&call, policies::TRAITS_LIST)?;
    call.check_query(&schemas::LIST_TRAITS)?;
    let filters = filters(&call.query)?;
    let mut tx = read(&placement.store).await?;
    let found = traits::list(&mut tx, &filters).await.map_err(database)?;
    let answer = ApiResponse::ok(&listing(&found, None))?;
    Ok(modified(answer, &call, newest(&found)))
}

pub(crate) async fn show(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    require(&call, microversions::TRAITS)?;
    placement.allow(&call, policies::TRAITS_SHOW)?;
    let mut tx = read(&placement.store).await?;
    let found = traits::get(&mut tx, call.path("name")?)
        .await
        .map_err(fault)?;
    Ok(modified(ApiResponse::no_content(), &call, found.modified))
}

pub(crate) async fn update(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    require(&call, microversions::TRAITS)?;
    placement.allow(&call, policies::TRAITS_UPDATE)?;
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

pub(crate) async fn delete(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    require(&call, microversions::TRAITS)?;
    placement.allow(&call, policies::TRAITS_DELETE)?;
    let delete = DeleteTrait {
        name: call.path("name")?.to_owned(),
    };
    placement.snapshots.write(&delete).await.map_err(fault)?;
    Ok(ApiResponse::no_content())
}

pub(crate) async fn of_provider(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    require(&call, microversions::TRAITS)?;
    call.check_accept()?;
    placement.allow(&call, policies::PROVIDER_TRAITS_LIST)?;
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

pub(crate) async fn set_of_provider(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    require(&call, microversions::TRAITS)?;
    call.require_json()?;
    placement.allow(&call, policies::PROVIDER_TRAITS_UPDATE)?;
    let body: WantedTraits = call.body(&schemas::PROVIDER_TRAITS)?;
    let set = SetProviderTraits {
        uuid: call.path("uuid")?.to_owned(),
        generation: Some(body.resource_provider_generation),
        names: body.traits,
    };
    let (provider, found) = placement.snapshots.write(&set).await.map_err(fault)?;
    let answer = ApiResponse::ok(&listing(&found, Some(provider.generation)))?;
    Ok(modified(answer, &call, newest(&found)))
}

pub(crate) async fn delete_of_provider(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    require(&call, microversions::TRAITS)?;
    placement.allow(&call, policies::PROVIDER_TRAITS_DELETE)?;
    let none = SetProviderTraits {
        uuid: call.path("uuid")?.to_owned(),
        generation: None,
        names: Vec::new(),
    };
    placement.snapshots.write(&none).await.map_err(fault)?;
    Ok(ApiResponse::no_content())
}
