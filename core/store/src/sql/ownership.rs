//! Ownership of a SQLite file by one process: an exclusive lock on a file next to the database, and one on the database file itself.
//!
//! The kernel releases both locks at the end of the process, so nothing has to be cleaned up after a kill. The lock file next to the
//! database stays, and contains the pid of the owner. It is named after the real file, also if the database is opened through a link. The
//! lock on the database file itself works even if the lock file was removed, or the file is visible through another mount. It is an `flock`,
//! which is independent of SQLite's `fcntl` locks on a local file system. SQLite cannot share a file over a network anyway.
//!
//! Closing any descriptor of the database would release SQLite's own locks. Our descriptor is therefore opened before SQLite opens the file,
//! and stays open if connections may outlive the ownership ([`Ownership::keep_open_until_exit`]).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use berth_files::{OwnerLockError, lock_after, open_lock, open_options, read_owner, write_owner};

use super::OpenError;

#[derive(Debug)]
pub(super) struct Ownership {
    lock_file: File,
    /// `None` after [`Ownership::keep_open_until_exit`].
    database: Option<File>,
}

/// The real path of the database, with all links resolved. The file need not exist yet.
///
/// Errors: [`OpenError::NotAFile`] for a folder, a device, a pipe or a broken link; [`OpenError::Unreadable`] if
/// its metadata cannot be read; [`OpenError::OtherNames`] if it has another hard link, because SQLite finds its
/// log by the name.
pub(super) fn canonical_path(path: &Path) -> Result<PathBuf, OpenError> {
    let unreadable = |source| OpenError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
            return name_of_new(path).map_err(unreadable);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(not_a_file(path));
        }
        Err(error) => return Err(unreadable(error)),
    };
    if !metadata.is_file() {
        return Err(not_a_file(path));
    }
    if metadata.nlink() > 1 {
        return Err(OpenError::OtherNames {
            path: path.to_owned(),
            names: metadata.nlink(),
        });
    }
    fs::canonicalize(path).map_err(unreadable)
}

fn not_a_file(path: &Path) -> OpenError {
    OpenError::NotAFile {
        path: path.to_owned(),
    }
}

fn name_of_new(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    Ok(fs::canonicalize(folder)?.join(name))
}

impl Ownership {
    /// Takes the ownership of the database with this path from [`own_name`]; creates an empty file if it does not exist.
    pub(super) fn take(database: &Path) -> Result<Self, OpenError> {
        let path = lock_path(database);
        let failed = |source| OpenError::Ownership {
            path: path.clone(),
            source,
        };
        let lock_file = open_lock(&path).map_err(failed)?;
        // The lock file first: then no other opening in this process closes a descriptor of a database in use.
        lock_after(&lock_file, || read_owner(&lock_file)).map_err(|error| match error {
            OwnerLockError::Held { owner } => OpenError::Held {
                path: database.to_owned(),
                owner,
            },
            OwnerLockError::Io(source) => failed(source),
        })?;
        let unreadable = |source| OpenError::Unreadable {
            path: database.to_owned(),
            source,
        };
        let file = open_or_create(database).map_err(unreadable)?;
        // A child of a killed owner closes its copies of both files one after the other.
        let last_owner = read_owner(&lock_file);
        lock_after(&file, || last_owner).map_err(|error| match error {
            OwnerLockError::Held { .. } => OpenError::Held {
                path: database.to_owned(),
                owner: None,
            },
            OwnerLockError::Io(source) => unreadable(source),
        })?;
        write_owner(&lock_file).map_err(failed)?;
        Ok(Self {
            lock_file,
            database: Some(file),
        })
    }

    /// Keeps the descriptor of the database open until the end of the process, because connections that end later still need SQLite's locks.
    /// Both locks of the ownership are released nevertheless.
    pub(super) fn keep_open_until_exit(&mut self) {
        if let Some(file) = self.database.take() {
            file.unlock().ok();
            std::mem::forget(file);
        }
    }
}

impl Drop for Ownership {
    /// Unlocks explicitly: closing the files is not enough, because a child between fork and exec has copies of them.
    fn drop(&mut self) {
        // If unlocking fails, the lock is released with the last copy.
        if let Some(file) = &self.database {
            file.unlock().ok();
        }
        self.lock_file.unlock().ok();
    }
}

/// Opens the file for reading only, so that SQLite reports a read-only file. A new file is readable by its owner only, independent of the
/// umask, because journals contain data of tenants. SQLite gives its own files the same mode.
fn open_or_create(database: &Path) -> io::Result<File> {
    match File::open(database) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => open_options()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(database),
        opened => opened,
    }
}

fn lock_path(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ownership_that_ends_is_free_though_a_fork_has_a_copy_of_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("berth.db");
        let first = Ownership::take(&database).unwrap();
        let copies = (
            first.lock_file.try_clone().unwrap(),
            first.database.as_ref().unwrap().try_clone().unwrap(),
        );
        assert!(matches!(
            Ownership::take(&database),
            Err(OpenError::Held { .. })
        ));
        drop(first);
        let mut second = Ownership::take(&database).unwrap();
        second.keep_open_until_exit();
        drop(second);
        Ownership::take(&database).unwrap();
        drop(copies);
    }

    #[test]
    fn a_removed_lock_file_frees_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("berth.db");
        let _first = Ownership::take(&database).unwrap();
        fs::remove_file(lock_path(&database)).unwrap();
        let second = Ownership::take(&database);
        assert!(
            matches!(second, Err(OpenError::Held { owner: None, .. })),
            "{second:?}"
        );
    }

    #[test]
    fn a_database_is_opened_while_a_child_of_a_killed_owner_still_has_the_locks() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("berth.db");
        drop(Ownership::take(&database).unwrap());
        // A pid that no process can have.
        fs::write(lock_path(&database), "4194305\n").unwrap();
        let copies = [lock_path(&database), database.clone()].map(|path| File::open(path).unwrap());
        copies.iter().for_each(|copy| copy.lock().unwrap());
        let ends = std::thread::spawn(move || {
            for copy in copies {
                std::thread::sleep(std::time::Duration::from_millis(50));
                drop(copy);
            }
        });
        Ownership::take(&database).unwrap();
        ends.join().unwrap();
    }
}
