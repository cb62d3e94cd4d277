//! One change of the schema at a time, by a lock that the server keeps for a connection and frees with it.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::super::{SqlError, Statement};
use super::{Pool, ServerPool, Session};

/// Between two questions for the lock.
const AGAIN: Duration = Duration::from_millis(100);

/// While it is held nobody else who asks for it changes the schema of this database. Freed when it is dropped, and with the
/// process. It keeps one of the store's connections. In a Galera cluster it holds among those who use the same node.
pub struct SchemaLock {
    /// None on SQLite, whose file has one owner anyhow.
    session: Option<Session>,
    is_held: &'static str,
}

/// PostgreSQL keeps such locks by numbers, for each database apart: ours spells "berth".
const TAKE_POSTGRES: &str = "SELECT CAST(pg_try_advisory_lock(422608794728) AS INT)";
const HELD_POSTGRES: &str = "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() \
     AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
     AND (CAST(classid AS BIGINT) << 32 | CAST(objid AS BIGINT)) = 422608794728 AND granted";
/// MySQL keeps them by names, for the whole server, of 64 letters at most.
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

    /// Asks the server whether the lock is still ours: it goes with its connection, and nobody is told.
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
            Pool::Postgres(..) => (TAKE_POSTGRES, HELD_POSTGRES),
            Pool::MySql(..) => (TAKE_MYSQL, HELD_MYSQL),
        };
        let deadline = Instant::now() + wait;
        let mut session = self.acquire().await?;
        // Whatever comes of it: the lock must not go back to the pool with the connection.
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

async fn one(session: &mut Session, sql: &'static str) -> Result<i64, SqlError> {
    let row = session.row(Statement::new(sql)).await?;
    row.map_or(Ok(0), |row| row.int(0))
}
