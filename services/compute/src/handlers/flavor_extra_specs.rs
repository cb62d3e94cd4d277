//! /v2.1/flavors/{flavor}/os-extra_specs: further requirements of a flavor on the host.

use std::collections::BTreeMap;

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::flavors::{fault, visible_flavor};
use crate::fields::{BodyFields, text, wrong};
use crate::flavors::ComputeFlavorError;
use crate::policies;
use crate::state::ComputeApi;

/// Validates the extra specs of a body.
fn specs(object: &Map<String, Value>) -> Result<BTreeMap<String, String>, Fault> {
    let lawful = |(key, value): (&String, &Value)| {
        let plain = |one: char| one.is_ascii_alphanumeric() || "-_:. ".contains(one);
        if key.is_empty() || key.len() > 255 || !key.chars().all(plain) {
            let reason = "a key has 1 to 255 letters, digits, blanks, -, _, : and .";
            return Err(wrong("extra_specs", &Value::String(key.clone()), reason));
        }
        let setting = match value {
            Value::Number(number) => number.to_string(),
            other => text(key, other, 0..=255)?.to_owned(),
        };
        Ok((key.clone(), setting))
    };
    object.iter().map(lawful).collect()
}

pub(crate) async fn list(
    State(api): State<ComputeApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    api.allow(&call, policies::EXTRA_SPECS_INDEX)?;
    let flavor = visible_flavor(&api, &call).await?;
    ApiResponse::ok(&json!({"extra_specs": flavor.extra_specs}))
}

pub(crate) async fn create(
    State(api): State<ComputeApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    api.allow(&call, policies::EXTRA_SPECS_CREATE)?;
    let body: Value = call.typed()?;
    let mut fields = BodyFields::of("body", &body)?;
    let given = fields.value("extra_specs");
    let given = fields.required("extra_specs", given)?;
    fields.end()?;
    let object = given.as_object();
    let object = object.ok_or_else(|| wrong("extra_specs", given, "it is not of type 'object'"))?;
    let specs = specs(object)?;
    let shown = json!({"extra_specs": specs});
    let set = api.compute.set_extra_specs(call.path("flavor")?, specs);
    set.await.map_err(fault)?;
    ApiResponse::ok(&shown)
}

pub(crate) async fn show(
    State(api): State<ComputeApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    api.allow(&call, policies::EXTRA_SPECS_SHOW)?;
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

pub(crate) async fn update(
    State(api): State<ComputeApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    api.allow(&call, policies::EXTRA_SPECS_UPDATE)?;
    let body: Value = call.typed()?;
    let object = body.as_object();
    let object = object.ok_or_else(|| wrong("body", &body, "it is not of type 'object'"))?;
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

pub(crate) async fn delete(
    State(api): State<ComputeApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    api.allow(&call, policies::EXTRA_SPECS_DELETE)?;
    let (flavor, key) = (call.path("flavor")?, call.path("key")?);
    let deleted = api.compute.delete_extra_spec(flavor, key).await;
    deleted.map_err(fault)?;
    Ok(ApiResponse::empty(StatusCode::OK))
}
