//! /v2.1/flavors/{flavor}/os-flavor-access and .../action: which projects may use a flavor that is not public.

use std::collections::BTreeSet;

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use serde_json::{Value, json};

use super::flavors::{fault, visible_flavor};
use crate::fields::BodyFields;
use crate::policies;
use crate::state::ComputeApi;

fn shown(flavorid: &str, projects: &BTreeSet<String>) -> Result<ApiResponse, Fault> {
    let one = |project: &String| json!({"flavor_id": flavorid, "tenant_id": project});
    let all: Vec<Value> = projects.iter().map(one).collect();
    ApiResponse::ok(&json!({"flavor_access": all}))
}

pub(crate) async fn list(
    State(api): State<ComputeApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    api.allow(&call, policies::FLAVOR_ACCESS)?;
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

pub(crate) async fn action(
    State(api): State<ComputeApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    let body: Value = call.typed()?;
    let flavorid = call.path("flavor")?;
    let is = |action: &str| body.get(action).is_some();
    let projects = if is("addTenantAccess") {
        api.allow(&call, policies::FLAVOR_ACCESS_ADD)?;
        let project = project(&body, "addTenantAccess")?;
        api.compute.add_flavor_access(flavorid, &project).await
    } else if is("removeTenantAccess") {
        api.allow(&call, policies::FLAVOR_ACCESS_REMOVE)?;
        let project = project(&body, "removeTenantAccess")?;
        api.compute.remove_flavor_access(flavorid, &project).await
    } else {
        let sentence =
            "There is no such action: flavors have addTenantAccess and removeTenantAccess.";
        return Err(Fault::bad_request(sentence));
    };
    shown(flavorid, &projects.map_err(fault)?)
}
