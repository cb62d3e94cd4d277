//! Errors of the host state client.

use std::fmt;

use berth_wire::BodyError;
use http::StatusCode;

use crate::{Disposition, RequestLine, ServiceCallError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostsRefusal {
    pub request: RequestLine,
    pub status: StatusCode,
    /// The service's message, on one line.
    pub message: String,
    /// The answer's request id; `-` if it has none.
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
    #[error(transparent)]
    Call(#[from] ServiceCallError),
    /// Nothing takes hosts' states there.
    #[error(
        "{0}; the service there does not accept host states: set endpoint_override of [conductor] to Berth's host service"
    )]
    NoRoute(Box<HostsRefusal>),
    /// The account lacks permission.
    #[error(
        "{0}; the account of [conductor] needs the role service: openstack role add --user USER --project PROJECT service"
    )]
    Forbidden(Box<HostsRefusal>),
    /// The service does not accept the token, nor a new one.
    #[error(
        "{0}; check the auth options of [conductor], that the account has the role service, and that the service asks the same Keystone"
    )]
    Unauthorized(Box<HostsRefusal>),
    /// The report conflicts with stored state: a node belongs to another host.
    #[error("{0}")]
    Conflict(Box<HostsRefusal>),
    /// The service or a proxy is temporarily unavailable.
    #[error("{0}; its log says more under that request id")]
    Unavailable(Box<HostsRefusal>),
    #[error("{0}")]
    Refused(Box<HostsRefusal>),
    /// The answer does not have the documented form.
    #[error(
        "the answer to {request} ({}, {request_id}) is not {expected}: {reason}; client and server may have different versions",
        status.as_u16()
    )]
    Malformed {
        request: Box<RequestLine>,
        status: StatusCode,
        /// The answer's request id; `-` if it has none.
        request_id: String,
        expected: &'static str,
        reason: BodyError,
    },
}

impl HostsError {
    /// Every report may be repeated.
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

    /// The refusing answer, if there was one.
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
