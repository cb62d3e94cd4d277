//! The Compute API's bodies, as far as services and agents tell each other what happened
//! (`POST /os-server-external-events`, microversion 2.82 for accelerator requests).
//!
//! Callers: the accelerator service (asks), the agent (answers).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The event that an accelerator request's bind has come to its end.
pub const ACCELERATOR_REQUEST_BOUND: &str = "accelerator-request-bound";

/// How what is told of ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EventStatus {
    /// It was done.
    Completed,
    /// It was not.
    Failed,
    /// It is being done.
    InProgress,
}

impl EventStatus {
    /// The word of the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::InProgress => "in-progress",
        }
    }

    /// The status of this word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        [Self::Completed, Self::Failed, Self::InProgress]
            .into_iter()
            .find(|status| status.as_str() == word)
    }
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerExternalEvent {
    /// What happened, [`ACCELERATOR_REQUEST_BOUND`] for instance.
    pub name: String,
    /// The guest.
    pub server_uuid: Uuid,
    /// What it happened to: the accelerator request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<EventStatus>,
    /// In an answer: 200, or 404 and 422 for a guest that is not there, or not yet on a host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
}

/// The body, and the answer's too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerExternalEvents {
    /// The events.
    pub events: Vec<ServerExternalEvent>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{decode, encode};

    #[test]
    fn an_event_is_written_as_the_real_service_writes_it() {
        let text = br#"{"events":[{"name":"accelerator-request-bound","server_uuid":"5c965fc9-a7cd-4d38-8ccb-d8821db50d03","tag":"c0a58289-b739-4a22-bd81-a7e022eba6ea","status":"completed"}]}"#;
        let body: ServerExternalEvents = decode(text).unwrap();
        assert_eq!(body.events[0].status, Some(EventStatus::Completed));
        assert_eq!(encode(&body), text);
        for status in [
            EventStatus::Completed,
            EventStatus::Failed,
            EventStatus::InProgress,
        ] {
            assert_eq!(EventStatus::of_word(status.as_str()), Some(status));
            assert_eq!(
                encode(&status),
                format!("\"{}\"", status.as_str()).into_bytes()
            );
        }
    }
}
