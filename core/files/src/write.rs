//! Writes of files in a folder of state. A link at the end of a path is never followed, so that a link in place of a file cannot
//! redirect a write.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

/// Options that follow no link at the end of the path.
#[must_use]
pub fn open_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(OFlag::O_NOFOLLOW.bits());
    options
}

/// Opens a lock file for reading and writing; makes it with mode 0600 if it is missing.
pub fn open_lock(path: &Path) -> io::Result<File> {
    open_options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(path)
}

/// The name under which [`replace`] writes a file before it is renamed. Only a kill leaves it behind.
#[must_use]
pub fn temporary_name(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".new");
    path.with_file_name(name)
}

/// Writes a file with this mode, replacing an old file or link as a whole. After this returns, the file survives a power failure.
///
/// The folder must belong to one process, because all writes of a file have the same temporary name.
pub fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    replace_with(path, content, |new| {
        new.set_permissions(Permissions::from_mode(mode))
    })
}

/// Replaces a secret like [`replace`]. The group of the old file may still read the new one, if it could read the old one.
pub fn replace_secret(path: &Path, content: &[u8]) -> io::Result<()> {
    let old = fs::symlink_metadata(path).ok();
    let group = old.filter(|old| old.is_file() && old.mode() & 0o040 != 0);
    replace_with(path, content, |new| match &group {
        None => Ok(()),
        Some(old) => {
            fchown(new, None, Some(old.gid()))?;
            new.set_permissions(Permissions::from_mode(0o640))
        }
    })
}

/// `open_to_others` sets the final owner and mode, before the file has content.
fn replace_with(
    path: &Path,
    content: &[u8],
    open_to_others: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let new = temporary_name(path);
    if let Err(error) = fs::remove_file(&new)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut written = open_options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    open_to_others(&written)?;
    written.write_all(content)?;
    written.sync_all()?;
    fs::rename(&new, path)?;
    // A rename is durable only after its folder is synced.
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    #[test]
    fn a_secret_that_is_replaced_stays_readable_for_its_group_and_for_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("controller.key");
        for (old, expected) in [
            (None, 0o600),
            (Some(0o640), 0o640),
            (Some(0o666), 0o640),
            (Some(0o600), 0o600),
        ] {
            if let Some(mode) = old {
                fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            }
            replace_secret(&file, b"new").unwrap();
            let mode = fs::metadata(&file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, expected, "{old:?}");
        }
        let gid = 12_345;
        if chown(&file, None, Some(gid)).is_ok() {
            fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
            replace_secret(&file, b"newer").unwrap();
            assert_eq!(fs::metadata(&file).unwrap().gid(), gid);
        }
    }

    #[test]
    fn what_was_open_to_all_is_its_owners_alone_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("clouds.yaml");
        fs::write(&file, "old").unwrap();
        fs::write(temporary_name(&file), "half").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        replace(&file, b"new", 0o600).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_in_place_of_a_file_is_replaced_and_what_it_names_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, link) = (folder.path().join("victim"), folder.path().join("link"));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &link).unwrap();
        symlink(&victim, temporary_name(&link)).unwrap();
        assert!(open_lock(&link).is_err());
        replace(&link, b"new", 0o600).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert!(!fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn a_folder_that_is_not_there_is_not_made() {
        assert!(replace(Path::new("/none/clouds.yaml"), b"x", 0o600).is_err());
    }
}
