//! The body of POST /os-server-external-events, as strict as Nova's schema.

use berth_wire::compute::{ACCELERATOR_REQUEST_BOUND, EventStatus};
use berth_wire::decode;
use serde::Deserialize;
use uuid::Uuid;

use crate::compute_api::version::Version;

/// The longest tag, in characters.
const TAG: usize = 255;

/// One event as it is told.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
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
struct Body {
    events: Vec<Asked>,
}

/// The kinds of events by the version from which each is known.
const KINDS: [(&str, Version); 7] = [
    ("network-changed", Version::LOWEST),
    ("network-vif-plugged", Version::LOWEST),
    ("network-vif-unplugged", Version::LOWEST),
    ("network-vif-deleted", Version::LOWEST),
    ("volume-extended", Version::VOLUME_EXTENDED),
    ("power-update", Version::POWER_UPDATE),
    (ACCELERATOR_REQUEST_BOUND, Version::HIGHEST),
];

/// The events of a body, or what is wrong with it.
pub(super) fn events(body: &[u8], version: Version) -> Result<Vec<Asked>, String> {
    let Body { events } = decode(body).map_err(|error| error.to_string())?;
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
                "events[{at}].name: {name:?} is no event of this version"
            ));
        }
        let tag = event.tag.as_ref().map_or(1, |tag| tag.chars().count());
        if !(1..=TAG).contains(&tag) {
            return Err(format!("events[{at}].tag: it has 1 to {TAG} characters"));
        }
    }
    Ok(events)
}
