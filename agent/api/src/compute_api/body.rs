//! Body of POST /os-server-external-events, validated as strictly as by Nova's schema.

use berth_wire::compute::{ACCELERATOR_REQUEST_BOUND, EventStatus};
use berth_wire::decode;
use serde::Deserialize;
use uuid::Uuid;

use crate::compute_api::version::ComputeMicroversion;

const TAG: usize = 255;

/// One event as the client sent it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReportedEvent {
    pub(super) name: String,
    pub(super) server_uuid: Uuid,
    #[serde(default = "completed")]
    pub(super) status: EventStatus,
    #[serde(default)]
    pub(super) tag: Option<String>,
}

fn completed() -> EventStatus {
    EventStatus::Completed
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReportedEvents {
    events: Vec<ReportedEvent>,
}

/// Names of the events with the first microversion that has each.
const KINDS: [(&str, ComputeMicroversion); 7] = [
    ("network-changed", ComputeMicroversion::LOWEST),
    ("network-vif-plugged", ComputeMicroversion::LOWEST),
    ("network-vif-unplugged", ComputeMicroversion::LOWEST),
    ("network-vif-deleted", ComputeMicroversion::LOWEST),
    ("volume-extended", ComputeMicroversion::VOLUME_EXTENDED),
    ("power-update", ComputeMicroversion::POWER_UPDATE),
    (ACCELERATOR_REQUEST_BOUND, ComputeMicroversion::HIGHEST),
];

/// Parses and validates the events of a request body. The error is a message for the client.
pub(super) fn events(
    body: &[u8],
    version: ComputeMicroversion,
) -> Result<Vec<ReportedEvent>, String> {
    let ReportedEvents { events } = decode(body).map_err(|error| error.to_string())?;
    if events.is_empty() {
        return Err("events: at least one is needed".to_owned());
    }
    for (at, event) in events.iter().enumerate() {
        let known = KINDS
            .iter()
            .any(|(name, since)| *name == event.name && version >= *since);
        if !known {
            let name: String = event.name.chars().take(60).collect();
            return Err(format!(
                "events[{at}].name: {name:?} is not an event of this microversion"
            ));
        }
        let tag = event.tag.as_ref().map_or(1, |tag| tag.chars().count());
        if !(1..=TAG).contains(&tag) {
            return Err(format!("events[{at}].tag: expected 1 to {TAG} characters"));
        }
    }
    Ok(events)
}
