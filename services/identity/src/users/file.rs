//! The file of users: read at start, and again when it has changed. A new one that is wrong changes nothing.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::{Users, UsersError};

/// The largest file, in bytes; a larger one is a mistake.
const LARGEST: u64 = 4 << 20;

/// How long a look at the file is good for.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Why there are no users.
#[derive(Debug, thiserror::Error)]
pub enum UsersFileError {
    /// The file cannot be read, is no regular file, or is larger than 4 MiB.
    #[error("the file of users {} cannot be read", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Others than its owner may write to it: any of them could make themselves an administrator.
    #[error("the file of users {} can be written by others than its owner; chmod 0600 it", path.display())]
    Writable {
        path: PathBuf,
    },
    /// It is not text.
    #[error("the file of users {} is not UTF-8", path.display())]
    NoText {
        path: PathBuf,
    },
    /// It describes no users.
    #[error("{0}")]
    Wrong(#[from] UsersError),
    /// It has no user in it: nobody could log in. A file that is just being written is empty, too.
    #[error("the file of users {} has no user in it; write a [[user]]", path.display())]
    Empty {
        path: PathBuf,
    },
}

/// By what it is seen that a file is another, or was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp([i64; 6], u64);

impl From<&Metadata> for Stamp {
    fn from(it: &Metadata) -> Self {
        let times = [it.mtime(), it.mtime_nsec(), it.ctime(), it.ctime_nsec()];
        let [a, b, c, d] = times;
        let mode = i64::from(it.mode());
        Self([a, b, c, d, mode, it.size().cast_signed()], it.ino())
    }
}

/// The users of a file, as it is now.
#[derive(Debug)]
pub struct UsersFile {
    path: PathBuf,
    current: RwLock<Arc<Users>>,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    /// What was read last, right or wrong; none where it could not be looked at.
    stamp: Option<Stamp>,
    looked: Instant,
}

/// What a look at the file came to.
#[derive(Debug)]
pub enum Look {
    /// It is as it was.
    Same,
    /// It was read anew.
    Read,
}

impl UsersFile {
    /// Looks at a file as [`UsersFile::open`] does, and keeps nothing.
    pub fn check(path: &Path) -> Result<(), UsersFileError> {
        read(path).map(drop)
    }

    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be read, others may write to it, it describes no users, or has none in it.
    pub fn open(path: &Path) -> Result<Self, UsersFileError> {
        let (users, stamp) = read(path)?;
        warn_if_open(path, &stamp);
        let seen = Seen {
            stamp: Some(stamp),
            looked: Instant::now(),
        };
        Ok(Self {
            path: path.to_owned(),
            current: RwLock::new(Arc::new(users)),
            seen: Mutex::new(seen),
        })
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The users as of the last look, without another.
    #[must_use]
    pub fn known(&self) -> Arc<Users> {
        let current = self.current.read();
        Arc::clone(&current.unwrap_or_else(PoisonError::into_inner))
    }

    /// The users, after a look at the file where the last one is over a second old. A new file that is wrong is told to the log,
    /// once, and the users stay as they were.
    #[must_use]
    pub fn current(&self) -> Arc<Users> {
        let is_due = {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.looked.elapsed() >= LOOK_INTERVAL
        };
        if is_due {
            match self.look() {
                Ok(Look::Same) => {}
                Ok(Look::Read) => tracing::info!(file = %self.path.display(), "users read again"),
                Err(error) => tracing::error!(
                    error = &error as &dyn std::error::Error,
                    file = %self.path.display(),
                    "the new file of users is not taken; the users before it stay"
                ),
            }
        }
        self.known()
    }

    /// Looks at the file now, and reads it where it is another than at the last look.
    pub fn look(&self) -> Result<Look, UsersFileError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.looked = Instant::now();
        let stamp = fs::metadata(&self.path).ok().map(|it| Stamp::from(&it));
        if stamp == seen.stamp {
            return Ok(Look::Same);
        }
        seen.stamp = stamp;
        let (users, stamp) = read(&self.path)?;
        seen.stamp = Some(stamp);
        warn_if_open(&self.path, &stamp);
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(users);
        Ok(Look::Read)
    }
}

/// Hashes can be guessed at by whoever reads them: that is told, as of other files with secrets in them.
fn warn_if_open(path: &Path, stamp: &Stamp) {
    let Stamp([.., mode, _], _) = stamp;
    if mode & 0o044 != 0 {
        let mend = format!("chmod 0600 {}", path.display());
        tracing::warn!(file = %path.display(), mend, "others than its owner can read the file of users");
    }
}

fn read(path: &Path) -> Result<(Users, Stamp), UsersFileError> {
    let unreadable = |source| UsersFileError::Unreadable {
        path: path.to_owned(),
        source,
    };
    // A pipe or a device would be read for ever: it is not even opened.
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
    Ok((users, Stamp::from(&metadata)))
}
