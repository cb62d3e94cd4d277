//! Why a host's state was not told or not had, with what to do about it.

use std::fmt;

use berth_wire::BodyError;
use http::StatusCode;

use crate::{CallError, Disposition, RequestLine};

/// An answer that refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostsRefusal {
    pub request: RequestLine,
    pub status: StatusCode,
    /// The service's message, on one line.
    pub message: String,
    /// The answer's request id, `-` where it has none.
    pub request_id: String,
}

impl fmt::Display for HostsRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (request, status) = (&self.request, self.status.as_u16());
        let service = request.service;
        write!(
            f,
            "the {service} answers {request} with {status} ({})",
            self.request_id
        )?;
        if self.message.is_empty() {
            Ok(())
        } else {
            write!(f, ": {}", self.message)
        }
    }
}

/// A call that was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostsError {
    /// There was no answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Nothing takes hosts' states there.
    #[error(
        "{0}; nothing takes the states of hosts there: endpoint_override of [conductor] has to name berth's own service"
    )]
    NoRoute(Box<HostsRefusal>),
    /// The account may not do this.
    #[error(
        "{0}; the account of [conductor] needs the role service: openstack role add --user USER --project PROJECT service"
    )]
    Forbidden(Box<HostsRefusal>),
    /// The service does not accept the token, nor a new one.
    #[error(
        "{0}; check the auth options of [conductor], that the account has the role service, and that the service asks the same Keystone"
    )]
    Unauthorized(Box<HostsRefusal>),
    /// What is told does not fit what is known: a node is another host's.
    #[error("{0}")]
    Conflict(Box<HostsRefusal>),
    /// The service, or something before it, cannot answer now.
    #[error("{0}; its log says more under that request id")]
    Unavailable(Box<HostsRefusal>),
    #[error("{0}")]
    Refused(Box<HostsRefusal>),
    /// The answer is not what the route promises.
    #[error(
        "the answer to {request} ({}, {request_id}) is not {expected}: {reason}; the two ends may be of different versions",
        status.as_u16()
    )]
    Malformed {
        request: Box<RequestLine>,
        status: StatusCode,
        /// The answer's request id, `-` where it has none.
        request_id: String,
        /// What the route promises.
        expected: &'static str,
        /// What is wrong with it.
        reason: BodyError,
    },
}

impl HostsError {
    /// What a loop does about it. What was asked may always be asked again: the same state is the same state.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Call(error) => match error.disposition() {
                Disposition::Fatal => Disposition::Fatal,
                Disposition::Retry | Disposition::Refresh => Disposition::Retry,
            },
            Self::Unavailable(_) | Self::Malformed { .. } => Disposition::Retry,
            Self::Conflict(_) => Disposition::Refresh,
            Self::NoRoute(_) | Self::Forbidden(_) | Self::Unauthorized(_) | Self::Refused(_) => {
                Disposition::Fatal
            }
        }
    }

    /// The refusing answer, where there was one.
    #[must_use]
    pub fn refusal(&self) -> Option<&HostsRefusal> {
        match self {
            Self::NoRoute(refusal)
            | Self::Forbidden(refusal)
            | Self::Unauthorized(refusal)
            | Self::Conflict(refusal)
            | Self::Unavailable(refusal)
            | Self::Refused(refusal) => Some(refusal),
            Self::Call(_) | Self::Malformed { .. } => None,
        }
    }
}
