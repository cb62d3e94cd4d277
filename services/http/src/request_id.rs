//! Request ids, which connect a request with its log lines on both sides.

use std::fmt;

use http::HeaderMap;
use uuid::Uuid;

/// The header with the request id: on a request the caller's global id, on a response the id of this request.
pub const HEADER: &str = "x-openstack-request-id";

/// Nova's additional header for the request id of a response.
pub const NOVA_HEADER: &str = "x-compute-request-id";

/// The id of one request: `req-` and a new UUID, and the caller's global request id if it sent one. Several requests
/// may share a global id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId {
    own: String,
    global: Option<String>,
}

impl RequestId {
    /// A new id, with the caller's global id if it is well formed.
    #[must_use]
    pub fn make(headers: &HeaderMap) -> Self {
        let sent = headers.get(HEADER).and_then(|value| value.to_str().ok());
        Self {
            own: format!("req-{}", random_uuid()),
            global: sent.filter(|id| is_well_formed(id)).map(str::to_owned),
        }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.own
    }

    /// The caller's global request id, which several services share for one operation.
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
