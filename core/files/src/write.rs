//! Writes of files in a folder of state. A link at the end of a path is never followed, so that a link in place of a file cannot
//! redirect a write.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
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
    let new = temporary_name(path);
    if let Err(error) = fs::remove_file(&new)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut written = open_options()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&new)?;
    written.write_all(content)?;
    written.sync_all()?;
    fs::rename(&new, path)?;
    // A rename is durable only after its folder is synced.
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

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
