//! /v2.1/servers/{server}/tags, from 2.26 on: tags set by users.

use std::collections::BTreeSet;

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use http::{StatusCode, header};
use serde_json::{Value, json};

use super::server_create::tags_of;
use super::servers::{fault, server_uuid};
use crate::fields::{BodyFields, wrong};
use crate::microversions::TAGS;
use crate::policies;
use crate::servers::{ServerError, ServerRecord, TagOutcome, check_tag};
use crate::state::ComputeApi;

fn since_tags(call: &ApiRequest) -> Result<(), Fault> {
    match call.version.has(TAGS) {
        true => Ok(()),
        false => Err(Fault::no_such_route()),
    }
}

async fn server(
    api: &ComputeApi,
    call: &ApiRequest,
    rule: &'static str,
) -> Result<ServerRecord, Fault> {
    since_tags(call)?;
    api.server(call, rule).await
}

/// The server in the path, if its tags may be changed.
async fn editable_server(
    api: &ComputeApi,
    call: &ApiRequest,
    rule: &'static str,
    does: &'static str,
) -> Result<ServerRecord, Fault> {
    since_tags(call)?;
    api.editable_server(call, rule, does).await
}

pub(crate) async fn list(
    State(api): State<ComputeApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    let server = server(&api, &call, policies::TAGS_INDEX).await?;
    ApiResponse::ok(&json!({"tags": server.tags}))
}

pub(crate) async fn replace(
    State(api): State<ComputeApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    let server = editable_server(&api, &call, policies::TAGS_UPDATE_ALL, "update tags").await?;
    let body: Value = call.typed()?;
    let mut fields = BodyFields::of("body", &body)?;
    let tags = fields.value("tags");
    let tags = tags_of(fields.required("tags", tags)?)?;
    fields.end()?;
    let replaced = api.compute.replace_tags(server.uuid, tags.clone()).await;
    replaced.map_err(fault)?;
    ApiResponse::ok(&json!({ "tags": tags }))
}

pub(crate) async fn clear(
    State(api): State<ComputeApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    let server = editable_server(&api, &call, policies::TAGS_DELETE_ALL, "delete tags").await?;
    let cleared = api.compute.replace_tags(server.uuid, BTreeSet::new()).await;
    cleared.map_err(fault)?;
    Ok(ApiResponse::no_content())
}

pub(crate) async fn show(
    State(api): State<ComputeApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    let server = server(&api, &call, policies::TAGS_SHOW).await?;
    let tag = call.path("tag")?;
    if server.tags.contains(tag) {
        return Ok(ApiResponse::no_content());
    }
    Err(fault(ServerError::NoTag {
        uuid: server.uuid,
        tag: crate::fields::bounded(tag),
    }))
}

pub(crate) async fn put(
    State(api): State<ComputeApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    let server = editable_server(&api, &call, policies::TAGS_UPDATE, "update tag").await?;
    let tag = call.path("tag")?;
    if let Some(reason) = check_tag(tag) {
        return Err(wrong("tag", &json!(tag), reason));
    }
    let tagged = api.compute.add_tag(server.uuid, tag).await.map_err(fault)?;
    let status = match tagged {
        TagOutcome::New => StatusCode::CREATED,
        TagOutcome::Same => StatusCode::NO_CONTENT,
    };
    let path = format!("/v2.1/servers/{}/tags/{tag}", server_uuid(&call)?);
    Ok(ApiResponse::empty(status).with_header(header::LOCATION, &call.absolute(&path)))
}

pub(crate) async fn delete(
    State(api): State<ComputeApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    let server = editable_server(&api, &call, policies::TAGS_DELETE, "delete tag").await?;
    let deleted = api.compute.remove_tag(server.uuid, call.path("tag")?).await;
    deleted.map_err(fault)?;
    Ok(ApiResponse::no_content())
}
