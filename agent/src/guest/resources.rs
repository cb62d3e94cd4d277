//! What a guest uses of its host beside the hypervisor: devices and disks, as the composition root provides them.

use std::future::Future;

use berth_model::Disposition;
use berth_virt::guest_spec::GuestSpec;

use super::BoundDevices;

/// What was not done with a device or a disk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResourceError {
    /// It must not be given to this guest: not on the allow-list, sick, its IOMMU group not whole, in use, not there.
    #[error("{what} cannot be given to a guest: {reason}")]
    Refused {
        /// The device or file.
        what: String,
        /// Why.
        reason: String,
    },
    /// It could not be made ready or taken back; it may be so partly.
    #[error("{what}: {reason}")]
    Failed {
        /// The device or file.
        what: String,
        /// Why.
        reason: String,
    },
    /// Its reset failed or could not be verified: nobody else may have it.
    #[error("{what} is in quarantine: {reason}")]
    Quarantined {
        /// The device.
        what: String,
        /// Why.
        reason: String,
    },
}

impl ResourceError {
    /// What a loop does about it.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Failed { .. } => Disposition::Retry,
            Self::Refused { .. } => Disposition::Refresh,
            Self::Quarantined { .. } => Disposition::Fatal,
        }
    }
}

/// What a guest uses of its host. Each may be asked for again, after any of them, with the same guest: what is done already
/// is done. The guest's devices are all in `spec`; `bound` says besides what its mediated devices are made of.
pub trait GuestResources: Send + Sync + 'static {
    /// Whether each device may be given to the guest. Changes nothing.
    ///
    /// # Errors
    /// One may not, or cannot be looked at.
    fn check(
        &self,
        spec: &GuestSpec,
        bound: &BoundDevices,
    ) -> impl Future<Output = Result<(), ResourceError>> + Send;

    /// Makes devices and disks ready.
    ///
    /// # Errors
    /// One cannot be made ready; the caller releases all.
    fn prepare(
        &self,
        spec: &GuestSpec,
        bound: &BoundDevices,
    ) -> impl Future<Output = Result<(), ResourceError>> + Send;

    /// Takes devices and disks back: each device is reset, the reset verified, and given to the driver it rests on; disks are
    /// gone. Asked only when the guest is off and gone from the hypervisor.
    ///
    /// # Errors
    /// Something could not be taken back; the guest keeps it.
    fn release(
        &self,
        spec: &GuestSpec,
        bound: &BoundDevices,
    ) -> impl Future<Output = Result<(), ResourceError>> + Send;
}
