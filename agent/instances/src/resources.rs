//! [`GuestResources`]: the interface to the host's devices and disks that the steps of an instance use.
//!
//! `check` verifies, `prepare` allocates, and `release` resets and frees. Each call is idempotent. [`crate::HostResources`] is the
//! production implementation.

use std::future::{Future, ready};

use berth_agent_images::{
    ConfigDrive, ConfigDriveChange, DiskError, DiskPlan, DiskProvision, ImageDownload,
    RecreateDisks,
};
use berth_agent_journal::{BoundDevices, GuestRequest, ReleasedDevices};
use berth_model::{ConsumerUuid, Disposition};
use berth_net::SwitchInterface;
use berth_virt::guest_spec::{GuestDisks, GuestSpec, HostPath, ProjectId};
use berth_virt::{DeviceError, WantedDevice};

use crate::files::{FileRefusal, GuestFiles};

/// Why an operation on a device or disk failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResourceError {
    /// The device or file may not be used: not on the allow-list, unhealthy, in use, missing, or its IOMMU group is
    /// incomplete.
    #[error("{what} cannot be assigned to a guest: {reason}")]
    Refused {
        /// The device or file.
        what: String,
        reason: String,
    },
    /// Preparing or releasing failed, and may have taken effect partly.
    #[error("{what}: {reason}")]
    Failed {
        /// The device or file.
        what: String,
        reason: String,
    },
    #[error("the image cannot be used: {reason}")]
    BadImage { reason: String },
    #[error("the disks cannot be created on this host: {reason}")]
    NoDisks {
        reason: String,
        /// How a caller reacts to this error.
        disposition: Disposition,
    },
    /// The reset failed or could not be verified: no other guest may use the device.
    #[error("{what} is quarantined: {reason}")]
    Quarantined { what: String, reason: String },
}

impl ResourceError {
    /// How a caller reacts to this error.
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

/// What an instance needs from its host.
#[derive(Debug, Clone, Copy)]
pub struct Provision<'a> {
    /// The spec, with all devices.
    pub spec: &'a GuestSpec,
    /// The devices of the accelerator requests, with the parents of mediated devices.
    pub bound: &'a BoundDevices,
    /// The mediated devices of the flavor, with their parents.
    pub mdevs: &'a [WantedDevice],
    /// The disks to create.
    pub disks: &'a DiskPlan,
    /// Whether the instance has run before. If it has, its disks hold its tenant's data.
    pub has_run_before: bool,
    /// Which disks are made again if they are missing, although the instance has run before.
    pub recreate: RecreateDisks,
}

impl<'a> Provision<'a> {
    /// The disks' part of the provision.
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

/// The devices and disks of a host. Each call is idempotent, and may be repeated in any state of the instance.
pub trait GuestResources: Send + Sync + 'static {
    fn files(&self) -> &GuestFiles;

    /// Checks that the kernel and RAM disk exist, which the agent does not create.
    fn check_present(&self, spec: &GuestSpec) -> Result<(), FileRefusal> {
        let _ = spec;
        Ok(())
    }

    /// Stores the secrets of a request durably, outside the journal. Called before the request is journaled.
    fn store_secrets(
        &self,
        request: &GuestRequest,
    ) -> impl Future<Output = Result<(), ResourceError>> + Send {
        let _ = request;
        ready(Ok(()))
    }

    /// Checks that the instance may use each device and disk. Changes nothing.
    fn check(&self, guest: Provision<'_>)
    -> impl Future<Output = Result<(), ResourceError>> + Send;

    /// Prepares disks, devices and ports.
    fn prepare(
        &self,
        guest: Provision<'_>,
    ) -> impl Future<Output = Result<(), ResourceError>> + Send;

    /// Checks that a guest may use a network function. Changes nothing.
    fn check_function(
        &self,
        function: &WantedDevice,
    ) -> impl Future<Output = Result<(), ResourceError>> + Send;

    /// Prepares a network function for a guest that exists.
    fn prepare_function(
        &self,
        guest: ConsumerUuid,
        function: &WantedDevice,
    ) -> impl Future<Output = Result<(), ResourceError>> + Send;

    /// Resets a network function that a guest no longer has, as [`GuestResources::release`] does.
    fn release_function(
        &self,
        guest: ConsumerUuid,
        function: &WantedDevice,
    ) -> impl Future<Output = Result<ReleasedDevices, ResourceError>> + Send;

    /// Waits until the guest's plugged ports work. Cancellable.
    ///
    /// Errors: a port does not work in time.
    fn wait_for_ports(
        &self,
        spec: &GuestSpec,
    ) -> impl Future<Output = Result<(), ResourceError>> + Send {
        let _ = spec;
        ready(Ok(()))
    }

    /// Checks that the spec's ports can be plugged. Changes nothing.
    fn check_ports(
        &self,
        spec: &GuestSpec,
    ) -> impl Future<Output = Result<(), ResourceError>> + Send {
        let _ = spec;
        ready(Ok(()))
    }

    /// Plugs the spec's ports. A plugged port stays as it is.
    fn plug_ports(
        &self,
        spec: &GuestSpec,
    ) -> impl Future<Output = Result<(), ResourceError>> + Send {
        let _ = spec;
        ready(Ok(()))
    }

    /// Unplugs the spec's ports.
    fn unplug_ports(
        &self,
        spec: &GuestSpec,
    ) -> impl Future<Output = Result<(), ResourceError>> + Send {
        let _ = spec;
        ready(Ok(()))
    }

    /// The interfaces that this agent added to the host's switch, for guests that exist or are gone.
    fn plugged_ports(
        &self,
    ) -> impl Future<Output = Result<Vec<SwitchInterface>, ResourceError>> + Send {
        ready(Ok(Vec::new()))
    }

    /// Removes an interface of [`GuestResources::plugged_ports`] that no guest uses.
    fn remove_orphan_port(
        &self,
        interface: &SwitchInterface,
    ) -> impl Future<Output = Result<(), ResourceError>> + Send {
        let _ = interface;
        ready(Ok(()))
    }

    /// Releases ports, devices and disks: unplugs each port, resets each device, verifies the reset, returns the device to its driver, and
    /// removes the disks. A vanished device is skipped. A device whose reset failed permanently is in
    /// `quarantined`, with the reason. The guest must be removed from the hypervisor before.
    ///
    /// Errors: a device or disk could not be released now. It stays allocated, and the release is retried.
    fn release(
        &self,
        guest: Provision<'_>,
    ) -> impl Future<Output = Result<ReleasedDevices, ResourceError>> + Send;

    /// The file paths for a disk plan, for use in the spec.
    fn lay_out(&self, guest: ConsumerUuid, plan: &DiskPlan) -> Result<GuestDisks, ResourceError> {
        let _ = (guest, plan);
        Err(no_disks())
    }

    /// Downloads and verifies the images of a plan. With `project`, checks whether new disks of that project may use
    /// the image; pass `None` if the disk exists already. Cancellable: a partial download is removed.
    ///
    /// Errors: the image is not available, does not belong to the project, or does not match its checksum or format.
    fn fetch(
        &self,
        plan: &DiskPlan,
        project: Option<&ProjectId>,
    ) -> impl Future<Output = Result<(), ResourceError>> + Send {
        let _ = (plan, project);
        ready(Ok(()))
    }

    /// The progress of the plan's image download; `None` if no download is running.
    fn download_progress(&self, plan: &DiskPlan) -> Option<ImageDownload> {
        let _ = plan;
        None
    }

    /// Removes files of a guest that is off. A missing file counts as removed.
    fn remove(
        &self,
        guest: ConsumerUuid,
        files: &[HostPath],
    ) -> impl Future<Output = Result<(), ResourceError>> + Send {
        let _ = (guest, files);
        ready(Ok(()))
    }

    /// Stores the changed content of an instance's config drive durably, outside the journal. The drive is not written.
    fn change_config_drive(
        &self,
        guest: ConsumerUuid,
        drive: &ConfigDrive,
        change: ConfigDriveChange,
    ) -> impl Future<Output = Result<ConfigDrive, ResourceError>> + Send {
        let _ = (guest, drive, change);
        ready(Err(no_disks()))
    }

    /// Writes an instance's config drive again, and removes its earlier contents.
    fn rewrite_config_drive(
        &self,
        spec: &GuestSpec,
        drive: &ConfigDrive,
    ) -> impl Future<Output = Result<(), ResourceError>> + Send {
        let _ = (spec, drive);
        ready(Err(no_disks()))
    }

    /// Removes the stored secrets of an instance.
    fn discard_secrets(
        &self,
        guest: ConsumerUuid,
    ) -> impl Future<Output = Result<(), ResourceError>> + Send {
        let _ = guest;
        ready(Ok(()))
    }

    /// Removes files that no instance uses, such as old images. `guests` lists all known instances with each of their
    /// boot sources. Failures are logged and retried by the next call.
    fn remove_unused(&self, guests: &[&GuestRequest]) -> impl Future<Output = ()> + Send {
        let _ = guests;
        ready(())
    }
}

pub(crate) fn no_disks() -> ResourceError {
    ResourceError::Refused {
        what: "a disk".to_owned(),
        reason: "this agent does not manage disks; set instances_path".to_owned(),
    }
}

impl From<DeviceError> for ResourceError {
    fn from(error: DeviceError) -> Self {
        let text = error.to_string();
        match error {
            DeviceError::NotSupported { .. } => Self::Refused {
                what: "a device".to_owned(),
                reason: text,
            },
            DeviceError::Unobservable { reason } => Self::Failed {
                what: "a device".to_owned(),
                reason,
            },
            DeviceError::NotAllowed { device, .. }
            | DeviceError::InUseByHost { device, .. }
            | DeviceError::GroupNotViable { device, .. }
            | DeviceError::Missing { device, .. }
            | DeviceError::InUse { device, .. } => Self::Refused {
                what: device.to_string(),
                reason: text,
            },
            DeviceError::Unfinished { device, .. } | DeviceError::TimedOut { device, .. } => {
                Self::Failed {
                    what: device.to_string(),
                    reason: text,
                }
            }
            DeviceError::Quarantined { device, reason, .. } => Self::Quarantined {
                what: device.to_string(),
                reason,
            },
        }
    }
}

impl From<FileRefusal> for ResourceError {
    fn from(refused: FileRefusal) -> Self {
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
        let owned = |text: &str| text.to_owned();
        for (error, blame, disposition) in [
            (
                DiskError::Image {
                    image: owned(image),
                    reason: owned(reason),
                },
                Blame::Image,
                Disposition::Fatal,
            ),
            (
                DiskError::Fetch {
                    image: owned(image),
                    reason: owned("it does not answer"),
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
            let text = error.to_string();
            let error = ResourceError::from(error);
            assert_eq!(error.disposition(), disposition, "{text}");
            let error = SpawnError::from(error);
            assert_eq!(error.blame(), Some(blame), "{text}");
            assert!(error.to_string().ends_with(&text), "{error}");
        }
    }
}
