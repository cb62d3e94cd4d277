//! Opens a pool: the options of connections and the settings of new sessions.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlPoolOptions, MySqlSslMode};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions, PgSslMode};
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, Row as _, SqlSafeStr as _,
};

use super::super::error::{TransactionPhase, of_server};
use super::super::location::{Server, ServerAddress, ServerKind, TlsMode};
use super::super::{OpenError, SqlOptions, Statement};
use super::sessions::OFFLINE_WORK;
use super::{DriverPool, PoolAccess, ServerPool, SessionMark, connections};

/// The number of statements that stay prepared on each connection.
const PREPARED: usize = 512;

impl ServerPool {
    /// Connects once, so that a wrong configuration is reported at the start.
    pub(in crate::sql) async fn open(
        server: &Server,
        options: &SqlOptions,
        access: PoolAccess,
    ) -> Result<Self, OpenError> {
        readable(server)?;
        let own = SessionMark::new(options);
        let pool = match server.kind {
            ServerKind::Postgres => {
                let connect = postgres_options(server, &own.name);
                let begin = postgres_begin(options, access);
                let pool = PgPoolOptions::new()
                    .max_connections(connections(options))
                    .acquire_timeout(options.acquire_timeout)
                    .test_before_acquire(false)
                    .before_acquire(|connection, meta| {
                        Box::pin(rested(meta.idle_for, connection.ping()))
                    })
                    .after_connect(move |connection, _| {
                        let begin = begin.clone();
                        Box::pin(async move { execute_postgres(connection, begin).await })
                    })
                    .connect_lazy_with(connect.clone());
                DriverPool::Postgres(pool, Box::new(connect))
            }
            ServerKind::MySql => {
                let connect = mysql_options(server);
                let (options, numbers) = (options.clone(), Arc::clone(&own.numbers));
                let pool = MySqlPoolOptions::new()
                    .max_connections(connections(&options))
                    .acquire_timeout(options.acquire_timeout)
                    .test_before_acquire(false)
                    .before_acquire(|connection, meta| {
                        Box::pin(rested(meta.idle_for, connection.ping()))
                    })
                    .after_connect(move |connection, _| {
                        let (options, numbers) = (options.clone(), Arc::clone(&numbers));
                        Box::pin(async move {
                            execute_mysql(connection, &options, access, &numbers).await
                        })
                    })
                    .connect_lazy_with(connect.clone());
                DriverPool::MySql(pool, Box::new(connect))
            }
        };
        let opened = Self {
            pool,
            named: server.to_string(),
            options: options.clone(),
            access,
            limit: options.statement_timeout.saturating_add(GRACE),
            own,
        };
        // Connect without the pool first: the pool would wait for an unreachable server.
        opened
            .probe(options.connect_timeout)
            .await
            .map_err(|error| opened.failed(of_server(error, TransactionPhase::Connecting)))?;
        opened.check_version(server.kind).await?;
        Ok(opened)
    }

    /// Connects as the pool does, and closes the connection again.
    pub(super) async fn probe(&self, limit: Duration) -> Result<(), sqlx::Error> {
        let connected = async {
            match &self.pool {
                DriverPool::Postgres(_, options) => {
                    let mut connection = options.connect().await?;
                    execute_postgres(&mut connection, postgres_begin(&self.options, self.access))
                        .await?;
                    connection.close().await
                }
                DriverPool::MySql(_, options) => {
                    let mut connection = options.connect().await?;
                    let numbers = &self.own.numbers;
                    execute_mysql(&mut connection, &self.options, self.access, numbers).await?;
                    connection.close().await
                }
            }
        };
        match tokio::time::timeout(limit, connected).await {
            Ok(connected) => connected,
            Err(_) => Err(sqlx::Error::Io(io::Error::new(
                io::ErrorKind::TimedOut,
                "the server did not answer in time",
            ))),
        }
    }

    async fn check_version(&self, kind: ServerKind) -> Result<(), OpenError> {
        let sql = match kind {
            ServerKind::Postgres => "SELECT current_setting('server_version')",
            ServerKind::MySql => "SELECT VERSION()",
        };
        let rows = self.rows(Statement::new(sql)).await;
        let version =
            rows.and_then(|rows| rows.first().map_or(Ok(String::new()), |row| row.text(0)));
        let version = version.map_err(|error| self.failed(error))?;
        match kind.is_too_old(&version) {
            true => Err(OpenError::OldServer {
                server: self.named.clone(),
                version,
            }),
            false => Ok(()),
        }
    }
}

/// How much longer than the server itself we wait for the end of a statement.
const GRACE: Duration = Duration::from_secs(5);

/// A connection that was idle for longer is pinged before it is used, because the server may have restarted.
const RESTED: Duration = Duration::from_secs(1);

async fn rested(
    idle: Duration,
    ping: impl Future<Output = Result<(), sqlx::Error>>,
) -> Result<bool, sqlx::Error> {
    match idle < RESTED {
        true => Ok(true),
        false => Ok(ping.await.is_ok()),
    }
}

/// Checks the TLS files first, because the driver reports a missing file as a failed connection.
fn readable(server: &Server) -> Result<(), OpenError> {
    let tls = &server.tls;
    for path in [&tls.ca, &tls.certificate, &tls.key].into_iter().flatten() {
        File::open(path).map_err(|source| OpenError::TlsFile {
            path: path.clone(),
            source,
        })?;
    }
    Ok(())
}

impl SessionMark {
    fn new(options: &SqlOptions) -> Self {
        static STORES: AtomicU64 = AtomicU64::new(0);
        let number = STORES.fetch_add(1, Ordering::Relaxed);
        Self {
            // Contains the start time, so that another host or another process with the same id has another name.
            name: format!(
                "{} {} {number} {:x}",
                match options.is_offline_work {
                    true => OFFLINE_WORK.trim_end(),
                    false => "berth",
                },
                process::id(),
                super::super::random()
            ),
            numbers: Arc::new(Mutex::new(HashSet::new())),
        }
    }
}

fn postgres_options(server: &Server, name: &str) -> PgConnectOptions {
    let mut options = PgConnectOptions::new_without_pgpass()
        .username(&server.user)
        .database(&server.database)
        .application_name(name)
        .statement_cache_capacity(PREPARED)
        .password(server.password.as_ref().map_or("", |password| &password.0))
        .disable_statement_logging();
    options = match &server.host {
        ServerAddress::Tcp { name, port } => options.host(name).port(*port),
        ServerAddress::Socket { path, port } => options.host("localhost").socket(path).port(*port),
    };
    let tls = &server.tls;
    if let Some(ca) = &tls.ca {
        options = options.ssl_root_cert(ca);
    }
    if let (Some(certificate), Some(key)) = (&tls.certificate, &tls.key) {
        options = options.ssl_client_cert(certificate).ssl_client_key(key);
    }
    options.ssl_mode(match (&server.host, tls.mode) {
        (ServerAddress::Socket { .. }, _) | (_, TlsMode::Off) => PgSslMode::Disable,
        (_, TlsMode::Preferred) => PgSslMode::Prefer,
        (_, TlsMode::Required) => PgSslMode::Require,
        (_, TlsMode::VerifyCa) => PgSslMode::VerifyCa,
        (_, TlsMode::VerifyFull) => PgSslMode::VerifyFull,
    })
}

fn mysql_options(server: &Server) -> MySqlConnectOptions {
    let mut options = MySqlConnectOptions::new()
        .username(&server.user)
        .database(&server.database)
        .statement_cache_capacity(PREPARED)
        .password(server.password.as_ref().map_or("", |password| &password.0))
        .disable_statement_logging();
    options = match &server.host {
        ServerAddress::Tcp { name, port } => options.host(name).port(*port),
        ServerAddress::Socket { path, .. } => options.socket(path),
    };
    let tls = &server.tls;
    if let Some(ca) = &tls.ca {
        options = options.ssl_ca(ca);
    }
    if let (Some(certificate), Some(key)) = (&tls.certificate, &tls.key) {
        options = options.ssl_client_cert(certificate).ssl_client_key(key);
    }
    options.ssl_mode(match (&server.host, tls.mode) {
        (ServerAddress::Socket { .. }, _) | (_, TlsMode::Off) => MySqlSslMode::Disabled,
        (_, TlsMode::Preferred) => MySqlSslMode::Preferred,
        (_, TlsMode::Required) => MySqlSslMode::Required,
        (_, TlsMode::VerifyCa) => MySqlSslMode::VerifyCa,
        (_, TlsMode::VerifyFull) => MySqlSslMode::VerifyIdentity,
    })
}

/// A process that disappears with its machine must not keep its locks, so the server ends a writing session that is
/// idle in a transaction for longer than the statement timeout. MySQL has no such setting.
fn postgres_begin(options: &SqlOptions, access: PoolAccess) -> String {
    let limit = options.statement_timeout.as_millis().clamp(1, MOST);
    let more = match access {
        PoolAccess::Write => format!("SET idle_in_transaction_session_timeout = {limit}"),
        PoolAccess::Read => "SET default_transaction_read_only = on".to_owned(),
    };
    format!(
        "SET statement_timeout = {limit}; SET lock_timeout = {}; SET jit = off; {KEEPALIVES}; {more}",
        options.busy_timeout.as_millis().clamp(1, MOST),
    )
}

/// Keepalives: the session of a machine that died ends after two minutes instead of two hours, because it may hold the
/// schema lock. Only set for this session; on MariaDB and MySQL the setting would apply to the whole server. A local
/// socket needs none, and PostgreSQL ignores it there.
const KEEPALIVES: &str = "SET tcp_keepalives_idle = 60; SET tcp_keepalives_interval = 10; \
     SET tcp_keepalives_count = 6";

/// The most that a setting of PostgreSQL takes.
const MOST: u128 = i32::MAX as u128;

async fn execute_postgres(connection: &mut PgConnection, sql: String) -> Result<(), sqlx::Error> {
    connection
        .execute(AssertSqlSafe(sql).into_sql_str())
        .await?;
    Ok(())
}

async fn execute_mysql(
    connection: &mut MySqlConnection,
    options: &SqlOptions,
    access: PoolAccess,
    numbers: &Mutex<HashSet<u64>>,
) -> Result<(), sqlx::Error> {
    let row = connection
        .fetch_one("SELECT CAST(CONNECTION_ID() AS UNSIGNED), VERSION()")
        .await?;
    let number: u64 = row.try_get(0)?;
    numbers
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(number);
    let version: String = row.try_get(1)?;
    let seconds = options.statement_timeout.as_secs().max(1);
    let timeout = match (version.contains("MariaDB"), access) {
        (true, PoolAccess::Write) => {
            format!("max_statement_time = {seconds}, idle_transaction_timeout = {seconds}")
        }
        (true, PoolAccess::Read) => format!("max_statement_time = {seconds}"),
        // MySQL limits only the time of SELECT statements.
        (false, _) => format!("max_execution_time = {}", seconds.saturating_mul(1_000)),
    };
    let read_only = match access {
        PoolAccess::Write => "",
        PoolAccess::Read => "; SET SESSION TRANSACTION READ ONLY",
    };
    let sql = format!(
        "SET SESSION sql_mode = '{MODES}', innodb_lock_wait_timeout = {}, {timeout}{read_only}",
        options.busy_timeout.as_secs().clamp(1, 100_000_000),
    );
    connection
        .execute(AssertSqlSafe(sql).into_sql_str())
        .await?;
    if options.is_offline_work {
        // The lock's name contains the session's number, so no other session holds it.
        let sql = format!("SELECT GET_LOCK('{OFFLINE_WORK}{number}', 0)");
        connection
            .execute(AssertSqlSafe(sql).into_sql_str())
            .await?;
    }
    Ok(())
}

/// Strict, like in oslo.db, and as close to the other databases as possible.
const MODES: &str =
    "TRADITIONAL,PIPES_AS_CONCAT,ANSI_QUOTES,NO_BACKSLASH_ESCAPES,NO_AUTO_VALUE_ON_ZERO";
