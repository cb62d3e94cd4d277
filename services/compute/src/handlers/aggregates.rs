//! /v2.1/os-aggregates: keys and values that operators give to groups of hosts, availability zones among them.

use std::collections::BTreeMap;

use axum::extract::State;
use berth_hosts::{AVAILABILITY_ZONE, AggregateUpdate, HostAggregate};
use berth_http::{Answer, Call, Fault};
use serde_json::{Map, Value, json};

use super::hosts::{aggregate_fault, host_fault};
use crate::aggregate_mirror::AggregateMirrorError;
use crate::fields::{self, Fields, bounded, wrong};
use crate::microversions::AGGREGATE_UUID;
use crate::policies;
use crate::router::Api;
use crate::views::server::precise;

fn shown(call: &Call, aggregate: &HostAggregate) -> Value {
    let mut shown = json!({
        "id": aggregate.id,
        "name": aggregate.name,
        "availability_zone": aggregate.availability_zone(),
        "hosts": aggregate.hosts,
        "metadata": aggregate.metadata,
        "created_at": precise(aggregate.created_at),
        "updated_at": aggregate.updated_at.map(precise),
        "deleted_at": null,
        "deleted": false,
    });
    if call.version.has(AGGREGATE_UUID) {
        shown["uuid"] = json!(aggregate.uuid);
    }
    shown
}

fn answer(call: &Call, aggregate: &HostAggregate) -> Result<Answer, Fault> {
    Answer::ok(&json!({"aggregate": shown(call, aggregate)}))
}

fn id(call: &Call) -> Result<i64, Fault> {
    let text = call.path("aggregate")?;
    text.parse().map_err(|_| {
        let text = bounded(text);
        Fault::not_found(format!("Aggregate {text} could not be found."))
    })
}

/// A zone's name, none inside where it is taken back.
fn zone(fields: &mut Fields<'_>) -> Result<Option<Option<String>>, Fault> {
    let given = fields.text_or_null(AVAILABILITY_ZONE, 255)?;
    let is_given = fields.value(AVAILABILITY_ZONE).is_some();
    if given.is_some_and(|zone| zone.is_empty() || zone.contains(':')) {
        let sentence = "availability_zone has 1 to 255 characters, and no : among them";
        return Err(Fault::bad_request(sentence));
    }
    Ok(is_given.then(|| given.map(str::to_owned)))
}

pub(crate) async fn list(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.allow(&call, policies::AGGREGATE_INDEX)?;
    let all = api.compute.inner.hosts.aggregates().await;
    let all = all.map_err(aggregate_fault)?;
    let shown: Vec<Value> = all.iter().map(|one| shown(&call, one)).collect();
    Answer::ok(&json!({ "aggregates": shown }))
}

pub(crate) async fn create(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.allow(&call, policies::AGGREGATE_CREATE)?;
    let body: Value = call.typed()?;
    let mut fields = Fields::of_body(&body, "aggregate")?;
    let name = fields.name("name")?;
    let name = fields.required("name", name)?;
    let zone = zone(&mut fields)?.flatten();
    fields.end()?;
    let metadata = zone.map(|zone| (AVAILABILITY_ZONE.to_owned(), zone));
    let hosts = &api.compute.inner.hosts;
    let made = hosts.create_aggregate(name, metadata.into_iter().collect());
    let mut told = shown(&call, &made.await.map_err(aggregate_fault)?);
    // Nova tells neither of one that it has just made.
    if let Some(told) = told.as_object_mut() {
        told.remove("hosts");
        told.remove("metadata");
    }
    Answer::ok(&json!({ "aggregate": told }))
}

pub(crate) async fn show(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.allow(&call, policies::AGGREGATE_SHOW)?;
    let found = api.compute.inner.hosts.aggregate(id(&call)?).await;
    answer(&call, &found.map_err(aggregate_fault)?)
}

pub(crate) async fn update(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.allow(&call, policies::AGGREGATE_UPDATE)?;
    let body: Value = call.typed()?;
    let mut fields = Fields::of_body(&body, "aggregate")?;
    let name = fields.name("name")?.map(str::to_owned);
    let zone = zone(&mut fields)?;
    fields.end()?;
    if name.is_none() && zone.is_none() {
        let sentence = "name or availability_zone is to be changed, and neither is there";
        return Err(Fault::bad_request(sentence));
    }
    let metadata = zone.map(|zone| (AVAILABILITY_ZONE.to_owned(), zone));
    let update = AggregateUpdate {
        name,
        metadata: metadata.into_iter().collect(),
    };
    change(&api, &call, update).await
}

async fn change(api: &Api, call: &Call, update: AggregateUpdate) -> Result<Answer, Fault> {
    let hosts = &api.compute.inner.hosts;
    let changed = hosts.update_aggregate(id(call)?, update).await;
    answer(call, &changed.map_err(aggregate_fault)?)
}

pub(crate) async fn delete(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.allow(&call, policies::AGGREGATE_DELETE)?;
    let (hosts, id) = (&api.compute.inner.hosts, id(&call)?);
    let found = hosts.aggregate(id).await.map_err(aggregate_fault)?;
    if found.hosts.is_empty() {
        // Of one that is gone nobody would know that Placement has it still.
        api.compute.mirror_in_time().await.map_err(not_followed)?;
    }
    let deleted = hosts.delete_aggregate(id).await;
    deleted.map_err(aggregate_fault)?;
    Ok(Answer::empty(http::StatusCode::OK))
}

pub(crate) async fn act(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let body: Map<String, Value> = call.typed()?;
    let mut keys = body.iter();
    let (Some((word, value)), None) = (keys.next(), keys.next()) else {
        return Err(Fault::bad_request(
            "The body is an object with one key, which says what is to be done",
        ));
    };
    let mut fields = Fields::of(word, value)?;
    let hosts = &api.compute.inner.hosts;
    match word.as_str() {
        "add_host" | "remove_host" => {
            let adds = word == "add_host";
            let rule = match adds {
                true => policies::AGGREGATE_ADD_HOST,
                false => policies::AGGREGATE_REMOVE_HOST,
            };
            api.allow(&call, rule)?;
            let host = fields.text("host", 1..=255)?;
            let host = fields.required("host", host)?;
            fields.end()?;
            let id = id(&call)?;
            let changed = match adds {
                true => hosts.add_aggregate_host(id, host).await,
                false => hosts.remove_aggregate_host(id, host).await,
            };
            let changed = changed.map_err(host_of_aggregate)?;
            if let Err(error) = api.compute.mirror_in_time().await {
                let aggregate = changed.uuid;
                tracing::warn!(%aggregate, error = &error as &dyn std::error::Error, "Placement has not followed a change of an aggregate; it is told later");
            }
            answer(&call, &changed)
        }
        "set_metadata" => {
            api.allow(&call, policies::AGGREGATE_SET_METADATA)?;
            let given = fields.value("metadata");
            let metadata = metadata(fields.required("metadata", given)?)?;
            fields.end()?;
            let update = AggregateUpdate {
                name: None,
                metadata,
            };
            change(&api, &call, update).await
        }
        word => Err(Fault::bad_request(format!(
            "There is no such action: {}",
            bounded(word)
        ))),
    }
}

/// A host that is not there, or not in it, is not found; one that may not come or go is a conflict, as with Nova.
fn host_of_aggregate(error: berth_hosts::AggregateError) -> Fault {
    use berth_hosts::AggregateError::{
        HasGuests, HostIsMember, HostIsNoMember, NoSuchHost, TwoZones,
    };
    match error {
        NoSuchHost { .. } | HostIsNoMember { .. } => Fault::not_found(error.to_string()),
        HostIsMember { .. } | TwoZones { .. } | HasGuests { .. } => {
            Fault::conflict(error.to_string())
        }
        other => aggregate_fault(other),
    }
}

/// Placement could not be brought into step before an aggregate goes.
fn not_followed(error: AggregateMirrorError) -> Fault {
    match error {
        AggregateMirrorError::Aggregates(error) => aggregate_fault(error),
        AggregateMirrorError::Hosts(error) => host_fault(error),
        AggregateMirrorError::Placement(_) | AggregateMirrorError::Late => {
            Fault::unavailable(format!(
                "An aggregate goes once Placement has it no more, and Placement cannot be told: {error}."
            ))
        }
    }
}

fn metadata(value: &Value) -> Result<BTreeMap<String, Option<String>>, Fault> {
    let object = value.as_object();
    let object = object.ok_or_else(|| wrong("metadata", value, "it is not of type 'object'"))?;
    let mut metadata = BTreeMap::new();
    for (key, value) in object {
        let value = match value {
            Value::Null => None,
            value => Some(fields::text(key, value, 0..=255)?.to_owned()),
        };
        metadata.insert(key.clone(), value);
    }
    Ok(metadata)
}
