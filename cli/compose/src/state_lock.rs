//! The lock on the state folder of `berth up` and `berth controller`: a second process in it would overwrite the
//! endpoint files.
//!
//! The kernel releases the lock when the process ends. The file stays, and contains the pid of the last owner.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use berth_files::{FolderError, open_lock, own_folder};
use berth_output::{ErrorCode, Failure};

use crate::state_files;

/// Name of the lock file in the folder; it contains the pid of its owner.
const LOCK: &str = "up.lock";

/// How long a child of a killed owner may hold the lock: until it executes its own program.
const FORK: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// The lock on a state folder. It is released on drop.
#[derive(Debug)]
pub struct StateLock(File);

impl Drop for StateLock {
    /// Closing the file is not enough: a forked child shares the lock until its exec.
    fn drop(&mut self) {
        // If this fails, the lock is released with the last copy.
        self.0.unlock().ok();
    }
}

impl StateLock {
    /// Locks the folder, and creates it with this mode if it is missing.
    ///
    /// Errors: another process has the lock, or the folder is not this user's alone.
    pub fn take(folder: &Path, mode: u32) -> Result<Self, Failure> {
        state_folder(folder, mode)?;
        let unusable = |error: io::Error| unusable(folder, &error);
        let mut file = open_lock(&folder.join(LOCK)).map_err(unusable)?;
        let deadline = Instant::now() + FORK;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {
                    let owner = owner(&mut file);
                    let has_ended = owner.is_some_and(|pid| !is_running(pid));
                    if !has_ended || Instant::now() >= deadline {
                        return Err(held(folder, owner));
                    }
                    thread::sleep(POLL);
                }
                Err(TryLockError::Error(error)) => return Err(unusable(error)),
            }
        }
        file.set_len(0).map_err(unusable)?;
        file.rewind().map_err(unusable)?;
        writeln!(file, "{}", std::process::id()).map_err(unusable)?;
        Ok(Self(file))
    }
}

/// The mode of a state folder with guests' disks below: the emulator's user may pass through it.
pub const WITH_GUESTS: u32 = 0o711;
/// The mode of any other state folder.
pub const WITHOUT_GUESTS: u32 = 0o700;

/// Creates the state folder with this mode if it is missing.
///
/// Errors: it cannot be created, another user can change what is in it, or owns or can change a file that decides rights or has
/// secrets.
pub(crate) fn state_folder(folder: &Path, mode: u32) -> Result<(), Failure> {
    let owned = own_folder(folder, mode).map_err(|error| match &error {
        FolderError::Unusable { source, .. } => unusable(folder, source),
        FolderError::Untrusted(reason) => {
            let what = format!("the state folder {} is refused", folder.display());
            Failure::caused(ErrorCode::Untrusted, what, reason).hint(error.hint())
        }
    });
    owned.and_then(|()| state_files::check_folder(folder))
}

fn unusable(folder: &Path, error: &io::Error) -> Failure {
    let what = format!("cannot use the state folder {}", folder.display());
    Failure::caused(ErrorCode::State, what, error)
        .hint("name one that this user may write to: --state-dir DIR, or state_path")
}

/// The owner's pid; `None` if a new owner has not written it yet.
fn owner(lock: &mut File) -> Option<u32> {
    let mut content = String::new();
    lock.rewind().ok()?;
    lock.take(32).read_to_string(&mut content).ok()?;
    content.trim().parse().ok()
}

fn is_running(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

fn held(folder: &Path, owner: Option<u32>) -> Failure {
    let folder = folder.display();
    let (who, stop) = match owner {
        Some(pid) => (format!(" (pid {pid})"), format!("stop it (kill {pid})")),
        None => (String::new(), "stop it".to_owned()),
    };
    let what = format!("another berth up{who} uses the state folder {folder}");
    Failure::new(ErrorCode::Held, what).hint(format!(
        "{stop}, or use another folder for this one: --state-dir DIR"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_one_process_s_and_free_after_it() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("state");
        let first = StateLock::take(&folder, WITHOUT_GUESTS).unwrap();
        let error = StateLock::take(&folder, WITHOUT_GUESTS)
            .unwrap_err()
            .explain();
        let pid = std::process::id().to_string();
        let named = folder.display().to_string();
        assert!(error.contains(&named) && error.contains(&pid), "{error}");
        drop(first);
        let again = StateLock::take(&folder, WITHOUT_GUESTS).unwrap();
        let text = std::fs::read_to_string(folder.join(LOCK)).unwrap();
        assert_eq!(text, format!("{pid}\n"));
        drop(again);
    }

    /// A child of a killed owner holds the lock until it executes its program.
    #[test]
    fn the_lock_of_an_owner_that_has_ended_is_waited_for() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("state");
        drop(StateLock::take(&folder, WITHOUT_GUESTS).unwrap());
        // A pid that no process can have.
        std::fs::write(folder.join(LOCK), "4194305\n").unwrap();
        let child = File::open(folder.join(LOCK)).unwrap();
        child.lock().unwrap();
        let ends = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            drop(child);
        });
        let taken = StateLock::take(&folder, WITHOUT_GUESTS).unwrap();
        ends.join().unwrap();
        let text = std::fs::read_to_string(folder.join(LOCK)).unwrap();
        assert_eq!(text, format!("{}\n", std::process::id()));
        drop(taken);
    }

    #[test]
    fn a_link_in_place_of_the_lock_is_not_followed() {
        let parent = tempfile::tempdir().unwrap();
        let (folder, victim) = (parent.path().join("state"), parent.path().join("victim"));
        state_folder(&folder, WITHOUT_GUESTS).unwrap();
        std::fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, folder.join(LOCK)).unwrap();
        StateLock::take(&folder, WITHOUT_GUESTS).unwrap_err();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn a_folder_that_others_may_write_is_refused_with_its_remedy() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("state");
        state_folder(&folder, WITHOUT_GUESTS).unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&folder, open).unwrap();
        let error = StateLock::take(&folder, WITHOUT_GUESTS).unwrap_err();
        let text = error.explain();
        assert!(
            text.contains(&format!("chmod go-w {}", folder.display())),
            "{text}"
        );
        assert!(text.contains("BERTH-E0110"), "{text}");
        assert!(!folder.join(LOCK).exists());
    }

    #[test]
    fn a_mistyped_folder_is_named_and_nothing_is_created() {
        let parent = tempfile::tempdir().unwrap();
        let above = parent.path().join("nope/deep");
        let error = StateLock::take(&above.join("state"), WITHOUT_GUESTS).unwrap_err();
        assert_eq!(
            error.explain(),
            format!(
                "error: cannot use the state folder {0}/state [BERTH-E0304]\ncause: {0} does not exist\n\
                 hint: name one that this user may write to: --state-dir DIR, or state_path\n",
                above.display()
            )
        );
        assert!(!parent.path().join("nope").exists());
        let file = parent.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = StateLock::take(&file, WITHOUT_GUESTS)
            .unwrap_err()
            .explain();
        let cause = format!("\ncause: {} is not a directory\n", file.display());
        assert!(error.contains(&cause), "{error}");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let error = StateLock::take(Path::new("/proc/none/state"), WITHOUT_GUESTS).unwrap_err();
        assert!(error.explain().contains("/proc/none/state"), "{error:?}");
    }
}
