//! Whether a program is the operator's: one that others may write, or put another in the place of, is theirs, and would run with the
//! rights of this process.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, geteuid};

/// Others than its owner may write a file.
const BY_OTHERS: u32 = 0o022;

/// In such a folder nobody may move what is another's.
const STICKY: u32 = 0o1000;

/// A program that others than the superuser and the user of this process can change.
#[derive(Debug, thiserror::Error)]
pub enum Untrusted {
    /// It, or a folder that it is in, cannot be looked at.
    #[error("{} cannot be looked at: {source}", path.display())]
    Unseen {
        /// The file or folder.
        path: PathBuf,
        source: io::Error,
    },
    /// It, or a folder that it is in, is somebody else's.
    #[error("{} belongs to the user {owner}, who can change what is run", path.display())]
    Owner {
        /// The file or folder.
        path: PathBuf,
        owner: u32,
    },
    /// Others may write it, or what is in it.
    #[error("{} can be written by others than its owner (mode {mode:04o}), who can change what is run", path.display())]
    Mode {
        /// The file or folder.
        path: PathBuf,
        mode: u32,
    },
}

impl Untrusted {
    /// What the operator can do.
    #[must_use]
    pub fn mend(&self) -> String {
        match self {
            Self::Unseen { .. } => "name a program that is there".to_owned(),
            Self::Owner { path, .. } => format!("chown root {}", path.display()),
            Self::Mode { path, .. } => format!("chmod go-w {}", path.display()),
        }
    }
}

/// Whether this process has rights that others have not, which a program of theirs would get.
#[must_use]
pub fn is_superuser() -> bool {
    geteuid().is_root()
}

/// Looks at a program, and at each folder on the way to it, links followed.
///
/// # Errors
/// The first thing that others than the superuser and the user of this process can change.
pub fn trusted(program: &Path) -> Result<(), Untrusted> {
    trusted_by(program, geteuid())
}

fn trusted_by(program: &Path, user: Uid) -> Result<(), Untrusted> {
    let real = fs::canonicalize(program).map_err(|source| Untrusted::Unseen {
        path: program.to_owned(),
        source,
    })?;
    look(&real, user, Kind::File)?;
    // A link is as good as the folder that it is in.
    for folder in real.ancestors().chain(program.ancestors()).skip(1) {
        if folder != program && !folder.as_os_str().is_empty() {
            look(folder, user, Kind::Folder)?;
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    File,
    Folder,
}

fn look(path: &Path, user: Uid, kind: Kind) -> Result<(), Untrusted> {
    let seen = fs::metadata(path).map_err(|source| Untrusted::Unseen {
        path: path.to_owned(),
        source,
    })?;
    judged(path, &seen, user, kind)
}

fn judged(path: &Path, seen: &Metadata, user: Uid, kind: Kind) -> Result<(), Untrusted> {
    let (owner, mode) = (seen.uid(), seen.permissions().mode() & 0o7777);
    if owner != 0 && owner != user.as_raw() {
        return Err(Untrusted::Owner {
            path: path.to_owned(),
            owner,
        });
    }
    let is_shared = kind == Kind::Folder && mode & STICKY != 0;
    match mode & BY_OTHERS != 0 && !is_shared {
        true => Err(Untrusted::Mode {
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
    fn a_program_is_trusted_where_nobody_else_can_change_it_or_its_folders() {
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
                    (Err(Untrusted::Mode { path, .. }), Some(wrong)) => {
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
        assert!(error.mend().starts_with("chmod go-w /"), "{}", error.mend());
        let error = trusted(&home.path().join("nowhere")).unwrap_err();
        assert!(matches!(error, Untrusted::Unseen { .. }), "{error}");
    }

    #[test]
    fn a_program_of_another_user_is_not_trusted() {
        let home = tempfile::tempdir().unwrap();
        let program = home.path().join("plugin");
        fs::write(&program, "").unwrap();
        let seen = fs::metadata(&program).unwrap();
        let own = Uid::from_raw(seen.uid());
        let others = Uid::from_raw(seen.uid() + 1);
        assert!(judged(&program, &seen, own, Kind::File).is_ok());
        if !own.is_root() {
            let error = judged(&program, &seen, others, Kind::File).unwrap_err();
            assert!(error.mend().starts_with("chown root "), "{error}");
        }
    }
}
