//! Why a disk is not made.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use berth_client::{DownloadError, ImageError, TransportError};
use berth_model::Disposition;
use berth_virt::guest_spec::GuestSpecError;

use crate::config_drive::ConfigDriveError;
use crate::inspect::ImageFlaw;
use crate::iso9660::IsoError;

/// Why a disk is not made, or not gone.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// A file could not be made, read or removed.
    #[error("{call} {}: {source}", path.display())]
    Io {
        /// What was being done.
        call: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Something else is where a file or folder of ours belongs.
    #[error("{} is {found}, not {expected}; it was left alone: move it away", path.display())]
    NotOurs {
        path: PathBuf,
        found: &'static str,
        expected: &'static str,
    },
    /// Another agent has the folder.
    #[error("{} is in use by another agent; each agent has an instances_path of its own", path.display())]
    Taken { path: PathBuf },
    /// The disk is full, or would be.
    #[error("{} has {free} bytes of room, {needed} are needed; nothing was made", path.display())]
    NoRoom {
        path: PathBuf,
        /// How much is needed, in bytes.
        needed: u64,
        /// How much there is, in bytes.
        free: u64,
    },
    /// An image cannot be had as it was asked for.
    #[error("{image}: {reason}")]
    Image {
        image: String,
        /// Why, and what would be right.
        reason: String,
    },
    /// An image does not arrive now.
    #[error("{image} was not fetched: {reason}")]
    Fetch { image: String, reason: String },
    /// A disk that the guest ran on is not there any more.
    #[error(
        "{} is gone, and the guest ran on it; put it back, or delete the guest (an empty one would look like its own)", path.display()
    )]
    Lost { path: PathBuf },
    /// The guest's files are to lie elsewhere than this agent lays them.
    #[error("spec.disks: {reason}")]
    Elsewhere {
        /// In what it differs.
        reason: String,
    },
    /// A path is too long.
    #[error(transparent)]
    Path(#[from] GuestSpecError),
    /// The config drive cannot be made of what is kept.
    #[error(transparent)]
    ConfigDrive(#[from] ConfigDriveError),
    /// It would be too large.
    #[error(transparent)]
    Iso(#[from] IsoError),
    /// qemu-img could not be started.
    #[error("{program} cannot be started: {source}; install qemu-utils and util-linux")]
    NoProgram {
        program: String,
        #[source]
        source: io::Error,
    },
    /// qemu-img did not do it.
    #[error("qemu-img {verb} failed ({status}): {said}")]
    QemuImg {
        /// What it was to do.
        verb: &'static str,
        status: String,
        said: String,
    },
    /// qemu-img took too long.
    #[error("qemu-img {verb} was not done within {limit:?} and was ended")]
    Deadline {
        /// What it was to do.
        verb: &'static str,
        /// How long it had.
        limit: Duration,
    },
}

impl DiskError {
    /// What a loop does about it.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Io { .. } | Self::Fetch { .. } | Self::Deadline { .. } => Disposition::Retry,
            Self::NoRoom { .. }
            | Self::Lost { .. }
            | Self::NotOurs { .. }
            | Self::Taken { .. }
            | Self::NoProgram { .. }
            | Self::QemuImg { .. } => Disposition::Refresh,
            Self::Image { .. }
            | Self::Elsewhere { .. }
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
