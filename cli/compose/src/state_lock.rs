//! The lock on the state folder of `berth up` and `berth controller`: a second process in it would overwrite the
//! endpoint files.
//!
//! The kernel releases the lock when the process ends. The file stays, and contains the pid of the last owner.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use berth_output::{ErrorCode, Failure};
use berth_store::state_dir::create_folder;

/// Name of the lock file in the folder; it contains the pid of its owner.
const LOCK: &str = "up.lock";

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
    /// Locks the folder, and creates it if it is missing.
    pub fn take(folder: &Path) -> Result<Self, Failure> {
        let unusable = |error: io::Error| {
            let what = format!("cannot use the state folder {}", folder.display());
            Failure::caused(ErrorCode::State, what, &error)
                .hint("name one that this user may write to: --state-dir DIR, or state_path")
        };
        create_folder(folder).map_err(unusable)?;
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o644)
            .open(folder.join(LOCK))
            .map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held(folder, &mut file)),
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        file.set_len(0).map_err(unusable)?;
        writeln!(file, "{}", std::process::id()).map_err(unusable)?;
        Ok(Self(file))
    }
}

fn held(folder: &Path, lock: &mut File) -> Failure {
    let folder = folder.display();
    let mut content = String::new();
    // A new owner may not have written its pid yet.
    let pid = lock.take(32).read_to_string(&mut content).ok();
    let pid = pid.and_then(|_| content.trim().parse::<u32>().ok());
    let (who, stop) = match pid {
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
        let first = StateLock::take(&folder).unwrap();
        let error = StateLock::take(&folder).unwrap_err().explain();
        let pid = std::process::id().to_string();
        let named = folder.display().to_string();
        assert!(error.contains(&named) && error.contains(&pid), "{error}");
        drop(first);
        let again = StateLock::take(&folder).unwrap();
        let text = std::fs::read_to_string(folder.join(LOCK)).unwrap();
        assert_eq!(text, format!("{pid}\n"));
        drop(again);
    }

    #[test]
    fn a_mistyped_folder_is_named_and_nothing_is_created() {
        let parent = tempfile::tempdir().unwrap();
        let above = parent.path().join("nope/deep");
        let error = StateLock::take(&above.join("state")).unwrap_err();
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
        let error = StateLock::take(&file).unwrap_err().explain();
        let cause = format!("\ncause: {} is not a directory\n", file.display());
        assert!(error.contains(&cause), "{error}");
    }
}
