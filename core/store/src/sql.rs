//! SQL databases: connection pools, whole transactions, bounded retries.
//!
//! SQLite has one writer and several readers, and this process owns the file. PostgreSQL, MariaDB and MySQL are shared with other
//! processes. [`Statement`], [`Row`], [`Transaction`] and [`Dialect`] are independent of the driver, so a service is written once for
//! all databases.
//!
//! On SQLite, writing transactions start with `BEGIN IMMEDIATE`: a transaction that begins as a reader and then writes fails at once if
//! another writer came first, without waiting. On a server they start at the [`Isolation`] of the options. A conflict is detected by
//! compare and swap, by locks, or by the server; then the whole transaction is repeated.

mod dialect;
mod error;
mod location;
mod numbered;
mod options;
mod ownership;
mod query;
mod row;
mod schema;
mod server;
mod sqlite;
mod statement;
mod timestamp;
mod transaction;
mod turn;

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::sqlite::SqlitePool;

pub use berth_model::Disposition;
pub use dialect::Dialect;
pub use error::{OpenError, Retryable, SqlError};
pub use location::{Location, Server, ServerAddress, ServerKind, Tls, TlsMode, UrlError};
pub use options::{Isolation, SqlOptions, Synchronous};
pub use row::Row;
pub use schema::{SCHEMA_WAIT, Schema, SchemaError, in_words_of};
pub use server::{OtherSession, OtherSessions, SchemaLock};
pub use statement::{Statement, Value, placeholders};
pub use timestamp::{SqlTimestamp, SqlTimestampError};
pub use transaction::{RecordedStatement, Transaction, Work, WriteOutcome};

use ownership::Ownership;
use server::{PoolAccess, ServerPool};
use sqlite::{IfMissing, OpenedPools};

/// An open database. Cheap to clone; [`SqlStore::close`], or dropping the last clone, releases the ownership.
#[derive(Debug, Clone)]
pub struct SqlStore {
    inner: Arc<StoreInner>,
}

#[derive(Debug)]
struct StoreInner {
    pools: Pools,
    attempts: u32,
    /// How long a writer waits for other writers of this process.
    patience: Duration,
    turn: tokio::sync::Mutex<()>,
    extensions: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

#[derive(Debug)]
enum Pools {
    Sqlite(Files),
    Server(ServerPool),
}

#[derive(Debug)]
struct Files {
    writer: SqlitePool,
    readers: SqlitePool,
    path: Option<PathBuf>,
    // Held for its Drop. `None` for a database that is not owned, and after `close`.
    ownership: Mutex<Option<Ownership>>,
    /// How often a truncation of the log was requested.
    truncations_requested: AtomicU64,
    /// The number of requests that are fulfilled. Its lock is held during a truncation.
    truncations_done: tokio::sync::Mutex<u64>,
}

impl Files {
    fn lock_ownership(&self) -> MutexGuard<'_, Option<Ownership>> {
        self.ownership
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn ownership_mut(&mut self) -> Option<&mut Ownership> {
        let ownership = self.ownership.get_mut();
        ownership.unwrap_or_else(PoisonError::into_inner).as_mut()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // Without a close, connections end by themselves a little later.
        if !(self.writer.is_closed() && self.readers.is_closed())
            && let Some(ownership) = self.ownership_mut()
        {
            ownership.keep_open_until_exit();
        }
    }
}

impl SqlStore {
    /// Opens the database. A SQLite file is taken into ownership. For a server, one connection is opened as a check.
    ///
    /// Errors for a file: [`OpenError::NoFolder`] (its folder is missing), [`OpenError::NotAFile`]
    /// (not a regular file), [`OpenError::OtherNames`] (it has a second hard link),
    /// [`OpenError::Held`] (another process owns it), [`OpenError::Ownership`] (the lock file cannot
    /// be created), [`OpenError::Unreadable`], [`OpenError::Sql`] (SQLite cannot open it). Errors for
    /// a server: [`OpenError::TlsFile`], [`OpenError::OldServer`], [`OpenError::Server`].
    pub async fn open(location: &Location, options: &SqlOptions) -> Result<Self, OpenError> {
        Ok(match location {
            Location::SqliteFile(path) => Self::files(
                sqlite::open_file(path, options, IfMissing::Make).await?,
                options,
            ),
            Location::SqliteMemory => Self::files(sqlite::open_memory(options).await?, options),
            Location::Server(server) => {
                let pool = ServerPool::open(server, options, PoolAccess::Write).await?;
                Self::over(Pools::Server(pool), options)
            }
        })
    }

    /// Like [`SqlStore::open`], but refuses a missing or empty file, and a server's database without tables. For tools
    /// that work on the database of a service. A database in memory is always new and is accepted.
    pub async fn open_existing(
        location: &Location,
        options: &SqlOptions,
    ) -> Result<Self, OpenError> {
        Ok(match location {
            Location::SqliteFile(path) => Self::files(
                sqlite::open_file(path, options, IfMissing::Refuse).await?,
                options,
            ),
            Location::SqliteMemory => Self::files(sqlite::open_memory(options).await?, options),
            Location::Server(server) => {
                let pool = ServerPool::open(server, options, PoolAccess::Write).await?;
                if !pool.has_tables().await? {
                    return Err(OpenError::NoTables {
                        server: pool.named.clone(),
                    });
                }
                Self::over(Pools::Server(pool), options)
            }
        })
    }

    /// Opens a database read-only, also while another process owns and writes it; `None` if it does not exist.
    /// Does not take ownership.
    pub async fn open_read_only(
        path: &Path,
        options: &SqlOptions,
    ) -> Result<Option<Self>, OpenError> {
        let opened = sqlite::open_file_read_only(path, options).await?;
        Ok(opened.map(|opened| Self::files(opened, options)))
    }

    /// Like [`SqlStore::open_read_only`], for any location. A server refuses changes in the sessions of this store, and
    /// a server's database without tables counts as missing. A database in memory never exists.
    pub async fn open_read_only_at(
        location: &Location,
        options: &SqlOptions,
    ) -> Result<Option<Self>, OpenError> {
        match location {
            Location::SqliteFile(path) => Self::open_read_only(path, options).await,
            Location::SqliteMemory => Ok(None),
            Location::Server(server) => {
                let pool = ServerPool::open(server, options, PoolAccess::Read).await?;
                let is_there = pool.has_tables().await?;
                Ok(is_there.then(|| Self::over(Pools::Server(pool), options)))
            }
        }
    }

    /// Opens a fresh database in memory with the default options.
    pub async fn in_memory() -> Result<Self, OpenError> {
        Self::open(&Location::SqliteMemory, &SqlOptions::default()).await
    }

    fn files(opened: OpenedPools, options: &SqlOptions) -> Self {
        let files = Files {
            writer: opened.writer,
            readers: opened.readers,
            path: opened.path,
            ownership: Mutex::new(opened.ownership),
            truncations_requested: AtomicU64::new(0),
            truncations_done: tokio::sync::Mutex::new(0),
        };
        Self::over(Pools::Sqlite(files), options)
    }

    fn over(pools: Pools, options: &SqlOptions) -> Self {
        let inner = StoreInner {
            pools,
            attempts: options.attempts.max(1),
            patience: options.acquire_timeout,
            turn: tokio::sync::Mutex::default(),
            extensions: Mutex::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The SQL this database speaks.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        match &self.inner.pools {
            Pools::Sqlite(_) => Dialect::Sqlite,
            Pools::Server(pool) => pool.dialect(),
        }
    }

    /// The path of the database file; `None` in memory and on a server.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.inner.pools {
            Pools::Sqlite(files) => files.path.as_deref(),
            Pools::Server(_) => None,
        }
    }

    /// Whether other processes may write to the database, too. Caches of this process may then be outdated.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        matches!(self.inner.pools, Pools::Server(_))
    }

    /// A value that all clones of this store share, one of each type, created at the first call. Caches of rows belong here, because a
    /// second cache would miss the writes of the first one's users. It lives as long as the store, so it must not contain a store.
    #[must_use]
    pub fn extension<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut extensions = self
            .inner
            .extensions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = extensions.get(&TypeId::of::<T>())
            && let Ok(known) = Arc::clone(known).downcast()
        {
            return known;
        }
        let made = Arc::new(T::default());
        extensions.insert(TypeId::of::<T>(), Arc::clone(&made) as _);
        made
    }

    /// Begins a reading transaction: all its statements see one snapshot of the database.
    ///
    /// Do not call [`SqlStore::write`] while it is open: in memory both share one connection.
    pub async fn read(&self) -> Result<Transaction, SqlError> {
        match &self.inner.pools {
            Pools::Sqlite(files) => {
                let tx = files.readers.begin().await;
                Ok(Transaction::sqlite(
                    tx.map_err(|error| files.failed(error))?,
                ))
            }
            Pools::Server(pool) => {
                let session = pool.begin_read().await?;
                Ok(Transaction::server(pool.dialect(), session))
            }
        }
    }

    /// All rows of one reading statement. Without a transaction, it needs two messages less to the
    /// thread of the database.
    pub async fn rows(&self, statement: Statement) -> Result<Vec<Row>, SqlError> {
        match &self.inner.pools {
            Pools::Sqlite(files) => {
                let rows = query::sqlite(statement)
                    .fetch_all(&files.readers)
                    .await
                    .map_err(|error| files.failed(error))?;
                Ok(rows.into_iter().map(Row::from).collect())
            }
            Pools::Server(pool) => pool.rows(statement).await,
        }
    }

    /// As [`Transaction::rows_in`], without a transaction around its one statement.
    pub async fn rows_in<V: Into<Value> + Clone + Sync>(
        &self,
        head: &Statement,
        keys: &[V],
        tail: &str,
    ) -> Result<Vec<Row>, SqlError> {
        if keys.len() > self.dialect().max_keys() {
            return self.read().await?.rows_in(head, keys, tail).await;
        }
        match head.with_list(self.dialect(), keys, tail).next() {
            Some(statement) => self.rows(statement).await,
            None => Ok(Vec::new()),
        }
    }

    /// Runs `work` in one writing transaction and commits it. Retries the whole work a bounded number of times after an
    /// error that may be transient (any but [`Disposition::Fatal`]). A failed run leaves no changes.
    ///
    /// Errors: The error of the last run. [`SqlError::OutcomeUnknown`] if a server disconnected during the commit: the
    /// work may have been done.
    pub async fn write<W: Work>(&self, work: &W) -> Result<W::Output, W::Error> {
        let mut attempt = 1;
        loop {
            let outcome = match self.begin_write().await {
                Ok(tx) => Self::run(work, tx).await,
                // Not retried: the caller has already waited for a connection as long as the options permit.
                Err(error @ (SqlError::Busy(_) | SqlError::Unreachable(_))) if self.is_shared() => {
                    return Err(error.into());
                }
                Err(error) => Err(error.into()),
            };
            match outcome {
                Err(error)
                    if error.disposition() != Disposition::Fatal
                        && attempt < self.inner.attempts.min(work.attempts()) =>
                {
                    tracing::debug!(attempt, %error, "retrying the transaction");
                    tokio::time::sleep(self.pause(attempt)).await;
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// Runs one writing statement. On SQLite no transaction surrounds it, which needs three messages less to the
    /// driver's thread. Retries and errors are those of [`SqlStore::write`].
    pub async fn execute(&self, statement: Statement) -> Result<WriteOutcome, SqlError> {
        let Pools::Sqlite(files) = &self.inner.pools else {
            return self.write(&OneStatement(statement)).await;
        };
        let mut attempt = 1;
        loop {
            let done = query::sqlite(statement.clone()).execute(&files.writer);
            match done.await.map_err(|error| files.failed(error)) {
                Err(error)
                    if error.disposition() != Disposition::Fatal
                        && attempt < self.inner.attempts =>
                {
                    tracing::debug!(attempt, %error, "retrying the statement");
                    tokio::time::sleep(self.pause(attempt)).await;
                    attempt += 1;
                }
                done => return done.map(WriteOutcome::from),
            }
        }
    }

    async fn run<W: Work>(work: &W, mut tx: Transaction) -> Result<W::Output, W::Error> {
        match work.run(&mut tx).await {
            Ok(output) => {
                tx.commit().await?;
                Ok(output)
            }
            Err(error) => {
                // The caller must see the error of the work. If the rollback fails too, the connection ends, and the
                // database rolls back by itself.
                tx.rollback().await;
                Err(error)
            }
        }
    }

    async fn begin_write(&self) -> Result<Transaction, SqlError> {
        match &self.inner.pools {
            Pools::Sqlite(files) => {
                let begun = files.writer.begin_with("BEGIN IMMEDIATE").await;
                Ok(Transaction::sqlite(
                    begun.map_err(|error| files.failed(error))?,
                ))
            }
            Pools::Server(pool) => {
                let session = pool.begin_write().await?;
                Ok(Transaction::server(pool.dialect(), session))
            }
        }
    }

    /// Locks the schema: waits for other holders of this lock, in all processes. On SQLite the owner of the
    /// file is always alone.
    ///
    /// Errors: [`SqlError::SchemaHeld`] if another process holds it for all of `wait`; another error if the
    /// server does not answer.
    pub async fn schema_lock(&self, wait: Duration) -> Result<SchemaLock, SqlError> {
        match &self.inner.pools {
            Pools::Sqlite(_) => Ok(SchemaLock::of_the_owner()),
            Pools::Server(pool) => pool.schema_lock(wait).await,
        }
    }

    /// The other sessions on the database, from the server's list. It is for work that must not run while a service runs. On SQLite there
    /// are none, because this process owns the file.
    pub async fn other_sessions(&self) -> Result<OtherSessions, SqlError> {
        match &self.inner.pools {
            Pools::Sqlite(_) => Ok(OtherSessions {
                seen: Vec::new(),
                complete: true,
            }),
            Pools::Server(pool) => pool.other_sessions().await,
        }
    }

    /// Writes SQLite's log into the database file and truncates the log. Until then the log can still contain data that
    /// was deleted from the file under [`SqlOptions::overwrite_deleted`]. Returns whether that was possible: a reader
    /// may hold the log for longer than the busy timeout. Servers maintain their logs themselves.
    pub async fn empty_log(&self) -> Result<bool, SqlError> {
        let Pools::Sqlite(files) = &self.inner.pools else {
            return Ok(false);
        };
        // Concurrent callers share a truncation that begins after all of their calls.
        let request = files.truncations_requested.fetch_add(1, Ordering::AcqRel) + 1;
        let mut done = files.truncations_done.lock().await;
        if *done >= request {
            return Ok(true);
        }
        let requested = files.truncations_requested.load(Ordering::Acquire);
        let row = query::sqlite(Statement::new("PRAGMA wal_checkpoint(TRUNCATE)"))
            .fetch_one(&files.writer)
            .await
            .map_err(|error| files.failed(error))?;
        let is_empty = Row::from(row).int(0)? == 0;
        if is_empty {
            *done = requested;
        }
        Ok(is_empty)
    }

    /// Closes all connections, waits for them, and releases the ownership of a SQLite file. Statements under way end first;
    /// on a server they are given ten seconds.
    pub async fn close(&self) {
        match &self.inner.pools {
            Pools::Sqlite(files) => {
                files.readers.close().await;
                files.writer.close().await;
                // Another clone may live longer, for example in a task that has answered and has not ended.
                files.lock_ownership().take();
            }
            Pools::Server(pool) => pool.close().await,
        }
    }

    /// The pause before a retry: 2 ms, 4 ms, ... at most 256 ms. On SQLite without jitter, because the writer pool
    /// queues the writers of the process. On a server with jitter up to the same amount, so that conflicting writers
    /// do not meet again.
    fn pause(&self, attempt: u32) -> Duration {
        let pause = Duration::from_millis(1 << attempt.min(8));
        match self.inner.pools {
            Pools::Sqlite(_) => pause,
            Pools::Server(_) => pause.mul_f64((random() % 1_024) as f64 / 512.0),
        }
    }
}

impl Files {
    fn failed(&self, error: sqlx::Error) -> SqlError {
        let error = SqlError::from(error);
        match &self.path {
            Some(path) => error.on_the_disk_of(path),
            None => error,
        }
    }
}

struct OneStatement(Statement);

impl Work for OneStatement {
    type Output = WriteOutcome;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<WriteOutcome, SqlError> {
        tx.execute(self.0.clone()).await
    }
}

/// A random number, as good as the hash keys of the standard library.
fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}
