//! The options of a store.

use std::time::Duration;

use berth_options::choices;

/// What a commit guarantees when it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// On the disk: survives a power cut. The default.
    #[default]
    Full,
    /// In the kernel: survives a kill of the process, not a power cut.
    Normal,
}

choices! {
    /// What the statements of one writing transaction see of others, on a server. SQLite has one writer at a time.
    ///
    /// Whoever writes must be right at both: compare and swap (`UPDATE ... WHERE id = ? AND generation = ?`, one row affected), or
    /// lock what is decided on ([`super::Dialect::for_update`]).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum Isolation {
        /// All plain SELECTs see one state of the database, as on SQLite. PostgreSQL refuses to change a row that another has
        /// changed since (the whole is run again); MariaDB and MySQL change the newest state of it, and a compare and swap fails.
        /// The default: whoever reads much to decide reads one state.
        #[default]
        RepeatableRead = "repeatable-read",
        /// Each statement sees what was committed before it began.
        ReadCommitted = "read-committed",
    }
}

impl Isolation {
    pub(super) fn sql(self) -> &'static str {
        match self {
            Self::RepeatableRead => "REPEATABLE READ",
            Self::ReadCommitted => "READ COMMITTED",
        }
    }
}

/// The options of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlOptions {
    /// The number of SQLite's reading connections, in addition to the writer, 1 to 64. Ignored in memory, where
    /// one connection does both.
    pub readers: u32,
    /// How long a statement waits for a writer of another process before [`super::SqlError::Busy`]. On a server:
    /// how long it waits for the lock of a row before [`super::SqlError::Conflict`] (in whole seconds, at least
    /// one, on MariaDB and MySQL).
    pub busy_timeout: Duration,
    /// What a commit guarantees. For SQLite only; a server has its own setting.
    pub synchronous: Synchronous,
    /// The maximum number of runs of a writing transaction, at least 1. Writers on a server do not queue: with many
    /// writers of one row, ten runs are not enough in one of a hundred cases.
    pub attempts: u32,
    /// Whether deleted data is overwritten with zeros in the file. For a database that contains secrets for a
    /// while. For SQLite only.
    pub overwrite_deleted: bool,
    /// Connections to a server, 2 to 1000, opened on demand. The sum over all processes must stay below the server's
    /// `max_connections` (100 by default on PostgreSQL).
    pub connections: u32,
    /// The isolation level of [`super::SqlStore::write`] on a server.
    pub isolation: Isolation,
    /// The timeout for opening a connection to a server.
    pub connect_timeout: Duration,
    /// The maximum time to wait for a free connection to a server.
    pub acquire_timeout: Duration,
    /// The timeout of one statement on a server; it then ends with [`super::SqlError::TookTooLong`].
    pub statement_timeout: Duration,
    /// Whether this is offline work: no service may run at the same time, but other offline work may, such as the
    /// upgrade of another host. Its sessions on a server are marked as such ([`super::OtherSession::is_offline_work`]).
    pub is_offline_work: bool,
}

impl Default for SqlOptions {
    fn default() -> Self {
        Self {
            readers: 4,
            busy_timeout: Duration::from_secs(5),
            synchronous: Synchronous::Full,
            attempts: 10,
            overwrite_deleted: false,
            connections: 8,
            isolation: Isolation::default(),
            connect_timeout: Duration::from_secs(5),
            acquire_timeout: Duration::from_secs(10),
            statement_timeout: Duration::from_secs(60),
            is_offline_work: false,
        }
    }
}
