//! Small files with the state of a node, such as its UUID and whether it is disabled. Writes are atomic: a kill at any time leaves the old
//! content or the new one.
//!
//! A write creates a temporary file in the same folder, syncs it, renames it over the old file and syncs the folder. A killed write leaves
//! a temporary file, which [`StateDir::open`] removes. Callers use the trait [`StateFiles`], so that tests can inject faults.

use std::fs::{self, File};
use std::future::Future;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;

/// The prefix of the names of temporary files.
const TEMPORARY: &str = ".berth-";
/// The maximum size of a state file, in bytes. A larger one was not written by Berth.
const MAX_BYTES: u64 = 1 << 20;

/// A state file could not be read or written. Its old content is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    /// The disk, or the quota on it, is full.
    #[error("the disk of {path} is full: free some space there")]
    DiskFull {
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The folder or file may not be used by this user.
    #[error("no permission for {path}: it must belong to the user Berth runs as")]
    Permission {
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file exists although it must not.
    #[error("{path} exists already")]
    Exists { path: String },
    /// The file is larger than any state file.
    #[error(
        "{path} is not a state file: it has {bytes} bytes, and a state file has at most {MAX_BYTES}"
    )]
    TooLarge { path: String, bytes: u64 },
    /// Another error of the system.
    #[error("cannot use {path}")]
    Io {
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl StateFileError {
    fn of(path: &Path, source: io::Error) -> Self {
        let shown = path.display().to_string();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull {
                path: shown,
                source,
            },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::Permission {
                    path: shown,
                    source,
                }
            }
            io::ErrorKind::AlreadyExists => Self::Exists { path: shown },
            _ => Self::Io {
                path: shown,
                source,
            },
        }
    }
}

/// The future result of an access to a state file.
pub type StateFileFuture<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, StateFileError>> + Send + 'a>>;

/// The state files of a node, by name.
pub trait StateFiles: Send + Sync {
    /// The path of the file, for messages.
    fn path(&self, name: &str) -> String;

    /// The content of the file; `None` if there is no file.
    fn read<'a>(&'a self, name: &'a str) -> StateFileFuture<'a, Option<Vec<u8>>>;

    /// Replaces the whole content of the file. It is on the disk when this returns.
    fn write<'a>(&'a self, name: &'a str, content: &'a [u8]) -> StateFileFuture<'a, ()>;

    /// Creates the file; fails if it exists.
    fn create<'a>(&'a self, name: &'a str, content: &'a [u8]) -> StateFileFuture<'a, ()>;

    /// Removes the file, if it exists.
    fn remove<'a>(&'a self, name: &'a str) -> StateFileFuture<'a, ()>;
}

/// A folder of state files.
#[derive(Debug, Clone)]
pub struct StateDir {
    folder: PathBuf,
}

impl StateDir {
    /// Opens the folder, creates it if necessary, and removes temporary files of killed writes.
    pub fn open(folder: &Path) -> Result<Self, StateFileError> {
        let failed = |source| StateFileError::of(folder, source);
        create_folder(folder).map_err(failed)?;
        for entry in fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
                match fs::remove_file(entry.path()) {
                    // A concurrent write ended after the folder was listed.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    removed => removed.map_err(|error| StateFileError::of(&entry.path(), error))?,
                }
            }
        }
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    /// The folder for reading only: nothing is created or removed. A folder that does not exist has no files.
    #[must_use]
    pub fn read_only(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn read_now(&self, name: &str) -> Result<Option<Vec<u8>>, StateFileError> {
        let path = self.file(name);
        let failed = |source| StateFileError::of(&path, source);
        match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
            Ok(metadata) if metadata.len() > MAX_BYTES => {
                let path = path.display().to_string();
                return Err(StateFileError::TooLarge {
                    path,
                    bytes: metadata.len(),
                });
            }
            Ok(metadata) if !metadata.is_file() => {
                // Reading a pipe or a device would never end.
                let reason = "it is not a regular file";
                return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, reason)));
            }
            Ok(_) => {}
        }
        match fs::read(&path) {
            // It was removed after the metadata were read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some).map_err(failed),
        }
    }

    fn temporary(&self, content: &[u8]) -> io::Result<tempfile::NamedTempFile> {
        let mut file = tempfile::Builder::new()
            .prefix(TEMPORARY)
            .tempfile_in(&self.folder)?;
        file.write_all(content)?;
        file.as_file().sync_all()?;
        Ok(file)
    }

    fn write_now(&self, name: &str, content: &[u8]) -> Result<(), StateFileError> {
        let path = self.file(name);
        self.temporary(content)
            .and_then(|file| file.persist(&path).map_err(|error| error.error))
            .and_then(|_| self.sync())
            .map_err(|source| StateFileError::of(&path, source))
    }

    fn create_now(&self, name: &str, content: &[u8]) -> Result<(), StateFileError> {
        let path = self.file(name);
        self.temporary(content)
            .and_then(|file| file.persist_noclobber(&path).map_err(|error| error.error))
            .and_then(|_| self.sync())
            .map_err(|source| StateFileError::of(&path, source))
    }

    fn remove_now(&self, name: &str) -> Result<(), StateFileError> {
        let path = self.file(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(StateFileError::of(&path, error)),
            Ok(()) => self
                .sync()
                .map_err(|source| StateFileError::of(&path, source)),
        }
    }

    /// Syncs the folder: only then is a rename on the disk.
    fn sync(&self) -> io::Result<()> {
        File::open(&self.folder)?.sync_all()
    }
}

/// Runs the work on a blocking thread, because a disk may hang.
async fn temporary_path<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

impl StateFiles for StateDir {
    fn path(&self, name: &str) -> String {
        self.file(name).display().to_string()
    }

    fn read<'a>(&'a self, name: &'a str) -> StateFileFuture<'a, Option<Vec<u8>>> {
        let (files, name) = (self.clone(), name.to_owned());
        Box::pin(temporary_path(move || files.read_now(&name)))
    }

    fn write<'a>(&'a self, name: &'a str, content: &'a [u8]) -> StateFileFuture<'a, ()> {
        let (files, name, content) = (self.clone(), name.to_owned(), content.to_owned());
        Box::pin(temporary_path(move || files.write_now(&name, &content)))
    }

    fn create<'a>(&'a self, name: &'a str, content: &'a [u8]) -> StateFileFuture<'a, ()> {
        let (files, name, content) = (self.clone(), name.to_owned(), content.to_owned());
        Box::pin(temporary_path(move || files.create_now(&name, &content)))
    }

    fn remove<'a>(&'a self, name: &'a str) -> StateFileFuture<'a, ()> {
        let (files, name) = (self.clone(), name.to_owned());
        Box::pin(temporary_path(move || files.remove_now(&name)))
    }
}

/// Creates a folder if it is missing. The folder above must exist, so that a mistyped path is an error.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    let error = match fs::create_dir(folder) {
        Ok(()) => return Ok(()),
        Err(_) if folder.is_dir() => return Ok(()),
        Err(error) => error,
    };
    let above = folder.parent().filter(|it| !it.as_os_str().is_empty());
    match (error.kind(), above) {
        (io::ErrorKind::AlreadyExists, _) => Err(io::Error::new(
            io::ErrorKind::NotADirectory,
            format!("{} is not a directory", folder.display()),
        )),
        (io::ErrorKind::NotFound, Some(above)) if !above.exists() => Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("{} does not exist", above.display()),
        )),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened() -> (tempfile::TempDir, StateDir) {
        let folder = tempfile::tempdir().unwrap();
        let files = StateDir::open(folder.path()).unwrap();
        (folder, files)
    }

    #[test]
    fn a_file_is_written_whole_read_back_and_removed() {
        let (_folder, files) = opened();
        assert_eq!(files.read_now("compute_id").unwrap(), None);
        files.create_now("compute_id", b"one").unwrap();
        assert!(matches!(
            files.create_now("compute_id", b"two"),
            Err(StateFileError::Exists { .. })
        ));
        files.write_now("compute_id", b"three").unwrap();
        assert_eq!(files.read_now("compute_id").unwrap().unwrap(), b"three");
        files.remove_now("compute_id").unwrap();
        files.remove_now("compute_id").unwrap();
        assert_eq!(files.read_now("compute_id").unwrap(), None);
    }

    #[test]
    fn what_a_killed_write_left_is_swept_away_and_nothing_else() {
        let (folder, files) = opened();
        files.write_now("compute_id", b"kept").unwrap();
        fs::write(folder.path().join(".berth-half"), b"ha").unwrap();
        let files = StateDir::open(folder.path()).unwrap();
        assert!(!folder.path().join(".berth-half").exists());
        assert_eq!(files.read_now("compute_id").unwrap().unwrap(), b"kept");
    }

    /// Runs `act` over and over, for as long as `meanwhile` takes.
    fn run_concurrently(act: impl Fn() + Sync, meanwhile: impl FnOnce()) {
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let order = std::sync::atomic::Ordering::Relaxed;
        std::thread::scope(|scope| {
            let acting = scope.spawn(|| {
                while !is_over.load(order) {
                    act();
                }
            });
            let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(meanwhile));
            is_over.store(true, order);
            acting.join().unwrap();
            seen.unwrap();
        });
    }

    #[test]
    fn a_file_that_goes_while_it_is_read_is_not_there() {
        let (_folder, files) = opened();
        let come_and_go = || {
            fs::write(files.file("compute_id"), b"one").unwrap();
            fs::remove_file(files.file("compute_id")).unwrap();
        };
        run_concurrently(come_and_go, || {
            for _ in 0..20_000 {
                files.read_now("compute_id").unwrap();
            }
        });
    }

    #[test]
    fn what_goes_while_the_folder_is_swept_is_not_missed() {
        let (folder, _files) = opened();
        let sweep = || drop(StateDir::open(folder.path()).unwrap());
        run_concurrently(sweep, || {
            for round in 0..500 {
                for number in 0..20 {
                    fs::write(folder.path().join(format!(".berth-{number}")), b"ha").unwrap();
                }
                sweep();
                assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{round}");
            }
        });
    }

    #[test]
    fn a_read_only_open_neither_makes_the_folder_nor_tidies_it() {
        let (folder, files) = opened();
        files.write_now("compute_id", b"kept").unwrap();
        fs::write(folder.path().join(".berth-half"), b"ha").unwrap();
        let reader = StateDir::read_only(folder.path());
        assert_eq!(reader.read_now("compute_id").unwrap().unwrap(), b"kept");
        assert!(folder.path().join(".berth-half").exists());
        let missing = folder.path().join("missing");
        let reader = StateDir::read_only(&missing);
        assert_eq!(reader.read_now("compute_id").unwrap(), None);
        assert!(!missing.exists());
    }

    #[test]
    fn a_device_in_the_place_of_a_state_file_is_refused_and_not_read_forever() {
        let (folder, files) = opened();
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("compute_id")).unwrap();
        let error = files.read_now("compute_id").unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("not a regular file"), "{error}: {source}");
    }

    #[test]
    fn a_file_that_cannot_be_a_state_file_is_refused_with_its_size() {
        let (folder, files) = opened();
        fs::write(folder.path().join("compute_id"), vec![b'x'; 2 << 20]).unwrap();
        let error = files.read_now("compute_id").unwrap_err();
        assert!(error.to_string().contains("2097152 bytes"), "{error}");
    }
}
