//! State on disk: the SQL store with its locks and transactions, and the agent's state files.
//!
//! Two rooms. [`sql`] opens a database the way a service may own it (SQLite: one writer, several
//! readers) or share it (PostgreSQL, MariaDB, MySQL): whole transactions that are run again when another writer was in the way.
//! [`state_dir`] keeps the few small files of a node (its uuid, whether it is disabled) so that a
//! kill at any moment leaves the old content or the new, never a mixture.
//!
//! [`journal`] is what journals in the first room have in common, and [`Usable`] whether they can be used.
//!
//! Callers: `services/placement` and the other built-in services for [`sql`], `agent` for
//! [`state_dir`].

pub mod journal;
pub mod sql;
pub mod state_dir;
mod usable;

pub use journal::{JournalFile, JournalFileError};
pub use sql::{
    Asked, Dialect, Disposition, Done, Host, Isolation, Location, Moment, NoMoment, OpenError,
    OtherSession, OtherSessions, Retryable, Row, SCHEMA_WAIT, Schema, SchemaError, SchemaLock,
    Server, ServerKind, SqlError, SqlOptions, SqlStore, Statement, Synchronous, Tls, TlsMode,
    Transaction, UrlError, Value, Work, in_words_of,
};
pub use state_dir::{StateDir, StateFileError, StateFiles};
pub use usable::{JournalFault, Usable};
