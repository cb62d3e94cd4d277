//! State on disk: SQL databases, journals in SQLite, and small state files.
//!
//! - [`sql`]: a database that this process owns (SQLite) or shares with others (PostgreSQL, MariaDB, MySQL). Work is done in whole
//!   transactions, which are repeated after a conflict.
//! - [`journal`]: the SQLite file of a journal; [`JournalHealth`] says whether its last uses failed.
//! - [`state_dir`]: small files of a node, such as its UUID. A kill at any time leaves the old content or the new one, never a mixture.
//!
//! Callers: the built-in services for [`sql`], the agent and the conductor for [`journal`], the agent for [`state_dir`].

pub mod journal;
mod journal_health;
pub mod sql;
pub mod state_dir;

pub use journal::{JournalFile, JournalFileError};
pub use journal_health::{JournalFault, JournalHealth};
pub use sql::{
    Dialect, Disposition, Isolation, Location, OpenError, OtherSession, OtherSessions,
    RecordedStatement, Retryable, Row, SCHEMA_WAIT, Schema, SchemaError, SchemaLock, Server,
    ServerAddress, ServerKind, SqlError, SqlOptions, SqlStore, SqlTimestamp, SqlTimestampError,
    Statement, Synchronous, Tls, TlsMode, Transaction, UrlError, Value, Work, WriteOutcome,
    in_words_of,
};
pub use state_dir::{StateDir, StateFileError, StateFiles};
