//! Errors of the guest APIs.

use std::fmt;

use berth_wire::BodyError;
use http::StatusCode;

use crate::{Delivery, Disposition, RequestLine, ServiceCallError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestRefusal {
    pub request: RequestLine,
    pub status: StatusCode,
    /// The error code; empty if something else answers at this address.
    pub code: String,
    /// The sentence, on one line.
    pub message: String,
}

impl fmt::Display for GuestRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let service = self.request.service;
        write!(f, "the {service} answers {}", self.status.as_u16())?;
        if self.message.is_empty() {
            write!(f, " to {}", self.request)
        } else {
            write!(f, ": {}", self.message)
        }
    }
}

/// A call of a guest API that was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuestApiError {
    #[error(transparent)]
    Call(#[from] ServiceCallError),
    #[error("{0}")]
    NotFound(Box<GuestRefusal>),
    /// The guest is busy, or its UUID is in use.
    #[error("{0}")]
    Conflict(Box<GuestRefusal>),
    /// The operation is not possible now.
    #[error("{0}")]
    Unavailable(Box<GuestRefusal>),
    /// The request itself is not acceptable.
    #[error("{0}")]
    Refused(Box<GuestRefusal>),
    /// The answer does not have the documented form.
    #[error(
        "the answer to {request} ({}) is invalid: {reason}; client and server may have different versions",
        status.as_u16()
    )]
    Malformed {
        request: Box<RequestLine>,
        status: StatusCode,
        reason: BodyError,
    },
}

/// Codes of refusals that may pass: the guest is busy, or its host is bringing it back.
const TEMPORARY: [&str; 2] = ["busy", "not_there"];

impl GuestApiError {
    /// Whether the same action may succeed later.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        let code = self.refusal().map(|refusal| refusal.code.as_str());
        self.disposition() == Disposition::Retry
            || code.is_some_and(|code| TEMPORARY.contains(&code))
    }

    /// Every request may be repeated.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Call(error) => error.if_repeatable(),
            Self::Unavailable(_) | Self::Malformed { .. } => Disposition::Retry,
            Self::NotFound(_) => Disposition::Refresh,
            Self::Conflict(_) | Self::Refused(_) => Disposition::Fatal,
        }
    }

    /// Whether a build request ([`crate::GuestClient::build`]) certainly never reached its agent: no connection, or no
    /// token. Not valid for calls that are retried.
    #[must_use]
    pub fn never_arrived(&self) -> bool {
        match self {
            Self::Call(ServiceCallError::Auth(_)) => true,
            Self::Call(ServiceCallError::Transport { reason, .. }) => reason.sent() == Delivery::No,
            _ => false,
        }
    }

    /// The refusing answer, if there was one.
    #[must_use]
    pub fn refusal(&self) -> Option<&GuestRefusal> {
        match self {
            Self::NotFound(refusal)
            | Self::Conflict(refusal)
            | Self::Unavailable(refusal)
            | Self::Refused(refusal) => Some(refusal),
            Self::Call(_) | Self::Malformed { .. } => None,
        }
    }
}
