//! A host's device on its way to a guest and back: checked, made ready, reset. Asked by the agent's journeys around a guest's
//! own life, done by the drivers.
//!
//! The order is check, prepare, the guest's spawn, its destroy, reset. Each may be asked for again after its answer was lost or
//! its process was killed in the midst; what is done already is done. Nothing is given to a second guest before a reset said
//! that the device came back.

use std::time::Duration;

use berth_model::{Disposition, PciAddress};
use serde::{Deserialize, Serialize};

use crate::guest_life::HostDevice;
use crate::guest_spec::{GuestDevice, text};
use crate::host_device::UnfitReason;

/// What a mediated device is made of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MdevSource {
    /// The function whose driver parts it.
    #[serde(with = "text")]
    pub parent: PciAddress,
    /// The type, by the kernel's name (`nvidia-558`).
    pub mdev_type: String,
}

/// A device that a guest is to have, or had.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WantedDevice {
    /// The device.
    pub device: GuestDevice,
    /// What a mediated device is made of; none for a function, and for a mediated device that somebody else made and that is
    /// left standing.
    pub mdev: Option<MdevSource>,
}

impl WantedDevice {
    /// A function, or a mediated device that somebody else made.
    #[must_use]
    pub fn of(device: GuestDevice) -> Self {
        Self { device, mdev: None }
    }

    /// The device of the host.
    #[must_use]
    pub fn host_device(&self) -> HostDevice {
        HostDevice::of(self.device)
    }

    /// The function that it is, or that it is a part of, where that is known.
    #[must_use]
    pub fn function(&self) -> Option<PciAddress> {
        match self.device {
            GuestDevice::Pci { address, .. } | GuestDevice::VendorVfio { address } => Some(address),
            GuestDevice::Mdev { .. } => self.mdev.as_ref().map(|source| source.parent),
        }
    }
}

/// What came of a reset. In each case the device can be another guest's.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "an outcome is to be told"]
pub enum DeviceReset {
    /// A function was reset and answers as before.
    Reset {
        /// The driver that has it now; none where it rests on none.
        driver: Option<String>,
    },
    /// A mediated device was removed, and with it all it held.
    Removed,
    /// A mediated device that somebody else made was left; its vendor's driver clears what a guest left in it.
    LeftStanding,
    /// There was no such mediated device.
    NotThere,
}

/// Why a device is not as it was asked to be.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The driver has no devices to give.
    #[error("the driver {driver} gives guests no devices")]
    NotSupported {
        /// The driver's name.
        driver: &'static str,
    },
    /// The host's devices cannot be looked at.
    #[error("the host's devices cannot be looked at: {reason}")]
    Unseen {
        /// What stood in the way.
        reason: String,
    },
    /// No allow-list means it.
    #[error("{device} may not be given to guests: {reason}")]
    NotAllowed {
        /// The device.
        device: HostDevice,
        /// What the list says, and what would be right.
        reason: String,
    },
    /// The host uses it, whatever the lists say.
    #[error(
        "{device} is in use by the host itself: {reason}; take it out of device_spec, or free it first"
    )]
    HostsOwn {
        /// The device.
        device: HostDevice,
        /// What it is used for.
        reason: String,
    },
    /// Its IOMMU group cannot go to a guest whole.
    #[error("{device}: {reason}")]
    NotWhole {
        /// The device.
        device: HostDevice,
        /// Which member is in the way, and what would mend it.
        reason: String,
    },
    /// It is not on the host, or not of the type that was asked for.
    #[error("the host has no {device}: {reason}")]
    Missing {
        /// The device.
        device: HostDevice,
        /// What there is instead.
        reason: String,
    },
    /// Somebody has it.
    #[error("{device} is not free: {reason}")]
    InUse {
        /// The device.
        device: HostDevice,
        /// Whose it is.
        reason: String,
    },
    /// It was not made ready, or not taken back; it may be so partly. To be asked for again.
    #[error("{device}: {call} was not done: {reason}")]
    Unfinished {
        /// The device.
        device: HostDevice,
        /// What was being done.
        call: &'static str,
        /// What stood in the way.
        reason: String,
    },
    /// A call did not come back; it may still be done.
    #[error("{device}: {call} did not come back within {limit:?}; it may still be done")]
    TimedOut {
        /// The device.
        device: HostDevice,
        /// What was being done.
        call: &'static str,
        /// How long was waited.
        limit: Duration,
    },
    /// It is not well: nobody may have it until an operator looked.
    #[error("{device} must not be given to anybody: {reason}")]
    Quarantined {
        /// The device.
        device: HostDevice,
        /// What is wrong, in one word.
        cause: UnfitReason,
        /// What is wrong, and what would mend it.
        reason: String,
    },
}

impl DeviceError {
    /// Whether asking again may help: at once, after a new look at the host, or not.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            DeviceError::Unseen { .. }
            | DeviceError::Unfinished { .. }
            | DeviceError::TimedOut { .. } => Disposition::Retry,
            DeviceError::Missing { .. }
            | DeviceError::InUse { .. }
            | DeviceError::NotWhole { .. }
            | DeviceError::HostsOwn { .. } => Disposition::Refresh,
            DeviceError::NotSupported { .. }
            | DeviceError::NotAllowed { .. }
            | DeviceError::Quarantined { .. } => Disposition::Fatal,
        }
    }

    /// What is wrong with a device that is to be set aside for this; none where it stays as free or as held as it was.
    #[must_use]
    pub fn quarantine(&self) -> Option<UnfitReason> {
        match self {
            DeviceError::Quarantined { cause, .. } => Some(*cause),
            _ => None,
        }
    }
}
