//! The ids that tie a request to its log lines, on both sides of the wire.

use std::fmt;

use http::HeaderMap;
use uuid::Uuid;

/// The header that carries an id both ways: the caller's own on a request, this request's on the answer.
pub const HEADER: &str = "x-openstack-request-id";

/// Nova's own name for it, on answers.
pub const NOVA_HEADER: &str = "x-compute-request-id";

/// What one request is called: `req-` and a UUID, always a new one. A caller's id is beside it: OpenStack's global request id,
/// by which what several services do for one thing is found together. Many requests may have the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId {
    own: String,
    global: Option<String>,
}

impl RequestId {
    /// A new id, with the caller's beside it where it sent a well-formed one.
    #[must_use]
    pub fn make(headers: &HeaderMap) -> Self {
        let sent = headers.get(HEADER).and_then(|value| value.to_str().ok());
        Self {
            own: format!("req-{}", random_uuid()),
            global: sent.filter(|id| is_well_formed(id)).map(str::to_owned),
        }
    }

    /// The request's own id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.own
    }

    /// What the caller calls all that it asks for one thing.
    #[must_use]
    pub fn global(&self) -> Option<&str> {
        self.global.as_deref()
    }
}

fn is_well_formed(id: &str) -> bool {
    id.strip_prefix("req-")
        .is_some_and(|uuid| uuid.len() == 36 && Uuid::try_parse(uuid).is_ok())
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.own)
    }
}

/// A random UUID (version 4).
#[must_use]
pub fn random_uuid() -> Uuid {
    Uuid::new_v4()
}
