//! /v2.1/flavors/{flavor}/os-flavor-access and .../action: which projects may use a flavor that is not public.

use std::collections::BTreeSet;

use axum::extract::State;
use berth_http::fields::BodyFields;
use berth_http::{ApiRequest, ApiResponse, Fault, RuleDefault};
use serde_json::{Value, json};

use super::flavors::{fault, visible_flavor};
use crate::openapi::schemas::{object, one_of, text};
use crate::policies::admin;
use crate::state::{ComputeApi, ComputeOperation};

/// Grant a project access to a flavor.
const ADD_TENANT: RuleDefault = admin("os_compute_api:os-flavor-access:add_tenant_access");
/// Revoke a project's access to a flavor.
const REMOVE_TENANT: RuleDefault = admin("os_compute_api:os-flavor-access:remove_tenant_access");

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::post("/v2.1/flavors/{flavor}/action", action)
            .other_rules(&[ADD_TENANT, REMOVE_TENANT])
            .id("actOnFlavor")
            .summary("Adds a project to the access list of a flavor, or removes it")
            .body(action_schema)
            .responds("flavor_access"),
        ComputeOperation::get("/v2.1/flavors/{flavor}/os-flavor-access", list)
            .rule(admin("os_compute_api:os-flavor-access"))
            .extension("os-flavor-access", "FlavorAccess")
            .id("listFlavorAccess")
            .summary("Lists the projects that may use a flavor that is not public")
            .responds("flavor_access"),
    ]
}

fn action_schema() -> Value {
    let tenant = || object(&["tenant"], [("tenant", text(1, 255))]);
    one_of([
        ("addTenantAccess", tenant()),
        ("removeTenantAccess", tenant()),
    ])
}

fn shown(flavorid: &str, projects: &BTreeSet<String>) -> Result<ApiResponse, Fault> {
    let one = |project: &String| json!({"flavor_id": flavorid, "tenant_id": project});
    let all: Vec<Value> = projects.iter().map(one).collect();
    ApiResponse::ok(&json!({"flavor_access": all}))
}

async fn list(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let flavor = visible_flavor(&api, &call).await?;
    if flavor.properties.is_public {
        let sentence = "Access list not available for public flavors.";
        return Err(Fault::not_found(sentence));
    }
    shown(&flavor.properties.flavorid, &flavor.projects)
}

/// Parses `{"addTenantAccess": {"tenant": "..."}}`.
fn project(body: &Value, action: &'static str) -> Result<String, Fault> {
    let mut fields = BodyFields::of_body(body, action)?;
    let tenant = fields.text("tenant", 1..=255)?;
    let tenant = fields.required("tenant", tenant)?;
    fields.end()?;
    Ok(tenant.to_owned())
}

async fn action(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let body: Value = call.typed()?;
    let flavorid = call.path("flavor")?;
    let is = |action: &str| body.get(action).is_some();
    let projects = if is("addTenantAccess") {
        api.allow_rule(&call, ADD_TENANT, None)?;
        let project = project(&body, "addTenantAccess")?;
        api.check_project(&project).await?;
        api.compute.add_flavor_access(flavorid, &project).await
    } else if is("removeTenantAccess") {
        api.allow_rule(&call, REMOVE_TENANT, None)?;
        let project = project(&body, "removeTenantAccess")?;
        api.compute.remove_flavor_access(flavorid, &project).await
    } else {
        let sentence =
            "There is no such action: flavors have addTenantAccess and removeTenantAccess.";
        return Err(Fault::bad_request(sentence));
    };
    shown(flavorid, &projects.map_err(fault)?)
}
