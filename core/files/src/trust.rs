//! Checks who can change a file. Who can write or replace a program has the rights of the process that runs it; who can do so with a
//! file of rules or users has the rights that it grants.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use nix::unistd::geteuid;

/// Mode bits: writable by group or others.
const BY_OTHERS: u32 = 0o022;
/// Mode bit: in this folder, only the owner of an entry can replace it.
const STICKY: u32 = 0o1000;
/// Mode bits: any access for users outside of the file's group.
const TO_ALL: u32 = 0o007;
/// User ids below this one belong to root and to system accounts (Debian's SYS_UID_MAX is 999).
const FIRST_PERSON: u32 = 1000;
/// The most links in one path, as in the kernel.
const MOST_LINKS: u32 = 40;

/// Why a file is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file, or a folder of its path, cannot be read.
    #[error("{} cannot be checked: {source}", path.display())]
    Inaccessible {
        /// The file or folder.
        path: PathBuf,
        source: io::Error,
    },
    /// The file, or a folder or link of its path, belongs to another user.
    #[error("{} (user {owner}, mode {mode:04o}) belongs to another user than root and the user that runs berth", path.display())]
    Owner {
        /// The file, folder or link.
        path: PathBuf,
        owner: u32,
        mode: u32,
    },
    /// The file, or a folder of its path, is writable by others.
    #[error("{} (user {owner}, mode {mode:04o}) can be written by others than its owner", path.display())]
    Writable {
        /// The file or folder.
        path: PathBuf,
        owner: u32,
        mode: u32,
    },
    /// A file with a secret is readable by every user.
    #[error("{} (user {owner}, mode {mode:04o}) contains a secret, and every user of this host may read it", path.display())]
    Readable {
        path: PathBuf,
        owner: u32,
        mode: u32,
    },
}

impl TrustError {
    /// The command with which the operator corrects it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Inaccessible { .. } => "name a file that exists".to_owned(),
            // -h: a link itself, not the file that it names.
            Self::Owner { path, .. } => format!("chown -h root {}", path.display()),
            Self::Writable { path, .. } => format!("chmod go-w {}", path.display()),
            Self::Readable { path, .. } => format!("chmod o= {}", path.display()),
        }
    }

    /// Whether the file is missing or cannot be reached, so that nobody can be said to change it.
    #[must_use]
    pub fn is_inaccessible(&self) -> bool {
        matches!(self, Self::Inaccessible { .. })
    }
}

/// Whether this process refuses files that others can change: it runs as root or as a system account.
#[must_use]
pub fn enforces_trust() -> bool {
    geteuid().as_raw() < FIRST_PERSON
}

/// Checks a file or folder, and each folder and link of its path.
///
/// In a folder that others may write, such as /tmp, an entry counts only if its owner is trusted and the folder is sticky: then no
/// other user can replace the entry.
///
/// Trusted are root, the user of this process, and for root the user who called it by sudo (`SUDO_UID`).
///
/// Errors: the first file, folder or link that another user can change.
pub fn trusted(path: &Path) -> Result<(), TrustError> {
    trusted_by(path, &owners())
}

/// Whether a file of this user is trusted.
pub(crate) fn is_trusted_owner(owner: u32) -> bool {
    owners().contains(&owner)
}

fn owners() -> Vec<u32> {
    let user = geteuid();
    // Who may set the environment of a process of root is root already.
    let caller = std::env::var("SUDO_UID").ok().filter(|_| user.is_root());
    let caller = caller.and_then(|text| text.parse().ok());
    [0, user.as_raw()].into_iter().chain(caller).collect()
}

/// Checks a file with a secret: [`trusted`], and not accessible to every user.
pub fn confidential(path: &Path) -> Result<(), TrustError> {
    trusted(path)?;
    let seen = fs::metadata(path).map_err(|source| inaccessible(path, source))?;
    match owner_and_mode(&seen) {
        (owner, mode) if mode & TO_ALL != 0 => Err(TrustError::Readable {
            path: path.to_owned(),
            owner,
            mode,
        }),
        _ => Ok(()),
    }
}

/// Checks a file of state: no other user owns it or can change it. Root and system accounts also refuse a path that another
/// user can change, as [`trusted`] does. The file may be missing. A device is not checked: it keeps no state, and its
/// reader refuses it.
///
/// `service_user` is trusted too: for a check of the files of a service that runs as that user.
pub fn own_file(path: &Path, service_user: Option<u32>) -> Result<(), TrustError> {
    if fs::metadata(path).is_ok_and(|seen| !seen.is_file() && !seen.is_dir()) {
        return Ok(());
    }
    let mut owners = owners();
    owners.extend(service_user);
    let checked = match enforces_trust() {
        true => trusted_by(path, &owners),
        false => fs::metadata(path)
            .map_err(|source| inaccessible(path, source))
            .and_then(|seen| check_metadata(path, &seen, &owners)),
    };
    match checked {
        Err(error) if error.is_inaccessible() => Ok(()),
        checked => checked,
    }
}

fn inaccessible(path: &Path, source: io::Error) -> TrustError {
    let path = path.to_owned();
    TrustError::Inaccessible { path, source }
}

fn owner_and_mode(seen: &Metadata) -> (u32, u32) {
    (seen.uid(), seen.permissions().mode() & 0o7777)
}

/// Walks the path from the root as the kernel does, and checks every entry on the way, links included.
fn trusted_by(path: &Path, owners: &[u32]) -> Result<(), TrustError> {
    let full = std::path::absolute(path).map_err(|source| inaccessible(path, source))?;
    let mut ahead = components(&full);
    let mut at = PathBuf::from("/");
    let mut links = 0;
    check_entry(&at, owners)?;
    while let Some(name) = ahead.pop_front() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        let seen = check_entry(&next, owners)?;
        if !seen.is_symlink() {
            at = next;
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(inaccessible(path, nix::errno::Errno::ELOOP.into()));
        }
        let target = fs::read_link(&next).map_err(|source| inaccessible(&next, source))?;
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        for name in components(&target).into_iter().rev() {
            ahead.push_front(name);
        }
    }
    Ok(())
}

/// The names of a path, `..` included.
fn components(path: &Path) -> VecDeque<OsString> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    names.collect()
}

fn check_entry(path: &Path, owners: &[u32]) -> Result<Metadata, TrustError> {
    let seen = fs::symlink_metadata(path).map_err(|source| inaccessible(path, source))?;
    check_metadata(path, &seen, owners)?;
    Ok(seen)
}

fn check_metadata(path: &Path, seen: &Metadata, owners: &[u32]) -> Result<(), TrustError> {
    let (owner, mode) = owner_and_mode(seen);
    if !owners.contains(&owner) {
        return Err(TrustError::Owner {
            path: path.to_owned(),
            owner,
            mode,
        });
    }
    let is_shared = seen.is_dir() && mode & STICKY != 0;
    // A link has no mode of its own.
    match mode & BY_OTHERS != 0 && !is_shared && !seen.is_symlink() {
        true => Err(TrustError::Writable {
            path: path.to_owned(),
            owner,
            mode,
        }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{lchown, symlink};

    use super::*;

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_file_is_trusted_where_no_other_user_can_change_it_or_its_folders() {
        let home = tempfile::tempdir().unwrap();
        let (folder, link) = (home.path().join("plugins"), home.path().join("link"));
        let program = folder.join("plugin");
        fs::create_dir(&folder).unwrap();
        fs::write(&program, "").unwrap();
        symlink("plugins/../plugins/plugin", &link).unwrap();
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
                    (Err(error @ TrustError::Writable { .. }), Some(wrong)) => {
                        let hint = format!("chmod go-w {}", wrong.display());
                        assert_eq!(error.hint(), hint);
                        let mode = fs::metadata(wrong).unwrap().mode() & 0o7777;
                        let named = format!("(user {}, mode {mode:04o})", geteuid());
                        assert!(error.to_string().contains(&named), "{error}");
                    }
                    (got, _) => panic!("{of_folder:o} {of_program:o}: {got:?}"),
                }
            }
        }
        set(&folder, 0o755);
        set(&program, 0o755);
        set(home.path(), 0o770);
        assert!(trusted(&link).is_err());
        let error = trusted(&folder.join("nowhere")).unwrap_err();
        assert!(!error.is_inaccessible(), "its folder is the first fault");
        set(home.path(), 0o700);
        assert!(
            trusted(&folder.join("nowhere"))
                .unwrap_err()
                .is_inaccessible()
        );
    }

    #[test]
    fn a_link_of_another_user_in_a_shared_folder_is_not_trusted() {
        let home = tempfile::tempdir().unwrap();
        let (shared, program) = (home.path().join("tmp"), home.path().join("program"));
        fs::create_dir(&shared).unwrap();
        set(&shared, 0o1777);
        fs::write(&program, "").unwrap();
        set(&program, 0o755);
        let link = shared.join("link");
        symlink(&program, &link).unwrap();
        trusted(&link).unwrap();
        if geteuid().is_root() {
            lchown(&link, Some(65534), None).unwrap();
            let error = trusted(&link).unwrap_err();
            let named = format!("{} (user 65534", link.display());
            assert!(error.to_string().starts_with(&named), "{error}");
            assert_eq!(error.hint(), format!("chown -h root {}", link.display()));
        }
    }

    #[test]
    fn a_file_of_another_user_is_not_trusted() {
        let home = tempfile::tempdir().unwrap();
        let program = home.path().join("plugin");
        fs::write(&program, "").unwrap();
        let seen = fs::metadata(&program).unwrap();
        assert!(check_metadata(&program, &seen, &[seen.uid()]).is_ok());
        let error = check_metadata(&program, &seen, &[seen.uid() + 1]).unwrap_err();
        assert!(error.hint().starts_with("chown -h root "), "{error}");
    }

    #[test]
    fn a_file_of_state_may_be_missing_and_no_other_user_owns_or_changes_it() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("identity.sqlite");
        own_file(&file, None).unwrap();
        fs::write(&file, "").unwrap();
        for (mode, is_wrong) in [(0o600, false), (0o644, false), (0o620, true), (0o602, true)] {
            set(&file, mode);
            let checked = own_file(&file, None);
            assert_eq!(checked.is_err(), is_wrong, "{mode:o}: {checked:?}");
        }
        set(&file, 0o600);
        if geteuid().is_root() {
            lchown(&file, Some(65534), None).unwrap();
            let error = own_file(&file, None).unwrap_err();
            assert!(matches!(error, TrustError::Owner { .. }), "{error}");
            own_file(&file, Some(65534)).unwrap();
            own_file(&file, Some(65533)).unwrap_err();
        }
    }

    #[test]
    fn a_secret_that_every_user_may_read_is_reported() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("password");
        fs::write(&file, "hunter2").unwrap();
        for (mode, is_wrong) in [(0o600, false), (0o640, false), (0o644, true), (0o602, true)] {
            set(&file, mode);
            let checked = confidential(&file);
            assert_eq!(checked.is_err(), is_wrong, "{mode:o}: {checked:?}");
        }
        set(&file, 0o644);
        let error = confidential(&file).unwrap_err();
        assert_eq!(error.hint(), format!("chmod o= {}", file.display()));
    }

    #[test]
    fn a_circle_of_links_is_reported_and_ends() {
        let home = tempfile::tempdir().unwrap();
        symlink("b", home.path().join("a")).unwrap();
        symlink("a", home.path().join("b")).unwrap();
        assert!(
            trusted(&home.path().join("a"))
                .unwrap_err()
                .is_inaccessible()
        );
    }
}
