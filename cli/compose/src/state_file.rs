//! A file that is replaced as a whole: written under another name and renamed. Most are below `state_path`, and only their owner may read
//! them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use berth_output::{ErrorCode, Failure};

/// Writes a file with mode 0600, replacing the old one. After this returns, the file survives a power failure.
pub fn write(file: &Path, text: &str) -> Result<(), Failure> {
    write_with(file, text, 0o600)
}

/// Writes a file that everybody may read, in the same way.
pub fn write_public(file: &Path, text: &str) -> Result<(), Failure> {
    write_with(file, text, 0o644)
}

fn write_with(file: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    replace(file, text, mode).map_err(|error| {
        let what = format!("cannot write {}", file.display());
        Failure::caused(ErrorCode::State, what, &error)
    })
}

fn replace(file: &Path, text: &str, mode: u32) -> io::Result<()> {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // The folder belongs to one process, so one temporary name is enough; a leftover of a kill is overwritten.
    let mut name = std::ffi::OsString::from(".");
    name.push(file.file_name().unwrap_or_default());
    name.push(".new");
    let next = folder.join(name);
    if let Err(error) = fs::remove_file(&next)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut options = OpenOptions::new();
    let mut written = options
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&next)?;
    written.write_all(text.as_bytes())?;
    written.sync_all()?;
    fs::rename(&next, file)?;
    // A rename is durable only after its folder is synced.
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_was_open_to_all_is_its_owners_alone_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("clouds.yaml");
        fs::write(&file, "old").unwrap();
        fs::write(folder.path().join(".clouds.yaml.new"), "half").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        write(&file, "new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named_and_not_made() {
        let error = write(Path::new("/none/clouds.yaml"), "x").unwrap_err();
        assert!(error.explain().contains("/none/clouds.yaml"));
    }
}
