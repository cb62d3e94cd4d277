//! /v2.1/flavors/{flavor}/os-extra_specs: further requirements of a flavor on the host.

use std::collections::BTreeMap;

use axum::extract::State;
use berth_http::fields::{BodyFields, invalid_field, text};
use berth_http::{ApiRequest, ApiResponse, Fault, RuleDefault};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::flavors::{fault, visible_flavor};
use crate::flavors::ComputeFlavorError;
use crate::openapi::schemas::{in_key, texts};
use crate::policies::{admin, reader};
use crate::state::{ComputeApi, ComputeOperation};

/// List the extra specs of a flavor, also in flavors and servers.
pub(super) const INDEX: RuleDefault = reader("os_compute_api:os-flavor-extra-specs:index");

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::get("/v2.1/flavors/{flavor}/os-extra_specs", list)
            .rule(INDEX)
            .extension("os-flavor-extra-specs", "FlavorExtraSpecs")
            .id("listExtraSpecs")
            .summary("Lists the extra specs of a flavor")
            .responds("extra_specs"),
        ComputeOperation::post("/v2.1/flavors/{flavor}/os-extra_specs", create)
            .rule(admin("os_compute_api:os-flavor-extra-specs:create"))
            .id("createExtraSpecs")
            .summary("Sets extra specs")
            .body(|| in_key("extra_specs", texts()))
            .responds("extra_specs"),
        ComputeOperation::get("/v2.1/flavors/{flavor}/os-extra_specs/{key}", show)
            .rule(reader("os_compute_api:os-flavor-extra-specs:show"))
            .id("showExtraSpec")
            .summary("Shows an extra spec"),
        ComputeOperation::put("/v2.1/flavors/{flavor}/os-extra_specs/{key}", update)
            .rule(admin("os_compute_api:os-flavor-extra-specs:update"))
            .id("updateExtraSpec")
            .summary("Sets an extra spec")
            .body(texts),
        ComputeOperation::delete("/v2.1/flavors/{flavor}/os-extra_specs/{key}", delete)
            .rule(admin("os_compute_api:os-flavor-extra-specs:delete"))
            .id("deleteExtraSpec")
            .summary("Deletes an extra spec"),
    ]
}

/// Validates the extra specs of a body.
fn specs(object: &Map<String, Value>) -> Result<BTreeMap<String, String>, Fault> {
    let lawful = |(key, value): (&String, &Value)| {
        let plain = |one: char| one.is_ascii_alphanumeric() || "-_:. ".contains(one);
        if key.is_empty() || key.len() > 255 || !key.chars().all(plain) {
            let reason = "a key has 1 to 255 letters, digits, blanks, -, _, : and .";
            return Err(invalid_field(
                "extra_specs",
                &Value::String(key.clone()),
                reason,
            ));
        }
        let setting = match value {
            Value::Number(number) => number.to_string(),
            other => text(key, other, 0..=255)?.to_owned(),
        };
        Ok((key.clone(), setting))
    };
    object.iter().map(lawful).collect()
}

async fn list(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let flavor = visible_flavor(&api, &call).await?;
    ApiResponse::ok(&json!({"extra_specs": flavor.extra_specs}))
}

async fn create(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let body: Value = call.typed()?;
    let mut fields = BodyFields::of("body", &body)?;
    let given = fields.value("extra_specs");
    let given = fields.required("extra_specs", given)?;
    fields.end()?;
    let object = given.as_object();
    let object =
        object.ok_or_else(|| invalid_field("extra_specs", given, "it is not of type 'object'"))?;
    let specs = specs(object)?;
    let shown = json!({"extra_specs": specs});
    let set = api.compute.set_extra_specs(call.path("flavor")?, specs);
    set.await.map_err(fault)?;
    ApiResponse::ok(&shown)
}

async fn show(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let flavor = visible_flavor(&api, &call).await?;
    let key = call.path("key")?;
    match flavor.extra_specs.get(key) {
        Some(setting) => ApiResponse::ok(&BTreeMap::from([(key, setting)])),
        None => Err(fault(ComputeFlavorError::NoExtraSpec {
            flavorid: flavor.properties.flavorid,
            key: key.to_owned(),
        })),
    }
}

async fn update(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let body: Value = call.typed()?;
    let object = body.as_object();
    let object =
        object.ok_or_else(|| invalid_field("body", &body, "it is not of type 'object'"))?;
    let specs = specs(object)?;
    let key = call.path("key")?;
    if specs.len() != 1 || !specs.contains_key(key) {
        return Err(Fault::bad_request("Request body and URI mismatch"));
    }
    let set = api
        .compute
        .set_extra_specs(call.path("flavor")?, specs.clone());
    set.await.map_err(fault)?;
    ApiResponse::ok(&specs)
}

async fn delete(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let (flavor, key) = (call.path("flavor")?, call.path("key")?);
    let deleted = api.compute.delete_extra_spec(flavor, key).await;
    deleted.map_err(fault)?;
    Ok(ApiResponse::empty(StatusCode::OK))
}
