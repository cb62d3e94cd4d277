//! Functions that create, read and remove files and folders so that a file is complete or absent, even after a crash.
//! A file is written under a temporary name and then renamed ([`PartialFile`]).
//!
//! A symbolic link at the end of a path is never followed, so that a link in place of a file cannot redirect a write.
//! The only exception is [`ensure_top_folder`]: the operator may have chosen a link to another disk.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use berth_files::{FolderError, own_folder};
use nix::fcntl::OFlag;
use nix::sys::statvfs::statvfs;
use uuid::Uuid;

use crate::error::DiskError;

/// The suffix of incomplete files.
const PART: &str = ".part";
/// Free space that is left to others, in bytes: 64 MiB.
const MARGIN: u64 = 64 << 20;

/// Creates a folder if it does not exist. A link to a folder is refused.
pub(super) fn ensure_folder(path: &Path, mode: u32) -> Result<(), DiskError> {
    match DirBuilder::new().mode(mode).create(path) {
        // The umask may have removed bits, but the emulator's user must be able to pass.
        Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(mode))
            .map_err(|error| DiskError::io("making", path, error)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match file_kind(path)? {
            Some(HostFileKind::Folder) => Ok(()),
            _ => Err(DiskError::WrongFileType {
                path: path.to_owned(),
                found: "something else",
                expected: "a folder",
            }),
        },
        Err(error) => Err(DiskError::io("making", path, error)),
    }
}

/// Creates the top folder and its parents if they do not exist. An existing folder, or a link to one, is left
/// unchanged, and refused if another user can change what is in it.
pub(super) fn ensure_top_folder(path: &Path, mode: u32) -> Result<(), DiskError> {
    own_folder(path, mode).map_err(|error| match error {
        FolderError::Unusable { path, source } => DiskError::io("making", &path, source),
        FolderError::Untrusted(_) => DiskError::Untrusted {
            path: path.to_owned(),
            source: error,
        },
    })
}

/// The type of the file at a path, without following links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostFileKind {
    File,
    Folder,
    Other,
}

pub(super) fn file_kind(path: &Path) -> Result<Option<HostFileKind>, DiskError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => Ok(Some(HostFileKind::File)),
        Ok(found) if found.is_dir() => Ok(Some(HostFileKind::Folder)),
        Ok(_) => Ok(Some(HostFileKind::Other)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(DiskError::io("looking at", path, error)),
    }
}

/// Whether a regular file exists. Any other type is refused.
pub(super) fn is_file(path: &Path) -> Result<bool, DiskError> {
    match file_kind(path)? {
        None => Ok(false),
        Some(HostFileKind::File) => Ok(true),
        Some(HostFileKind::Folder | HostFileKind::Other) => Err(DiskError::WrongFileType {
            path: path.to_owned(),
            found: "a link, a folder or a device",
            expected: "a file",
        }),
    }
}

/// Opens a regular file for reading. Refuses links and other types.
pub fn open(path: &Path) -> io::Result<File> {
    // Opening a pipe without this flag would wait for its other end.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("not a regular file")),
    }
}

/// A file that is being written. Dropping it removes the file, unless it was finished.
#[derive(Debug)]
pub(super) struct PartialFile {
    path: PathBuf,
    to: PathBuf,
}

impl PartialFile {
    /// Chooses a temporary name next to `to`. Does not create the file.
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

    /// Creates the file, writable only by this user.
    pub(super) fn create(&self) -> Result<File, DiskError> {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(OFlag::O_NOFOLLOW.bits())
            .open(&self.path)
            .map_err(|error| DiskError::io("making", &self.path, error))
    }

    /// Sets the mode and renames the file, which replaces an existing one. Both are on disk when this returns.
    pub(super) fn finish(self, mode: u32) -> Result<(), DiskError> {
        let failed = |error| DiskError::io("writing", &self.path, error);
        let file = open(&self.path).map_err(failed)?;
        file.set_permissions(fs::Permissions::from_mode(mode))
            .map_err(failed)?;
        file.sync_all().map_err(failed)?;
        fs::rename(&self.path, &self.to)
            .map_err(|error| DiskError::io("naming", &self.to, error))?;
        sync_parent(&self.to)
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // After `finish` the name is free. Leftovers are removed at the next start.
        let _ = fs::remove_file(&self.path);
    }
}

/// Syncs the folder that contains a file or folder, so that its creation, renaming or removal survives a crash.
pub(super) fn sync_parent(path: &Path) -> Result<(), DiskError> {
    let folder = path.parent().unwrap_or(path);
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| DiskError::io("writing", folder, error))
}

/// Writes a file with this content. Replaces an existing file, so callers check first where they must not.
pub(super) fn write(path: &Path, content: &[u8]) -> Result<(), DiskError> {
    let part = PartialFile::of(path);
    let mut file = part.create()?;
    file.write_all(content)
        .map_err(|error| DiskError::io("writing", part.path(), error))?;
    part.finish(0o600)
}

/// Removes incomplete files that a killed process left in a folder, if `ours` accepts their names.
pub(super) fn remove_partial_files(
    folder: &Path,
    ours: impl Fn(&str) -> bool,
) -> Result<(), DiskError> {
    for name in names(folder)? {
        if name.ends_with(PART) && ours(&name) {
            remove(&folder.join(name))?;
        }
    }
    Ok(())
}

/// The names in a folder. Names that are not UTF-8 are left out.
pub(super) fn names(folder: &Path) -> Result<Vec<String>, DiskError> {
    let failed = |error| DiskError::io("reading", folder, error);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    Ok(names)
}

/// Removes a file or link, if it exists.
pub(super) fn remove(path: &Path) -> Result<(), DiskError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(DiskError::io("removing", path, error))
        }
        _ => Ok(()),
    }
}

/// Removes a folder with its content. Of a link, only the link is removed.
pub(super) fn remove_folder(path: &Path) -> Result<(), DiskError> {
    match file_kind(path)? {
        None => Ok(()),
        Some(HostFileKind::Folder) => fs::remove_dir_all(path)
            .map_err(|error| DiskError::io("removing", path, error))
            .and_then(|()| sync_parent(path)),
        Some(HostFileKind::File | HostFileKind::Other) => remove(path),
    }
}

/// The total size of a folder's file system in bytes.
pub(super) fn capacity(folder: &Path) -> Result<u64, DiskError> {
    let found = statvfs(folder)
        .map_err(|error| DiskError::io("getting the size of", folder, error.into()))?;
    Ok(found.blocks().saturating_mul(found.fragment_size()))
}

/// Checks that the file system has this much free space, plus a margin.
pub(super) fn ensure_room(folder: &Path, needed: u64) -> Result<(), DiskError> {
    let found = statvfs(folder)
        .map_err(|error| DiskError::io("getting the free space of", folder, error.into()))?;
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
