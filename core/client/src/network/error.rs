//! Errors of the network client.

use uuid::Uuid;

use crate::{Disposition, MalformedAnswer, ServiceCallError, ServiceRefusal};

/// A call of the network service that was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkClientError {
    #[error(transparent)]
    Call(#[from] ServiceCallError),
    /// The network, port or binding does not exist.
    #[error("{0}; it does not exist, or no longer")]
    NotFound(Box<ServiceRefusal>),
    /// No address is free in any subnet of the network.
    #[error("{0}")]
    NoFreeAddress(Box<ServiceRefusal>),
    /// Another port has the requested address.
    #[error("{0}")]
    AddressInUse(Box<ServiceRefusal>),
    /// The requested address is in no subnet of the network.
    #[error("{0}")]
    InvalidAddress(Box<ServiceRefusal>),
    /// The port belongs to another device.
    #[error("{0}")]
    PortInUse(Box<ServiceRefusal>),
    /// Another port of the network has the MAC address.
    #[error("{0}")]
    MacAddressInUse(Box<ServiceRefusal>),
    /// The object was changed since it was read.
    #[error("{0}; it was changed concurrently and has to be read again")]
    Changed(Box<ServiceRefusal>),
    /// The project's quota is used up.
    #[error("{0}; raise it with openstack quota set --ports")]
    OverQuota(Box<ServiceRefusal>),
    /// The port's addresses are in a segment that the host does not reach.
    #[error("{0}")]
    HostNotInSegment(Box<ServiceRefusal>),
    /// No mechanism driver can bind the port to the host.
    #[error(
        "port {port} cannot be bound to host {host}: the network service reports binding_failed; check that the host is \
         a chassis of OVN or runs a network agent (openstack network agent list), and that their names are the host's"
    )]
    BindingFailed { port: Uuid, host: String },
    /// The object's state does not allow the operation.
    #[error("{0}")]
    Conflict(Box<ServiceRefusal>),
    /// The account lacks permission.
    #[error(
        "{0}; the account of [neutron] needs the role admin, because only administrators may bind ports"
    )]
    Forbidden(Box<ServiceRefusal>),
    /// The service accepts neither the token nor a new one.
    #[error(
        "{0}; check the auth options of [neutron], and that the service asks the same Keystone"
    )]
    Unauthorized(Box<ServiceRefusal>),
    /// The service or a proxy is temporarily unavailable.
    #[error("{0}; its log says more under that request id")]
    Unavailable(Box<ServiceRefusal>),
    #[error("{0}")]
    Refused(Box<ServiceRefusal>),
    #[error(transparent)]
    Malformed(#[from] Box<MalformedAnswer>),
}

impl NetworkClientError {
    /// `Refresh` means that another host or a newer state of the port may succeed.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Call(error) => error.disposition(),
            Self::Unavailable(refusal) => refusal.request.if_unavailable(),
            Self::Malformed(answer) => answer.request.if_malformed(),
            Self::NotFound(_)
            | Self::Conflict(_)
            | Self::Changed(_)
            | Self::HostNotInSegment(_)
            | Self::BindingFailed { .. } => Disposition::Refresh,
            Self::NoFreeAddress(_)
            | Self::AddressInUse(_)
            | Self::InvalidAddress(_)
            | Self::PortInUse(_)
            | Self::MacAddressInUse(_)
            | Self::OverQuota(_)
            | Self::Forbidden(_)
            | Self::Unauthorized(_)
            | Self::Refused(_) => Disposition::Fatal,
        }
    }

    /// The error without its hint. A refusal is the service's own sentence.
    #[must_use]
    pub fn what(&self) -> String {
        match self {
            Self::Call(call) => call.what(),
            Self::Unauthorized(_) => "the network service does not accept the token".to_owned(),
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
            | Self::NoFreeAddress(refusal)
            | Self::AddressInUse(refusal)
            | Self::InvalidAddress(refusal)
            | Self::PortInUse(refusal)
            | Self::MacAddressInUse(refusal)
            | Self::OverQuota(refusal)
            | Self::HostNotInSegment(refusal)
            | Self::Conflict(refusal)
            | Self::Changed(refusal)
            | Self::Forbidden(refusal)
            | Self::Unauthorized(refusal)
            | Self::Unavailable(refusal)
            | Self::Refused(refusal) => Some(refusal),
            Self::Call(_) | Self::BindingFailed { .. } | Self::Malformed(_) => None,
        }
    }
}
