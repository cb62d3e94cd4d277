//! [`DiskError`]: errors of images and disks.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use berth_client::{DownloadError, ImageError, TransportError};
use berth_files::FolderError;
use berth_model::Disposition;
use berth_virt::guest_spec::GuestSpecError;

use crate::config_drive::ConfigDriveError;
use crate::inspect::ImageFlaw;
use crate::iso9660::IsoError;

/// Why a disk could not be created or removed.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    #[error("{call} {}: {source}", path.display())]
    Io {
        call: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A path in the agent's folders has an unexpected file type, so the agent did not create it.
    #[error("{} is {found}, expected {expected}; it was not changed: move it away", path.display())]
    WrongFileType {
        path: PathBuf,
        found: &'static str,
        expected: &'static str,
    },
    /// Another user can change what is in the folder of all instances.
    #[error("{} is not used: {source}; {}", path.display(), source.hint())]
    Untrusted { path: PathBuf, source: FolderError },
    #[error("{} is in use by another agent; each agent needs its own instances_path", path.display())]
    InUse { path: PathBuf },
    #[error("not enough space in {}: {free} bytes are free, {needed} are needed", path.display())]
    NoRoom {
        path: PathBuf,
        needed: u64,
        free: u64,
    },
    /// The image cannot be used as requested.
    #[error("{image}: {reason}")]
    Image {
        image: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// The download failed for a reason that may be temporary.
    #[error("{image}: download failed: {reason}")]
    Fetch { image: String, reason: String },
    /// A disk of an instance that has run before is missing.
    #[error(
        "{} is missing, and the guest has run with it; restore it or delete the guest (an empty disk would hide the loss)", path.display()
    )]
    Missing { path: PathBuf },
    /// The spec names other paths than this agent uses.
    #[error("spec.disks: {reason}")]
    OutsideFolder { reason: String },
    #[error(transparent)]
    Path(#[from] GuestSpecError),
    #[error(transparent)]
    ConfigDrive(#[from] ConfigDriveError),
    #[error(transparent)]
    Iso(#[from] IsoError),
    #[error("{program} cannot be started: {source}; install qemu-utils and util-linux")]
    NoProgram {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("qemu-img {verb} failed ({status}): {output}")]
    QemuImg {
        verb: &'static str,
        status: String,
        output: String,
    },
    #[error("qemu-img {verb} timed out after {limit:?} and was killed")]
    TimedOut { verb: &'static str, limit: Duration },
}

impl DiskError {
    /// How a caller reacts to this error.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Io { .. } | Self::Fetch { .. } | Self::TimedOut { .. } => Disposition::Retry,
            Self::NoRoom { .. }
            | Self::Missing { .. }
            | Self::WrongFileType { .. }
            | Self::Untrusted { .. }
            | Self::InUse { .. }
            | Self::NoProgram { .. }
            | Self::QemuImg { .. } => Disposition::Refresh,
            Self::Image { .. }
            | Self::OutsideFolder { .. }
            | Self::Path(_)
            | Self::ConfigDrive(_)
            | Self::Iso(_) => Disposition::Fatal,
        }
    }

    pub(super) fn io(call: &'static str, path: &std::path::Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self::Io { call, path, source }
    }

    pub(super) fn flaw(image: impl ToString, flaw: &ImageFlaw) -> Self {
        let image = image.to_string();
        Self::Image {
            image,
            reason: flaw.to_string(),
        }
    }

    pub(super) fn lost(image: impl ToString, error: &TransportError) -> Self {
        Self::Fetch {
            image: image.to_string(),
            reason: error.to_string(),
        }
    }

    pub(super) fn download(image: impl ToString, error: &DownloadError) -> Self {
        let (image, reason) = (image.to_string(), error.to_string());
        match error.is_passing() {
            true => Self::Fetch { image, reason },
            false => Self::Image { image, reason },
        }
    }

    pub(super) fn service(image: impl ToString, error: &ImageError) -> Self {
        let (image, reason) = (image.to_string(), error.to_string());
        match error.disposition() {
            Disposition::Fatal => Self::Image { image, reason },
            _ => Self::Fetch { image, reason },
        }
    }
}
