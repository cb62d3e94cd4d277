//! A database on a server, parsed from its URL.

use std::fmt;
use std::path::PathBuf;

use super::super::OpenError;
use super::options;

/// Which family of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    Postgres,
    MySql,
}

impl ServerKind {
    /// The scheme Berth writes.
    fn scheme(self) -> &'static str {
        match self {
            Self::Postgres => "postgresql",
            Self::MySql => "mysql",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Postgres => 5432,
            Self::MySql => 3306,
        }
    }

    /// The scheme may name a Python driver after a `+`.
    fn of(scheme: &str) -> Option<Self> {
        match scheme.split_once('+').map_or(scheme, |(name, _)| name) {
            "postgresql" | "postgres" => Some(Self::Postgres),
            "mysql" | "mariadb" => Some(Self::MySql),
            _ => None,
        }
    }
}

/// How the server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerAddress {
    Tcp {
        /// A name or an address, without brackets.
        name: String,
        port: u16,
    },
    /// Over a Unix socket. For PostgreSQL the folder that holds it, and the port that is part of its name.
    Socket {
        /// The folder (PostgreSQL) or the socket itself (MariaDB, MySQL).
        path: PathBuf,
        port: u16,
    },
}

/// What TLS must verify. Not used over a Unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsMode {
    Off,
    /// TLS if the server offers it; the certificate is not verified. The default, like in the databases' own tools.
    #[default]
    Preferred,
    /// TLS is required; the certificate is not verified.
    Required,
    /// The certificate must be signed by the CA.
    VerifyCa,
    /// The certificate must be signed by the CA and name the host.
    VerifyFull,
}

/// TLS to a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// What TLS must verify.
    pub mode: TlsMode,
    /// File with certificates of CAs (PEM), in addition to those of the system.
    pub ca: Option<PathBuf>,
    /// File with our own certificate (PEM).
    pub certificate: Option<PathBuf>,
    /// File with the key of the certificate (PEM).
    pub key: Option<PathBuf>,
}

/// A password. It shows in no output.
#[derive(Clone, PartialEq, Eq)]
pub(in super::super) struct DatabasePassword(pub(in super::super) String);

impl fmt::Debug for DatabasePassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A database on a PostgreSQL, MariaDB or MySQL server.
///
/// Shown (`Display`) as its URL without password and options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    pub kind: ServerKind,
    /// How it is reached.
    pub host: ServerAddress,
    pub user: String,
    pub(in super::super) password: Option<DatabasePassword>,
    pub database: String,
    pub tls: Tls,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user, database, .. } = self;
        write!(f, "{}://{user}@", self.kind.scheme())?;
        match &self.host {
            ServerAddress::Tcp { name, port } if name.contains(':') => {
                write!(f, "[{name}]:{port}/{database}")
            }
            ServerAddress::Tcp { name, port } => write!(f, "{name}:{port}/{database}"),
            ServerAddress::Socket { path, .. } => write!(f, "{}/{database}", path.display()),
        }
    }
}

/// Why a database URL is invalid. No variant contains a part of the URL that may be a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// No `//` behind the scheme.
    #[error("a database URL of a server has the form {scheme}://user:password@host/database")]
    NoAuthority { scheme: &'static str },
    #[error(
        "the database URL names no user; write {scheme}://user:password@host/database, each @, :, / and % of the password as %40, %3A, %2F and %25"
    )]
    NoUser { scheme: &'static str },
    #[error(
        "the database URL names no database; write its name behind the host, as in {scheme}://user:password@host/placement"
    )]
    NoDatabase { scheme: &'static str },
    /// There is a second `@` after the end of the password.
    #[error(
        "the database URL has an @ too many: only one, before the host; write every other as %40"
    )]
    SecondAt,
    /// The host is no name.
    #[error(
        "the host of the database URL is neither a name nor an address; an IPv6 address stands in brackets, as in [::1]"
    )]
    Host,
    /// The port is no number.
    #[error(
        "the port of the database URL is not a number from 1 to 65535 (where the password has an @, : or /, write it as %40, %3A or %2F)"
    )]
    Port,
    /// A `%` without two digits.
    #[error(
        "the {part} of the database URL has a % that is not followed by two hexadecimal digits; write the % itself as %25"
    )]
    Percent { part: &'static str },
    /// The decoded text is not UTF-8.
    #[error("the {part} of the database URL is not UTF-8 after its %-escapes are decoded")]
    NoText { part: &'static str },
    /// An option that is not known.
    #[error(
        "the database URL has the option {name:?}, which Berth does not know; it knows {known}"
    )]
    UnknownOption {
        name: String,
        /// The known option names, as text.
        known: &'static str,
    },
    /// An option that Berth cannot honour.
    #[error("the database URL has the option {name:?}, which Berth cannot honour: {why}")]
    RefusedOption {
        name: &'static str,
        /// The reason and the remedy, as text.
        why: &'static str,
    },
    #[error("the option {name:?} of the database URL must be {right}")]
    OptionValue {
        name: String,
        /// The valid values, as text.
        right: &'static str,
    },
}

impl Server {
    /// Parses the URL; `None` if the scheme is not a server's.
    pub(super) fn read(url: &str) -> Option<Result<Self, OpenError>> {
        let (scheme, rest) = url.split_once(':')?;
        let kind = ServerKind::of(scheme)?;
        Some(Self::read_rest(kind, rest).map_err(OpenError::Url))
    }

    fn read_rest(kind: ServerKind, rest: &str) -> Result<Self, UrlError> {
        let scheme = kind.scheme();
        let rest = rest
            .strip_prefix("//")
            .ok_or(UrlError::NoAuthority { scheme })?;
        let (login, rest) = split_login(rest);
        // A remaining `@` may be part of a password; the text after it is then not an option, and an error must not
        // show it.
        if rest.contains('@') {
            return Err(UrlError::SecondAt);
        }
        let (before, query) = rest
            .split_once('?')
            .map_or((rest, None), |(before, query)| (before, Some(query)));
        let (address, database) = before.split_once('/').unwrap_or((before, ""));
        let (name, port) = read_address(address)?;
        let mut read = options::UrlOptions::of(kind, query.unwrap_or_default())?;
        let (user, password) = match login {
            Some((user, password)) => {
                let password = password.map(|text| decoded(text, "password"));
                (decoded(user, "user")?, password.transpose()?)
            }
            None => (String::new(), None),
        };
        let user = read.user.take().unwrap_or(user);
        if user.is_empty() {
            return Err(UrlError::NoUser { scheme });
        }
        let database = decoded(database, "database")?;
        if database.is_empty() {
            return Err(UrlError::NoDatabase { scheme });
        }
        let port = read.port.or(port).unwrap_or(kind.port());
        let name = read.host.take().unwrap_or(name);
        let host = match (read.socket.take(), kind) {
            (Some(path), _) => ServerAddress::Socket { path, port },
            (None, ServerKind::Postgres) if name.starts_with('/') || name.is_empty() => {
                let folder = if name.is_empty() {
                    POSTGRES_SOCKETS
                } else {
                    &name
                };
                ServerAddress::Socket {
                    path: folder.into(),
                    port,
                }
            }
            (None, ServerKind::MySql) if name.is_empty() => ServerAddress::Tcp {
                name: "localhost".to_owned(),
                port,
            },
            (None, _) => ServerAddress::Tcp { name, port },
        };
        Ok(Self {
            kind,
            host,
            user,
            password: read.password.take().or(password).map(DatabasePassword),
            database,
            tls: read.tls,
        })
    }
}

/// The directory of PostgreSQL's sockets on Debian.
const POSTGRES_SOCKETS: &str = "/var/run/postgresql";

/// Splits user and password from the rest. Like in SQLAlchemy, a password may contain anything but an `@`.
fn split_login(rest: &str) -> (Option<(&str, Option<&str>)>, &str) {
    let Some((login, behind)) = rest.split_once('@') else {
        return (None, rest);
    };
    let (user, password) = login
        .split_once(':')
        .map_or((login, None), |(user, password)| (user, Some(password)));
    if user.contains(['/', '?']) {
        return (None, rest);
    }
    (Some((user, password)), behind)
}

fn read_address(address: &str) -> Result<(String, Option<u16>), UrlError> {
    let (name, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (name, behind) = rest.split_once(']').ok_or(UrlError::Host)?;
            let port = match behind {
                "" => None,
                behind => Some(behind.strip_prefix(':').ok_or(UrlError::Port)?),
            };
            (name.to_owned(), port)
        }
        None => {
            let (name, port) = address
                .split_once(':')
                .map_or((address, None), |(name, port)| (name, Some(port)));
            (decoded(name, "host")?, port)
        }
    };
    let odd = |c: char| c.is_whitespace() || c.is_control() || "#[]".contains(c);
    if name.contains(odd) {
        return Err(UrlError::Host);
    }
    let port = port.filter(|port| !port.is_empty()).map(port_of);
    Ok((name, port.transpose()?))
}

pub(super) fn port_of(text: &str) -> Result<u16, UrlError> {
    match text.parse() {
        Ok(port @ 1..) if text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(port),
        _ => Err(UrlError::Port),
    }
}

/// The text behind `%`-escapes.
pub(super) fn decoded(text: &str, part: &'static str) -> Result<String, UrlError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte == b'%' {
            let digit = |at: usize| {
                let digit = char::from(*behind.get(at)?).to_digit(16)?;
                u8::try_from(digit).ok()
            };
            let (Some(high), Some(low)) = (digit(0), digit(1)) else {
                return Err(UrlError::Percent { part });
            };
            bytes.push(high * 16 + low);
            rest = &behind[2..];
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).map_err(|_| UrlError::NoText { part })
}
