//! The errors of databases, classified by what an operator or a loop does about them.

mod codes;
mod open;

use std::io::{ErrorKind as IoKind, Write as _};
use std::path::Path;

use berth_model::Disposition;
use sqlx::error::ErrorKind;

pub(super) use codes::{TransactionPhase, of_server};
pub use open::OpenError;

/// An error that says whether repeating the whole transaction may help.
pub trait Retryable {
    /// How to continue: [`Disposition::Retry`] and [`Disposition::Refresh`] both repeat the whole transaction, which
    /// reads its input again.
    fn disposition(&self) -> Disposition;
}

/// Why a statement or a transaction failed.
///
/// The sources are messages of the driver and the database; they contain no password.
#[derive(Debug, thiserror::Error)]
pub enum SqlError {
    /// Another writer held the database for longer than the busy timeout, or no connection became free.
    #[error("the database is busy with another writer")]
    Busy(#[source] sqlx::Error),
    /// A conflict with another transaction on a server: a deadlock, a serialization failure, a lock timeout. The server rolls this one back.
    #[error("the transaction conflicted with another one")]
    Conflict(#[source] sqlx::Error),
    /// The connection was lost before COMMIT was sent: the transaction was rolled back.
    #[error("the connection to the database was lost before the transaction was committed")]
    Lost(#[source] sqlx::Error),
    /// The connection was lost, or the answer timed out, after COMMIT was sent. It is unknown whether the transaction
    /// was committed. A store never repeats it.
    #[error(
        "the connection to the database was lost while the transaction was committed: it may have been or not"
    )]
    OutcomeUnknown(#[source] sqlx::Error),
    /// An earlier statement of the transaction failed and its error was ignored; the server executes nothing
    /// more in the transaction.
    #[error("the transaction had already failed at an earlier statement")]
    Ended {
        /// That of the earlier error.
        disposition: Disposition,
    },
    /// The server cannot be reached, or is only starting.
    #[error("the database server cannot be reached")]
    Unreachable(#[source] sqlx::Error),
    /// The server has no connection left for us.
    #[error("the database server takes no more connections")]
    TooManyConnections(#[source] sqlx::Error),
    /// User or password are wrong, or the user may not do this.
    #[error("the database server denies access")]
    Denied(#[source] sqlx::Error),
    /// The server has no database of this name.
    #[error("the server has no database of this name")]
    UnknownDatabase(#[source] sqlx::Error),
    /// The server or the session is read-only.
    #[error("the database is read-only")]
    ReadOnly(#[source] sqlx::Error),
    /// The TLS handshake failed.
    #[error("the TLS connection to the database server failed")]
    Tls(#[source] sqlx::Error),
    /// A statement exceeded the statement timeout.
    #[error("a statement took longer than the statement timeout")]
    TookTooLong(#[source] sqlx::Error),
    /// Another process is changing the schema, and did not end in time.
    #[error("another process is changing the schema of this database")]
    SchemaHeld,
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
    /// A unique key exists already: another writer came first, or the caller did not check.
    #[error("a unique key is already taken")]
    Duplicate(#[source] sqlx::Error),
    /// Another constraint of the schema was violated.
    #[error("a constraint of the schema was violated")]
    Constraint(#[source] sqlx::Error),
    /// A text contains a NUL, which PostgreSQL cannot store.
    #[error("a text contains a NUL character, which this database cannot store")]
    Nul(#[source] sqlx::Error),
    /// A text has a character that takes more bytes than its column has for one: `utf8mb3` of MariaDB and MySQL has three.
    #[error("a text contains a character beyond U+FFFF, which this database cannot store")]
    Character(#[source] sqlx::Error),
    /// The store was closed.
    #[error("the database was closed")]
    Closed,
    /// A column has a value that the schema does not allow.
    #[error("column {column} does not hold {expected}")]
    Column {
        /// Position in the row, from 0.
        column: usize,
        /// The expected type, as text.
        expected: &'static str,
        #[source]
        source: sqlx::Error,
    },
    /// A counter of the database is at its end: no release counts so far, so the file was written by another hand.
    #[error("the {counter} of a row is {value} and cannot be incremented")]
    CounterFull {
        /// What the counter counts, as text.
        counter: &'static str,
        value: i64,
    },
    /// The statement itself was refused: a bug, or a schema that is not ours.
    #[error("the database refused a statement")]
    Refused(#[source] sqlx::Error),
}

impl SqlError {
    /// The remedy for an operator, in one sentence.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Busy(_) => "stop the other process that writes to this database",
            Self::Conflict(_) => {
                "retry; if it persists, use fewer concurrent clients or fewer services on this database"
            }
            Self::Lost(_) => "retry; if it persists, see the log of the database server",
            Self::OutcomeUnknown(_) => {
                "check whether the change was made before you repeat it, and see the log of the database server"
            }
            Self::Ended { .. } => "retry; if it persists, this is a defect of Berth",
            Self::Unreachable(_) => {
                "check that the database server runs, and host, port or socket in the database URL"
            }
            Self::TooManyConnections(_) => {
                "raise max_connections of the database server, or configure fewer connections for the services"
            }
            Self::Denied(_) => {
                "check user and password in the database URL and the user's privileges on the server"
            }
            Self::UnknownDatabase(_) => {
                "check the name in the database URL, or create the database on the server"
            }
            Self::ReadOnly(_) => {
                "name the primary server in the database URL, not a replica, and check that it is not set to read-only"
            }
            Self::Tls(_) => {
                "check the TLS options in the database URL against the certificate of the server"
            }
            Self::TookTooLong(_) => "check the load of the database server; request less at once",
            Self::SchemaHeld => "wait until the other process has ended, then start this one again",
            Self::DiskFull(_) => "free space on the disk that holds the database",
            Self::Corrupt(_) | Self::CounterFull { .. } => {
                "restore the database from a backup; do not edit the file"
            }
            Self::NotWritable(_) => "check owner and mode of the database file and its folder",
            Self::Io(_) => "check the disk and its kernel messages",
            Self::Nul(_) | Self::Character(_) => "retry without that character",
            Self::Closed => "the service is stopping; start it again",
            Self::Duplicate(_) | Self::Constraint(_) | Self::Column { .. } | Self::Refused(_) => {
                "check that the schema is at the version this release expects"
            }
        }
    }

    /// Whether the database is unavailable for now, independent of the request: a service answers 503.
    #[must_use]
    pub fn will_pass(&self) -> bool {
        match self {
            Self::Busy(_)
            | Self::Conflict(_)
            | Self::Lost(_)
            | Self::Unreachable(_)
            | Self::TooManyConnections(_)
            | Self::ReadOnly(_)
            | Self::TookTooLong(_)
            | Self::SchemaHeld
            | Self::Closed => true,
            Self::Ended { disposition } => *disposition != Disposition::Fatal,
            _ => false,
        }
    }

    /// Reclassifies an input/output error as a full disk, if the disk of the database is full. SQLite reports a full
    /// disk as such for its files, but not for the memory that its processes share (4874, `SQLITE_IOERR_SHMSIZE`).
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
            Self::Busy(_)
            | Self::Conflict(_)
            | Self::Lost(_)
            | Self::Unreachable(_)
            | Self::TooManyConnections(_) => Disposition::Retry,
            Self::Ended { disposition } => *disposition,
            _ => Disposition::Fatal,
        }
    }
}

impl SqlError {
    /// How to continue after a failed write. A duplicate key is retried, too: the next attempt sees the other writer's row.
    #[must_use]
    pub fn write_disposition(&self) -> Disposition {
        match self {
            Self::Duplicate(_) => Disposition::Retry,
            other => other.disposition(),
        }
    }
}

impl From<sqlx::Error> for SqlError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::PoolTimedOut => Self::Busy(error),
            sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => Self::Closed,
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
