//! /resource_providers: list, show, create, change and delete resource providers.

use axum::extract::State;
use berth_http::request_id::random_uuid;
use berth_http::schema::normal_uuid;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_wire::placement as wire;
use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::{codes, modified, provider_fault, read};
use crate::filters::{ProviderFilters, as_stored};
use crate::host_accounts::check_host_of_name;
use crate::microversions::RANGE;
use crate::openapi::query;
use crate::policies::admin_or_service;
use crate::router::{Placement, PlacementOperation};
use crate::store::providers::{
    self, CreateProvider, DeleteProvider, ProviderError, ProviderRow, ReparentingRule,
    UpdateProvider,
};
use crate::{microversions, schemas};

pub(super) fn operations() -> Vec<PlacementOperation> {
    vec![
        PlacementOperation::get("/resource_providers", list).rule(admin_or_service("placement:resource_providers:list")).id("listProviders").summary("Lists resource providers.").older("`member_of` from 1.3, `resources` from 1.4, `in_tree` from 1.14, `required` from 1.18.").query_parameters(|| query::keys_of(&schemas::list_providers(RANGE.max))).returns::<wire::ProviderList>(200, "The current state."),
        PlacementOperation::post("/resource_providers", create).rule(admin_or_service("placement:resource_providers:create")).id("createProvider").summary("Creates a resource provider.").older("`parent_provider_uuid` from 1.14. Before 1.20 the answer is 201 without a body.").body(|| schemas::create_provider(RANGE.max).to_json_schema()).returns::<wire::ProviderBody>(200, "The state after the change."),
        PlacementOperation::get("/resource_providers/{uuid}", show).rule(admin_or_service("placement:resource_providers:show")).id("showProvider").summary("Shows a resource provider.").older("Parent and root from 1.14.").returns::<wire::ProviderBody>(200, "The current state."),
        PlacementOperation::delete("/resource_providers/{uuid}", delete).rule(admin_or_service("placement:resource_providers:delete")).id("deleteProvider").summary("Deletes a resource provider without allocations and children.").returns_nothing(204, "The action is done."),
        PlacementOperation::put("/resource_providers/{uuid}", update).rule(admin_or_service("placement:resource_providers:update")).id("updateProvider").summary("Renames a resource provider, or gives it another parent.").older("A parent can be set once from 1.14, and changed or removed from 1.37.").body(|| schemas::update_provider(RANGE.max).to_json_schema()).returns::<wire::ProviderBody>(200, "The state after the change."),
    ]
}

#[derive(Serialize)]
struct ProviderLink {
    rel: &'static str,
    href: String,
}

#[derive(Serialize)]
struct ParentField<'a> {
    parent_provider_uuid: Option<&'a str>,
    root_provider_uuid: &'a str,
}

#[derive(Serialize)]
struct ProviderDocument<'a> {
    uuid: &'a str,
    name: &'a str,
    generation: i64,
    links: Vec<ProviderLink>,
    #[serde(flatten)]
    nesting: Option<ParentField<'a>>,
}

#[derive(Serialize)]
struct ProviderList<'a> {
    resource_providers: Vec<ProviderDocument<'a>>,
}

fn url(provider: &ProviderRow) -> String {
    format!("/resource_providers/{}", provider.uuid)
}

fn document<'a>(provider: &'a ProviderRow, call: &ApiRequest) -> ProviderDocument<'a> {
    let (url, version) = (call.href(&url(provider)), call.version);
    let known = [
        ("inventories", microversions::RANGE.min),
        ("usages", microversions::RANGE.min),
        ("aggregates", microversions::AGGREGATES),
        ("traits", microversions::TRAITS),
        ("allocations", microversions::ALLOCATIONS_LINK),
    ];
    let below = known
        .into_iter()
        .filter(|(_, since)| version.has(*since))
        .map(|(rel, _)| ProviderLink {
            rel,
            href: format!("{url}/{rel}"),
        });
    let itself = ProviderLink {
        rel: "self",
        href: url.clone(),
    };
    ProviderDocument {
        uuid: &provider.uuid,
        name: &provider.name,
        generation: provider.generation,
        links: std::iter::once(itself).chain(below).collect(),
        nesting: version
            .has(microversions::NESTED_PROVIDERS)
            .then_some(ParentField {
                parent_provider_uuid: provider.parent_uuid.as_deref(),
                root_provider_uuid: &provider.root_uuid,
            }),
    }
}

fn answer(provider: &ProviderRow, call: &ApiRequest) -> Result<ApiResponse, Fault> {
    let answer = ApiResponse::ok(&document(provider, call))?;
    Ok(modified(answer, call, Some(provider.modified)))
}

async fn list(State(placement): State<Placement>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    call.check_accept()?;
    placement.allow(&call)?;
    call.check_query(&schemas::list_providers(call.version))?;
    let filters = ProviderFilters::parse(&call.query, call.version)?;
    let mut tx = read(&placement.store).await?;
    let providers = providers::list(&mut tx, &filters)
        .await
        .map_err(|error| match error {
            ProviderError::NoSuchTrait(_) => Fault::bad_request(format!(
                "Invalid trait(s) in \"required\" parameter: {error}"
            )),
            ProviderError::NoSuchClass(_) => Fault::bad_request(format!(
                "Invalid resource class in resources parameter: {error}"
            )),
            other => provider_fault(other),
        })?;
    let listing = ProviderList {
        resource_providers: providers
            .iter()
            .map(|provider| document(provider, &call))
            .collect(),
    };
    let newest = providers.iter().map(|provider| provider.modified).max();
    Ok(modified(ApiResponse::ok(&listing)?, &call, newest))
}

async fn show(State(placement): State<Placement>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    call.check_accept()?;
    placement.allow(&call)?;
    let mut tx = read(&placement.store).await?;
    let provider = providers::get(&mut tx, call.path("uuid")?)
        .await
        .map_err(provider_fault)?;
    answer(&provider, &call)
}

#[derive(Deserialize)]
struct NewProvider {
    name: String,
    uuid: Option<String>,
    parent_provider_uuid: Option<String>,
}

async fn create(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    call.require_json()?;
    placement.allow(&call)?;
    let body: NewProvider = call.body(&schemas::create_provider(call.version))?;
    let given = body.uuid.as_deref().and_then(normal_uuid);
    let create = CreateProvider {
        uuid: given.unwrap_or_else(|| random_uuid().to_string()),
        name: body.name,
        parent: body.parent_provider_uuid.map(as_stored),
    };
    placement.check_host_of_new(&call, &create).await?;
    if create.name.is_empty() {
        return Err(cannot_create(
            &create,
            &"Object action create failed because: name is required",
        ));
    }
    let provider = placement
        .snapshots
        .write(&create)
        .await
        .map_err(|error| match error {
            ProviderError::Duplicate(what) => Fault::conflict(format!(
                "Conflicting resource provider {what} already exists."
            ))
            .with_code(codes::DUPLICATE_NAME),
            other @ (ProviderError::Sql(_) | ProviderError::Moved) => provider_fault(other),
            other => cannot_create(&create, &other),
        })?;
    let answer = if call.version.has(microversions::PROVIDER_POST_BODY) {
        answer(&provider, &call)?
    } else {
        ApiResponse::empty(StatusCode::CREATED)
    };
    Ok(answer.located(&call, &url(&provider)))
}

fn cannot_create(create: &CreateProvider, error: &dyn std::fmt::Display) -> Fault {
    Fault::bad_request(format!(
        "Unable to create resource provider \"{}\", {}: {error}",
        create.name, create.uuid
    ))
}

#[derive(Deserialize)]
struct ChangedProvider {
    name: String,
    #[serde(default, deserialize_with = "present")]
    parent_provider_uuid: Option<Option<String>>,
}

/// Distinguishes null from a missing key.
fn present<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

async fn update(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    call.require_json()?;
    placement.allow_change(&call).await?;
    let uuid = call.path("uuid")?;
    let current = {
        let mut tx = read(&placement.store).await?;
        providers::get(&mut tx, uuid)
            .await
            .map_err(provider_fault)?
    };
    let body: ChangedProvider = call.body(&schemas::update_provider(call.version))?;
    let placed = body.parent_provider_uuid.map(|uuid| uuid.map(as_stored));
    let parent = match &placed {
        Some(parent) => parent.as_deref(),
        None => current.parent_uuid.as_deref(),
    };
    placement
        .check_host_of_place(&call, &body.name, parent)
        .await?;
    // A provider that an operator named keeps its name.
    if body.name != current.name {
        check_host_of_name(&call, &body.name)?;
    }
    let update = UpdateProvider {
        uuid: uuid.to_owned(),
        name: body.name,
        parent: placed,
        reparenting: if call.version.has(microversions::REPARENTING) {
            ReparentingRule::Allowed
        } else {
            ReparentingRule::Refused
        },
    };
    let provider = placement
        .snapshots
        .write(&update)
        .await
        .map_err(|error| match error {
            ProviderError::Duplicate(name) => Fault::conflict(format!(
                "Conflicting resource provider {name} already exists."
            ))
            .with_code(codes::DUPLICATE_NAME),
            ProviderError::Create(_) | ProviderError::Update(_) => Fault::bad_request(format!(
                "Unable to save resource provider {}: {error}",
                update.uuid
            )),
            other => provider_fault(other),
        })?;
    answer(&provider, &call)
}

async fn delete(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    placement.allow_change(&call).await?;
    let uuid = call.path("uuid")?;
    let delete = DeleteProvider {
        uuid: uuid.to_owned(),
    };
    placement
        .snapshots
        .write(&delete)
        .await
        .map_err(|error| match error {
            ProviderError::NotFound(_) => Fault::not_found(format!(
                "No resource provider with uuid {uuid} found for delete"
            )),
            ProviderError::InUse => Fault::conflict(format!(
                "Unable to delete resource provider {uuid}: {error}"
            ))
            .with_code(codes::PROVIDER_IN_USE),
            ProviderError::HasChildren => Fault::conflict(format!(
                "Unable to delete parent resource provider {uuid}: {error}"
            ))
            .with_code(codes::CANNOT_DELETE_PARENT),
            other => provider_fault(other),
        })?;
    Ok(ApiResponse::no_content())
}
