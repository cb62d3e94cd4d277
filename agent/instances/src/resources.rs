//! What a guest uses of its host beside the hypervisor: devices and disks, as the composition root provides them.

use std::future::{Future, ready};

use berth_agent_images::{DiskError, DiskPlan, DiskProvision, ImageDownload, RecreateDisks};
use berth_agent_journal::{BoundDevices, GuestRequest, ReleasedDevices};
use berth_model::{ConsumerUuid, Disposition};
use berth_virt::guest_spec::{GuestDisks, GuestSpec, HostPath, ProjectId};
use berth_virt::{DeviceError, WantedDevice};

use crate::files::{FileRefused, GuestFiles};

/// What was not done with a device or a disk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResourceError {
    /// It must not be given to this guest: not on the allow-list, sick, its IOMMU group not whole, in use, not there.
    #[error("{what} cannot be given to a guest: {reason}")]
    Refused {
        /// The device or file.
        what: String,
        reason: String,
    },
    /// It could not be made ready or taken back; it may be so partly.
    #[error("{what}: {reason}")]
    Failed {
        /// The device or file.
        what: String,
        reason: String,
    },
    /// Its image is not what it should be, or is not there.
    #[error("its image cannot be used: {reason}")]
    BadImage { reason: String },
    /// Its disks cannot be made here.
    #[error("its disks cannot be made on this host: {reason}")]
    NoDisks {
        reason: String,
        /// What a loop does about it.
        disposition: Disposition,
    },
    /// Its reset failed or could not be verified: nobody else may have it.
    #[error("{what} must go to nobody: {reason}")]
    Quarantined { what: String, reason: String },
}

impl ResourceError {
    /// What a loop does about it.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Failed { .. } => Disposition::Retry,
            Self::Refused { .. } => Disposition::Refresh,
            Self::NoDisks { disposition, .. } => *disposition,
            Self::BadImage { .. } | Self::Quarantined { .. } => Disposition::Fatal,
        }
    }
}

/// What a guest is to have of its host.
#[derive(Debug, Clone, Copy)]
pub struct Provision<'a> {
    /// The guest, with all its devices.
    pub spec: &'a GuestSpec,
    /// What its mediated devices are made of.
    pub bound: &'a BoundDevices,
    /// What the flavor's mediated devices are made of.
    pub mdevs: &'a [WantedDevice],
    /// The disks that are to be made.
    pub disks: &'a DiskPlan,
    /// Whether the instance has run before. If it has, its disks hold its tenant's data.
    pub has_run_before: bool,
    /// Which disks are made again if they are missing, although the instance has run before.
    pub recreate: RecreateDisks,
}

impl<'a> Provision<'a> {
    /// The part of it that is disks.
    #[must_use]
    pub fn disk_provision(&self) -> DiskProvision<'a> {
        DiskProvision {
            spec: self.spec,
            plan: self.disks,
            has_run_before: self.has_run_before,
            recreate: self.recreate,
        }
    }
}

/// What a guest uses of its host. Each may be asked for again, after any of them, with the same guest: what is done already
/// is done.
pub trait GuestResources: Send + Sync + 'static {
    /// Which files of the host guests may have.
    fn files(&self) -> &GuestFiles;

    /// Whether the files of the host that the guest names, and that nobody makes for it, are there.
    fn present(&self, spec: &GuestSpec) -> Result<(), FileRefused> {
        let _ = spec;
        Ok(())
    }

    /// Keeps what the journal must not have in clear, where a kill cannot reach it. Asked before the journal knows of the
    /// guest.
    fn keep(
        &self,
        request: &GuestRequest,
    ) -> impl Future<Output = Result<(), ResourceError>> + Send {
        let _ = request;
        ready(Ok(()))
    }

    /// Whether the guest may have each device and each disk. Changes nothing.
    fn check(&self, guest: Provision<'_>)
    -> impl Future<Output = Result<(), ResourceError>> + Send;

    /// Makes devices and disks ready.
    fn prepare(
        &self,
        guest: Provision<'_>,
    ) -> impl Future<Output = Result<(), ResourceError>> + Send;

    /// Takes devices and disks back: each device is reset, the reset verified, and given to the driver it rests on; one that is
    /// gone from the host is let go, and so is one that does not come back clean, with the reason; disks are gone. Asked only when
    /// the guest is off and gone from the hypervisor.
    ///
    /// Errors: Something could not be taken back now; the guest keeps it, and it is tried again.
    fn release(
        &self,
        guest: Provision<'_>,
    ) -> impl Future<Output = Result<ReleasedDevices, ResourceError>> + Send;

    /// Where the disks of this plan lie: what the guest's spec is to name.
    fn lay_out(&self, guest: ConsumerUuid, plan: &DiskPlan) -> Result<GuestDisks, ResourceError> {
        let _ = (guest, plan);
        Err(no_disks())
    }

    /// Brings an image onto this host, checked, so that a disk can be made of it at once. `project`: whose new disk that will
    /// be, for who keeps the image to say whether it may; none where the disk is there. May be cut off: what has come by then is
    /// thrown away.
    ///
    /// Errors: It cannot be had, is not for this project, or is not what it was said to be.
    fn fetch(
        &self,
        plan: &DiskPlan,
        project: Option<&ProjectId>,
    ) -> impl Future<Output = Result<(), ResourceError>> + Send {
        let _ = (plan, project);
        ready(Ok(()))
    }

    /// How far the images of a plan are that are coming onto this host; none where none is.
    fn coming(&self, plan: &DiskPlan) -> Option<ImageDownload> {
        let _ = plan;
        None
    }

    /// Removes files of a guest that is off, for others in their place. What is not there is removed already.
    fn remove(
        &self,
        guest: ConsumerUuid,
        files: &[HostPath],
    ) -> impl Future<Output = Result<(), ResourceError>> + Send {
        let _ = (guest, files);
        ready(Ok(()))
    }

    /// Removes what was kept for a guest that will not be made any more.
    fn discard(
        &self,
        guest: ConsumerUuid,
    ) -> impl Future<Output = Result<(), ResourceError>> + Send {
        let _ = guest;
        ready(Ok(()))
    }

    /// Removes what no guest uses any more (old images) or ever came to use. Asked now and then with all guests that are
    /// known, each in all its forms; what cannot be done is told in the log and done the next time.
    fn tidy(&self, guests: &[&GuestRequest]) -> impl Future<Output = ()> + Send {
        let _ = guests;
        ready(())
    }
}

pub(crate) fn no_disks() -> ResourceError {
    ResourceError::Refused {
        what: "a disk".to_owned(),
        reason: "this agent makes no disks; set instances_path".to_owned(),
    }
}

impl From<DeviceError> for ResourceError {
    fn from(error: DeviceError) -> Self {
        let said = error.to_string();
        match error {
            DeviceError::NotSupported { .. } => Self::Refused {
                what: "a device".to_owned(),
                reason: said,
            },
            DeviceError::Unseen { reason } => Self::Failed {
                what: "a device".to_owned(),
                reason,
            },
            DeviceError::NotAllowed { device, .. }
            | DeviceError::HostsOwn { device, .. }
            | DeviceError::NotWhole { device, .. }
            | DeviceError::Missing { device, .. }
            | DeviceError::InUse { device, .. } => Self::Refused {
                what: device.to_string(),
                reason: said,
            },
            DeviceError::Unfinished { device, .. } | DeviceError::TimedOut { device, .. } => {
                Self::Failed {
                    what: device.to_string(),
                    reason: said,
                }
            }
            DeviceError::Quarantined { device, reason, .. } => Self::Quarantined {
                what: device.to_string(),
                reason,
            },
        }
    }
}

impl From<FileRefused> for ResourceError {
    fn from(refused: FileRefused) -> Self {
        Self::Refused {
            what: "a file".to_owned(),
            reason: refused.to_string(),
        }
    }
}

impl From<DiskError> for ResourceError {
    fn from(error: DiskError) -> Self {
        let reason = error.to_string();
        match error {
            DiskError::Image { .. } => Self::BadImage { reason },
            _ => Self::NoDisks {
                reason,
                disposition: error.disposition(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::spawn::SpawnError;
    use berth_agent_journal::Blame;

    #[test]
    fn a_disk_that_is_not_made_is_the_images_fault_or_the_hosts() {
        let (image, reason) = ("http://a/b", "it is no qcow2");
        let text = |text: &str| text.to_owned();
        for (error, blame, disposition) in [
            (
                DiskError::Image {
                    image: text(image),
                    reason: text(reason),
                },
                Blame::Image,
                Disposition::Fatal,
            ),
            (
                DiskError::Fetch {
                    image: text(image),
                    reason: text("it does not answer"),
                },
                Blame::Host,
                Disposition::Retry,
            ),
            (
                DiskError::NoRoom {
                    path: PathBuf::from("/var"),
                    needed: 2,
                    free: 1,
                },
                Blame::Host,
                Disposition::Refresh,
            ),
        ] {
            let told = error.to_string();
            let error = ResourceError::from(error);
            assert_eq!(error.disposition(), disposition, "{told}");
            let error = SpawnError::from(error);
            assert_eq!(error.blame(), Some(blame), "{told}");
            assert!(error.to_string().ends_with(&told), "{error}");
        }
    }
}
