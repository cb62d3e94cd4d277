//! The lock on the state folder of `berth up` and `berth controller`: a second process in it would overwrite the endpoint files.
//!
//! The kernel drops the lock with the process, however that ends. The file stays, and names the process that had it last.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use berth_output::{ErrorCode, Failure};

/// The file below the folder: locked, and with the number of the process that has it.
const LOCK: &str = "up.lock";

/// A folder that is this process's. Dropped, it is anybody's again.
#[derive(Debug)]
pub struct StateLock(File);

impl Drop for StateLock {
    /// Closing the file would not do: a child that is being forked has a copy of it until its exec, and with it the lock.
    fn drop(&mut self) {
        // Where even this fails, the lock goes with the last copy.
        self.0.unlock().ok();
    }
}

impl StateLock {
    /// Takes the folder, and makes it where it is not there.
    pub fn take(folder: &Path) -> Result<Self, Failure> {
        let unusable = |error: io::Error| {
            let what = format!("the state folder {} cannot be used", folder.display());
            Failure::caused(ErrorCode::State, what, &error)
                .mend("give one that this user may write to: --state-dir DIR, or state_path")
        };
        std::fs::create_dir_all(folder).map_err(unusable)?;
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
    let mut said = String::new();
    // Whoever took it a moment ago has not said yet who it is.
    let pid = lock.take(32).read_to_string(&mut said).ok();
    let pid = pid.and_then(|_| said.trim().parse::<u32>().ok());
    let (who, stop) = match pid {
        Some(pid) => (format!(" (pid {pid})"), format!("stop it (kill {pid})")),
        None => (String::new(), "stop it".to_owned()),
    };
    let what = format!("another berth up{who} has the state folder {folder}");
    Failure::new(ErrorCode::Held, what).mend(format!(
        "{stop}, or give this one a folder of its own: --state-dir DIR"
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
        let said = StateLock::take(&folder).unwrap_err().explain();
        let pid = std::process::id().to_string();
        let named = folder.display().to_string();
        assert!(said.contains(&named) && said.contains(&pid), "{said}");
        drop(first);
        let again = StateLock::take(&folder).unwrap();
        let text = std::fs::read_to_string(folder.join(LOCK)).unwrap();
        assert_eq!(text, format!("{pid}\n"));
        drop(again);
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let said = StateLock::take(Path::new("/proc/none/state")).unwrap_err();
        assert!(said.explain().contains("/proc/none/state"), "{said:?}");
    }
}
