//! /v2.1/servers/{server}/metadata: what its users say of a server, by key.

use std::collections::BTreeMap;

use axum::extract::State;
use berth_http::{Answer, Call, Fault};
use serde_json::{Value, json};
use uuid::Uuid;

use super::server_create::metadata_of;
use super::servers::fault;
use crate::fields::Fields;
use crate::policies;
use crate::router::Api;
use crate::servers::{Others, ServerError};

/// The metadata of a body that has nothing but it.
fn asked(call: &Call) -> Result<BTreeMap<String, String>, Fault> {
    let body: Value = call.typed()?;
    let mut fields = Fields::of("body", &body)?;
    let metadata = fields.value("metadata");
    let metadata = fields.required("metadata", metadata)?;
    fields.end()?;
    metadata_of("metadata", metadata)
}

async fn set(
    api: &Api,
    uuid: Uuid,
    metadata: BTreeMap<String, String>,
    others: Others,
) -> Result<BTreeMap<String, String>, Fault> {
    let set = api.compute.set_metadata(uuid, metadata, others).await;
    set.map_err(fault)
}

pub(crate) async fn list(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let server = api.server(&call, policies::METADATA_INDEX).await?;
    Answer::ok(&json!({"metadata": server.metadata}))
}

pub(crate) async fn create(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let server = api
        .settled(&call, policies::METADATA_CREATE, "update metadata")
        .await?;
    api.open_to(&call, &server)?;
    let all = set(&api, server.uuid, asked(&call)?, Others::Stay).await?;
    Answer::ok(&json!({ "metadata": all }))
}

pub(crate) async fn replace(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let server = api
        .settled(&call, policies::METADATA_UPDATE_ALL, "update metadata")
        .await?;
    api.open_to(&call, &server)?;
    let all = set(&api, server.uuid, asked(&call)?, Others::Go).await?;
    Answer::ok(&json!({ "metadata": all }))
}

pub(crate) async fn show(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let server = api.server(&call, policies::METADATA_SHOW).await?;
    let key = call.path("key")?;
    match server.metadata.get(key) {
        Some(value) => Answer::ok(&json!({"meta": {key: value}})),
        None => Err(fault(ServerError::NoMetadata)),
    }
}

pub(crate) async fn update(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let server = api
        .settled(&call, policies::METADATA_UPDATE, "update metadata")
        .await?;
    api.open_to(&call, &server)?;
    let body: Value = call.typed()?;
    let mut fields = Fields::of("body", &body)?;
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
    Answer::ok(&json!({ "meta": meta }))
}

pub(crate) async fn delete(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let server = api
        .settled(&call, policies::METADATA_DELETE, "delete metadata")
        .await?;
    api.open_to(&call, &server)?;
    let deleted = api
        .compute
        .delete_metadata(server.uuid, call.path("key")?)
        .await;
    deleted.map_err(fault)?;
    Ok(Answer::no_content())
}
