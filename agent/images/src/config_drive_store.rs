//! What config drives are made of, in a folder of mode 0700, one file of mode 0600 for each: `UUID.DIGEST`. The journal has the
//! digest alone.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_model::ConsumerUuid;

use crate::atomic_file;
use crate::config_drive::{ConfigDrive, ConfigDriveContent, ConfigDriveError, ContentDigest};
use crate::error::DiskError;

/// The most bytes of one, user data in base64 and all documents included.
const MOST: u64 = 1 << 20;
/// How old one is that nobody will ask for any more: a request is written down right after it.
const ORPHANED: Duration = Duration::from_secs(3600);

pub(super) struct Kept {
    folder: PathBuf,
}

impl Kept {
    pub(super) fn open(folder: &Path) -> Result<Self, DiskError> {
        atomic_file::folder(folder, 0o700)?;
        atomic_file::clean(folder, |_| true)?;
        let folder = folder.to_owned();
        Ok(Self { folder })
    }

    fn path(&self, guest: ConsumerUuid, digest: ContentDigest) -> PathBuf {
        self.folder.join(format!("{guest}.{digest}"))
    }

    /// Keeps a content; one that is only named must be there.
    pub(super) fn keep(&self, guest: ConsumerUuid, drive: &ConfigDrive) -> Result<(), DiskError> {
        let path = self.path(guest, drive.digest());
        match drive.content() {
            _ if atomic_file::is_there(&path)? => Ok(()),
            Some(content) => atomic_file::write(&path, &content.to_kept()),
            None => Err(ConfigDriveError::Kept {
                reason: "nothing is kept; ask with its content",
            }
            .into()),
        }
    }

    /// A guest's content, as it was asked for.
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
                let reason = "nothing is kept; delete the guest and make it again";
                return Err(ConfigDriveError::Kept { reason }.into());
            }
            other => other.map_err(|error| DiskError::io("opening", &path, error))?,
        };
        let mut kept = Vec::new();
        file.take(MOST)
            .read_to_end(&mut kept)
            .map_err(|error| DiskError::io("reading", &path, error))?;
        if ContentDigest::of(&kept) != drive.digest() {
            let reason = "it was changed; delete the guest and make it again";
            return Err(ConfigDriveError::Kept { reason }.into());
        }
        Ok(ConfigDriveContent::from_kept(&kept)?)
    }

    /// Removes all that is kept for a guest.
    pub(super) fn discard(&self, guest: ConsumerUuid) -> Result<(), DiskError> {
        let start = format!("{guest}.");
        for name in atomic_file::names(&self.folder)? {
            if name.starts_with(&start) {
                atomic_file::remove(&self.folder.join(name))?;
            }
        }
        Ok(())
    }

    /// Removes what is kept for no guest of these, for long.
    pub(super) fn tidy(&self, known: &BTreeSet<ConsumerUuid>) -> Result<(), DiskError> {
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
