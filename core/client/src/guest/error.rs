//! Why a guest API did not do it.

use std::fmt;

use berth_wire::BodyError;
use http::StatusCode;

use crate::{CallError, Disposition, RequestLine, Sent};

/// An answer that refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestRefusal {
    pub request: RequestLine,
    pub status: StatusCode,
    /// The code; empty where something else answers at this address.
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
    /// There was no answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// There is no such guest.
    #[error("{0}")]
    NotFound(Box<GuestRefusal>),
    /// The guest is on its way, or another one has its UUID.
    #[error("{0}")]
    Conflict(Box<GuestRefusal>),
    /// It cannot be done now.
    #[error("{0}")]
    Unavailable(Box<GuestRefusal>),
    /// The request itself is not acceptable.
    #[error("{0}")]
    Refused(Box<GuestRefusal>),
    /// The answer is not what the route promises.
    #[error(
        "the answer to {request} ({}) is not understood: {reason}; the two ends may be of different versions",
        status.as_u16()
    )]
    Malformed {
        request: Box<RequestLine>,
        status: StatusCode,
        /// What is wrong with it.
        reason: BodyError,
    },
}

impl GuestApiError {
    /// What a loop does about it. What was asked may always be asked again: the same request is the same guest.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Call(error) => match error.disposition() {
                Disposition::Fatal => Disposition::Fatal,
                Disposition::Retry | Disposition::Refresh => Disposition::Retry,
            },
            Self::Unavailable(_) | Self::Malformed { .. } => Disposition::Retry,
            Self::NotFound(_) => Disposition::Refresh,
            Self::Conflict(_) | Self::Refused(_) => Disposition::Fatal,
        }
    }

    /// Whether a build ([`crate::GuestClient::build`]) that was not answered surely never reached its agent: no connection was made,
    /// or there was no token to ask with. Not to be asked of calls that are repeated by themselves.
    #[must_use]
    pub fn never_arrived(&self) -> bool {
        match self {
            Self::Call(CallError::Auth(_)) => true,
            Self::Call(CallError::Transport { reason, .. }) => reason.sent() == Sent::No,
            _ => false,
        }
    }

    /// The refusing answer, where there was one.
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
