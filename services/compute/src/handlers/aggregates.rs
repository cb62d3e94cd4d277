//! /v2.1/os-aggregates: host aggregates, that is groups of hosts with metadata, including availability zones.

use std::collections::BTreeMap;

use axum::extract::State;
use berth_hosts::{AVAILABILITY_ZONE, AggregateUpdate, HostAggregate};
use berth_http::fields::{self, BodyFields, bounded, invalid_field};
use berth_http::{ApiRequest, ApiResponse, Fault, RuleDefault};
use serde_json::{Map, Value, json};

use super::hosts::{aggregate_fault, host_fault};
use crate::aggregate_mirror::AggregateMirrorError;
use crate::microversions::AGGREGATE_UUID;
use crate::openapi::schemas::{in_key, object, one_of, text, text_or_null, texts};
use crate::policies::admin;
use crate::state::{ComputeApi, ComputeOperation};
use crate::views::server::precise;

const ADD_HOST: RuleDefault = admin("os_compute_api:os-aggregates:add_host");
const REMOVE_HOST: RuleDefault = admin("os_compute_api:os-aggregates:remove_host");
const SET_METADATA: RuleDefault = admin("os_compute_api:os-aggregates:set_metadata");

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::get("/v2.1/os-aggregates", list)
            .rule(admin("os_compute_api:os-aggregates:index"))
            .extension("os-aggregates", "Aggregates")
            .id("listAggregates")
            .summary("Lists host aggregates")
            .responds("aggregates"),
        ComputeOperation::post("/v2.1/os-aggregates", create)
            .rule(admin("os_compute_api:os-aggregates:create"))
            .id("createAggregate")
            .summary("Creates a host aggregate")
            .body(|| in_key("aggregate", object(&["name"], aggregate_fields())))
            .responds("aggregate"),
        ComputeOperation::get("/v2.1/os-aggregates/{aggregate}", show)
            .rule(admin("os_compute_api:os-aggregates:show"))
            .id("showAggregate")
            .summary("Shows a host aggregate")
            .responds("aggregate"),
        ComputeOperation::put("/v2.1/os-aggregates/{aggregate}", update)
            .rule(admin("os_compute_api:os-aggregates:update"))
            .id("updateAggregate")
            .summary("Changes the name or the zone of a host aggregate")
            .body(|| in_key("aggregate", object(&[], aggregate_fields())))
            .responds("aggregate"),
        ComputeOperation::delete("/v2.1/os-aggregates/{aggregate}", delete)
            .rule(admin("os_compute_api:os-aggregates:delete"))
            .id("deleteAggregate")
            .summary("Deletes a host aggregate"),
        ComputeOperation::post("/v2.1/os-aggregates/{aggregate}/action", act)
            .other_rules(&[ADD_HOST, REMOVE_HOST, SET_METADATA])
            .id("actOnAggregate")
            .summary("Adds or removes a host, or sets metadata")
            .body(action_schema)
            .responds("aggregate"),
    ]
}

fn aggregate_fields() -> [(&'static str, Value); 2] {
    [
        ("name", text(1, 255)),
        (
            "availability_zone",
            json!({"type": ["string", "null"], "pattern": "^[^:]{1,255}$"}),
        ),
    ]
}

fn action_schema() -> Value {
    let host = || object(&["host"], [("host", text(1, 255))]);
    let mut metadata = texts();
    metadata["additionalProperties"] = text_or_null(0, 255);
    one_of([
        ("add_host", host()),
        ("remove_host", host()),
        (
            "set_metadata",
            object(&["metadata"], [("metadata", metadata)]),
        ),
    ])
}

fn shown(call: &ApiRequest, aggregate: &HostAggregate) -> Value {
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

fn answer(call: &ApiRequest, aggregate: &HostAggregate) -> Result<ApiResponse, Fault> {
    ApiResponse::ok(&json!({"aggregate": shown(call, aggregate)}))
}

fn id(call: &ApiRequest) -> Result<i64, Fault> {
    let text = call.path("aggregate")?;
    text.parse().map_err(|_| {
        let text = bounded(text);
        Fault::not_found(format!("Aggregate {text} could not be found."))
    })
}

/// The requested zone. `Some(None)` removes it.
fn zone(fields: &mut BodyFields<'_>) -> Result<Option<Option<String>>, Fault> {
    let given = fields.text_or_null(AVAILABILITY_ZONE, 255)?;
    let is_given = fields.value(AVAILABILITY_ZONE).is_some();
    if given.is_some_and(|zone| zone.is_empty() || zone.contains(':')) {
        let sentence = "availability_zone must have 1 to 255 characters, without a colon";
        return Err(Fault::bad_request(sentence));
    }
    Ok(is_given.then(|| given.map(str::to_owned)))
}

async fn list(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let all = api.compute.inner.hosts.aggregates().await;
    let all = all.map_err(aggregate_fault)?;
    let shown: Vec<Value> = all.iter().map(|one| shown(&call, one)).collect();
    ApiResponse::ok(&json!({ "aggregates": shown }))
}

async fn create(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let body: Value = call.typed()?;
    let mut fields = BodyFields::of_body(&body, "aggregate")?;
    let name = fields.name("name")?;
    let name = fields.required("name", name)?;
    let zone = zone(&mut fields)?.flatten();
    fields.end()?;
    let metadata = zone.map(|zone| (AVAILABILITY_ZONE.to_owned(), zone));
    let hosts = &api.compute.inner.hosts;
    let made = hosts.create_aggregate(name, metadata.into_iter().collect());
    let mut document = shown(&call, &made.await.map_err(aggregate_fault)?);
    // Nova omits both in this response.
    if let Some(document) = document.as_object_mut() {
        document.remove("hosts");
        document.remove("metadata");
    }
    ApiResponse::ok(&json!({ "aggregate": document }))
}

async fn show(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let found = api.compute.inner.hosts.aggregate(id(&call)?).await;
    answer(&call, &found.map_err(aggregate_fault)?)
}

async fn update(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let body: Value = call.typed()?;
    let mut fields = BodyFields::of_body(&body, "aggregate")?;
    let name = fields.name("name")?.map(str::to_owned);
    let zone = zone(&mut fields)?;
    fields.end()?;
    if name.is_none() && zone.is_none() {
        let sentence = "The body must contain name or availability_zone";
        return Err(Fault::bad_request(sentence));
    }
    let metadata = zone.map(|zone| (AVAILABILITY_ZONE.to_owned(), zone));
    let update = AggregateUpdate {
        name,
        metadata: metadata.into_iter().collect(),
    };
    change(&api, &call, update).await
}

async fn change(
    api: &ComputeApi,
    call: &ApiRequest,
    update: AggregateUpdate,
) -> Result<ApiResponse, Fault> {
    let hosts = &api.compute.inner.hosts;
    let changed = hosts.update_aggregate(id(call)?, update).await;
    answer(call, &changed.map_err(aggregate_fault)?)
}

async fn delete(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let (hosts, id) = (&api.compute.inner.hosts, id(&call)?);
    let found = hosts.aggregate(id).await.map_err(aggregate_fault)?;
    if found.hosts.is_empty() {
        // Placement is updated first: after the deletion nothing would remember that it still has the aggregate.
        api.compute.mirror_in_time().await.map_err(mirror_fault)?;
    }
    let deleted = hosts.delete_aggregate(id).await;
    deleted.map_err(aggregate_fault)?;
    Ok(ApiResponse::empty(http::StatusCode::OK))
}

async fn act(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let body: Map<String, Value> = call.typed()?;
    let mut keys = body.iter();
    let (Some((word, value)), None) = (keys.next(), keys.next()) else {
        return Err(Fault::bad_request(
            "The body must be an object with one key, the name of the action",
        ));
    };
    let mut fields = BodyFields::of(word, value)?;
    let hosts = &api.compute.inner.hosts;
    match word.as_str() {
        "add_host" | "remove_host" => {
            let adds = word == "add_host";
            let rule = match adds {
                true => ADD_HOST,
                false => REMOVE_HOST,
            };
            api.allow_rule(&call, rule, None)?;
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
                tracing::warn!(%aggregate, error = &error as &dyn std::error::Error, "updating an aggregate in Placement failed; retrying");
            }
            answer(&call, &changed)
        }
        "set_metadata" => {
            api.allow_rule(&call, SET_METADATA, None)?;
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

/// As in Nova: an unknown host or a host that is not a member is 404; a change that is not allowed is 409.
fn host_of_aggregate(error: berth_hosts::HostAggregateError) -> Fault {
    use berth_hosts::HostAggregateError::{
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

/// The response if Placement could not be updated before the deletion.
fn mirror_fault(error: AggregateMirrorError) -> Fault {
    match error {
        AggregateMirrorError::Aggregates(error) => aggregate_fault(error),
        AggregateMirrorError::Hosts(error) => host_fault(error),
        AggregateMirrorError::Placement(_) | AggregateMirrorError::Late => Fault::unavailable(
            format!("The aggregate is not deleted, because Placement cannot be updated: {error}."),
        ),
    }
}

fn metadata(value: &Value) -> Result<BTreeMap<String, Option<String>>, Fault> {
    let object = value.as_object();
    let object =
        object.ok_or_else(|| invalid_field("metadata", value, "it is not of type 'object'"))?;
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
