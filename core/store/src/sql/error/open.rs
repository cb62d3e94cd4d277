//! The errors of opening a store, each with a remedy.

use std::path::PathBuf;

use super::SqlError;
use crate::sql::location::UrlError;

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
        path: PathBuf,
        /// The process id of the owner, if the lock file contains it.
        owner: Option<u32>,
    },
    /// The lock file next to the database could not be created.
    #[error("the lock file {} cannot be opened; check that the folder exists and may be written", path.display())]
    Ownership {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The URL names a database this build does not speak.
    #[error(
        "a database URL begins with sqlite:, postgresql:// or mysql://, for example sqlite:/var/lib/berth/placement.db or postgresql://placement:PASSWORD@10.0.0.1/placement; got scheme {scheme:?}"
    )]
    UnsupportedUrl {
        /// The given scheme, never the whole URL, which may contain a password.
        scheme: String,
    },
    /// The URL has options or a fragment behind the file.
    #[error(
        "a database URL ends with the file: Berth accepts no options behind a ?, and no file with ? or # in its name"
    )]
    OptionsInUrl,
    /// The URL names a server and is invalid.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The URL names no file.
    #[error(
        "the database URL names no file; write sqlite: and the file, for example sqlite:/var/lib/berth/placement.db"
    )]
    NoFileInUrl,
    /// The file does not exist or is empty, and must not be created.
    #[error(
        "no database at {}; give the path of the service's database",
        path.display()
    )]
    Absent { path: PathBuf },
    /// The path is a folder, a device, a pipe, or a broken link.
    #[error(
        "{} is not a regular file; name a file that may become the database",
        path.display()
    )]
    NotAFile { path: PathBuf },
    /// The file has several names (hard links). SQLite finds its log by the name, so writes under one name are lost under the other.
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
    /// The database file cannot be read or created.
    #[error("the database file {} cannot be read; check owner and mode of it and its folder", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The folder of the database file does not exist. It is not created, because its name may be misspelled.
    #[error(
        "the folder {} of the database does not exist; create it, or correct the database URL",
        folder.display()
    )]
    NoFolder { folder: PathBuf },
    /// A file that TLS needs cannot be read.
    #[error("the file {} that the database URL names for TLS cannot be read; check its name, owner and mode", path.display())]
    TlsFile {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The database on the server is empty, and must not be filled.
    #[error("the database {server} has no tables; give the service's database")]
    NoTables {
        /// The database, without its password.
        server: String,
    },
    /// The server is older than Berth's statements require.
    #[error(
        "the server of the database {server} is version {version}; Berth needs at least PostgreSQL 12, MariaDB 10.5 or MySQL 8.0"
    )]
    OldServer {
        /// The database, without its password.
        server: String,
        /// The version as reported by the server.
        version: String,
    },
    #[error("the database {server} cannot be opened; {}", .source.hint())]
    Server {
        /// The database, without its password.
        server: String,
        #[source]
        source: SqlError,
    },
    /// SQLite could not open it.
    #[error("{}: {}", .0, .0.hint())]
    Sql(#[from] SqlError),
}
