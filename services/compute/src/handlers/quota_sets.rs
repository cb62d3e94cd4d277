//! /v2.1/os-quota-sets/{project}: the limits of a project, its usage, and the defaults.
//!
//! In addition to Nova's keys a quota set has one for each resource class with a limit, named as in Nova's unified limits:
//! `class:VGPU`.

use axum::extract::State;
use berth_http::fields::{BodyFields, MAX_INTEGER};
use berth_http::{ApiRequest, ApiResponse, Fault, Microversion};
use berth_quota::{QuotaLimit, QuotaLimits, QuotaResource};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::servers::fault;
use crate::microversions::{NO_NETWORK_LIMITS, NO_PERSONALITY, STRICT};
use crate::openapi::schemas::{in_key, integer, object};
use crate::paging::check_keys;
use crate::policies::{admin, everybody, reader};
use crate::project_quotas::{QuotaChange, UsageCheck};
use crate::state::{ComputeApi, ComputeOperation};

const QUERY: [&str; 1] = ["user_id"];

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::get("/v2.1/os-quota-sets/{project}", show)
            .rule(reader("os_compute_api:os-quota-sets:show"))
            .extension("os-quota-sets", "Quotas")
            .id("showQuotaSet")
            .summary("Shows the quotas of a project")
            .query(&QUERY)
            .responds("quota_set"),
        ComputeOperation::put("/v2.1/os-quota-sets/{project}", update)
            .rule(admin("os_compute_api:os-quota-sets:update"))
            .id("updateQuotaSet")
            .summary("Sets quotas of a project")
            .query(&QUERY)
            .body(|| in_key("quota_set", quota_schema()))
            .responds("quota_set"),
        ComputeOperation::delete("/v2.1/os-quota-sets/{project}", delete)
            .rule(admin("os_compute_api:os-quota-sets:delete"))
            .id("deleteQuotaSet")
            .summary("Reverts the quotas of a project to the defaults")
            .query(&QUERY)
            .statuses(&[202]),
        ComputeOperation::get("/v2.1/os-quota-sets/{project}/detail", detail)
            .rule(reader("os_compute_api:os-quota-sets:detail"))
            .id("showQuotaSetDetail")
            .summary("Shows the quotas and the usage of a project")
            .query(&QUERY)
            .responds("quota_set"),
        ComputeOperation::get("/v2.1/os-quota-sets/{project}/defaults", defaults)
            .rule(everybody("os_compute_api:os-quota-sets:defaults"))
            .id("showQuotaSetDefaults")
            .summary("Shows the default quotas of projects")
            .responds("quota_set"),
    ]
}

fn quota_schema() -> Value {
    let mut quotas = object(&[], [("force", json!({"type": "boolean"}))]);
    for resource in QuotaResource::OF_QUOTA_SETS {
        quotas["properties"][resource.name().as_ref()] = integer(-1);
    }
    quotas
}

/// Quotas of versions with network limits. There is no network service, so nothing is limited.
const OF_NETWORKS: [&str; 4] = [
    "fixed_ips",
    "floating_ips",
    "security_group_rules",
    "security_groups",
];

/// Quotas of versions with file injection, which is not supported.
const OF_FILES: [&str; 3] = [
    "injected_file_content_bytes",
    "injected_file_path_bytes",
    "injected_files",
];

/// The quotas that other services have, or that have no effect here. Versions from `no_networks` on have none of networks.
pub(super) fn without_effect(
    call: &ApiRequest,
    no_networks: Microversion,
) -> Vec<(&'static str, i64)> {
    let mut all = Vec::new();
    if !call.version.has(no_networks) {
        all.extend(OF_NETWORKS.map(|key| (key, -1)));
    }
    if !call.version.has(NO_PERSONALITY) {
        all.extend(OF_FILES.map(|key| (key, 0)));
    }
    all
}

/// Builds a quota set; `form` builds each entry.
fn set(
    call: &ApiRequest,
    limits: &QuotaLimits,
    form: impl Fn(Option<&QuotaResource>, i64) -> Value,
) -> Map<String, Value> {
    let mut set = Map::new();
    for (resource, limit) in limits.all() {
        let limit = limit.number();
        set.insert(resource.to_string(), form(Some(&resource), limit));
    }
    for (key, limit) in without_effect(call, NO_NETWORK_LIMITS) {
        set.insert(key.to_owned(), form(None, limit));
    }
    set
}

fn limit_only(_: Option<&QuotaResource>, limit: i64) -> Value {
    json!(limit)
}

fn respond(project: &str, mut set: Map<String, Value>) -> Result<ApiResponse, Fault> {
    set.insert("id".to_owned(), json!(project));
    ApiResponse::ok(&json!({ "quota_set": set }))
}

/// Checks the query, the rule, and that the project exists. Returns the project.
async fn project_of<'a>(api: &ComputeApi, call: &'a ApiRequest) -> Result<&'a str, Fault> {
    let project = checked_query(api, call)?;
    api.check_project(project).await?;
    Ok(project)
}

fn checked_query<'a>(api: &ComputeApi, call: &'a ApiRequest) -> Result<&'a str, Fault> {
    if call.version.has(STRICT) {
        check_keys(call, &QUERY)?;
    }
    let project = call.path("project")?;
    api.allow_in(call, project)?;
    match call.query.last("user_id") {
        None => Ok(project),
        Some(_) => Err(Fault::bad_request(
            "Quotas of a user within a project are not supported: leave out user_id.",
        )),
    }
}

async fn show(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let project = project_of(&api, &call).await?;
    let limits = api.compute.quota_limits(project).await.map_err(fault)?;
    respond(project, set(&call, &limits, limit_only))
}

async fn defaults(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let project = call.path("project")?;
    api.check_project(project).await?;
    let limits = &api.compute.inner.options.quotas;
    respond(project, set(&call, limits, limit_only))
}

async fn detail(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let project = project_of(&api, &call).await?;
    let usage = api.compute.project_usage(project).await.map_err(fault)?;
    let groups = api.used_groups(project).await?;
    let form = |resource: Option<&QuotaResource>, limit| {
        let in_use = match resource {
            None => 0,
            Some(QuotaResource::ServerGroups) => groups,
            Some(resource) => usage.used.of(resource),
        };
        json!({"in_use": in_use, "limit": limit, "reserved": 0})
    };
    respond(project, set(&call, &usage.limits, form))
}

async fn update(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let project = project_of(&api, &call).await?;
    let body: Value = call.typed()?;
    let (limits, check) = parse(&call, &body)?;
    let change = QuotaChange {
        project,
        limits: &limits,
        server_groups: api.used_groups(project).await?,
        check,
    };
    let limits = api.compute.set_quotas(change).await.map_err(fault)?;
    // As in Nova, without the id.
    let set = set(&call, &limits, limit_only);
    ApiResponse::ok(&json!({ "quota_set": set }))
}

async fn delete(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    // The project may have been deleted.
    let project = checked_query(&api, &call)?;
    api.compute.delete_quotas(project).await.map_err(fault)?;
    Ok(ApiResponse::empty(StatusCode::ACCEPTED))
}

/// Parses new limits.
fn parse(
    call: &ApiRequest,
    body: &Value,
) -> Result<(Vec<(QuotaResource, QuotaLimit)>, UsageCheck), Fault> {
    let mut fields = BodyFields::of_body(body, "quota_set")?;
    let check = match fields.boolean("force")? {
        Some(true) => UsageCheck::Forced,
        Some(false) | None => UsageCheck::Required,
    };
    let mut limits = Vec::new();
    for key in fields.keys().filter(|key| *key != "force") {
        let mut others = without_effect(call, NO_NETWORK_LIMITS).into_iter();
        if others.any(|(other, _)| other == key) {
            let sentence =
                format!("The quota {key} cannot be set: it has no effect in this cloud.");
            return Err(Fault::bad_request(sentence));
        }
        let is_class = key.starts_with("class:");
        match key.parse::<QuotaResource>() {
            Ok(resource) => {
                if let Some(limit) = fields.integer(key, -1..=MAX_INTEGER)? {
                    limits.push((resource, QuotaLimit::from_number(limit)));
                }
            }
            Err(error) if is_class => return Err(Fault::bad_request(error.to_string())),
            // `end` refuses it.
            Err(_) => {}
        }
    }
    fields.end()?;
    Ok((limits, check))
}

impl ComputeApi {
    pub(super) async fn used_groups(&self, project: &str) -> Result<u64, Fault> {
        let groups = self.compute.inner.hosts.groups(Some(project)).await;
        let count = groups.map_err(super::hosts::group_fault)?.len();
        Ok(u64::try_from(count).unwrap_or(u64::MAX))
    }
}
