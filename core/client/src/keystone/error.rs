//! Errors of authentication and service lookup.

use berth_wire::BodyError;

use crate::{Disposition, TransportError};

/// No token or no endpoint is available.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// Keystone did not answer.
    #[error("Keystone at {url} does not answer: {reason}")]
    Transport { url: String, reason: TransportError },
    /// Keystone is temporarily unavailable.
    #[error(
        "Keystone at {url} answers {status} ({request_id}); its log says more under that request id"
    )]
    Unavailable {
        url: String,
        status: u16,
        /// The answer's request id; `-` if it has none.
        request_id: String,
    },
    /// Keystone does not let us in.
    #[error("Keystone at {url} refuses {account} with {status} ({request_id}): {message}; {hint}")]
    Refused {
        url: String,
        /// The user or credential, and the scope.
        account: String,
        /// The status: 401 for wrong credentials, 404 if `auth_url` is not Keystone's.
        status: u16,
        /// The answer's request id; `-` if it has none.
        request_id: String,
        message: String,
        hint: &'static str,
    },
    /// The server at `auth_url` does not answer like Keystone.
    #[error("the answer of {url} is not a Keystone token: {reason}; check auth_url")]
    Malformed { url: String, reason: BodyError },
    /// The catalog has no such endpoint.
    #[error(
        "the catalog has no endpoint for {wanted}; it offers {offered}; \
         set region_name, valid_interfaces or endpoint_override"
    )]
    NoEndpoint {
        /// The service that was looked up.
        wanted: String,
        /// The services in the catalog.
        offered: String,
    },
    /// The catalog's endpoint is no URL.
    #[error(
        "the catalog's endpoint of {service_type} is {url:?}, which is no URL that paths can be appended to; set endpoint_override"
    )]
    BadEndpoint {
        service_type: String,
        /// The URL in the catalog.
        url: String,
    },
}

impl AuthError {
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Transport { reason, .. } if reason.is_passing() => Disposition::Retry,
            // A load balancer's error page during an upgrade looks like this, too.
            Self::Unavailable { .. } | Self::Malformed { .. } => Disposition::Retry,
            Self::Transport { .. }
            | Self::Refused { .. }
            | Self::NoEndpoint { .. }
            | Self::BadEndpoint { .. } => Disposition::Fatal,
        }
    }
}
