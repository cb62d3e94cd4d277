//! What can go wrong with a database, by what an operator or a loop would do about it.

use std::io::{ErrorKind as IoKind, Write as _};
use std::path::{Path, PathBuf};

use berth_seam::Disposition;
use sqlx::error::ErrorKind;

/// An error that knows whether running the whole transaction again may help.
pub trait Retryable {
    /// What a loop does about it. A transaction always reads its facts again, so both [`Disposition::Retry`] and
    /// [`Disposition::Refresh`] run the whole of it again.
    fn disposition(&self) -> Disposition;
}

/// Why a statement or a transaction failed.
#[derive(Debug, thiserror::Error)]
pub enum SqlError {
    /// Another writer held the database for longer than the busy timeout, or no connection
    /// became free.
    #[error("the database is busy with another writer")]
    Busy(#[source] sqlx::Error),
    /// No space left for the database or its log.
    #[error("the disk with the database is full")]
    DiskFull(#[source] sqlx::Error),
    /// The file is not a database, or damaged.
    #[error("the database file is damaged or not a database")]
    Corrupt(#[source] sqlx::Error),
    /// The file may not be read or written.
    #[error("the database file cannot be opened or written")]
    NotWritable(#[source] sqlx::Error),
    /// The disk reported an input/output error.
    #[error("the disk with the database reports an input/output error")]
    Io(#[source] sqlx::Error),
    /// A unique key is taken: another writer came first, or the caller did not look.
    #[error("a unique key is already taken")]
    Duplicate(#[source] sqlx::Error),
    /// Another constraint of the schema was violated.
    #[error("a constraint of the schema was violated")]
    Constraint(#[source] sqlx::Error),
    /// The store was closed.
    #[error("the database was closed")]
    Closed,
    /// A column does not hold what the schema says.
    #[error("column {column} does not hold {expected}")]
    Column {
        /// Position in the row, from 0.
        column: usize,
        /// What was asked for.
        expected: &'static str,
        /// The driver's reason.
        #[source]
        source: sqlx::Error,
    },
    /// A counter of the database is at its end: no release counts so far, so the file was written by another hand.
    #[error("the {counter} of a row is {value} and cannot be raised")]
    CounterFull {
        /// What is counted, in a word.
        counter: &'static str,
        /// What it holds.
        value: i64,
    },
    /// The statement itself was refused: a bug, or a schema that is not ours.
    #[error("the database refused a statement")]
    Refused(#[source] sqlx::Error),
}

impl SqlError {
    /// What an operator can do about it, as one sentence.
    #[must_use]
    pub fn mend(&self) -> &'static str {
        match self {
            Self::Busy(_) => "stop the other process that writes to this database",
            Self::DiskFull(_) => "free space on the disk that holds the database",
            Self::Corrupt(_) | Self::CounterFull { .. } => {
                "restore the database from a backup; do not edit the file"
            }
            Self::NotWritable(_) => "check owner and mode of the database file and its folder",
            Self::Io(_) => "check the disk and its kernel messages",
            Self::Closed => "the service is stopping; start it again",
            Self::Duplicate(_) | Self::Constraint(_) | Self::Column { .. } | Self::Refused(_) => {
                "check that the schema is at the version this release expects"
            }
        }
    }
}

impl SqlError {
    /// The same, where an input/output error is one of a full disk: SQLite says so of its files, and not of the memory that it
    /// shares with others beside them (4874, `SQLITE_IOERR_SHMSIZE`).
    pub(super) fn on_the_disk_of(self, database: &Path) -> Self {
        match self {
            Self::Io(error) if is_full(database.parent().unwrap_or(database)) => {
                Self::DiskFull(error)
            }
            other => other,
        }
    }
}

/// Whether a page cannot be written into this folder for want of space.
fn is_full(folder: &Path) -> bool {
    let written = tempfile::tempfile_in(folder).and_then(|mut file| {
        file.write_all(&[1; 4096])?;
        file.sync_all()
    });
    written.is_err_and(|error| matches!(error.kind(), IoKind::StorageFull | IoKind::QuotaExceeded))
}

impl Retryable for SqlError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Busy(_) => Disposition::Retry,
            _ => Disposition::Fatal,
        }
    }
}

impl From<sqlx::Error> for SqlError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::PoolTimedOut => Self::Busy(error),
            sqlx::Error::PoolClosed => Self::Closed,
            sqlx::Error::Database(database) => match database.kind() {
                ErrorKind::UniqueViolation => Self::Duplicate(error),
                ErrorKind::ForeignKeyViolation
                | ErrorKind::NotNullViolation
                | ErrorKind::CheckViolation => Self::Constraint(error),
                _ => by_sqlite_code(error),
            },
            sqlx::Error::Io(_) => Self::Io(error),
            _ => Self::Refused(error),
        }
    }
}

/// Sorts by SQLite's primary result code (the low byte of the extended one).
fn by_sqlite_code(error: sqlx::Error) -> SqlError {
    let code = error
        .as_database_error()
        .and_then(|database| database.code())
        .and_then(|code| code.parse::<u32>().ok())
        .unwrap_or_default();
    match code & 0xff {
        5 | 6 => SqlError::Busy(error),
        8 | 14 | 23 => SqlError::NotWritable(error),
        10 => SqlError::Io(error),
        11 | 26 => SqlError::Corrupt(error),
        13 => SqlError::DiskFull(error),
        19 => SqlError::Constraint(error),
        _ => SqlError::Refused(error),
    }
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process owns the database.
    #[error(
        "the database {} is held by another process{}; stop that process or use another database",
        path.display(),
        owner.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
    )]
    Held {
        /// The database file.
        path: PathBuf,
        /// The owner, when it could be read from the lock file.
        owner: Option<u32>,
    },
    /// The lock file beside the database could not be made.
    #[error("the lock file {} cannot be opened; check that the folder exists and may be written", path.display())]
    Ownership {
        /// The lock file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// The URL names a database this build does not speak.
    #[error(
        "a database URL begins with sqlite: and names a file, for example sqlite:/var/lib/berth/placement.db; got scheme {scheme:?}"
    )]
    UnsupportedUrl {
        /// The scheme found. Never the whole URL: it may carry a password.
        scheme: String,
    },
    /// The URL has options or a fragment behind the file.
    #[error(
        "a database URL ends with the file: Berth takes no options behind a ?, and no file with ? or # in its name"
    )]
    OptionsInUrl,
    /// The URL names no file.
    #[error(
        "the database URL names no file; write sqlite: and the file, for example sqlite:/var/lib/berth/placement.db"
    )]
    NoFileInUrl,
    /// The file is not there, or has nothing in it, and it is not to be made.
    #[error(
        "there is no database at {}; give the one the service uses",
        path.display()
    )]
    Absent {
        /// The file.
        path: PathBuf,
    },
    /// What has the name is a folder, a device, a pipe, or a link to nothing.
    #[error(
        "{} is not a regular file; name a file that may become the database",
        path.display()
    )]
    NotAFile {
        /// What was named.
        path: PathBuf,
    },
    /// The file has more than one name. SQLite finds its log by the name: what is written under one is lost to the other.
    #[error(
        "the database {} has {names} names (hard links); remove all but one (find -samefile shows them)",
        path.display()
    )]
    OtherNames {
        /// The file, as it was named.
        path: PathBuf,
        /// How many hard links it has.
        names: u64,
    },
    /// The database file cannot be looked at, read or made.
    #[error("the database file {} cannot be read; check owner and mode of it and its folder", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// The folder of the database file is not there. It is not made: its name may be a slip of the pen.
    #[error(
        "the folder {} of the database is not there; make it, or correct the database URL",
        folder.display()
    )]
    NoFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// SQLite could not open it.
    #[error("{}: {}", .0, .0.mend())]
    Sql(#[from] SqlError),
}
