//! The options of a store.

use std::time::Duration;

use berth_options::choices;

/// How far a commit reaches before it is acknowledged.
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
    /// Reading connections beside the writer, 1 to 64. SQLite alone; ignored in memory, where one connection
    /// serves both.
    pub readers: u32,
    /// How long a statement waits for a foreign writer before it reports [`super::SqlError::Busy`]; on a server, for the lock of a row
    /// before it reports [`super::SqlError::Conflict`] (whole seconds there on MariaDB and MySQL, at least one).
    pub busy_timeout: Duration,
    /// What a commit means. SQLite alone: a server has its own setting.
    pub synchronous: Synchronous,
    /// How often a whole writing transaction is tried before its error is given to the caller,
    /// at least 1. On a server writers do not queue: where many meet at one row, ten are too few for one in a hundred.
    pub attempts: u32,
    /// Whether what is deleted or replaced is overwritten with zeros in the file, and not only let go of: for a database that
    /// holds secrets for a while. SQLite alone.
    pub overwrite_deleted: bool,
    /// Connections to a server, 2 to 1000; they are made when they are needed. All processes on a server together must stay
    /// below its `max_connections` (PostgreSQL: 100 where nobody said more).
    pub connections: u32,
    /// What the transactions of [`super::SqlStore::write`] see of others, on a server.
    pub isolation: Isolation,
    /// How long a new connection to a server may take.
    pub connect_timeout: Duration,
    /// How long somebody waits for one of the connections to a server.
    pub acquire_timeout: Duration,
    /// How long one statement may take on a server before it ends with [`super::SqlError::TookTooLong`].
    pub statement_timeout: Duration,
    /// Whether this is work that no service may be beside, while others of its kind may (another host's upgrade): its sessions on a
    /// server are seen to be that ([`super::OtherSession::is_offline_work`]).
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
