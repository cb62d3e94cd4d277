//! State on disk: SQL databases, and small state files.
//!
//! - [`sql`]: a database that this process owns (SQLite) or shares with others (PostgreSQL, MariaDB, MySQL). Work is done in whole
//!   transactions, which are repeated after a conflict.
//! - [`state_dir`]: small files of a node, such as its UUID. A kill at any time leaves the old content or the new one, never a mixture.
//!
//! Callers: the built-in services and the journals (`core/workflow`) for [`sql`], the agent for [`state_dir`].

pub mod sql;
pub mod state_dir;

pub use sql::{
    Dialect, Disposition, Isolation, Location, OpenError, OtherSession, OtherSessions,
    RecordedStatement, Retryable, Row, SCHEMA_WAIT, Schema, SchemaError, SchemaLock, Server,
    ServerAddress, ServerKind, SqlError, SqlOptions, SqlStore, SqlTimestamp, SqlTimestampError,
    Statement, Synchronous, Tls, TlsMode, Transaction, UrlError, Value, Work, WriteOutcome,
    in_words_of,
};
pub use state_dir::{StateDir, StateFileError, StateFiles};
