//! /v2.1/servers/{server}/tags, from 2.26 on: the words that its users put on a server.

use std::collections::BTreeSet;

use axum::extract::State;
use berth_http::{Answer, Call, Fault};
use http::{StatusCode, header};
use serde_json::{Value, json};

use super::server_create::tags_of;
use super::servers::{fault, named};
use crate::fields::{Fields, wrong};
use crate::microversions::TAGS;
use crate::policies;
use crate::router::Api;
use crate::servers::{Server, ServerError, Tagged, check_tag};

fn since_tags(call: &Call) -> Result<(), Fault> {
    match call.version.has(TAGS) {
        true => Ok(()),
        false => Err(Fault::no_such_route()),
    }
}

async fn server(api: &Api, call: &Call, rule: &'static str) -> Result<Server, Fault> {
    since_tags(call)?;
    api.server(call, rule).await
}

/// The server, where its tags may be changed.
async fn settled(
    api: &Api,
    call: &Call,
    rule: &'static str,
    does: &'static str,
) -> Result<Server, Fault> {
    since_tags(call)?;
    api.settled(call, rule, does).await
}

pub(crate) async fn list(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let server = server(&api, &call, policies::TAGS_INDEX).await?;
    Answer::ok(&json!({"tags": server.tags}))
}

pub(crate) async fn replace(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let server = settled(&api, &call, policies::TAGS_UPDATE_ALL, "update tags").await?;
    let body: Value = call.typed()?;
    let mut fields = Fields::of("body", &body)?;
    let tags = fields.value("tags");
    let tags = tags_of(fields.required("tags", tags)?)?;
    fields.end()?;
    let replaced = api.compute.replace_tags(server.uuid, tags.clone()).await;
    replaced.map_err(fault)?;
    Answer::ok(&json!({ "tags": tags }))
}

pub(crate) async fn clear(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let server = settled(&api, &call, policies::TAGS_DELETE_ALL, "delete tags").await?;
    let cleared = api.compute.replace_tags(server.uuid, BTreeSet::new()).await;
    cleared.map_err(fault)?;
    Ok(Answer::no_content())
}

pub(crate) async fn show(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let server = server(&api, &call, policies::TAGS_SHOW).await?;
    let tag = call.path("tag")?;
    if server.tags.contains(tag) {
        return Ok(Answer::no_content());
    }
    Err(fault(ServerError::NoTag {
        uuid: server.uuid,
        tag: crate::fields::bounded(tag),
    }))
}

pub(crate) async fn put(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let server = settled(&api, &call, policies::TAGS_UPDATE, "update tag").await?;
    let tag = call.path("tag")?;
    if let Some(reason) = check_tag(tag) {
        return Err(wrong("tag", &json!(tag), reason));
    }
    let tagged = api.compute.add_tag(server.uuid, tag).await.map_err(fault)?;
    let status = match tagged {
        Tagged::New => StatusCode::CREATED,
        Tagged::Same => StatusCode::NO_CONTENT,
    };
    let path = format!("/v2.1/servers/{}/tags/{tag}", named(&call)?);
    Ok(Answer::empty(status).with_header(header::LOCATION, &call.absolute(&path)))
}

pub(crate) async fn delete(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let server = settled(&api, &call, policies::TAGS_DELETE, "delete tag").await?;
    let deleted = api.compute.remove_tag(server.uuid, call.path("tag")?).await;
    deleted.map_err(fault)?;
    Ok(Answer::no_content())
}
