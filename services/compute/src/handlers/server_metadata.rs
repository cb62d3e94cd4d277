//! /v2.1/servers/{server}/metadata: key-value pairs set by users.

use std::collections::BTreeMap;

use axum::extract::State;
use berth_http::fields::BodyFields;
use berth_http::{ApiRequest, ApiResponse, Fault};
use serde_json::{Value, json};
use uuid::Uuid;

use super::server_create::metadata_of;
use super::servers::fault;
use crate::openapi::schemas::{in_key, texts};
use crate::policies::{member, reader};
use crate::servers::{Others, ServerError};
use crate::state::{ComputeApi, ComputeOperation};

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::get("/v2.1/servers/{server}/metadata", list)
            .rule(reader("os_compute_api:server-metadata:index"))
            .id("listMetadata")
            .summary("Lists the metadata of a server")
            .responds("metadata"),
        ComputeOperation::post("/v2.1/servers/{server}/metadata", create)
            .rule(member("os_compute_api:server-metadata:create"))
            .id("createMetadata")
            .summary("Sets some metadata")
            .body(|| in_key("metadata", texts()))
            .responds("metadata"),
        ComputeOperation::put("/v2.1/servers/{server}/metadata", replace)
            .rule(member("os_compute_api:server-metadata:update_all"))
            .id("replaceMetadata")
            .summary("Replaces all metadata")
            .body(|| in_key("metadata", texts()))
            .responds("metadata"),
        ComputeOperation::get("/v2.1/servers/{server}/metadata/{key}", show)
            .rule(reader("os_compute_api:server-metadata:show"))
            .id("showMetadata")
            .summary("Shows a metadata item")
            .responds("meta"),
        ComputeOperation::put("/v2.1/servers/{server}/metadata/{key}", update)
            .rule(member("os_compute_api:server-metadata:update"))
            .id("updateMetadata")
            .summary("Sets a metadata item")
            .body(|| in_key("meta", texts()))
            .responds("meta"),
        ComputeOperation::delete("/v2.1/servers/{server}/metadata/{key}", delete)
            .rule(member("os_compute_api:server-metadata:delete"))
            .id("deleteMetadata")
            .summary("Deletes a metadata item")
            .statuses(&[204]),
    ]
}

fn parse_metadata(call: &ApiRequest) -> Result<BTreeMap<String, String>, Fault> {
    let body: Value = call.typed()?;
    let mut fields = BodyFields::of("body", &body)?;
    let metadata = fields.value("metadata");
    let metadata = fields.required("metadata", metadata)?;
    fields.end()?;
    metadata_of("metadata", metadata)
}

async fn set(
    api: &ComputeApi,
    uuid: Uuid,
    metadata: BTreeMap<String, String>,
    others: Others,
) -> Result<BTreeMap<String, String>, Fault> {
    let set = api.compute.set_metadata(uuid, metadata, others).await;
    set.map_err(fault)
}

async fn list(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let server = api.server(&call).await?;
    ApiResponse::ok(&json!({"metadata": server.metadata}))
}

async fn create(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let server = api.editable_server(&call, "update metadata").await?;
    api.check_unlocked(&call, &server)?;
    let all = set(&api, server.uuid, parse_metadata(&call)?, Others::Stay).await?;
    ApiResponse::ok(&json!({ "metadata": all }))
}

async fn replace(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let server = api.editable_server(&call, "update metadata").await?;
    api.check_unlocked(&call, &server)?;
    let all = set(&api, server.uuid, parse_metadata(&call)?, Others::Go).await?;
    ApiResponse::ok(&json!({ "metadata": all }))
}

async fn show(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let server = api.server(&call).await?;
    let key = call.path("key")?;
    match server.metadata.get(key) {
        Some(value) => ApiResponse::ok(&json!({"meta": {key: value}})),
        None => Err(fault(ServerError::NoMetadata)),
    }
}

async fn update(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let server = api.editable_server(&call, "update metadata").await?;
    api.check_unlocked(&call, &server)?;
    let body: Value = call.typed()?;
    let mut fields = BodyFields::of("body", &body)?;
    let meta = fields.value("meta");
    let meta = metadata_of("meta", fields.required("meta", meta)?)?;
    fields.end()?;
    let key = call.path("key")?;
    if meta.len() != 1 {
        return Err(Fault::bad_request("Request body contains too many items"));
    }
    if !meta.contains_key(key) {
        return Err(Fault::bad_request("Request body and URI mismatch"));
    }
    set(&api, server.uuid, meta.clone(), Others::Stay).await?;
    ApiResponse::ok(&json!({ "meta": meta }))
}

async fn delete(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let server = api.editable_server(&call, "delete metadata").await?;
    api.check_unlocked(&call, &server)?;
    let deleted = api
        .compute
        .delete_metadata(server.uuid, call.path("key")?)
        .await;
    deleted.map_err(fault)?;
    Ok(ApiResponse::no_content())
}
