//! POST /v2.1/os-server-external-events: services tell what happened to servers.

use axum::extract::State;
use berth_http::{Answer, Call, Fault, Microversion};
use berth_wire::compute::{ACCELERATOR_REQUEST_BOUND, EventStatus, ServerExternalEvent};
use http::StatusCode;
use serde_json::{Value, json};

use super::servers::fault;
use crate::external_events::Heard;
use crate::fields::{Fields, wrong};
use crate::microversions::{POWER_UPDATE, RANGE, REQUEST_BOUND, VOLUME_EXTENDED};
use crate::policies;
use crate::router::Api;

/// The events that Nova knows, by the version from which it does.
const KINDS: [(&str, Microversion); 7] = [
    ("network-changed", RANGE.min),
    ("network-vif-plugged", RANGE.min),
    ("network-vif-unplugged", RANGE.min),
    ("network-vif-deleted", RANGE.min),
    ("volume-extended", VOLUME_EXTENDED),
    ("power-update", POWER_UPDATE),
    (ACCELERATOR_REQUEST_BOUND, REQUEST_BOUND),
];

pub(crate) async fn create(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.allow(&call, policies::EXTERNAL_EVENTS)?;
    let body: Value = call.typed()?;
    let events = asked(&call, &body)?;
    let heard = api.compute.tell(&events).await.map_err(fault)?;
    if heard.iter().all(|one| *one == Heard::NoServer) {
        return Err(Fault::not_found("No instances found for any event"));
    }
    let whole = heard.iter().all(|one| *one == Heard::Taken);
    let shown: Vec<Value> = events
        .iter()
        .zip(heard)
        .map(|(event, heard)| shown(event, heard))
        .collect();
    let status = match whole {
        true => StatusCode::OK,
        false => StatusCode::MULTI_STATUS,
    };
    Answer::with_body(status, &json!({ "events": shown }))
}

fn shown(event: &ServerExternalEvent, heard: Heard) -> Value {
    let status = match heard {
        Heard::Taken => event.status.unwrap_or(EventStatus::Completed),
        _ => EventStatus::Failed,
    };
    let mut shown = json!({
        "name": event.name,
        "server_uuid": event.server_uuid,
        "status": status.as_str(),
        "code": heard.code(),
    });
    if let Some(tag) = &event.tag {
        shown["tag"] = json!(tag);
    }
    shown
}

fn asked(call: &Call, body: &Value) -> Result<Vec<ServerExternalEvent>, Fault> {
    let mut fields = Fields::of("body", body)?;
    let events = fields.value("events");
    let events = fields.required("events", events)?;
    fields.end()?;
    let list = events.as_array();
    let list = list.ok_or_else(|| wrong("events", events, "it is not of type 'array'"))?;
    if list.is_empty() {
        return Err(wrong("events", events, "it is too short"));
    }
    list.iter().map(|event| one(call, event)).collect()
}

fn one(call: &Call, event: &Value) -> Result<ServerExternalEvent, Fault> {
    let mut fields = Fields::of("events", event)?;
    let given = fields.value("name");
    let given = fields.required("name", given)?;
    let kind = given.as_str().and_then(|name| {
        let known = |(kind, since): &&(&str, Microversion)| *kind == name && call.version >= *since;
        KINDS.iter().find(known)
    });
    let (name, _) = kind.ok_or_else(|| wrong("name", given, "no such event is known"))?;
    let server = fields.text("server_uuid", 36..=36)?;
    let server = fields.required("server_uuid", server)?;
    let server_uuid = server
        .parse()
        .map_err(|_| wrong("server_uuid", &json!(server), "it is not a 'uuid'"))?;
    let status = fields.value("status");
    let status = status
        .map(|given| {
            let status = given.as_str().and_then(EventStatus::of_word);
            status.ok_or_else(|| wrong("status", given, "it is completed, failed or in-progress"))
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
