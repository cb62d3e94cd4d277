//! The file of audit records. Each record is one line, appended with one write.
//!
//! Before each record the path is compared with the open file. If it names another file, or none, the file is opened
//! again: logrotate renames it, and no record goes to the renamed file after that.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use berth_files::open_options;

/// The file of audit records cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the audit file {} cannot be written", path.display())]
pub struct AuditFileError {
    pub(crate) path: PathBuf,
    #[source]
    pub(crate) source: io::Error,
}

/// The file, open for appending.
#[derive(Debug)]
pub(crate) struct AuditFile {
    path: PathBuf,
    open: OpenFile,
}

fn not_regular() -> io::Error {
    let what = "it is not a regular file";
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    /// Device and inode.
    identity: (u64, u64),
    /// Whether the last line is incomplete, because the disk became full.
    is_torn: bool,
}

impl OpenFile {
    fn at(path: &Path) -> io::Result<Self> {
        // Opening a pipe without a reader would wait forever.
        if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
            return Err(not_regular());
        }
        let file = open_options()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(not_regular());
        }
        Ok(Self {
            file,
            identity: (metadata.dev(), metadata.ino()),
            is_torn: false,
        })
    }

    /// Whether the path still names this file.
    fn is_at(&self, path: &Path) -> bool {
        let there = std::fs::symlink_metadata(path);
        there.is_ok_and(|there| (there.dev(), there.ino()) == self.identity)
    }

    fn append(&mut self, line: &str) -> io::Result<()> {
        let mut text = String::with_capacity(line.len() + 2);
        if self.is_torn {
            text.push('\n');
        }
        text.push_str(line);
        text.push('\n');
        let written = self.file.write(text.as_bytes())?;
        self.is_torn = written < text.len();
        match self.is_torn {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

impl AuditFile {
    /// Opens the file, and creates it with mode 0600.
    pub(crate) fn open(path: &Path) -> Result<Self, AuditFileError> {
        match OpenFile::at(path) {
            Ok(open) => Ok(Self {
                path: path.to_owned(),
                open,
            }),
            Err(source) => Err(AuditFileError {
                path: path.to_owned(),
                source,
            }),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a line.
    pub(crate) fn append(&mut self, line: &str) -> Result<(), AuditFileError> {
        let appended = if self.open.is_at(&self.path) {
            self.open.append(line)
        } else {
            OpenFile::at(&self.path).and_then(|new| {
                self.open = new;
                self.open.append(line)
            })
        };
        appended.map_err(|source| AuditFileError {
            path: self.path.clone(),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_renamed_file_gets_no_more_records_and_the_new_one_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (
            folder.path().join("audit.log"),
            folder.path().join("audit.log.1"),
        );
        let mut file = AuditFile::open(&path).unwrap();
        file.append("one").unwrap();
        fs::rename(&path, &old).unwrap();
        file.append("two").unwrap();
        assert_eq!(fs::read_to_string(&old).unwrap(), "one\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
        for file in [path, old] {
            let mode = fs::metadata(file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn a_removed_folder_is_an_error_until_it_is_back() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("log");
        fs::create_dir(&inner).unwrap();
        let path = inner.join("audit.log");
        let mut file = AuditFile::open(&path).unwrap();
        fs::remove_dir_all(&inner).unwrap();
        let error = file.append("lost").unwrap_err();
        assert!(error.to_string().contains("audit.log"), "{error}");
        fs::create_dir(&inner).unwrap();
        file.append("kept").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "kept\n");
    }

    #[test]
    fn links_pipes_and_folders_are_no_audit_file() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in [link.as_path(), pipe.as_path(), folder.path()] {
            assert!(AuditFile::open(path).is_err(), "{}", path.display());
        }
    }
}
