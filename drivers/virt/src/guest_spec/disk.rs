//! A guest's disks, which are files on the host.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::error::GuestSpecError;
use super::name::HostPath;

/// The most further disks: virtio's `vda` to `vdz`, less the root disk.
const MOST_EPHEMERAL: usize = 25;

/// The format of an image file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskFormat {
    /// The bytes of the disk without a header (`raw`).
    Raw,
    /// QEMU's copy-on-write format (`qcow2`).
    Qcow2,
}

/// The image a disk lies over, read only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseImage {
    /// The absolute path of the file on the host.
    pub path: HostPath,
    /// The format in which the backing file is opened.
    pub format: DiskFormat,
}

/// A qcow2 file. Its backing file is specified here and never read from the file itself, because a tenant's image could
/// name any file of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QcowDisk {
    /// The absolute path of the file on the host.
    pub path: HostPath,
    /// The backing file; `None` for a standalone file.
    pub base: Option<BaseImage>,
}

/// All disks of a guest. No two are the same file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "DisksRecord", into = "DisksRecord")]
pub struct GuestDisks {
    root: Option<QcowDisk>,
    ephemeral: Vec<QcowDisk>,
    config_drive: Option<HostPath>,
}

impl GuestDisks {
    /// Creates the disks: the root disk, the ephemeral disks in order (at most 25), and the config drive (an ISO 9660
    /// file). Fails if two disks are the same file, or a disk is the backing file of another.
    pub fn new(
        root: Option<QcowDisk>,
        ephemeral: Vec<QcowDisk>,
        config_drive: Option<HostPath>,
    ) -> Result<Self, GuestSpecError> {
        let field = "disks";
        if ephemeral.len() > MOST_EPHEMERAL {
            return Err(GuestSpecError::Number {
                field: "disks.ephemeral",
                found: ephemeral.len() as u64,
                expected: "a guest has at most 25 ephemeral disks",
            });
        }
        let qcow = || root.iter().chain(&ephemeral);
        let mut written = BTreeSet::new();
        for path in qcow().map(|disk| &disk.path).chain(&config_drive) {
            if !written.insert(path) {
                return Err(GuestSpecError::Twice {
                    field,
                    what: path.to_string(),
                });
            }
        }
        // Disks may share a backing file, but a backing file must not be written.
        for base in qcow().filter_map(|disk| disk.base.as_ref()) {
            if written.contains(&base.path) {
                return Err(GuestSpecError::Twice {
                    field,
                    what: base.path.to_string(),
                });
            }
        }
        Ok(Self {
            root,
            ephemeral,
            config_drive,
        })
    }

    /// The disk the guest boots from.
    #[must_use]
    pub fn root(&self) -> Option<&QcowDisk> {
        self.root.as_ref()
    }

    /// Further disks that end with the guest.
    #[must_use]
    pub fn ephemeral(&self) -> &[QcowDisk] {
        &self.ephemeral
    }

    /// The config drive's ISO 9660 file.
    #[must_use]
    pub fn config_drive(&self) -> Option<&HostPath> {
        self.config_drive.as_ref()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DisksRecord {
    root: Option<QcowDisk>,
    ephemeral: Vec<QcowDisk>,
    config_drive: Option<HostPath>,
}

impl TryFrom<DisksRecord> for GuestDisks {
    type Error = GuestSpecError;

    fn try_from(record: DisksRecord) -> Result<Self, GuestSpecError> {
        Self::new(record.root, record.ephemeral, record.config_drive)
    }
}

impl From<GuestDisks> for DisksRecord {
    fn from(disks: GuestDisks) -> Self {
        Self {
            root: disks.root,
            ephemeral: disks.ephemeral,
            config_drive: disks.config_drive,
        }
    }
}
