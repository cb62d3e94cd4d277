//! [`PortError`]: why a port could not be connected or disconnected.

use std::time::Duration;

use berth_model::{ConsumerUuid, Disposition};
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
    /// `ip` of iproute2 failed.
    #[error("{action} of the tap {tap} failed: {reason}")]
    Tap {
        /// What was tried: `creation`, `removal`.
        action: &'static str,
        tap: TapName,
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
            Self::Tap { .. } => Disposition::Retry,
            Self::TakenByGuest { .. }
            | Self::TakenByOther { .. }
            | Self::LinkInTheWay { .. }
            | Self::NoBridge { .. }
            | Self::NotPlugged { .. } => Disposition::Refresh,
        }
    }
}
