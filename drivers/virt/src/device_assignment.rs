//! Device operations around a guest: check, prepare, reset. The agent calls them, drivers implement them.
//!
//! ```text
//! check -> prepare -> (spawn guest ... destroy guest) -> reset
//! ```
//!
//! Each operation is idempotent, so it can be repeated after a lost answer or a kill. A device is given to another
//! guest only after a successful reset.

use std::time::Duration;

use berth_model::{Disposition, PciAddress};
use serde::{Deserialize, Serialize};

use crate::guest_lifecycle::HostDeviceId;
use crate::guest_spec::{GuestDevice, text};
use crate::host_device::UnfitReason;

/// The parent and type from which a mediated device is created.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MdevSource {
    /// The PCI function on which the mediated device is created.
    #[serde(with = "text")]
    pub parent: PciAddress,
    /// The type, by the kernel's name (`nvidia-558`).
    pub mdev_type: String,
}

/// A device that a guest should have, or had.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WantedDevice {
    /// The device as the guest sees it: function or mediated device.
    pub device: GuestDevice,
    /// The source of a mediated device. `None` for a function, and for a mediated device that was created by
    /// others and is kept.
    pub mdev: Option<MdevSource>,
}

impl WantedDevice {
    /// Creates the value for a function, or for a mediated device created by others.
    #[must_use]
    pub fn of(device: GuestDevice) -> Self {
        Self { device, mdev: None }
    }

    /// The device of the host.
    #[must_use]
    pub fn host_device(&self) -> HostDeviceId {
        HostDeviceId::of(self.device)
    }

    /// The function itself, or the parent function if known.
    #[must_use]
    pub fn function(&self) -> Option<PciAddress> {
        match self.device {
            GuestDevice::Pci { address, .. } | GuestDevice::VendorVfio { address } => Some(address),
            GuestDevice::Mdev { .. } => self.mdev.as_ref().map(|source| source.parent),
        }
    }
}

/// The outcome of a reset. After each of them the device can be given to another guest.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the outcome must be handled"]
pub enum DeviceReset {
    /// The function was reset and is healthy.
    Reset {
        /// Its current driver; `None` if it has none.
        driver: Option<String>,
    },
    /// The mediated device was removed, together with its state.
    Removed,
    /// A mediated device created by others was kept; the vendor's driver clears its state. A virtual function below a macvtap is
    /// kept, too: the guest could not reach its registers.
    Retained,
    /// There was no such device.
    NotThere,
}

/// An error of a device operation.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The driver has no devices to give.
    #[error("the driver {driver} does not support devices")]
    NotSupported {
        /// The name of the driver, by `compute_driver`.
        driver: &'static str,
    },
    /// The host's devices cannot be observed.
    #[error("the host's devices cannot be observed: {reason}")]
    Unobservable {
        /// The cause as reported by the kernel or the hypervisor.
        reason: String,
    },
    /// No allow-list includes the device.
    #[error("{device} may not be given to guests: {reason}")]
    NotAllowed {
        /// The host device that the operation was for.
        device: HostDeviceId,
        /// What the list contains, and how to correct it.
        reason: String,
    },
    /// The host itself uses the device.
    #[error(
        "{device} is in use by the host itself: {reason}; remove it from device_spec, or free it first"
    )]
    InUseByHost {
        /// The host device that the operation was for.
        device: HostDeviceId,
        /// What the host uses it for.
        reason: String,
    },
    /// Its IOMMU group cannot be given to a guest as a whole.
    #[error("{device}: {reason}")]
    GroupNotViable {
        /// The host device that the operation was for.
        device: HostDeviceId,
        /// The member that prevents it, and how to repair that.
        reason: String,
    },
    /// The device is not on the host, or is not of the requested type.
    #[error("the host has no {device}: {reason}")]
    Missing {
        /// The host device that the operation was for.
        device: HostDeviceId,
        /// What the host has instead of the device.
        reason: String,
    },
    /// The device is in use.
    #[error("{device} is not free: {reason}")]
    InUse {
        /// The host device that the operation was for.
        device: HostDeviceId,
        /// The user of the device.
        reason: String,
    },
    /// Preparing or resetting failed, possibly half-way. To be retried.
    #[error("{device}: {call} failed: {reason}")]
    Unfinished {
        /// The host device that the operation was for.
        device: HostDeviceId,
        /// The operation that did not finish, as text.
        call: &'static str,
        /// The cause as reported by the kernel or the hypervisor.
        reason: String,
    },
    /// A call timed out; it may still be executed.
    #[error("{device}: {call} timed out after {limit:?}; it may still be executed")]
    TimedOut {
        /// The host device that the operation was for.
        device: HostDeviceId,
        /// The operation that did not finish, as text.
        call: &'static str,
        /// How long was waited.
        limit: Duration,
    },
    /// The device is unhealthy: it may not be given out until an operator has checked it.
    #[error("{device} must not be given to a guest: {reason}")]
    Quarantined {
        /// The host device that the operation was for.
        device: HostDeviceId,
        /// The kind of problem.
        cause: UnfitReason,
        /// The problem, and how to repair it.
        reason: String,
    },
}

impl DeviceError {
    /// Whether a retry may help, immediately or after another observation.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            DeviceError::Unobservable { .. }
            | DeviceError::Unfinished { .. }
            | DeviceError::TimedOut { .. } => Disposition::Retry,
            DeviceError::Missing { .. }
            | DeviceError::InUse { .. }
            | DeviceError::GroupNotViable { .. }
            | DeviceError::InUseByHost { .. } => Disposition::Refresh,
            DeviceError::NotSupported { .. }
            | DeviceError::NotAllowed { .. }
            | DeviceError::Quarantined { .. } => Disposition::Fatal,
        }
    }

    /// The reason for quarantining the device after this error; `None` if its state is unchanged.
    #[must_use]
    pub fn quarantine(&self) -> Option<UnfitReason> {
        match self {
            DeviceError::Quarantined { cause, .. } => Some(*cause),
            _ => None,
        }
    }
}
