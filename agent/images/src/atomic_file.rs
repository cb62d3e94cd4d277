//! Files of ours in folders of ours: made whole or not at all, and never through a link.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::sys::statvfs::statvfs;
use uuid::Uuid;

use crate::error::DiskError;

/// The ending of files that are not whole yet.
const PART: &str = ".part";
/// Room that is left to others, in bytes: 64 MiB.
const MARGIN: u64 = 64 << 20;

/// Makes a folder, where it is not there. A link to one is none.
pub(super) fn folder(path: &Path, mode: u32) -> Result<(), DiskError> {
    match DirBuilder::new().mode(mode).create(path) {
        // The process's own umask may have taken from it: the emulator's account has to come through.
        Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(mode))
            .map_err(|error| DiskError::io("making", path, error)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match kind(path)? {
            Some(Kind::Folder) => Ok(()),
            _ => Err(DiskError::NotOurs {
                path: path.to_owned(),
                found: "something else",
                expected: "a folder",
            }),
        },
        Err(error) => Err(DiskError::io("making", path, error)),
    }
}

/// Makes the folder that the others lie in, and those above it, where it is not there. What the operator put in its place stays
/// as it is, and may be a link to a folder.
pub(super) fn outermost_folder(path: &Path, mode: u32) -> Result<(), DiskError> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(above) = path.parent() {
        fs::create_dir_all(above).map_err(|error| DiskError::io("making", above, error))?;
    }
    folder(path, mode)
}

/// What is at a path, links not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Folder,
    Other,
}

pub(super) fn kind(path: &Path) -> Result<Option<Kind>, DiskError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => Ok(Some(Kind::File)),
        Ok(found) if found.is_dir() => Ok(Some(Kind::Folder)),
        Ok(_) => Ok(Some(Kind::Other)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(DiskError::io("looking at", path, error)),
    }
}

/// Whether a file of ours is there; anything else in its place is refused.
pub(super) fn is_there(path: &Path) -> Result<bool, DiskError> {
    match kind(path)? {
        None => Ok(false),
        Some(Kind::File) => Ok(true),
        Some(Kind::Folder | Kind::Other) => Err(DiskError::NotOurs {
            path: path.to_owned(),
            found: "a link, a folder or a device",
            expected: "a file",
        }),
    }
}

/// Opens a file for reading, if it is a plain one and no link.
pub fn open(path: &Path) -> io::Result<File> {
    // Not waiting: the other end of a pipe may never come.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no plain file")),
    }
}

/// A file that is not whole yet: gone unless it is finished.
#[derive(Debug)]
pub(super) struct Part {
    path: PathBuf,
    to: PathBuf,
}

impl Part {
    /// One that will be `to`. Nothing is made yet.
    pub(super) fn of(to: &Path) -> Self {
        let mut name = to.as_os_str().to_owned();
        name.push(format!(".{}{PART}", Uuid::new_v4().simple()));
        Self {
            path: name.into(),
            to: to.to_owned(),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it, empty, to be written by us alone.
    pub(super) fn create(&self) -> Result<File, DiskError> {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(OFlag::O_NOFOLLOW.bits())
            .open(&self.path)
            .map_err(|error| DiskError::io("making", &self.path, error))
    }

    /// Gives it its mode and its name, both on the disk when this returns.
    pub(super) fn finish(self, mode: u32) -> Result<(), DiskError> {
        let failed = |error| DiskError::io("writing", &self.path, error);
        let file = open(&self.path).map_err(failed)?;
        file.set_permissions(fs::Permissions::from_mode(mode))
            .map_err(failed)?;
        file.sync_all().map_err(failed)?;
        fs::rename(&self.path, &self.to)
            .map_err(|error| DiskError::io("naming", &self.to, error))?;
        sync_folder(&self.to)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Finished, it has another name; what cannot be removed now is removed at the next start.
        let _ = fs::remove_file(&self.path);
    }
}

/// The folder of a file, on the disk.
pub(super) fn sync_folder(of: &Path) -> Result<(), DiskError> {
    let folder = of.parent().unwrap_or(of);
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| DiskError::io("writing", folder, error))
}

/// A whole file with this content, where none is there.
pub(super) fn write(path: &Path, content: &[u8]) -> Result<(), DiskError> {
    let part = Part::of(path);
    let mut file = part.create()?;
    file.write_all(content)
        .map_err(|error| DiskError::io("writing", part.path(), error))?;
    part.finish(0o600)
}

/// Removes what an earlier life left unfinished in a folder, of names that `ours` knows.
pub(super) fn clean(folder: &Path, ours: impl Fn(&str) -> bool) -> Result<(), DiskError> {
    for name in names(folder)? {
        if name.ends_with(PART) && ours(&name) {
            remove(&folder.join(name))?;
        }
    }
    Ok(())
}

/// The names in a folder; those that are no text are nobody's of ours.
pub(super) fn names(folder: &Path) -> Result<Vec<String>, DiskError> {
    let failed = |error| DiskError::io("reading", folder, error);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    Ok(names)
}

/// Removes a file or a link, where it is there.
pub(super) fn remove(path: &Path) -> Result<(), DiskError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(DiskError::io("removing", path, error))
        }
        _ => Ok(()),
    }
}

/// Removes a folder with all that is in it. A link is removed, what it leads to is not.
pub(super) fn remove_folder(path: &Path) -> Result<(), DiskError> {
    match kind(path)? {
        None => Ok(()),
        Some(Kind::Folder) => fs::remove_dir_all(path)
            .map_err(|error| DiskError::io("removing", path, error))
            .and_then(|()| sync_folder(path)),
        Some(Kind::File | Kind::Other) => remove(path),
    }
}

/// How many bytes the file system of a folder holds in all, used or not.
pub(super) fn capacity(folder: &Path) -> Result<u64, DiskError> {
    let found = statvfs(folder)
        .map_err(|error| DiskError::io("asking the size of", folder, error.into()))?;
    Ok(found.blocks().saturating_mul(found.fragment_size()))
}

/// That there is room for so many bytes, and a little more.
pub(super) fn room(folder: &Path, needed: u64) -> Result<(), DiskError> {
    let found = statvfs(folder)
        .map_err(|error| DiskError::io("asking the room of", folder, error.into()))?;
    let free = found
        .blocks_available()
        .saturating_mul(found.fragment_size());
    let needed = needed.saturating_add(MARGIN);
    match needed <= free {
        true => Ok(()),
        false => Err(DiskError::NoRoom {
            path: folder.to_owned(),
            needed,
            free,
        }),
    }
}
