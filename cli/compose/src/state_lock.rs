//! The lock on the state folder of `berth up` and `berth controller`: a second process in it would overwrite the
//! endpoint files.
//!
//! The lock is an [`OwnerLock`].

use std::io;
use std::path::Path;

use berth_files::{FolderError, OwnerLock, OwnerLockError, own_folder};
use berth_output::{ErrorCode, Failure};

use crate::state_files;

/// Name of the lock file in the folder; it contains the pid of its owner.
const LOCK: &str = "up.lock";

/// The lock on a state folder. It is released on drop.
#[derive(Debug)]
pub struct StateLock {
    _lock: OwnerLock,
}

impl StateLock {
    /// Locks the folder, and creates it with this mode if it is missing.
    ///
    /// Errors: another process has the lock, or the folder is not this user's alone.
    pub fn take(folder: &Path, mode: u32) -> Result<Self, Failure> {
        state_folder(folder, mode)?;
        match OwnerLock::take(&folder.join(LOCK)) {
            Ok(lock) => Ok(Self { _lock: lock }),
            Err(OwnerLockError::Held { owner }) => Err(held(folder, owner)),
            Err(OwnerLockError::Io(error)) => Err(unusable(folder, &error)),
        }
    }
}

/// Takes the lock of the state folder, and opens what must be open before any state is written.
///
/// An existing folder is locked first. A second process with the same folder gets the message about the folder, which says more than
/// that of the address. A missing folder is created after `open`: if that fails, there is no folder.
///
/// Errors: as for [`StateLock::take`], or those of `open`.
pub async fn lock_and_open<T>(
    folder: &Path,
    mode: u32,
    open: impl Future<Output = Result<T, Failure>>,
) -> Result<(StateLock, T), Failure> {
    // Where this cannot be told, taking the lock reports why.
    if folder.try_exists().unwrap_or(true) {
        let lock = StateLock::take(folder, mode)?;
        return Ok((lock, open.await?));
    }
    let opened = open.await?;
    Ok((StateLock::take(folder, mode)?, opened))
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
