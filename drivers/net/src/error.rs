//! [`PortError`]: why a port could not be connected or disconnected.

use std::time::Duration;

use berth_model::{ConsumerUuid, Disposition, PciAddress};
use berth_ovsdb::OvsdbError;
use berth_virt::guest_spec::TapName;
use uuid::Uuid;

/// Why a port could not be connected or disconnected.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// Another guest of this host has the port.
    #[error("port {port} is plugged for guest {guest} on this host")]
    TakenByGuest { port: Uuid, guest: String },
    /// The switch has an interface of the tap's name that is not the port's.
    #[error(
        "port {port} needs the interface {tap}, which Open vSwitch has already for another purpose (iface-id {found:?})"
    )]
    TakenByOther {
        port: Uuid,
        tap: TapName,
        /// Its `iface-id`; empty without one.
        found: String,
    },
    /// The host has a link of the tap's name that is no tap, or that the switch does not have as the port's.
    #[error(
        "port {port} needs the tap {tap}, but the host has another network interface of that name"
    )]
    LinkInTheWay { port: Uuid, tap: TapName },
    #[error(
        "port {port} needs the bridge {bridge}, which Open vSwitch does not have (ovs-vsctl list-br shows those it has)"
    )]
    NoBridge { port: Uuid, bridge: String },
    #[error(transparent)]
    Switch(#[from] OvsdbError),
    /// The virtual function of a port cannot be set.
    #[error(
        "port {port} needs the virtual function {address}, which the host does not have, or whose network card has no network \
         interface on the host"
    )]
    NoFunction { port: Uuid, address: PciAddress },
    /// The host has the virtual function of a port, and cannot set it now.
    #[error(
        "the settings of the virtual function {address} cannot be taken back from port {port}: its network card has no network \
         interface on the host, or several"
    )]
    UnreachableFunction { port: Uuid, address: PciAddress },
    /// `ip` of iproute2 failed.
    #[error("{action} of the network interface {link} failed: {reason}")]
    Link {
        /// What was tried: `creation`, `removal`.
        action: &'static str,
        link: String,
        reason: String,
    },
    /// The port was plugged and never started to work.
    #[error(
        "port {port} of guest {guest}: timed out after {} s (vif_plugging_timeout) waiting for {signal}", waited.as_secs()
    )]
    NotPlugged {
        port: Uuid,
        guest: ConsumerUuid,
        waited: Duration,
        /// What was awaited.
        signal: &'static str,
    },
}

impl PortError {
    /// How a caller reacts to this error.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Switch(error) => error.disposition(),
            Self::Link { .. } | Self::UnreachableFunction { .. } => Disposition::Retry,
            Self::TakenByGuest { .. }
            | Self::TakenByOther { .. }
            | Self::LinkInTheWay { .. }
            | Self::NoBridge { .. }
            | Self::NoFunction { .. }
            | Self::NotPlugged { .. } => Disposition::Refresh,
        }
    }
}
