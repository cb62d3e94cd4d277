//! /v2.1/servers/{server}/tags, from 2.26 on: tags set by users.

use std::collections::BTreeSet;

use axum::extract::State;
use berth_http::fields::{BodyFields, invalid_field};
use berth_http::{ApiRequest, ApiResponse, Fault};
use http::{StatusCode, header};
use serde_json::{Value, json};

use super::server_create::{tags_of, tags_schema};
use super::servers::{fault, server_uuid};
use crate::microversions::TAGS;
use crate::openapi::schemas::in_key;
use crate::policies::{member, reader};
use crate::servers::{ServerError, TagOutcome, check_tag};
use crate::state::{ComputeApi, ComputeOperation};

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::get("/v2.1/servers/{server}/tags", list)
            .rule(reader("os_compute_api:os-server-tags:index"))
            .since(TAGS)
            .id("listTags")
            .summary("Lists the tags of a server")
            .responds("tags"),
        ComputeOperation::put("/v2.1/servers/{server}/tags", replace)
            .rule(member("os_compute_api:os-server-tags:update_all"))
            .since(TAGS)
            .id("replaceTags")
            .summary("Replaces all tags")
            .body(|| in_key("tags", tags_schema()))
            .responds("tags"),
        ComputeOperation::delete("/v2.1/servers/{server}/tags", clear)
            .rule(member("os_compute_api:os-server-tags:delete_all"))
            .since(TAGS)
            .id("clearTags")
            .summary("Deletes all tags")
            .statuses(&[204]),
        ComputeOperation::get("/v2.1/servers/{server}/tags/{tag}", show)
            .rule(reader("os_compute_api:os-server-tags:show"))
            .since(TAGS)
            .id("showTag")
            .summary("Checks whether a server has a tag")
            .statuses(&[204]),
        ComputeOperation::put("/v2.1/servers/{server}/tags/{tag}", put)
            .rule(member("os_compute_api:os-server-tags:update"))
            .since(TAGS)
            .id("addTag")
            .summary("Adds a tag")
            .statuses(&[201, 204]),
        ComputeOperation::delete("/v2.1/servers/{server}/tags/{tag}", delete)
            .rule(member("os_compute_api:os-server-tags:delete"))
            .since(TAGS)
            .id("deleteTag")
            .summary("Deletes a tag")
            .statuses(&[204]),
    ]
}

async fn list(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let server = api.server(&call).await?;
    ApiResponse::ok(&json!({"tags": server.tags}))
}

async fn replace(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let server = api.editable_server(&call, "update tags").await?;
    let body: Value = call.typed()?;
    let mut fields = BodyFields::of("body", &body)?;
    let tags = fields.value("tags");
    let tags = tags_of(fields.required("tags", tags)?)?;
    fields.end()?;
    let replaced = api.compute.replace_tags(server.uuid, tags.clone()).await;
    replaced.map_err(fault)?;
    ApiResponse::ok(&json!({ "tags": tags }))
}

async fn clear(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let server = api.editable_server(&call, "delete tags").await?;
    let cleared = api.compute.replace_tags(server.uuid, BTreeSet::new()).await;
    cleared.map_err(fault)?;
    Ok(ApiResponse::no_content())
}

async fn show(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let server = api.server(&call).await?;
    let tag = call.path("tag")?;
    if server.tags.contains(tag) {
        return Ok(ApiResponse::no_content());
    }
    Err(fault(ServerError::NoTag {
        uuid: server.uuid,
        tag: berth_http::fields::bounded(tag),
    }))
}

async fn put(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let server = api.editable_server(&call, "update tag").await?;
    let tag = call.path("tag")?;
    if let Some(reason) = check_tag(tag) {
        return Err(invalid_field("tag", &json!(tag), reason));
    }
    let tagged = api.compute.add_tag(server.uuid, tag).await.map_err(fault)?;
    let status = match tagged {
        TagOutcome::New => StatusCode::CREATED,
        TagOutcome::Same => StatusCode::NO_CONTENT,
    };
    let path = format!("/v2.1/servers/{}/tags/{tag}", server_uuid(&call)?);
    Ok(ApiResponse::empty(status).with_header(header::LOCATION, &call.absolute(&path)))
}

async fn delete(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let server = api.editable_server(&call, "delete tag").await?;
    let deleted = api.compute.remove_tag(server.uuid, call.path("tag")?).await;
    deleted.map_err(fault)?;
    Ok(ApiResponse::no_content())
}
