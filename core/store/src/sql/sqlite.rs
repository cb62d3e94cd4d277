//! The pools over a SQLite file: one writer, several readers.

use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
    SqliteSynchronous,
};
use sqlx::{ConnectOptions as _, Connection as _};

use super::ownership::{self, Ownership};
use super::{OpenError, SqlError, SqlOptions, Synchronous};

/// The maximum number of rows that the driver's thread buffers; a larger buffer means fewer thread switches.
const ROW_BUFFER: usize = 1024;

/// Whether to create the database if it does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IfMissing {
    Make,
    Refuse,
}

/// The pools, and the ownership of their file.
pub(super) struct OpenedPools {
    pub(super) writer: SqlitePool,
    pub(super) readers: SqlitePool,
    pub(super) ownership: Option<Ownership>,
    pub(super) path: Option<std::path::PathBuf>,
}

pub(super) async fn open_file(
    path: &Path,
    options: &SqlOptions,
    absent: IfMissing,
) -> Result<OpenedPools, OpenError> {
    if let Some(folder) = path.parent().filter(|folder| !folder.is_dir())
        && !folder.as_os_str().is_empty()
    {
        let folder = folder.to_owned();
        return Err(OpenError::NoFolder { folder });
    }
    let path = &ownership::canonical_path(path)?;
    if absent == IfMissing::Refuse && std::fs::metadata(path).map_or(0, |file| file.len()) == 0 {
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
    Ok(OpenedPools {
        writer,
        readers,
        ownership: Some(ownership),
        path: Some(path.to_owned()),
    })
}

pub(super) async fn open_memory(options: &SqlOptions) -> Result<OpenedPools, OpenError> {
    let connect = connect_options(options).in_memory(true);
    let writer = pool(1, options)
        .connect_with(connect)
        .await
        .map_err(SqlError::from)?;
    Ok(OpenedPools {
        readers: writer.clone(),
        writer,
        ownership: None,
        path: None,
    })
}

pub(super) async fn open_file_read_only(
    path: &Path,
    options: &SqlOptions,
) -> Result<Option<OpenedPools>, OpenError> {
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
    Ok(Some(OpenedPools {
        writer: readers.clone(),
        readers,
        ownership: None,
        path: Some(path.to_owned()),
    }))
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
        // A statement that changes many rows stores its undo data. In a file that would cost as much as the change.
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

/// Connections never expire: reopening a connection would lose its prepared statements, and in
/// memory the whole database.
fn pool(size: u32, options: &SqlOptions) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .min_connections(size)
        .max_connections(size)
        .max_lifetime(None)
        .idle_timeout(None)
        .test_before_acquire(false)
        .acquire_timeout(options.busy_timeout.max(Duration::from_secs(30)))
}

/// SQLite ends a transaction by itself if the disk is full or fails. The driver's rollback then fails, and the driver
/// wrongly assumes an open transaction from then on. Such a connection is closed, and the pool opens another one.
async fn is_usable(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    if connection.is_in_transaction() {
        // A rollback may still be queued for the driver's thread.
        connection.ping().await?;
    }
    Ok(!connection.is_in_transaction())
}
