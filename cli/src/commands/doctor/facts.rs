//! How doctor checks read the host: files below a root directory, so that tests can plant faults in a tree of their
//! own.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access};

/// The limit of a file's size; no file that a check reads is as large.
const LARGEST: u64 = 4 << 20;

/// The host as checks see it. Paths are absolute paths of the host.
pub trait HostReader {
    /// The text of a file, without trailing white space.
    fn read(&self, path: &Path) -> io::Result<String>;

    /// The names in a directory, sorted.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;

    /// The file's kind and permissions; links are followed.
    fn status(&self, path: &Path) -> io::Result<FileStatus>;

    /// Whether this process may write to it.
    fn writable(&self, path: &Path) -> io::Result<()>;

    /// Free bytes of the file system that holds the path.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;

    /// Connects to a unix socket and closes the connection.
    fn connect(&self, path: &Path) -> io::Result<()>;

    fn now(&self) -> SystemTime;
}

/// A file's kind and permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStatus {
    pub kind: FileKind,
    /// The permission bits, 0 to 0o7777.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

/// The kinds of files that checks distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    Directory,
    Socket,
    CharacterDevice,
    /// Anything else, usually a regular file.
    Other,
}

/// This host, or a directory tree that imitates one.
#[derive(Debug, Clone)]
pub struct HostFacts {
    root: PathBuf,
}

impl HostFacts {
    /// The host below `root`; `/` is this host.
    #[must_use]
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn real(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

impl HostReader for HostFacts {
    fn read(&self, path: &Path) -> io::Result<String> {
        use std::io::Read as _;
        let path = self.real(path);
        // Reading a pipe would block.
        if !std::fs::metadata(&path)?.is_file() {
            let reason = "it is not a regular file";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let mut text = String::new();
        std::fs::File::open(path)?
            .take(LARGEST)
            .read_to_string(&mut text)?;
        text.truncate(text.trim_end().len());
        Ok(text)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let entries = std::fs::read_dir(self.real(path))?;
        let mut names: Vec<String> = entries
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<io::Result<_>>()?;
        names.sort();
        Ok(names)
    }

    fn status(&self, path: &Path) -> io::Result<FileStatus> {
        let metadata = std::fs::metadata(self.real(path))?;
        let kind = metadata.file_type();
        let kind = if kind.is_dir() {
            FileKind::Directory
        } else if kind.is_socket() {
            FileKind::Socket
        } else if kind.is_char_device() {
            FileKind::CharacterDevice
        } else {
            FileKind::Other
        };
        Ok(FileStatus {
            kind,
            mode: metadata.mode() & 0o7777,
            uid: metadata.uid(),
            gid: metadata.gid(),
        })
    }

    fn writable(&self, path: &Path) -> io::Result<()> {
        Ok(access(&self.real(path), AccessFlags::W_OK)?)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let space = statvfs(&self.real(path))?;
        Ok(space
            .blocks_available()
            .saturating_mul(space.fragment_size()))
    }

    fn connect(&self, path: &Path) -> io::Result<()> {
        UnixStream::connect(self.real(path)).map(drop)
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}
