//! Bodies of the Compute API for external events (`POST /os-server-external-events`, microversion 2.82 for accelerator
//! requests).
//!
//! Callers: the accelerator service (sends), the agent (receives).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The event for a completed bind of an accelerator request.
pub const ACCELERATOR_REQUEST_BOUND: &str = "accelerator-request-bound";

/// The result in an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EventStatus {
    Completed,
    Failed,
    InProgress,
}

impl EventStatus {
    /// The name in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::InProgress => "in-progress",
        }
    }

    #[must_use]
    pub fn from_name(word: &str) -> Option<Self> {
        [Self::Completed, Self::Failed, Self::InProgress]
            .into_iter()
            .find(|status| status.as_str() == word)
    }
}

/// One event of an external service for a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerExternalEvent {
    /// The event, for example [`ACCELERATOR_REQUEST_BOUND`].
    pub name: String,
    /// UUID of the server that the event is for.
    pub server_uuid: Uuid,
    /// The subject: the accelerator request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The result, which services such as Neutron and Cinder report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<EventStatus>,
    /// In a response: 200, or 404 or 422 for a server that does not exist or has no host yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
}

/// The body of the request and the response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerExternalEvents {
    /// The events, in any order.
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
            assert_eq!(EventStatus::from_name(status.as_str()), Some(status));
            assert_eq!(
                encode(&status),
                format!("\"{}\"", status.as_str()).into_bytes()
            );
        }
    }
}
