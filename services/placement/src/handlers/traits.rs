//! /traits and /resource_providers/{uuid}/traits

use axum::extract::State;
use berth_http::{Answer, Call, Fault, Query, Timestamp};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    GENERATION_CHANGED, codes, database, modified, provider_fault, provider_of_path, read, require,
};
use crate::router::Placement;
use crate::store::traits::{
    self, Associated, Delete, Ensure, Ensured, SetOfProvider, Trait, TraitError, TraitFilters,
};
use crate::{microversions, policies, schemas};

#[derive(Serialize)]
struct Listing<'a> {
    traits: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_provider_generation: Option<i64>,
}

fn listing(traits: &[Trait], generation: Option<i64>) -> Listing<'_> {
    Listing {
        traits: traits.iter().map(|one| one.name.as_str()).collect(),
        resource_provider_generation: generation,
    }
}

fn newest(traits: &[Trait]) -> Option<Timestamp> {
    traits.iter().filter_map(|one| one.modified).max()
}

fn fault(error: TraitError) -> Fault {
    match error {
        TraitError::NotFound(_) => Fault::not_found(error.to_string()),
        TraitError::DeleteStandard(_) | TraitError::Unknown(_) => {
            Fault::bad_request(error.to_string())
        }
        TraitError::InUse(_) => Fault::conflict(error.to_string()),
        TraitError::Generation => {
            Fault::conflict(GENERATION_CHANGED).with_code(codes::CONCURRENT_UPDATE)
        }
        TraitError::Provider(error) => provider_fault(error),
        TraitError::Sql(error) => database(error),
    }
}

pub(crate) fn filters(query: &Query) -> Result<TraitFilters, Fault> {
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
        Some("true") => Some(Associated::Yes),
        Some("false") => Some(Associated::No),
        Some(_) => {
            return Err(Fault::bad_request(
                "The query parameter \"associated\" only accepts \"true\" or \"false\"",
            ));
        }
    };
    Ok(filters)
}

pub(crate) async fn list(State(placement): State<Placement>, call: Call) -> Result<Answer, Fault> {
    require(&call, microversions::TRAITS)?;
    call.check_accept()?;
    placement.allow(&call, policies::TRAITS_LIST)?;
    call.check_query(&schemas::LIST_TRAITS)?;
    let filters = filters(&call.query)?;
    let mut tx = read(&placement.store).await?;
    let found = traits::list(&mut tx, &filters).await.map_err(database)?;
    let answer = Answer::ok(&listing(&found, None))?;
    Ok(modified(answer, &call, newest(&found)))
}

pub(crate) async fn show(State(placement): State<Placement>, call: Call) -> Result<Answer, Fault> {
    require(&call, microversions::TRAITS)?;
    placement.allow(&call, policies::TRAITS_SHOW)?;
    let mut tx = read(&placement.store).await?;
    let found = traits::get(&mut tx, call.path("name")?)
        .await
        .map_err(fault)?;
    Ok(modified(Answer::no_content(), &call, found.modified))
}

pub(crate) async fn update(
    State(placement): State<Placement>,
    call: Call,
) -> Result<Answer, Fault> {
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
    let ensure = Ensure {
        name: name.to_owned(),
    };
    let (answer, found) = match placement.snapshots.write(&ensure).await.map_err(fault)? {
        Ensured::Made(made) => (Answer::empty(StatusCode::CREATED), made),
        Ensured::Found(found) => (Answer::no_content(), found),
    };
    let answer = answer.located(&call, &format!("/traits/{}", found.name));
    Ok(modified(answer, &call, found.modified))
}

pub(crate) async fn delete(
    State(placement): State<Placement>,
    call: Call,
) -> Result<Answer, Fault> {
    require(&call, microversions::TRAITS)?;
    placement.allow(&call, policies::TRAITS_DELETE)?;
    let delete = Delete {
        name: call.path("name")?.to_owned(),
    };
    placement.snapshots.write(&delete).await.map_err(fault)?;
    Ok(Answer::no_content())
}

pub(crate) async fn of_provider(
    State(placement): State<Placement>,
    call: Call,
) -> Result<Answer, Fault> {
    require(&call, microversions::TRAITS)?;
    call.check_accept()?;
    placement.allow(&call, policies::PROVIDER_TRAITS_LIST)?;
    let uuid = call.path("uuid")?;
    let mut tx = read(&placement.store).await?;
    let provider = provider_of_path(&mut tx, uuid).await?;
    let found = traits::of_provider(&mut tx, provider.id)
        .await
        .map_err(database)?;
    let answer = Answer::ok(&listing(&found, Some(provider.generation)))?;
    Ok(modified(answer, &call, newest(&found)))
}

#[derive(Deserialize)]
struct WantedTraits {
    traits: Vec<String>,
    resource_provider_generation: i64,
}

pub(crate) async fn set_of_provider(
    State(placement): State<Placement>,
    call: Call,
) -> Result<Answer, Fault> {
    require(&call, microversions::TRAITS)?;
    call.require_json()?;
    placement.allow(&call, policies::PROVIDER_TRAITS_UPDATE)?;
    let body: WantedTraits = call.body(&schemas::PROVIDER_TRAITS)?;
    let set = SetOfProvider {
        uuid: call.path("uuid")?.to_owned(),
        generation: Some(body.resource_provider_generation),
        names: body.traits,
    };
    let (provider, found) = placement.snapshots.write(&set).await.map_err(fault)?;
    let answer = Answer::ok(&listing(&found, Some(provider.generation)))?;
    Ok(modified(answer, &call, newest(&found)))
}

pub(crate) async fn delete_of_provider(
    State(placement): State<Placement>,
    call: Call,
) -> Result<Answer, Fault> {
    require(&call, microversions::TRAITS)?;
    placement.allow(&call, policies::PROVIDER_TRAITS_DELETE)?;
    let none = SetOfProvider {
        uuid: call.path("uuid")?.to_owned(),
        generation: None,
        names: Vec::new(),
    };
    placement.snapshots.write(&none).await.map_err(fault)?;
    Ok(Answer::no_content())
}
