//! The location of a database, parsed from a URL.
//!
//! A server's URL may have the syntax of SQLAlchemy, as in `placement.conf`, or that of `psql` and `mysql`. No error and no debug
//! output of this module contains the password.

mod options;
mod server;

use std::path::{PathBuf, absolute};
use std::str::FromStr;

use super::OpenError;

pub use server::{Server, ServerAddress, ServerKind, Tls, TlsMode, UrlError};

/// The location of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A SQLite file, created when missing. Its folder must exist.
    SqliteFile(PathBuf),
    /// A SQLite database in memory, which is lost when the process closes it. For tests and dry runs.
    SqliteMemory,
    /// A database on a server, shared with other processes. The database must exist; Berth creates its tables.
    Server(Server),
}

impl FromStr for Location {
    type Err = OpenError;

    /// Parses a database URL.
    ///
    /// `sqlite:PATH`, `sqlite:///ABSOLUTE/PATH` or `sqlite::memory:`. A relative path is resolved against the working
    /// directory. Unlike in SQLAlchemy, three slashes begin an absolute path. No options may follow the path, because
    /// Berth would ignore them.
    ///
    /// `postgresql://USER:PASSWORD@HOST:PORT/DATABASE` or `mysql://...`, also in SQLAlchemy's form
    /// (`postgresql+psycopg2://`, `mysql+pymysql://`); see [`Server`].
    fn from_str(url: &str) -> Result<Self, OpenError> {
        if let Some(server) = Server::read(url) {
            return Ok(Self::Server(server?));
        }
        let unsupported = || OpenError::UnsupportedUrl {
            scheme: scheme_of(url),
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

/// The text before `://` if it looks like a scheme; other text may be a password.
fn scheme_of(url: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    let scheme = scheme.filter(|scheme| scheme.len() <= 32 && scheme.bytes().all(plain));
    scheme.unwrap_or_default().to_owned()
}
