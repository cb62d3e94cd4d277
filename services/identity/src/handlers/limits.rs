//! /v3/limits and /v3/registered_limits: Keystone's unified limits, of the compute API in the same process. Without one,
//! these paths do not exist.

use axum::extract::State;
use axum::routing::post;
use berth_http::{ApiRequest, ApiResponse, Caller, Fault, TokenScope};
use berth_wire::identity::{
    CreatedLimits, LimitModel, LimitModelDocument, LimitUpdateDocument, NewLimit, NewLimits,
    ProjectLimitDocument, ProjectLimits, RegisteredLimitDocument, RegisteredLimits,
};
use http::StatusCode;
use serde_json::{Value, json};

use super::{kept, not_found};
use crate::policies::{allow, may_read_all};
use crate::router::{IdentityApi, IdentityOperation};
use crate::shown::{self, Links};
use crate::unified_limits::{ProjectLimit, ServiceLimits, UnifiedLimitError};
use crate::users::Users;

/// The largest limit, as in Keystone.
const MOST: i64 = 0x7FFF_FFFF;

pub(super) fn operations() -> Vec<IdentityOperation> {
    vec![
        IdentityOperation::get("/v3/limits/model", model)
            .id("showLimitModel")
            .summary("Show how limits of projects relate to each other")
            .responds("model"),
        IdentityOperation::get("/v3/limits", list)
            .id("listLimits")
            .summary("List limits of projects")
            .query(&[
                "service_id",
                "region_id",
                "resource_name",
                "project_id",
                "domain_id",
            ])
            .responds("limits"),
        IdentityOperation::post("/v3/limits", create)
            .id("createLimits")
            .summary("Create limits of projects, all or none")
            .body(new_limits_schema)
            .statuses(&[201])
            .errors(&[409])
            .responds("limits"),
        IdentityOperation::get("/v3/limits/{limit_id}", show)
            .id("showLimit")
            .summary("One limit of a project")
            .responds("limit"),
        IdentityOperation::patch("/v3/limits/{limit_id}", update)
            .id("updateLimit")
            .summary("Change a limit of a project")
            .body(update_schema)
            .responds("limit"),
        IdentityOperation::delete("/v3/limits/{limit_id}", delete)
            .id("deleteLimit")
            .summary("Delete a limit of a project: the default applies again")
            .statuses(&[204]),
        IdentityOperation::get("/v3/registered_limits", list_registered)
            .id("listRegisteredLimits")
            .summary("List the default limits of projects")
            .query(&["service_id", "region_id", "resource_name"])
            .responds("registered_limits"),
        refused("/v3/registered_limits"),
        IdentityOperation::get(
            "/v3/registered_limits/{registered_limit_id}",
            show_registered,
        )
        .id("showRegisteredLimit")
        .summary("One default limit of projects")
        .responds("registered_limit"),
        refused("/v3/registered_limits/{registered_limit_id}"),
    ]
}

fn number_schema() -> Value {
    json!({"type": "integer", "minimum": -1, "maximum": MOST})
}

fn new_limits_schema() -> Value {
    let text = json!({"type": "string", "maxLength": 255});
    let limit = json!({
        "type": "object",
        "properties": {
            "service_id": text,
            "region_id": {"type": "null"},
            "project_id": text,
            "domain_id": {"type": "null"},
            "resource_name": text,
            "resource_limit": number_schema(),
            "description": {"type": "null"},
        },
        "required": ["service_id", "project_id", "resource_name", "resource_limit"],
        "additionalProperties": false,
    });
    json!({
        "type": "object",
        "properties": {"limits": {"type": "array", "items": limit, "minItems": 1}},
        "required": ["limits"],
        "additionalProperties": false,
    })
}

fn update_schema() -> Value {
    let limit = json!({
        "type": "object",
        "properties": {"resource_limit": number_schema(), "description": {"type": "null"}},
        "additionalProperties": false,
    });
    json!({
        "type": "object",
        "properties": {"limit": limit},
        "required": ["limit"],
        "additionalProperties": false,
    })
}

/// The limits of this process; a 404 without any.
fn limits_of(api: &IdentityApi) -> Result<&ServiceLimits, Fault> {
    api.limits.as_deref().ok_or_else(Fault::no_such_route)
}

fn fault(error: UnifiedLimitError) -> Fault {
    match &error {
        UnifiedLimitError::Invalid(text) => Fault::bad_request(text),
        UnifiedLimitError::Exists { .. } => Fault::conflict(format!(
            "Conflict occurred attempting to store limit - {error}. Change it instead."
        )),
        UnifiedLimitError::NotFound => Fault::not_found("Could not find limit."),
        UnifiedLimitError::Database { will_pass, .. } => {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "a request for limits failed"
            );
            match will_pass {
                true => Fault::unavailable("The database of limits is unavailable; try again."),
                false => Fault::internal("The database of limits failed; see the service's log."),
            }
        }
    }
}

async fn model(State(api): State<IdentityApi>, _: ApiRequest) -> Result<ApiResponse, Fault> {
    limits_of(&api)?;
    ApiResponse::ok(&LimitModelDocument {
        model: LimitModel {
            name: "flat",
            description: "A limit of a project holds for the project alone. Projects have no other projects below them.",
        },
    })
}

/// Whether the limit is of the caller's project, or of a project in the caller's domain.
fn is_in_scope(caller: &Caller, users: &Users, limit: &ProjectLimit) -> bool {
    match &caller.scope {
        TokenScope::Project(id) => *id == limit.project_id,
        TokenScope::Domain(id) => {
            let project = users.project(&limit.project_id);
            project.is_some_and(|project| project.domain_id == *id)
        }
        TokenScope::System | TokenScope::Unscoped => false,
    }
}

async fn list(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let own = limits_of(&api)?;
    let (users, links) = (api.identity.users(), Links::of(&api, &call));
    let caller = &call.caller;
    let sees_all = caller.has_role("admin")
        || caller.has_role("service")
        || caller.scope == TokenScope::System;
    let all = own.store.limits().await.map_err(fault)?;
    let kept = all.iter().filter(|limit| {
        let keys = [
            ("service_id", own.service_id.as_str()),
            ("resource_name", &limit.resource_name),
            ("project_id", &limit.project_id),
            // No limit is of a region or a domain.
            ("region_id", ""),
            ("domain_id", ""),
        ];
        (sees_all || is_in_scope(caller, &users, limit)) && kept(&call, &keys)
    });
    ApiResponse::ok(&ProjectLimits {
        limits: kept.map(|it| shown::limit(own, it, &links)).collect(),
        links: links.list("/limits"),
    })
}

/// The limit with the id in the path.
async fn find(own: &ServiceLimits, call: &ApiRequest) -> Result<Option<ProjectLimit>, Fault> {
    let id = call.path("limit_id")?;
    let all = own.store.limits().await.map_err(fault)?;
    Ok(all.into_iter().find(|limit| own.id(limit) == id))
}

async fn show(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let own = limits_of(&api)?;
    let (users, found) = (api.identity.users(), find(own, &call).await?);
    let is_own = |limit: &ProjectLimit| is_in_scope(&call.caller, &users, limit);
    let may = may_read_all(&call.caller) || found.as_ref().is_some_and(is_own);
    allow(may, "identity:get_limit")?;
    let limit = found.ok_or_else(|| missing(&call))?;
    respond(&api, own, &call, &limit)
}

fn missing(call: &ApiRequest) -> Fault {
    not_found("limit", call.path("limit_id").unwrap_or_default())
}

fn respond(
    api: &IdentityApi,
    own: &ServiceLimits,
    call: &ApiRequest,
    limit: &ProjectLimit,
) -> Result<ApiResponse, Fault> {
    ApiResponse::ok(&ProjectLimitDocument {
        limit: shown::limit(own, limit, &Links::of(api, call)),
    })
}

async fn create(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let own = limits_of(&api)?;
    allow(call.caller.has_role("admin"), "identity:create_limits")?;
    let body: NewLimits = call.typed()?;
    if body.limits.is_empty() {
        return Err(Fault::bad_request("limits: at least one is required"));
    }
    let users = api.identity.users();
    let new = body.limits.into_iter();
    let new: Vec<_> = new
        .map(|limit| checked(own, &users, limit))
        .collect::<Result<_, _>>()?;
    own.store.create(&new).await.map_err(fault)?;
    let links = Links::of(&api, &call);
    let created = CreatedLimits {
        limits: new.iter().map(|it| shown::limit(own, it, &links)).collect(),
    };
    ApiResponse::with_body(StatusCode::CREATED, &created)
}

/// The limit, if what it refers to exists.
fn checked(own: &ServiceLimits, users: &Users, new: NewLimit) -> Result<ProjectLimit, Fault> {
    if new.service_id != own.service_id {
        return Err(Fault::bad_request(format!(
            "limits.service_id: only the service {} has limits here, with the id {}",
            own.store.service_type(),
            own.service_id
        )));
    }
    let without_effect = [
        ("region_id", &new.region_id),
        ("domain_id", &new.domain_id),
        ("description", &new.description),
    ];
    for (field, value) in without_effect {
        refuse_field(field, value.as_deref())?;
    }
    let Some(project_id) = new.project_id else {
        return Err(Fault::bad_request("limits.project_id: missing"));
    };
    if users.project(&project_id).is_none() {
        return Err(Fault::bad_request(
            "limits.project_id: there is no such project",
        ));
    }
    let mut defaults = own.store.defaults().into_iter();
    if !defaults.any(|it| it.resource_name == new.resource_name) {
        // Keystone's status and sentence.
        let shown: String = new.resource_name.chars().take(80).collect();
        return Err(Fault::forbidden(format!(
            "Unable to create a limit that has no corresponding registered limit: {shown}. Registered limits are the defaults in \
             [quota] of the configuration. A resource class has one if resource_classes names it, for example VGPU=-1."
        )));
    }
    Ok(ProjectLimit {
        project_id,
        resource_name: new.resource_name,
        resource_limit: number(new.resource_limit)?,
    })
}

/// Refuses a field that would be lost.
fn refuse_field(field: &str, value: Option<&str>) -> Result<(), Fault> {
    match value {
        None => Ok(()),
        Some(_) => Err(Fault::bad_request(format!(
            "{field}: limits have none in this cloud: leave it out"
        ))),
    }
}

fn number(limit: i64) -> Result<i64, Fault> {
    match limit {
        -1..=MOST => Ok(limit),
        _ => Err(Fault::bad_request(format!(
            "resource_limit: {limit} is not from -1 (unlimited) to {MOST}"
        ))),
    }
}

async fn update(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let own = limits_of(&api)?;
    allow(call.caller.has_role("admin"), "identity:update_limit")?;
    let LimitUpdateDocument { limit: change } = call.typed()?;
    refuse_field("description", change.description.as_deref())?;
    let mut limit = find(own, &call).await?.ok_or_else(|| missing(&call))?;
    if let Some(new) = change.resource_limit {
        limit.resource_limit = number(new)?;
        own.store.update(&limit).await.map_err(fault)?;
    }
    respond(&api, own, &call, &limit)
}

async fn delete(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let own = limits_of(&api)?;
    allow(call.caller.has_role("admin"), "identity:delete_limit")?;
    let limit = find(own, &call).await?.ok_or_else(|| missing(&call))?;
    own.store.delete(&limit).await.map_err(fault)?;
    Ok(ApiResponse::no_content())
}

async fn list_registered(
    State(api): State<IdentityApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    let own = limits_of(&api)?;
    let links = Links::of(&api, &call);
    let all = own.store.defaults();
    let kept = all.iter().filter(|limit| {
        let keys = [
            ("service_id", own.service_id.as_str()),
            ("resource_name", &limit.resource_name),
            ("region_id", ""),
        ];
        kept(&call, &keys)
    });
    ApiResponse::ok(&RegisteredLimits {
        registered_limits: kept
            .map(|it| shown::registered_limit(own, it, &links))
            .collect(),
        links: links.list("/registered_limits"),
    })
}

async fn show_registered(
    State(api): State<IdentityApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    let own = limits_of(&api)?;
    let id = call.path("registered_limit_id")?;
    let mut all = own.store.defaults().into_iter();
    let limit = all.find(|limit| own.default_id(limit) == id);
    let limit = limit.ok_or_else(|| not_found("registered limit", id))?;
    ApiResponse::ok(&RegisteredLimitDocument {
        registered_limit: shown::registered_limit(own, &limit, &Links::of(&api, &call)),
    })
}

/// Refuses requests to change the defaults.
async fn refuse(State(api): State<IdentityApi>, _: ApiRequest) -> Fault {
    if let Err(missing) = limits_of(&api) {
        return missing;
    }
    Fault::forbidden(
        "Registered limits are the defaults in [quota] of the configuration (berth.toml): change them there, and start berth \
         again. This API reads them.",
    )
}

fn refused(path: &'static str) -> IdentityOperation {
    let methods = post(refuse).put(refuse).patch(refuse).delete(refuse);
    IdentityOperation::refused(path, methods)
}
