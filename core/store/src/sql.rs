//! A database as a service owns it: one writer, several readers, bounded retries.
//!
//! SQLite only for now. Everything a caller touches ([`Statement`], [`Row`], [`Transaction`],
//! [`Dialect`]) is ours and not the driver's, so another database is one more arm here and no
//! change in the services.
//!
//! Writing transactions start with `BEGIN IMMEDIATE`: a transaction that begins as a reader and
//! then writes fails at once in SQLite when another writer came first, without any waiting.

mod dialect;
mod error;
mod ownership;
mod statement;
mod transaction;

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::path::{Path, PathBuf, absolute};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
    SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection as _};

pub use berth_seam::Disposition;
pub use dialect::Dialect;
pub use error::{OpenError, Retryable, SqlError};
pub use statement::{Row, Statement, Value, placeholders};
pub use transaction::{Asked, Done, Transaction, Work};

use ownership::Ownership;

/// Rows the driver may hold ready between its own thread and ours; larger means fewer hops.
const ROW_BUFFER: usize = 1024;

/// Where the database lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A SQLite file, created when missing. Its folder must exist.
    SqliteFile(PathBuf),
    /// A SQLite database that lives and dies with this store. For tests and dry runs.
    SqliteMemory,
}

impl FromStr for Location {
    type Err = OpenError;

    /// Reads a database URL: `sqlite:PATH`, `sqlite:///ABSOLUTE/PATH` or `sqlite::memory:`. A relative path is one below the
    /// working directory, and absolute from here on. Nothing may follow the path: options would be lost.
    fn from_str(url: &str) -> Result<Self, OpenError> {
        let unsupported = || OpenError::UnsupportedUrl {
            scheme: url.split(':').next().unwrap_or_default().to_owned(),
        };
        let rest = url.strip_prefix("sqlite:").ok_or_else(unsupported)?;
        match rest.strip_prefix("//").unwrap_or(rest) {
            "" => Err(OpenError::NoFileInUrl),
            ":memory:" => Ok(Self::SqliteMemory),
            path if path.contains(['?', '#']) => Err(OpenError::OptionsInUrl),
            path => Ok(Self::SqliteFile(
                absolute(path).unwrap_or_else(|_| PathBuf::from(path)),
            )),
        }
    }
}

/// How far a commit reaches before it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// On the disk: survives a power cut. The default.
    #[default]
    Full,
    /// In the kernel: survives a kill of the process, not a power cut.
    Normal,
}

/// How a store is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlOptions {
    /// Reading connections beside the writer, 1 to 64. Ignored in memory, where one connection
    /// serves both.
    pub readers: u32,
    /// How long a statement waits for a foreign writer before it reports [`SqlError::Busy`].
    pub busy_timeout: Duration,
    /// What a commit means.
    pub synchronous: Synchronous,
    /// How often a whole writing transaction is tried before its error is given to the caller,
    /// at least 1.
    pub attempts: u32,
    /// Whether what is deleted or replaced is overwritten with zeros in the file, and not only let go of: for a database that
    /// holds secrets for a while.
    pub overwrite_deleted: bool,
}

impl Default for SqlOptions {
    fn default() -> Self {
        Self {
            readers: 4,
            busy_timeout: Duration::from_secs(5),
            synchronous: Synchronous::Full,
            attempts: 10,
            overwrite_deleted: false,
        }
    }
}

/// An open database. Cheap to clone; the last clone that goes releases the ownership.
#[derive(Debug, Clone)]
pub struct SqlStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    writer: SqlitePool,
    readers: SqlitePool,
    attempts: u32,
    path: Option<PathBuf>,
    companions: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    // Held for its Drop: the locks are released with the store.
    ownership: Option<Ownership>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Whoever did not close the store leaves connections behind that end by themselves, a little later.
        if !(self.writer.is_closed() && self.readers.is_closed())
            && let Some(ownership) = &mut self.ownership
        {
            ownership.leave_open();
        }
    }
}

/// What to do where the database is not there yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Absent {
    Make,
    Refuse,
}

impl SqlStore {
    /// Opens the database and takes ownership of it.
    ///
    /// # Errors
    /// [`OpenError::NoFolder`] when its folder is not there, [`OpenError::NotAFile`] when it is no regular file,
    /// [`OpenError::OtherNames`] when it has a second hard link, [`OpenError::Held`] when another process owns the file,
    /// [`OpenError::Ownership`] when the lock file cannot be made, [`OpenError::Unreadable`] when the file cannot be read,
    /// [`OpenError::Sql`] when SQLite cannot open it.
    pub async fn open(location: &Location, options: &SqlOptions) -> Result<Self, OpenError> {
        match location {
            Location::SqliteFile(path) => Self::open_file(path, options, Absent::Make).await,
            Location::SqliteMemory => Self::open_memory(options).await,
        }
    }

    /// As [`SqlStore::open`], but a file that is not there, or has nothing in it, is refused and not made: for whoever works
    /// on what a service has written. A database in memory is a fresh one here, too.
    ///
    /// # Errors
    /// As [`SqlStore::open`], and [`OpenError::Absent`].
    pub async fn open_existing(
        location: &Location,
        options: &SqlOptions,
    ) -> Result<Self, OpenError> {
        match location {
            Location::SqliteFile(path) => Self::open_file(path, options, Absent::Refuse).await,
            Location::SqliteMemory => Self::open_memory(options).await,
        }
    }

    /// Opens a database to read what another process, which may be running, has written; none where there is none. Nothing can
    /// be written by it, and nobody is kept from owning the database.
    ///
    /// # Errors
    /// [`OpenError::Sql`] when SQLite cannot open it.
    pub async fn look(path: &Path, options: &SqlOptions) -> Result<Option<Self>, OpenError> {
        if std::fs::metadata(path).map_or(0, |file| file.len()) == 0 {
            return Ok(None);
        }
        let connect = SqliteConnectOptions::new()
            .filename(path)
            .read_only(true)
            .busy_timeout(options.busy_timeout);
        let readers = pool(1, options)
            .connect_with(connect)
            .await
            .map_err(|error| SqlError::from(error).on_the_disk_of(path))?;
        let path = Some(path);
        Ok(Some(Self::assemble(
            readers.clone(),
            readers,
            options,
            path,
            None,
        )))
    }

    /// Opens a fresh database in memory with the default options.
    ///
    /// # Errors
    /// As [`SqlStore::open`].
    pub async fn in_memory() -> Result<Self, OpenError> {
        Self::open(&Location::SqliteMemory, &SqlOptions::default()).await
    }

    async fn open_file(
        path: &Path,
        options: &SqlOptions,
        absent: Absent,
    ) -> Result<Self, OpenError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.is_dir())
            && !folder.as_os_str().is_empty()
        {
            let folder = folder.to_owned();
            return Err(OpenError::NoFolder { folder });
        }
        let path = &ownership::own_name(path)?;
        if absent == Absent::Refuse && std::fs::metadata(path).map_or(0, |file| file.len()) == 0 {
            return Err(OpenError::Absent {
                path: path.to_owned(),
            });
        }
        let ownership = Ownership::take(path)?;
        let connect = connect_options(options)
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal);
        let writer = pool(1, options)
            .after_release(|connection, _| Box::pin(is_usable(connection)))
            .connect_with(connect.clone())
            .await
            .map_err(|error| SqlError::from(error).on_the_disk_of(path))?;
        let readers = pool(options.readers.clamp(1, 64), options)
            .min_connections(0)
            .connect_lazy_with(connect.create_if_missing(false));
        Ok(Self::assemble(
            writer,
            readers,
            options,
            Some(path),
            Some(ownership),
        ))
    }

    async fn open_memory(options: &SqlOptions) -> Result<Self, OpenError> {
        let connect = connect_options(options).in_memory(true);
        let writer = pool(1, options)
            .connect_with(connect)
            .await
            .map_err(SqlError::from)?;
        Ok(Self::assemble(writer.clone(), writer, options, None, None))
    }

    fn assemble(
        writer: SqlitePool,
        readers: SqlitePool,
        options: &SqlOptions,
        path: Option<&Path>,
        ownership: Option<Ownership>,
    ) -> Self {
        let inner = Inner {
            writer,
            readers,
            attempts: options.attempts.max(1),
            path: path.map(Path::to_owned),
            companions: Mutex::default(),
            ownership,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The SQL this database speaks.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    /// The file behind the store, when there is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.inner.path.as_deref()
    }

    /// What all users of this open database share beside it, one of each type, made when it is first asked for: what they
    /// remember of its rows must be one memory, or one would not see what another wrote. It lives as long as the store, so it
    /// must not hold a store itself.
    #[must_use]
    pub fn companion<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut companions = self
            .inner
            .companions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = companions.get(&TypeId::of::<T>())
            && let Ok(known) = Arc::clone(known).downcast()
        {
            return known;
        }
        let made = Arc::new(T::default());
        companions.insert(TypeId::of::<T>(), Arc::clone(&made) as _);
        made
    }

    /// Begins a reading transaction: all its statements see one state of the database.
    ///
    /// Do not call [`SqlStore::write`] while it is alive: in memory both share one connection.
    ///
    /// # Errors
    /// [`SqlError`] when no connection can be had or the transaction cannot begin.
    pub async fn read(&self) -> Result<Transaction, SqlError> {
        let tx = self.inner.readers.begin().await;
        Ok(Transaction::sqlite(tx.map_err(|error| self.failed(error))?))
    }

    /// All rows of the answer to one statement that reads. It sees one state of the database without a transaction around
    /// it, which would cost two more hops to the database's thread.
    ///
    /// # Errors
    /// [`SqlError`] when no connection can be had or the statement is refused.
    pub async fn rows(&self, statement: Statement) -> Result<Vec<Row>, SqlError> {
        let rows = transaction::query(statement)
            .fetch_all(&self.inner.readers)
            .await
            .map_err(|error| self.failed(error))?;
        Ok(rows.into_iter().map(Row::sqlite).collect())
    }

    /// As [`Transaction::rows_in`], without a transaction around its one statement.
    ///
    /// # Errors
    /// [`SqlError`] when no connection can be had or the statement is refused.
    pub async fn rows_in<V: Into<Value> + Clone>(
        &self,
        head: &Statement,
        keys: &[V],
        tail: &str,
    ) -> Result<Vec<Row>, SqlError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        self.rows(head.with_list(self.dialect(), keys, tail)).await
    }

    /// Runs `work` in one writing transaction and commits it; runs the whole of it again, a
    /// bounded number of times, when it failed in a way that may pass (any but
    /// [`Disposition::Fatal`]). A failed run leaves no row behind.
    ///
    /// # Errors
    /// The error of the last run.
    pub async fn write<W: Work>(&self, work: &W) -> Result<W::Output, W::Error> {
        let mut attempt = 1;
        loop {
            match self.write_once(work).await {
                Err(error)
                    if error.disposition() != Disposition::Fatal
                        && attempt < self.inner.attempts =>
                {
                    tracing::debug!(attempt, %error, "transaction runs again");
                    tokio::time::sleep(pause(attempt)).await;
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    async fn write_once<W: Work>(&self, work: &W) -> Result<W::Output, W::Error> {
        let begun = self.inner.writer.begin_with("BEGIN IMMEDIATE").await;
        let mut tx = Transaction::sqlite(begun.map_err(|error| self.failed(error))?);
        match work.run(&mut tx).await {
            Ok(output) => {
                tx.commit().await?;
                Ok(output)
            }
            Err(error) => {
                // The error of the work is what the caller must see; a rollback that fails too
                // ends with the connection, which SQLite rolls back by itself.
                tx.rollback().await.ok();
                Err(error)
            }
        }
    }

    /// Writes all of SQLite's log into the database's file and cuts the log to nothing: until then what was deleted, and under
    /// [`SqlOptions::overwrite_deleted`] is nowhere in the file, still stands in the log. Whether that was done: somebody may be
    /// reading for longer than the busy timeout.
    ///
    /// # Errors
    /// [`SqlError`] when the disk does not take it.
    pub async fn empty_log(&self) -> Result<bool, SqlError> {
        let row = transaction::query(Statement::new("PRAGMA wal_checkpoint(TRUNCATE)"))
            .fetch_one(&self.inner.writer)
            .await
            .map_err(|error| self.failed(error))?;
        Ok(Row::sqlite(row).int(0)? == 0)
    }

    fn failed(&self, error: sqlx::Error) -> SqlError {
        let error = SqlError::from(error);
        match &self.inner.path {
            Some(path) => error.on_the_disk_of(path),
            None => error,
        }
    }

    /// Closes all connections and waits for them. Statements under way end first.
    pub async fn close(&self) {
        self.inner.readers.close().await;
        self.inner.writer.close().await;
    }
}

fn connect_options(options: &SqlOptions) -> SqliteConnectOptions {
    let synchronous = match options.synchronous {
        Synchronous::Full => SqliteSynchronous::Full,
        Synchronous::Normal => SqliteSynchronous::Normal,
    };
    SqliteConnectOptions::new()
        .synchronous(synchronous)
        .busy_timeout(options.busy_timeout)
        .foreign_keys(true)
        // A statement that changes many rows keeps what it may have to undo. In a file that would cost as much as the change.
        .pragma("temp_store", "memory")
        .pragma(
            "secure_delete",
            if options.overwrite_deleted {
                "on"
            } else {
                "off"
            },
        )
        .row_buffer_size(ROW_BUFFER)
        .disable_statement_logging()
}

/// Connections never expire: one that did would cost its prepared statements, and in memory the
/// whole database.
fn pool(size: u32, options: &SqlOptions) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .min_connections(size)
        .max_connections(size)
        .max_lifetime(None)
        .idle_timeout(None)
        .test_before_acquire(false)
        .acquire_timeout(options.busy_timeout.max(Duration::from_secs(30)))
}

/// SQLite ends a transaction by itself where the disk is full or fails; the driver's own rollback then finds none, and from
/// then on it takes the connection to be inside one. Such a connection is closed, and the pool opens another.
async fn is_usable(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    if connection.is_in_transaction() {
        // A rollback may still be on its way to the driver's thread.
        connection.ping().await?;
    }
    Ok(!connection.is_in_transaction())
}

/// 2 ms, 4 ms, ... at most 256 ms. No jitter: within one process the writer pool already queues.
fn pause(attempt: u32) -> Duration {
    Duration::from_millis(1 << attempt.min(8))
}
