//! Locks that one process has until it ends: [`OwnerLock`].
//!
//! The kernel releases the lock when the process ends, however it ends. The file stays, and contains the pid of the last owner.
//!
//! A killed owner may have been starting a program. The forked child has copies of the owner's files, and with them the lock, until it
//! executes that program. Therefore the lock of an owner that has ended is waited for.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::open_lock;

/// How long a child of a killed owner may hold the lock: until it executes its own program.
const FORK: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// Why a lock is not taken.
#[derive(Debug, thiserror::Error)]
pub enum OwnerLockError {
    /// Another process has it. The pid is unknown if the owner has not written it yet.
    #[error("it is held by another process{}", .owner.map(|pid| format!(" (pid {pid})")).unwrap_or_default())]
    Held { owner: Option<u32> },
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The lock on a file, which contains the pid of this process. It is released on drop.
#[derive(Debug)]
pub struct OwnerLock(File);

impl Drop for OwnerLock {
    /// Unlocks explicitly: closing the file is not enough, because a forked child shares the lock until its exec.
    fn drop(&mut self) {
        // If this fails, the lock is released with the last copy.
        self.0.unlock().ok();
    }
}

impl OwnerLock {
    /// Locks the file, and creates it with mode 0600 if it is missing. Blocks for at most ten seconds, and only if the owner that the
    /// file names has ended.
    pub fn take(path: &Path) -> Result<Self, OwnerLockError> {
        let file = open_lock(path)?;
        lock_after(&file, || read_owner(&file))?;
        write_owner(&file)?;
        Ok(Self(file))
    }
}

/// Locks a file. `owner` returns the process ID of the lock's owner. If another process has the lock although its owner has ended,
/// this function waits for at most ten seconds.
pub fn lock_after(file: &File, owner: impl Fn() -> Option<u32>) -> Result<(), OwnerLockError> {
    let deadline = Instant::now() + FORK;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => {
                let owner = owner();
                let has_ended = owner.is_some_and(|pid| !is_running(pid));
                if !has_ended || Instant::now() >= deadline {
                    return Err(OwnerLockError::Held { owner });
                }
                thread::sleep(POLL);
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
    }
}

/// The pid in a lock file; `None` if a new owner has not written it yet.
#[must_use]
pub fn read_owner(mut file: &File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Writes the pid of this process into its lock file.
pub fn write_owner(mut file: &File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

/// Whether a process has its files still: a process that its parent has not waited for has none.
fn is_running(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return Path::new("/proc").join(pid.to_string()).exists();
    };
    // The name before may contain anything.
    let state = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.trim().chars().next());
    !matches!(state, Some('Z' | 'X'))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A pid that no process can have.
    const MISSING_PID: &str = "4194305\n";

    #[test]
    fn a_lock_is_one_owner_s_and_free_after_it_though_a_fork_has_a_copy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = OwnerLock::take(&path).unwrap();
        let begun = Instant::now();
        let held = OwnerLock::take(&path).unwrap_err();
        assert_eq!(
            held.to_string(),
            format!("it is held by another process (pid {})", std::process::id())
        );
        assert!(begun.elapsed() < FORK, "a running owner is not waited for");
        let copy_of_a_fork = first.0.try_clone().unwrap();
        drop(first);
        let _again = OwnerLock::take(&path).unwrap();
        drop(copy_of_a_fork);
    }

    #[test]
    fn the_lock_of_an_owner_that_has_ended_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        fs::write(&path, MISSING_PID).unwrap();
        let child = File::open(&path).unwrap();
        child.lock().unwrap();
        let ends = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            drop(child);
        });
        let _taken = OwnerLock::take(&path).unwrap();
        ends.join().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, format!("{}\n", std::process::id()));
    }

    #[test]
    fn a_process_that_its_parent_has_not_waited_for_is_no_owner() {
        let mut child = Command::new("true").spawn().unwrap();
        let deadline = Instant::now() + FORK;
        while is_running(child.id()) && Instant::now() < deadline {
            thread::sleep(POLL);
        }
        assert!(!is_running(child.id()));
        child.wait().unwrap();
        assert!(is_running(std::process::id()));
    }

    #[test]
    fn a_lock_file_without_an_owner_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let other = open_lock(&path).unwrap();
        other.lock().unwrap();
        assert!(matches!(
            OwnerLock::take(&path),
            Err(OwnerLockError::Held { owner: None })
        ));
    }
}
