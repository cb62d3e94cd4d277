//! Errors of the host state client.

use crate::{Disposition, MalformedAnswer, ServiceCallError, ServiceRefusal};

/// A call that was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostsError {
    #[error(transparent)]
    Call(#[from] ServiceCallError),
    /// Nothing takes hosts' states there.
    #[error(
        "{0}; the service there does not accept host states: set endpoint_override of [conductor] to Berth's host service"
    )]
    NoRoute(Box<ServiceRefusal>),
    /// The account lacks permission.
    #[error(
        "{0}; the account of [conductor] needs the role service: openstack role add --user USER --project PROJECT service"
    )]
    Forbidden(Box<ServiceRefusal>),
    /// The service does not accept the token, nor a new one.
    #[error(
        "{0}; check the auth options of [conductor], that the account has the role service, and that the service asks the same Keystone"
    )]
    Unauthorized(Box<ServiceRefusal>),
    /// The report conflicts with stored state: a node belongs to another host.
    #[error("{0}")]
    Conflict(Box<ServiceRefusal>),
    /// The service or a proxy is temporarily unavailable.
    #[error("{0}; its log says more under that request id")]
    Unavailable(Box<ServiceRefusal>),
    #[error("{0}")]
    Refused(Box<ServiceRefusal>),
    /// The answer does not have the documented form.
    #[error("{0}; client and server may have different versions")]
    Malformed(Box<MalformedAnswer>),
}

impl From<Box<MalformedAnswer>> for HostsError {
    fn from(answer: Box<MalformedAnswer>) -> Self {
        Self::Malformed(answer)
    }
}

impl HostsError {
    /// Every report may be repeated.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Call(error) => error.if_repeatable(),
            Self::Unavailable(_) | Self::Malformed(_) => Disposition::Retry,
            Self::Conflict(_) => Disposition::Refresh,
            Self::NoRoute(_) | Self::Forbidden(_) | Self::Unauthorized(_) | Self::Refused(_) => {
                Disposition::Fatal
            }
        }
    }

    /// The refusing answer, if there was one.
    #[must_use]
    pub fn refusal(&self) -> Option<&ServiceRefusal> {
        match self {
            Self::NoRoute(refusal)
            | Self::Forbidden(refusal)
            | Self::Unauthorized(refusal)
            | Self::Conflict(refusal)
            | Self::Unavailable(refusal)
            | Self::Refused(refusal) => Some(refusal),
            Self::Call(_) | Self::Malformed(_) => None,
        }
    }
}
