//! A pool of connections to a PostgreSQL, MariaDB or MySQL server.
//!
//! It uses the concrete drivers and not sqlx's `Any`, which has neither NUMERIC nor timestamps, both used in OpenStack's tables
//! (ADR 0013).

mod connect;
mod schema_lock;
mod session;
mod sessions;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlPool};
use sqlx::postgres::{PgConnectOptions, PgPool};

use super::error::{TransactionPhase, of_server};
use super::location::ServerKind;
use super::{Dialect, OpenError, Row, SqlError, SqlOptions, Statement};

pub use schema_lock::SchemaLock;
pub use sessions::{OtherSession, OtherSessions};

pub(super) use session::{PooledConnection, ServerSession};

/// Whether connections of the pool may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolAccess {
    Write,
    /// The server refuses writes.
    Read,
}

/// How long a close waits for connections. A process closes several pools one after another, and its service manager kills it after 90 s.
const CLOSE: Duration = Duration::from_secs(10);

/// An open server database.
#[derive(Debug)]
pub(super) struct ServerPool {
    pool: DriverPool,
    /// Shown in sentences: without the password.
    pub(super) named: String,
    options: SqlOptions,
    access: PoolAccess,
    /// The timeout for a server that does not keep its own timeouts.
    limit: Duration,
    /// The mark by which our own sessions are recognised.
    own: SessionMark,
}

enum DriverPool {
    Postgres(PgPool, Box<PgConnectOptions>),
    MySql(MySqlPool, Box<MySqlConnectOptions>),
}

/// Written by hand: the drivers' options hold the password.
impl std::fmt::Debug for DriverPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Postgres(..) => "Postgres",
            Self::MySql(..) => "MySql",
        })
    }
}

/// PostgreSQL's sessions carry a name, MySQL's have numbers.
#[derive(Debug, Clone)]
struct SessionMark {
    name: String,
    numbers: Arc<Mutex<HashSet<u64>>>,
}

impl ServerPool {
    pub(super) fn dialect(&self) -> Dialect {
        match self.pool {
            DriverPool::Postgres(..) => Dialect::Postgres,
            DriverPool::MySql(..) => Dialect::MySql,
        }
    }

    /// A connection without an open transaction.
    pub(super) async fn acquire(&self) -> Result<ServerSession, SqlError> {
        let held = match &self.pool {
            DriverPool::Postgres(pool, _) => pool.acquire().await.map(PooledConnection::Postgres),
            DriverPool::MySql(pool, _) => pool.acquire().await.map(PooledConnection::MySql),
        };
        match held {
            Ok(held) => Ok(ServerSession::new(held, self.limit)),
            Err(sqlx::Error::PoolTimedOut) => Err(self.diagnose_acquire().await),
            Err(error) => Err(of_server(error, TransactionPhase::Connecting)),
        }
    }

    /// Determines why no connection is available: the pool does not distinguish a server that refuses connections from
    /// connections that are all in use.
    async fn diagnose_acquire(&self) -> SqlError {
        let probe = self.probe(self.options.connect_timeout.min(PROBE)).await;
        let error = probe.err().unwrap_or(sqlx::Error::PoolTimedOut);
        of_server(error, TransactionPhase::Connecting)
    }

    /// Begins a read-only transaction with one snapshot of the database for all statements.
    pub(super) async fn begin_read(&self) -> Result<ServerSession, SqlError> {
        let begin = match self.pool {
            DriverPool::Postgres(..) => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
            DriverPool::MySql(..) => {
                "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION READ ONLY"
            }
        };
        self.begin(begin).await
    }

    pub(super) async fn begin_write(&self) -> Result<ServerSession, SqlError> {
        let level = self.options.isolation.sql();
        self.begin(&match self.pool {
            DriverPool::Postgres(..) => format!("BEGIN ISOLATION LEVEL {level}"),
            DriverPool::MySql(..) => {
                format!("SET TRANSACTION ISOLATION LEVEL {level}; START TRANSACTION")
            }
        })
        .await
    }

    /// Begins a transaction. After a restart of the server, every pooled connection is dead, so it tries as many
    /// as the pool had.
    async fn begin(&self, begin: &str) -> Result<ServerSession, SqlError> {
        let mut left = connections(&self.options);
        loop {
            let mut session = self.acquire().await?;
            match session.begin(begin).await {
                Err(SqlError::Lost(_)) if left > 0 => left -= 1,
                Err(error) => return Err(error),
                Ok(()) => return Ok(session),
            }
        }
    }

    /// Runs one reading statement without a transaction.
    pub(super) async fn rows(&self, statement: Statement) -> Result<Vec<Row>, SqlError> {
        let mut left = connections(&self.options);
        loop {
            let mut session = self.acquire().await?;
            match session.rows(statement.clone()).await {
                Err(SqlError::Lost(_)) if left > 0 => left -= 1,
                answer => return answer,
            }
        }
    }

    /// Closes the pool, with a timeout: the pool pings each returned connection, which would block forever
    /// on a silent server.
    pub(super) async fn close(&self) {
        let closed = async {
            match &self.pool {
                DriverPool::Postgres(pool, _) => pool.close().await,
                DriverPool::MySql(pool, _) => pool.close().await,
            }
        };
        if tokio::time::timeout(CLOSE, closed).await.is_err() {
            tracing::warn!(
                server = self.named,
                "timed out after {CLOSE:?} closing the connection pool: a connection is still in use, or the database server does not answer"
            );
        }
    }

    fn failed(&self, source: SqlError) -> OpenError {
        OpenError::Server {
            server: self.named.clone(),
            source,
        }
    }

    /// Whether the database has a table at all.
    pub(super) async fn has_tables(&self) -> Result<bool, OpenError> {
        let sql = match self.pool {
            DriverPool::Postgres(..) => {
                "SELECT COUNT(*) FROM pg_catalog.pg_tables WHERE schemaname = ANY (current_schemas(false))"
            }
            DriverPool::MySql(..) => {
                "SELECT COUNT(*) FROM information_schema.tables \
                 WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE'"
            }
        };
        let rows = self.rows(Statement::new(sql)).await;
        let count = rows.and_then(|rows| rows.first().map_or(Ok(0), |row| row.int(0)));
        Ok(count.map_err(|error| self.failed(error))? > 0)
    }
}

/// The timeout for determining the reason of a missing connection; the caller has already waited for the connection.
const PROBE: Duration = Duration::from_secs(2);

impl ServerKind {
    fn is_too_old(self, version: &str) -> bool {
        let mut numbers = version
            .split(|c: char| !c.is_ascii_digit())
            .map_while(|number| number.parse::<u32>().ok());
        let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        found
            < match self {
                Self::Postgres => (12, 0),
                Self::MySql if version.contains("MariaDB") => (10, 5),
                Self::MySql => (8, 0),
            }
    }
}

/// The number of connections from the options, within its bounds.
fn connections(options: &SqlOptions) -> u32 {
    options.connections.clamp(2, 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_too_old_for_our_statements_are_known_by_their_version() {
        for (kind, version, too_old) in [
            (
                ServerKind::Postgres,
                "15.18 (Debian 15.18-0+deb12u1)",
                false,
            ),
            (ServerKind::Postgres, "12.1", false),
            (ServerKind::Postgres, "11.22", true),
            (ServerKind::Postgres, "18beta1", false),
            (ServerKind::MySql, "10.11.14-MariaDB-0+deb12u2", false),
            (ServerKind::MySql, "10.4.3-MariaDB", true),
            (ServerKind::MySql, "8.0.36", false),
            (ServerKind::MySql, "5.7.44-log", true),
        ] {
            assert_eq!(kind.is_too_old(version), too_old, "{version}");
        }
    }
}
