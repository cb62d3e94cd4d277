//! POST /v2.1/os-server-external-events: other services report events about servers.

use axum::extract::State;
use berth_http::fields::{BodyFields, invalid_field};
use berth_http::{ApiRequest, ApiResponse, Fault, Microversion};
use berth_wire::compute::{ACCELERATOR_REQUEST_BOUND, EventStatus, ServerExternalEvent};
use http::StatusCode;
use serde_json::{Value, json};

use super::servers::fault;
use crate::external_events::EventOutcome;
use crate::microversions::{POWER_UPDATE, RANGE, REQUEST_BOUND, VOLUME_EXTENDED};
use crate::openapi::schemas::{in_key, object, text, uuid};
use crate::policies::service_or_admin;
use crate::state::{ComputeApi, ComputeOperation};

/// The events, each with the microversion that added it.
const KINDS: [(&str, Microversion); 7] = [
    ("network-changed", RANGE.min),
    ("network-vif-plugged", RANGE.min),
    ("network-vif-unplugged", RANGE.min),
    ("network-vif-deleted", RANGE.min),
    ("volume-extended", VOLUME_EXTENDED),
    ("power-update", POWER_UPDATE),
    (ACCELERATOR_REQUEST_BOUND, REQUEST_BOUND),
];

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::post("/v2.1/os-server-external-events", create)
            .rule(service_or_admin(
                "os_compute_api:os-server-external-events:create",
            ))
            .extension("os-server-external-events", "ServerExternalEvents")
            .id("createExternalEvents")
            .summary("Reports bound accelerator requests and changed ports of servers")
            .body(events_schema)
            .statuses(&[200, 207])
            .responds("events"),
    ]
}

fn events_schema() -> Value {
    let names = KINDS.map(|(name, _)| name);
    let event = object(
        &["name", "server_uuid"],
        [
            ("name", json!({ "enum": names })),
            ("server_uuid", uuid()),
            (
                "status",
                json!({"enum": ["completed", "failed", "in-progress"]}),
            ),
            ("tag", text(1, 255)),
        ],
    );
    in_key(
        "events",
        json!({"type": "array", "items": event, "minItems": 1}),
    )
}

async fn create(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let body: Value = call.typed()?;
    let events = parse_events(&call, &body)?;
    let only_host = call.caller.only_host();
    let by = (call.caller.user_id.as_str(), call.request_id.as_str());
    let outcomes = api.compute.forward_events(&events, only_host, by).await;
    let outcomes = outcomes.map_err(fault)?;
    if outcomes.iter().all(|one| *one == EventOutcome::NoServer) {
        return Err(Fault::not_found("No instances found for any event"));
    }
    let all_delivered = outcomes.iter().all(|one| *one == EventOutcome::Delivered);
    let shown: Vec<Value> = events
        .iter()
        .zip(outcomes)
        .map(|(event, outcome)| shown(event, outcome))
        .collect();
    let status = match all_delivered {
        true => StatusCode::OK,
        false => StatusCode::MULTI_STATUS,
    };
    ApiResponse::with_body(status, &json!({ "events": shown }))
}

fn shown(event: &ServerExternalEvent, outcome: EventOutcome) -> Value {
    let status = match outcome {
        EventOutcome::Delivered => event.status.unwrap_or(EventStatus::Completed),
        _ => EventStatus::Failed,
    };
    let mut shown = json!({
        "name": event.name,
        "server_uuid": event.server_uuid,
        "status": status.as_str(),
        "code": outcome.code(),
    });
    if let Some(tag) = &event.tag {
        shown["tag"] = json!(tag);
    }
    shown
}

fn parse_events(call: &ApiRequest, body: &Value) -> Result<Vec<ServerExternalEvent>, Fault> {
    let mut fields = BodyFields::of("body", body)?;
    let events = fields.value("events");
    let events = fields.required("events", events)?;
    fields.end()?;
    let list = events.as_array();
    let list = list.ok_or_else(|| invalid_field("events", events, "it is not of type 'array'"))?;
    if list.is_empty() {
        return Err(invalid_field("events", events, "it is too short"));
    }
    list.iter().map(|event| one(call, event)).collect()
}

fn one(call: &ApiRequest, event: &Value) -> Result<ServerExternalEvent, Fault> {
    let mut fields = BodyFields::of("events", event)?;
    let given = fields.value("name");
    let given = fields.required("name", given)?;
    let kind = given.as_str().and_then(|name| {
        let known = |(kind, since): &&(&str, Microversion)| *kind == name && call.version >= *since;
        KINDS.iter().find(known)
    });
    let (name, _) = kind.ok_or_else(|| invalid_field("name", given, "unknown event"))?;
    let server = fields.text("server_uuid", 36..=36)?;
    let server = fields.required("server_uuid", server)?;
    let server_uuid = server
        .parse()
        .map_err(|_| invalid_field("server_uuid", &json!(server), "it is not a 'uuid'"))?;
    let status = fields.value("status");
    let status = status
        .map(|given| {
            let status = given.as_str().and_then(EventStatus::from_name);
            status.ok_or_else(|| {
                invalid_field("status", given, "it is completed, failed or in-progress")
            })
        })
        .transpose()?;
    let tag = fields.text("tag", 1..=255)?.map(str::to_owned);
    fields.end()?;
    Ok(ServerExternalEvent {
        name: (*name).to_owned(),
        server_uuid,
        tag,
        status: Some(status.unwrap_or(EventStatus::Completed)),
        code: None,
    })
}
