//! The id that ties a request to its log lines, on both sides of the wire.

use std::fmt;

use http::HeaderMap;
use uuid::Uuid;

/// The header that carries it, both ways.
pub const HEADER: &str = "x-openstack-request-id";

/// Nova's own name for it, on answers.
pub const NOVA_HEADER: &str = "x-compute-request-id";

/// `req-` and a UUID: the caller's when it sent a well-formed one, else a new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(String);

impl RequestId {
    /// Takes the id from the headers or makes one.
    #[must_use]
    pub fn take_or_make(headers: &HeaderMap) -> Self {
        headers
            .get(HEADER)
            .and_then(|value| value.to_str().ok())
            .and_then(Self::parse)
            .unwrap_or_else(Self::make)
    }

    fn parse(text: &str) -> Option<Self> {
        let uuid = text.strip_prefix("req-")?;
        let well_formed = uuid.len() == 36 && Uuid::try_parse(uuid).is_ok();
        well_formed.then(|| Self(text.to_owned()))
    }

    fn make() -> Self {
        Self(format!("req-{}", random_uuid()))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A random UUID (version 4).
#[must_use]
pub fn random_uuid() -> Uuid {
    Uuid::new_v4()
}
