//! Why there is no token, or no endpoint.

use berth_wire::BodyError;

use crate::{Disposition, TransportError};

/// No token or no endpoint to ask with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// Keystone did not answer.
    #[error("Keystone at {url} gives no answer: {reason}")]
    Transport {
        url: String,
        reason: TransportError,
    },
    /// Keystone is there but cannot answer now.
    #[error(
        "Keystone at {url} answers {status} ({request_id}); its log says more under that request id"
    )]
    Unavailable {
        url: String,
        status: u16,
        /// The answer's request id, `-` where it has none.
        request_id: String,
    },
    /// Keystone does not let us in.
    #[error("Keystone at {url} refuses {account} with {status} ({request_id}): {message}; {mend}")]
    Refused {
        url: String,
        /// Who asked: user or credential, and the scope.
        account: String,
        /// The status: 401 for wrong credentials, 404 where `auth_url` is not Keystone's.
        status: u16,
        /// The answer's request id, `-` where it has none.
        request_id: String,
        message: String,
        /// What to look at.
        mend: &'static str,
    },
    /// What answers at `auth_url` does not answer as Keystone does.
    #[error("the answer of {url} is not a Keystone token: {reason}; check auth_url")]
    Malformed {
        url: String,
        /// What is wrong with it.
        reason: BodyError,
    },
    /// The catalog has no such endpoint.
    #[error(
        "the catalog has no endpoint for {wanted}; it offers {offered}; \
         set region_name, valid_interfaces or endpoint_override"
    )]
    NoEndpoint {
        /// What was looked for.
        wanted: String,
        /// What the catalog has instead.
        offered: String,
    },
    /// The catalog's endpoint is no URL.
    #[error(
        "the catalog's endpoint of {service_type} is {url:?}, which is no URL that paths can be appended to; set endpoint_override"
    )]
    BadEndpoint {
        service_type: String,
        /// What the catalog says.
        url: String,
    },
}

impl AuthError {
    /// What a loop does about it.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Transport { reason, .. } if reason.is_passing() => Disposition::Retry,
            // A page of a load balancer during an upgrade looks like this too.
            Self::Unavailable { .. } | Self::Malformed { .. } => Disposition::Retry,
            Self::Transport { .. }
            | Self::Refused { .. }
            | Self::NoEndpoint { .. }
            | Self::BadEndpoint { .. } => Disposition::Fatal,
        }
    }
}
