//! The users file: read at start, and again when it changes. An invalid new version is logged and ignored.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use berth_files::{TrustError, enforces_trust, trusted};

use super::{Users, UsersError};

/// The largest file, in bytes; a larger one is a mistake.
const LARGEST: u64 = 4 << 20;

/// The minimum interval between two checks of the file.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Why the users file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum UsersFileError {
    /// The file cannot be read, is no regular file, or is larger than 4 MiB.
    #[error("the file of users {} cannot be read", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Others than the owner may write to the file, and could make themselves administrators.
    #[error("the users file {} is writable by others than its owner; run chmod 0600 on it", path.display())]
    Writable { path: PathBuf },
    /// Another user than root and that of this process can change the file.
    #[error("the users file {} is refused", path.display())]
    Untrusted {
        path: PathBuf,
        #[source]
        source: TrustError,
    },
    /// The file is not UTF-8.
    #[error("the file of users {} is not UTF-8", path.display())]
    NoText { path: PathBuf },
    /// The file is invalid.
    #[error("{0}")]
    Wrong(#[from] UsersError),
    /// The file has no user, so all logins would fail. A file that is being written may be empty, too.
    #[error("the users file {} has no user; add a [[user]]", path.display())]
    Empty { path: PathBuf },
}

/// Metadata that changes when the file is replaced or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct UsersFileFingerprint([i64; 6], u64);

impl From<&Metadata> for UsersFileFingerprint {
    fn from(it: &Metadata) -> Self {
        let times = [it.mtime(), it.mtime_nsec(), it.ctime(), it.ctime_nsec()];
        let [a, b, c, d] = times;
        let mode = i64::from(it.mode());
        Self([a, b, c, d, mode, it.size().cast_signed()], it.ino())
    }
}

/// The users file and its current content.
#[derive(Debug)]
pub struct UsersFile {
    path: PathBuf,
    current: RwLock<Arc<Users>>,
    last_check: Mutex<UsersFileCheck>,
}

#[derive(Debug)]
struct UsersFileCheck {
    /// The fingerprint of the last read, valid or not; `None` if the file could not be examined.
    stamp: Option<UsersFileFingerprint>,
    checked_at: Instant,
}

/// The result of [`UsersFile::reload_if_changed`].
#[derive(Debug)]
pub enum ReloadOutcome {
    Unchanged,
    Reloaded,
}

impl UsersFile {
    /// Validates a file without keeping its content.
    pub fn check(path: &Path) -> Result<(), UsersFileError> {
        read(path).map(drop)
    }

    /// Reads and validates the file.
    ///
    /// Errors: The file cannot be read, another user can change it, it is invalid, or it has no user.
    pub fn open(path: &Path) -> Result<Self, UsersFileError> {
        let (users, stamp) = read(path)?;
        warn_if_open(path, &stamp);
        let seen = UsersFileCheck {
            stamp: Some(stamp),
            checked_at: Instant::now(),
        };
        Ok(Self {
            path: path.to_owned(),
            current: RwLock::new(Arc::new(users)),
            last_check: Mutex::new(seen),
        })
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The users as last read.
    #[must_use]
    pub fn cached(&self) -> Arc<Users> {
        let current = self.current.read();
        Arc::clone(&current.unwrap_or_else(PoisonError::into_inner))
    }

    /// The current users. Checks the file if the last check is more than a second old. An invalid new version is logged
    /// once, and the previous users stay.
    #[must_use]
    pub fn current(&self) -> Arc<Users> {
        let is_due = {
            let seen = self
                .last_check
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            seen.checked_at.elapsed() >= POLL_INTERVAL
        };
        if is_due {
            match self.reload_if_changed() {
                Ok(ReloadOutcome::Unchanged) => {}
                Ok(ReloadOutcome::Reloaded) => {
                    tracing::info!(file = %self.path.display(), "users read again")
                }
                Err(error) => tracing::error!(
                    error = &error as &dyn std::error::Error,
                    file = %self.path.display(),
                    "the new users file is invalid; the previous users stay in effect"
                ),
            }
        }
        self.cached()
    }

    /// Reads the file if it changed since the last check.
    pub fn reload_if_changed(&self) -> Result<ReloadOutcome, UsersFileError> {
        let mut seen = self
            .last_check
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        seen.checked_at = Instant::now();
        let stamp = fs::metadata(&self.path)
            .ok()
            .map(|it| UsersFileFingerprint::from(&it));
        if stamp == seen.stamp {
            return Ok(ReloadOutcome::Unchanged);
        }
        seen.stamp = stamp;
        let (users, stamp) = read(&self.path)?;
        seen.stamp = Some(stamp);
        warn_if_open(&self.path, &stamp);
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(users);
        Ok(ReloadOutcome::Reloaded)
    }
}

/// Warns if others can read the password hashes.
fn warn_if_open(path: &Path, stamp: &UsersFileFingerprint) {
    let UsersFileFingerprint([.., mode, _], _) = stamp;
    if mode & 0o044 != 0 {
        let hint = format!("chmod 0600 {}", path.display());
        tracing::warn!(file = %path.display(), hint, "the users file is readable by others than its owner");
    }
}

fn read(path: &Path) -> Result<(Users, UsersFileFingerprint), UsersFileError> {
    let unreadable = |source| UsersFileError::Unreadable {
        path: path.to_owned(),
        source,
    };
    // Opening a pipe or a device could block forever, so check the file type first.
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        let what = "it is not a regular file";
        return Err(unreadable(io::Error::new(
            io::ErrorKind::InvalidInput,
            what,
        )));
    }
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.mode() & 0o022 != 0 {
        return Err(UsersFileError::Writable {
            path: path.to_owned(),
        });
    }
    if enforces_trust() {
        trusted(path).map_err(|source| UsersFileError::Untrusted {
            path: path.to_owned(),
            source,
        })?;
    }
    let mut content = Vec::new();
    file.take(LARGEST + 1)
        .read_to_end(&mut content)
        .map_err(unreadable)?;
    if content.len() > usize::try_from(LARGEST).unwrap_or(usize::MAX) {
        return Err(unreadable(io::ErrorKind::FileTooLarge.into()));
    }
    let text = String::from_utf8(content).map_err(|_| UsersFileError::NoText {
        path: path.to_owned(),
    })?;
    let users = Users::from_text(&path.display().to_string(), &text)?;
    if users.users().next().is_none() {
        return Err(UsersFileError::Empty {
            path: path.to_owned(),
        });
    }
    Ok((users, UsersFileFingerprint::from(&metadata)))
}
