//! Folders of state: a folder of this user alone, made if it is missing.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::trust::{TrustError, enforces_trust, is_trusted_owner, trusted};

/// Mode bits: writable by group or others.
const BY_OTHERS: u32 = 0o022;
/// The mode of folders above, where they are missing too.
const ABOVE: u32 = 0o755;

/// Why a folder is not used for state.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("{} cannot be used: {source}", path.display())]
    Unusable { path: PathBuf, source: io::Error },
    /// Another user can change what is in it.
    #[error("{0}")]
    Untrusted(TrustError),
}

impl FolderError {
    /// What the operator can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Unusable { .. } => "name a folder that this user may write to".to_owned(),
            Self::Untrusted(error) => format!("{}, or name another folder", error.hint()),
        }
    }

    /// The error of the system, or one that says who else can change the folder.
    #[must_use]
    pub fn into_io(self) -> io::Error {
        match self {
            Self::Unusable { source, .. } => source,
            Self::Untrusted(error) => io::Error::new(io::ErrorKind::PermissionDenied, error),
        }
    }
}

/// Makes a folder with exactly this mode, and missing folders above it. An existing folder is left as it is.
pub fn make_folders(path: &Path, mode: u32) -> io::Result<()> {
    if let Some(above) = path.parent().filter(|above| !above.is_dir()) {
        DirBuilder::new()
            .recursive(true)
            .mode(ABOVE)
            .create(above)?;
    }
    make_folder(path, mode)
}

/// Makes a folder with exactly this mode. The folder above must exist, so that a mistyped path is an error. An existing
/// folder is left as it is.
pub fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    let error = match DirBuilder::new().mode(mode).create(path) {
        // The umask may have removed bits.
        Ok(()) => return fs::set_permissions(path, Permissions::from_mode(mode)),
        Err(_) if path.is_dir() => return Ok(()),
        Err(error) => error,
    };
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    let (kind, reason) = match (error.kind(), above) {
        (io::ErrorKind::AlreadyExists, _) => {
            let reason = format!("{} is not a directory", path.display());
            (io::ErrorKind::NotADirectory, reason)
        }
        (kind @ io::ErrorKind::NotFound, Some(above)) if !above.exists() => {
            (kind, format!("{} does not exist", above.display()))
        }
        _ => return Err(error),
    };
    Err(io::Error::new(kind, reason))
}

/// Makes a folder like [`make_folder`], and checks that no other user can change what is in it.
///
/// The last part of the path may be a link: an operator may have moved the folder to another disk.
///
/// Errors: it cannot be made, belongs to another user than those of [`trusted`](crate::trusted), or others may write to it.
/// Root and system accounts also refuse a path with a folder or a link that another user can change: that user could replace
/// the folder of state.
pub fn own_folder(path: &Path, mode: u32) -> Result<(), FolderError> {
    let unusable = |source| FolderError::Unusable {
        path: path.to_owned(),
        source,
    };
    if enforces_trust() {
        check_folder_above(path)?;
    }
    make_folder(path, mode).map_err(unusable)?;
    let seen = fs::metadata(path).map_err(unusable)?;
    let (path_seen, owner, mode) = (path.to_owned(), seen.uid(), seen.mode() & 0o7777);
    if !is_trusted_owner(owner) {
        return Err(FolderError::Untrusted(TrustError::Owner {
            path: path_seen,
            owner,
            mode,
        }));
    }
    // The sticky bit does not help: others could still make files of the names that are used here.
    if mode & BY_OTHERS != 0 {
        return Err(FolderError::Untrusted(TrustError::Writable {
            path: path_seen,
            owner,
            mode,
        }));
    }
    match enforces_trust() {
        true => trusted(path).map_err(FolderError::Untrusted),
        false => Ok(()),
    }
}

/// Checks the folder above before anything is made in it. A missing one is reported by the caller.
fn check_folder_above(path: &Path) -> Result<(), FolderError> {
    let full = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match full.parent().map(trusted) {
        Some(Err(error)) if !error.is_inaccessible() => Err(FolderError::Untrusted(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use nix::unistd::geteuid;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_folder_has_its_mode_whatever_the_umask_and_an_existing_one_keeps_its_own() {
        let home = tempfile::tempdir().unwrap();
        make_folders(&home.path().join("var/lib"), 0o755).unwrap();
        let folder = home.path().join("var/lib/state");
        for (wanted, found) in [(0o711, 0o711), (0o700, 0o711)] {
            own_folder(&folder, wanted).unwrap();
            assert_eq!(mode(&folder), found);
        }
        // A mode that every usual umask would narrow.
        let open = home.path().join("open");
        make_folder(&open, 0o777).unwrap();
        assert_eq!(mode(&open), 0o777);
    }

    #[test]
    fn a_folder_that_others_may_write_is_refused_with_the_command_that_closes_it() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("state");
        for mode in [0o770, 0o702, 0o777, 0o1777] {
            make_folder(&folder, 0o700).unwrap();
            fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
            let error = own_folder(&folder, 0o700).unwrap_err();
            let closing = format!("chmod go-w {}, or name another folder", folder.display());
            assert_eq!(error.hint(), closing, "{error}");
        }
    }

    #[test]
    fn a_folder_of_another_user_is_refused_through_a_link_too() {
        let home = tempfile::tempdir().unwrap();
        let (folder, link) = (home.path().join("state"), home.path().join("link"));
        make_folder(&folder, 0o755).unwrap();
        symlink(&folder, &link).unwrap();
        own_folder(&link, 0o700).unwrap();
        if geteuid().is_root() {
            chown(&folder, Some(65534), None).unwrap();
            for path in [&folder, &link] {
                let error = own_folder(path, 0o700).unwrap_err().to_string();
                assert!(error.contains("(user 65534, mode 0755)"), "{error}");
            }
        }
    }

    #[test]
    fn root_refuses_a_folder_that_another_user_could_replace() {
        if !geteuid().is_root() {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let (open, foreign) = (home.path().join("open"), home.path().join("foreign"));
        make_folder(&open, 0o777).unwrap();
        make_folder(&foreign, 0o755).unwrap();
        chown(&foreign, Some(65534), None).unwrap();
        let target = home.path().join("target");
        make_folder(&target, 0o700).unwrap();
        let link = foreign.join("link");
        symlink(&target, &link).unwrap();
        for (path, above) in [(open.join("state"), &open), (link, &foreign)] {
            let error = own_folder(&path, 0o700).unwrap_err().to_string();
            assert!(error.starts_with(&above.display().to_string()), "{error}");
        }
        assert!(!open.join("state").exists(), "nothing is made there");
        // In a sticky folder, others cannot replace it.
        fs::set_permissions(&open, Permissions::from_mode(0o1777)).unwrap();
        own_folder(&open.join("state"), 0o700).unwrap();
    }

    #[test]
    fn a_file_in_place_of_a_folder_is_named() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("state");
        fs::write(&file, "").unwrap();
        let error = own_folder(&file, 0o700).unwrap_err().to_string();
        assert!(error.starts_with(&file.display().to_string()), "{error}");
    }
}
