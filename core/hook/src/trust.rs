//! Checks that only the operator can change a program. A program that other users can write or replace would run their code with the
//! rights of this process.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, geteuid};

/// Mode bits: writable by group or others.
const BY_OTHERS: u32 = 0o022;

/// Mode bit: in this folder, only the owner of a file can move it.
const STICKY: u32 = 0o1000;

/// Another user than root and the user of this process can change the program.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The program, or a folder of its path, cannot be read.
    #[error("{} cannot be checked: {source}", path.display())]
    Inaccessible {
        /// The file or folder.
        path: PathBuf,
        source: io::Error,
    },
    /// The program, or a folder of its path, belongs to another user.
    #[error("{} belongs to the user {owner}, who can change what is run", path.display())]
    Owner {
        /// The file or folder.
        path: PathBuf,
        owner: u32,
    },
    /// The program, or a folder of its path, is writable by others.
    #[error("{} can be written by others than its owner (mode {mode:04o}), who can change what is run", path.display())]
    Mode {
        /// The file or folder.
        path: PathBuf,
        mode: u32,
    },
}

impl TrustError {
    /// What the operator can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Inaccessible { .. } => "name a program that exists".to_owned(),
            Self::Owner { path, .. } => format!("chown root {}", path.display()),
            Self::Mode { path, .. } => format!("chmod go-w {}", path.display()),
        }
    }
}

/// Whether this process runs as root.
#[must_use]
pub fn is_superuser() -> bool {
    geteuid().is_root()
}

/// Checks a program and each folder of its path, following links.
///
/// Errors: The first file or folder that another user than root and the user of this process can change.
pub fn trusted(program: &Path) -> Result<(), TrustError> {
    trusted_by(program, geteuid())
}

fn trusted_by(program: &Path, user: Uid) -> Result<(), TrustError> {
    let real = fs::canonicalize(program).map_err(|source| TrustError::Inaccessible {
        path: program.to_owned(),
        source,
    })?;
    check_path(&real, user, TrustedFileKind::File)?;
    // A link can be replaced by those who can write its folder.
    for folder in real.ancestors().chain(program.ancestors()).skip(1) {
        if folder != program && !folder.as_os_str().is_empty() {
            check_path(folder, user, TrustedFileKind::Folder)?;
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum TrustedFileKind {
    File,
    Folder,
}

fn check_path(path: &Path, user: Uid, kind: TrustedFileKind) -> Result<(), TrustError> {
    let seen = fs::metadata(path).map_err(|source| TrustError::Inaccessible {
        path: path.to_owned(),
        source,
    })?;
    check_metadata(path, &seen, user, kind)
}

fn check_metadata(
    path: &Path,
    seen: &Metadata,
    user: Uid,
    kind: TrustedFileKind,
) -> Result<(), TrustError> {
    let (owner, mode) = (seen.uid(), seen.permissions().mode() & 0o7777);
    if owner != 0 && owner != user.as_raw() {
        return Err(TrustError::Owner {
            path: path.to_owned(),
            owner,
        });
    }
    let is_shared = kind == TrustedFileKind::Folder && mode & STICKY != 0;
    match mode & BY_OTHERS != 0 && !is_shared {
        true => Err(TrustError::Mode {
            path: path.to_owned(),
            mode,
        }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_program_is_trusted_where_no_other_user_can_change_it_or_its_folders() {
        let home = tempfile::tempdir().unwrap();
        let (folder, link) = (home.path().join("plugins"), home.path().join("link"));
        let program = folder.join("plugin");
        fs::create_dir(&folder).unwrap();
        fs::write(&program, "").unwrap();
        symlink(&program, &link).unwrap();
        let set =
            |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        for (of_folder, of_program, wrong) in [
            (0o755, 0o755, None),
            (0o700, 0o500, None),
            (0o1777, 0o755, None),
            (0o755, 0o775, Some(&program)),
            (0o755, 0o757, Some(&program)),
            (0o775, 0o755, Some(&folder)),
            (0o757, 0o755, Some(&folder)),
        ] {
            set(&folder, of_folder);
            set(&program, of_program);
            for path in [&program, &link] {
                match (trusted(path), wrong) {
                    (Ok(()), None) => {}
                    (Err(TrustError::Mode { path, .. }), Some(wrong)) => {
                        assert_eq!(path, fs::canonicalize(wrong).unwrap());
                    }
                    (got, _) => panic!("{of_folder:o} {of_program:o}: {got:?}"),
                }
            }
        }
        set(&folder, 0o755);
        set(&program, 0o755);
        set(home.path(), 0o770);
        let error = trusted(&link).unwrap_err();
        assert!(error.hint().starts_with("chmod go-w /"), "{}", error.hint());
        let error = trusted(&home.path().join("nowhere")).unwrap_err();
        assert!(matches!(error, TrustError::Inaccessible { .. }), "{error}");
    }

    #[test]
    fn a_program_of_another_user_is_not_trusted() {
        let home = tempfile::tempdir().unwrap();
        let program = home.path().join("plugin");
        fs::write(&program, "").unwrap();
        let seen = fs::metadata(&program).unwrap();
        let own = Uid::from_raw(seen.uid());
        let others = Uid::from_raw(seen.uid() + 1);
        assert!(check_metadata(&program, &seen, own, TrustedFileKind::File).is_ok());
        if !own.is_root() {
            let error = check_metadata(&program, &seen, others, TrustedFileKind::File).unwrap_err();
            assert!(error.hint().starts_with("chown root "), "{error}");
        }
    }
}
