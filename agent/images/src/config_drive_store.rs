//! The store of config drive contents: one file of mode 0600 per content, `UUID.DIGEST`, in a folder of mode 0700. The
//! journal has only the digest.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_model::ConsumerUuid;

use crate::atomic_file;
use crate::config_drive::{ConfigDrive, ConfigDriveContent, ConfigDriveError, ContentDigest};
use crate::error::DiskError;

/// Maximum size of a stored content in bytes.
const MOST: u64 = 1 << 20;
/// Age after which a content without an instance is removed. An instance is journaled right after its content is
/// stored.
const ORPHANED: Duration = Duration::from_secs(3600);

pub(super) struct ConfigDriveStore {
    folder: PathBuf,
}

impl ConfigDriveStore {
    pub(super) fn open(folder: &Path) -> Result<Self, DiskError> {
        atomic_file::ensure_folder(folder, 0o700)?;
        atomic_file::remove_partial_files(folder, |_| true)?;
        let folder = folder.to_owned();
        Ok(Self { folder })
    }

    fn path(&self, guest: ConsumerUuid, digest: ContentDigest) -> PathBuf {
        self.folder.join(format!("{guest}.{digest}"))
    }

    /// Stores a content. If only the digest is given, the content must be stored already.
    pub(super) fn store(&self, guest: ConsumerUuid, drive: &ConfigDrive) -> Result<(), DiskError> {
        let path = self.path(guest, drive.digest());
        match drive.content() {
            _ if atomic_file::is_file(&path)? => Ok(()),
            Some(content) => atomic_file::write(&path, &content.to_kept()),
            None => Err(ConfigDriveError::Kept {
                reason: "nothing is stored; send the request with its content",
            }
            .into()),
        }
    }

    /// The content of an instance's config drive.
    pub(super) fn content(
        &self,
        guest: ConsumerUuid,
        drive: &ConfigDrive,
    ) -> Result<ConfigDriveContent, DiskError> {
        if let Some(content) = drive.content() {
            return Ok(content.clone());
        }
        let path = self.path(guest, drive.digest());
        let file = match atomic_file::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let reason = "nothing is stored; delete the guest and create it again";
                return Err(ConfigDriveError::Kept { reason }.into());
            }
            other => other.map_err(|error| DiskError::io("opening", &path, error))?,
        };
        let mut kept = Vec::new();
        file.take(MOST)
            .read_to_end(&mut kept)
            .map_err(|error| DiskError::io("reading", &path, error))?;
        if ContentDigest::of(&kept) != drive.digest() {
            let reason = "it was changed; delete the guest and create it again";
            return Err(ConfigDriveError::Kept { reason }.into());
        }
        Ok(ConfigDriveContent::from_kept(&kept)?)
    }

    /// Removes all contents of an instance.
    pub(super) fn discard(&self, guest: ConsumerUuid) -> Result<(), DiskError> {
        self.discard_but(guest, None)
    }

    /// Removes the contents of an instance, except the one with this digest.
    pub(super) fn discard_but(
        &self,
        guest: ConsumerUuid,
        kept: Option<ContentDigest>,
    ) -> Result<(), DiskError> {
        let start = format!("{guest}.");
        let kept = kept.map(|digest| format!("{start}{digest}"));
        for name in atomic_file::names(&self.folder)? {
            if name.starts_with(&start) && Some(&name) != kept.as_ref() {
                atomic_file::remove(&self.folder.join(name))?;
            }
        }
        Ok(())
    }

    /// Removes old contents of instances that are not in `known`.
    pub(super) fn remove_orphans(&self, known: &BTreeSet<ConsumerUuid>) -> Result<(), DiskError> {
        for name in atomic_file::names(&self.folder)? {
            let guest = name.split('.').next().unwrap_or_default().parse();
            if guest.is_ok_and(|guest: ConsumerUuid| known.contains(&guest)) {
                continue;
            }
            let path = self.folder.join(&name);
            let found = fs::symlink_metadata(&path).and_then(|found| found.modified());
            let is_old = found.is_ok_and(|made| made.elapsed().is_ok_and(|age| age >= ORPHANED));
            if is_old {
                atomic_file::remove(&path)?;
            }
        }
        Ok(())
    }
}
