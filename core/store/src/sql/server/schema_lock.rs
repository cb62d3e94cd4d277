//! The schema lock: an advisory lock of the server, held by a connection and released with it. Only one holder changes the schema.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::super::{SqlError, Statement};
use super::{DriverPool, ServerPool, ServerSession};

/// The pause between two attempts to get the lock.
const AGAIN: Duration = Duration::from_millis(100);

/// The held schema lock. It is released when it is dropped, and with the process. It uses one connection of the store. In a Galera cluster
/// it only excludes clients of the same node.
pub struct SchemaLock {
    /// `None` on SQLite, because a file has one owner anyway.
    session: Option<ServerSession>,
    is_held: &'static str,
}

/// The lock's number, per database: "berth" as a number.
const TAKE_POSTGRES: &str = "SELECT CAST(pg_try_advisory_lock(422608794728) AS INT)";
const HELD_POSTGRES: &str = "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() \
     AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
     AND (CAST(classid AS BIGINT) << 32 | CAST(objid AS BIGINT)) = 422608794728 AND granted";
/// The lock's name, for the whole server, at most 64 characters.
const TAKE_MYSQL: &str =
    "SELECT CAST(COALESCE(GET_LOCK(CONCAT('berth/', SHA1(DATABASE())), 0), 0) AS SIGNED)";
const HELD_MYSQL: &str = "SELECT CAST(COALESCE(IS_USED_LOCK(CONCAT('berth/', SHA1(DATABASE()))) = CONNECTION_ID(), 0) AS SIGNED)";

impl SchemaLock {
    pub(in crate::sql) fn of_the_owner() -> Self {
        Self {
            session: None,
            is_held: "",
        }
    }

    /// Checks that the lock is still held: it is lost with its connection, without a notification.
    pub async fn check(&mut self) -> Result<(), SqlError> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        match one(session, self.is_held).await? {
            0 => Err(SqlError::SchemaHeld),
            _ => Ok(()),
        }
    }
}

impl ServerPool {
    pub(in crate::sql) async fn schema_lock(&self, wait: Duration) -> Result<SchemaLock, SqlError> {
        let (take, is_held) = match self.pool {
            DriverPool::Postgres(..) => (TAKE_POSTGRES, HELD_POSTGRES),
            DriverPool::MySql(..) => (TAKE_MYSQL, HELD_MYSQL),
        };
        let deadline = Instant::now() + wait;
        let mut session = self.acquire().await?;
        // In every case, the lock must not return to the pool with the connection.
        session.close_on_drop();
        while one(&mut session, take).await? == 0 {
            if Instant::now() >= deadline {
                return Err(SqlError::SchemaHeld);
            }
            sleep(AGAIN).await;
        }
        Ok(SchemaLock {
            session: Some(session),
            is_held,
        })
    }
}

async fn one(session: &mut ServerSession, sql: &'static str) -> Result<i64, SqlError> {
    let row = session.row(Statement::new(sql)).await?;
    row.map_or(Ok(0), |row| row.int(0))
}
