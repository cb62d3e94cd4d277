//! One process per SQLite file: an exclusive lock on a file beside the database.
//!
//! The lock is the kernel's and ends with the process, so a kill leaves nothing to clean up; the
//! file itself stays. It is never the database file: closing any descriptor of that would drop
//! SQLite's own locks.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::OpenError;

#[derive(Debug)]
pub(super) struct Ownership {
    file: File,
}

impl Ownership {
    pub(super) fn take(database: &Path) -> Result<Self, OpenError> {
        let path = lock_path(database);
        let failed = |source| OpenError::Ownership {
            path: path.clone(),
            source,
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::Held {
                    path: database.to_owned(),
                    owner: read_owner(&mut file),
                });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        write_owner(&mut file).map_err(failed)?;
        Ok(Self { file })
    }
}

impl Drop for Ownership {
    /// Closing the file would not do: a child that is being forked has a copy of it until its exec, and with it the lock.
    fn drop(&mut self) {
        // Where even this fails, the lock goes with the last copy.
        self.file.unlock().ok();
    }
}

fn lock_path(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

fn read_owner(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn write_owner(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ownership_that_ends_is_free_though_a_fork_has_a_copy_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("berth.db");
        let first = Ownership::take(&database).unwrap();
        let copy = first.file.try_clone().unwrap();
        assert!(matches!(
            Ownership::take(&database),
            Err(OpenError::Held { .. })
        ));
        drop(first);
        Ownership::take(&database).unwrap();
        drop(copy);
    }
}
