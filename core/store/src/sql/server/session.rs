//! A connection of the pool with its transaction.

use std::future::Future;
use std::io;
use std::time::Duration;

use berth_model::Disposition;
use sqlx::mysql::MySql;
use sqlx::pool::PoolConnection;
use sqlx::postgres::Postgres;
use sqlx::{AssertSqlSafe, SqlSafeStr as _};
use tokio::runtime::Handle;

use super::super::error::{TransactionPhase, of_server};
use super::super::transaction::WriteOutcome;
use super::super::{Retryable as _, Row, SqlError, Statement, query};

/// A connection that goes back to its pool.
pub(in crate::sql) enum PooledConnection {
    Postgres(PoolConnection<Postgres>),
    MySql(PoolConnection<MySql>),
}

impl PooledConnection {
    /// Statements without values, as one text.
    async fn raw(&mut self, sql: &str) -> Result<(), sqlx::Error> {
        let sql = AssertSqlSafe(sql.to_owned()).into_sql_str();
        match self {
            Self::Postgres(connection) => {
                sqlx::raw_sql(sql).execute(&mut **connection).await?;
            }
            Self::MySql(connection) => {
                sqlx::raw_sql(sql).execute(&mut **connection).await?;
            }
        }
        Ok(())
    }

    fn close_on_drop(&mut self) {
        match self {
            Self::Postgres(connection) => connection.close_on_drop(),
            Self::MySql(connection) => connection.close_on_drop(),
        }
    }
}

/// A connection, and whether a transaction is open on it. Dropping it with an open transaction rolls
/// back in the background.
pub(in crate::sql) struct ServerSession {
    /// `None` only during the drop.
    held: Option<PooledConnection>,
    limit: Duration,
    open: bool,
    /// Once the server does nothing more in this transaction: MySQL would run the next statement outside of any.
    ended: Option<Disposition>,
}

impl ServerSession {
    pub(super) fn new(held: PooledConnection, limit: Duration) -> Self {
        Self {
            held: Some(held),
            limit,
            open: false,
            ended: None,
        }
    }

    /// Closes the connection when it is dropped, with everything that the server stores for the session.
    pub(super) fn close_on_drop(&mut self) {
        if let Some(held) = &mut self.held {
            held.close_on_drop();
        }
    }

    pub(super) async fn begin(&mut self, sql: &str) -> Result<(), SqlError> {
        self.open = true;
        let begun = timed(self.limit, self.connection_mut()?.raw(sql)).await;
        self.heeded(begun)
    }

    pub(in crate::sql) async fn rows(
        &mut self,
        statement: Statement,
    ) -> Result<Vec<Row>, SqlError> {
        let limit = self.limit;
        let rows = match self.connection_mut()? {
            PooledConnection::Postgres(connection) => {
                let query = query::postgres(statement).map_err(SqlError::Refused)?;
                timed(limit, query.fetch_all(&mut **connection))
                    .await
                    .map(|rows| rows.into_iter().map(Row::from).collect())
            }
            PooledConnection::MySql(connection) => {
                let query = query::mysql(statement).map_err(SqlError::Refused)?;
                timed(limit, query.rows(connection)).await
            }
        };
        self.heeded(rows)
    }

    pub(in crate::sql) async fn row(
        &mut self,
        statement: Statement,
    ) -> Result<Option<Row>, SqlError> {
        let limit = self.limit;
        let row = match self.connection_mut()? {
            PooledConnection::Postgres(connection) => {
                let query = query::postgres(statement).map_err(SqlError::Refused)?;
                let row = timed(limit, query.fetch_optional(&mut **connection)).await;
                row.map(|row| row.map(Row::from))
            }
            PooledConnection::MySql(connection) => {
                let query = query::mysql(statement).map_err(SqlError::Refused)?;
                timed(limit, query.row(connection)).await
            }
        };
        self.heeded(row)
    }

    pub(in crate::sql) async fn execute(
        &mut self,
        statement: Statement,
    ) -> Result<WriteOutcome, SqlError> {
        let limit = self.limit;
        let done = match self.connection_mut()? {
            PooledConnection::Postgres(connection) => {
                let query = query::postgres(statement).map_err(SqlError::Refused)?;
                let done = timed(limit, query.execute(&mut **connection)).await;
                done.map(|done| WriteOutcome {
                    rows_affected: done.rows_affected(),
                    last_id: 0,
                })
            }
            PooledConnection::MySql(connection) => {
                let query = query::mysql(statement).map_err(SqlError::Refused)?;
                let done = timed(limit, query.execute(connection)).await;
                done.map(|done| WriteOutcome {
                    rows_affected: done.rows_affected(),
                    last_id: i64::try_from(done.last_insert_id()).unwrap_or(i64::MAX),
                })
            }
        };
        self.heeded(done)
    }

    pub(in crate::sql) async fn script(&mut self, sql: &str) -> Result<(), SqlError> {
        // The script may contain this many statements, each with its own timeout.
        let limit = self.limit.saturating_mul(64);
        let done = timed(limit, self.connection_mut()?.raw(sql)).await;
        self.heeded(done)
    }

    pub(in crate::sql) async fn commit(mut self) -> Result<(), SqlError> {
        let limit = self.limit;
        let committed = timed(limit, self.connection_mut()?.raw("COMMIT")).await;
        match committed {
            Ok(()) => {
                self.open = false;
                Ok(())
            }
            Err(error) => {
                self.close_on_drop();
                self.open = false;
                Err(of_server(error, TransactionPhase::Committing))
            }
        }
    }

    pub(in crate::sql) async fn rollback(mut self) {
        let limit = self.limit;
        self.open = false;
        if let Some(held) = &mut self.held
            && timed(limit, held.raw("ROLLBACK")).await.is_err()
        {
            // The server rolls back the open transaction of a closed connection.
            held.close_on_drop();
        }
    }

    fn connection_mut(&mut self) -> Result<&mut PooledConnection, SqlError> {
        if let Some(disposition) = self.ended {
            return Err(SqlError::Ended { disposition });
        }
        self.held.as_mut().ok_or(SqlError::Closed)
    }

    /// Records what an error means for the transaction, and returns the answer.
    fn heeded<T>(&mut self, answer: Result<T, sqlx::Error>) -> Result<T, SqlError> {
        let error = match answer {
            Ok(answer) => return Ok(answer),
            Err(error) => of_server(error, TransactionPhase::Working),
        };
        let is_gone = matches!(error, SqlError::Lost(_) | SqlError::TookTooLong(_));
        if is_gone {
            self.close_on_drop();
        }
        let goes_on = matches!(self.held, Some(PooledConnection::MySql(_)))
            && !is_gone
            && error.disposition() == Disposition::Fatal;
        if self.open && !goes_on {
            self.ended = Some(error.disposition());
        }
        Err(error)
    }
}

impl Drop for ServerSession {
    fn drop(&mut self) {
        let Some(mut held) = self.held.take().filter(|_| self.open) else {
            return;
        };
        let limit = self.limit;
        match Handle::try_current() {
            // Not awaited: the connection returns to the pool when this is done.
            Ok(runtime) => drop(runtime.spawn(async move {
                if timed(limit, held.raw("ROLLBACK")).await.is_err() {
                    held.close_on_drop();
                }
            })),
            Err(_) => held.close_on_drop(),
        }
    }
}

/// Limits the time, for a server that does not answer at all.
async fn timed<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    match tokio::time::timeout(limit, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(sqlx::Error::Io(io::Error::new(
            io::ErrorKind::TimedOut,
            "the server did not answer in time",
        ))),
    }
}
