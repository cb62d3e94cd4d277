//! Errors of the accelerator client.

use crate::{Disposition, MalformedAnswer, ServiceCallError, ServiceRefusal};

/// A call of the accelerator service that was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AcceleratorError {
    #[error(transparent)]
    Call(#[from] ServiceCallError),
    /// The profile or the request does not exist.
    #[error("{0}; it does not exist, or no longer")]
    NotFound(Box<ServiceRefusal>),
    /// The account lacks permission.
    #[error(
        "{0}; the account of [cyborg] needs the role service, and cyborg's service_token_roles must name it: openstack \
         role add --user USER --project PROJECT service"
    )]
    Forbidden(Box<ServiceRefusal>),
    /// The service does not accept the token, nor a new one.
    #[error(
        "{0}; check the auth options of [cyborg], that the account has the role service, and that the service asks the same Keystone"
    )]
    Unauthorized(Box<ServiceRefusal>),
    /// The request's state does not allow the operation, or the object exists already.
    #[error("{0}")]
    Conflict(Box<ServiceRefusal>),
    /// The service or a proxy is temporarily unavailable.
    #[error("{0}; its log says more under that request id")]
    Unavailable(Box<ServiceRefusal>),
    #[error("{0}")]
    Refused(Box<ServiceRefusal>),
    #[error(transparent)]
    Malformed(#[from] Box<MalformedAnswer>),
}

impl AcceleratorError {
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Call(error) => error.disposition(),
            // Cyborg also answers 500 after half a bind.
            Self::Unavailable(refusal) => refusal.request.if_unavailable(),
            Self::Malformed(answer) => answer.request.if_malformed(),
            Self::NotFound(_) | Self::Conflict(_) => Disposition::Refresh,
            Self::Forbidden(_) | Self::Unauthorized(_) | Self::Refused(_) => Disposition::Fatal,
        }
    }

    /// The error without its hint. A refusal is the service's own sentence.
    #[must_use]
    pub fn what(&self) -> String {
        match self {
            Self::Call(call) => call.what(),
            Self::Malformed(_) => self.to_string(),
            Self::Unauthorized(_) => "the accelerator service does not accept the token".to_owned(),
            _ => match self.refusal() {
                Some(refusal) if !refusal.message.is_empty() => refusal.message.clone(),
                _ => self.to_string(),
            },
        }
    }

    /// The refusing answer, if there was one.
    #[must_use]
    pub fn refusal(&self) -> Option<&ServiceRefusal> {
        match self {
            Self::NotFound(refusal)
            | Self::Forbidden(refusal)
            | Self::Unauthorized(refusal)
            | Self::Conflict(refusal)
            | Self::Unavailable(refusal)
            | Self::Refused(refusal) => Some(refusal),
            Self::Call(_) | Self::Malformed(_) => None,
        }
    }
}
