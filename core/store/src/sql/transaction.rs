//! Transactions and the units of work that run in them.

use std::collections::BTreeSet;
use std::future::Future;

use sqlx::Sqlite;
use sqlx::sqlite::SqliteQueryResult;

use super::server::ServerSession;
use super::statement::placeholders;
use super::{Dialect, Retryable, Row, SqlError, Statement, Value, query};

/// The result of a writing statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOutcome {
    /// Rows inserted, updated or deleted. On every database, a row that an UPDATE matches counts even if nothing changes in it.
    pub rows_affected: u64,
    /// The id of the last inserted row of this connection; 0 on PostgreSQL, where [`Transaction::insert`] returns it.
    pub last_id: i64,
}

impl From<SqliteQueryResult> for WriteOutcome {
    fn from(done: SqliteQueryResult) -> Self {
        Self {
            rows_affected: done.rows_affected(),
            last_id: done.last_insert_rowid(),
        }
    }
}

/// A whole writing transaction as a value, so that it can be repeated.
///
/// [`super::SqlStore::write`] begins, runs, commits; on an error it rolls back.
pub trait Work: Sync {
    /// The result after the commit.
    type Output: Send;
    /// The error, which says whether repeating may help.
    type Error: From<SqlError> + Retryable + std::fmt::Display + Send;

    /// The maximum number of runs, if it is lower than in the options of the store.
    fn attempts(&self) -> u32 {
        u32::MAX
    }

    /// Runs the work. It is called again from the start after a retryable error.
    fn run(
        &self,
        tx: &mut Transaction,
    ) -> impl Future<Output = Result<Self::Output, Self::Error>> + Send;
}

/// An open transaction. Dropped without commit, it is rolled back.
///
/// On PostgreSQL a failed statement ends the transaction. To continue after [`SqlError::Duplicate`], start again
/// ([`super::Disposition::Retry`]), or avoid the error ([`Dialect::or_nothing`]).
pub struct Transaction {
    inner: TransactionInner,
    record: Option<Vec<RecordedStatement>>,
}

enum TransactionInner {
    Sqlite(sqlx::Transaction<'static, Sqlite>),
    Server(Dialect, ServerSession),
}

#[derive(Debug, Clone)]
pub struct RecordedStatement {
    pub statement: Statement,
    /// The number of rows returned or changed.
    pub rows: u64,
}

impl Transaction {
    pub(super) fn sqlite(inner: sqlx::Transaction<'static, Sqlite>) -> Self {
        Self {
            inner: TransactionInner::Sqlite(inner),
            record: None,
        }
    }

    pub(super) fn server(dialect: Dialect, session: ServerSession) -> Self {
        Self {
            inner: TransactionInner::Server(dialect, session),
            record: None,
        }
    }

    /// Starts to record statements, for tests that check the load on the database.
    pub fn record(&mut self) {
        self.record = Some(Vec::new());
    }

    /// Stops recording and returns the recorded statements.
    pub fn recorded(&mut self) -> Vec<RecordedStatement> {
        self.record.take().unwrap_or_default()
    }

    fn record_statement(&mut self, statement: Option<Statement>, rows: u64) {
        if let (Some(record), Some(statement)) = (&mut self.record, statement) {
            record.push(RecordedStatement { statement, rows });
        }
    }

    /// A copy of the statement if statements are recorded.
    fn copy_if_recording(&self, statement: &Statement) -> Option<Statement> {
        self.record.as_ref().map(|_| statement.clone())
    }

    /// The SQL this transaction speaks.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        match &self.inner {
            TransactionInner::Sqlite(_) => Dialect::Sqlite,
            TransactionInner::Server(dialect, _) => *dialect,
        }
    }

    /// All rows of an answer.
    pub async fn rows(&mut self, statement: Statement) -> Result<Vec<Row>, SqlError> {
        let kept = self.copy_if_recording(&statement);
        let rows = match &mut self.inner {
            TransactionInner::Sqlite(inner) => {
                let rows = query::sqlite(statement).fetch_all(&mut **inner).await?;
                rows.into_iter().map(Row::from).collect()
            }
            TransactionInner::Server(_, session) => session.rows(statement).await?,
        };
        self.record_statement(kept, u64::try_from(rows.len()).unwrap_or(u64::MAX));
        Ok(rows)
    }

    /// The first row of an answer, if any.
    pub async fn row(&mut self, statement: Statement) -> Result<Option<Row>, SqlError> {
        let kept = self.copy_if_recording(&statement);
        let row = match &mut self.inner {
            TransactionInner::Sqlite(inner) => {
                let row = query::sqlite(statement).fetch_optional(&mut **inner);
                row.await?.map(Row::from)
            }
            TransactionInner::Server(_, session) => session.row(statement).await?,
        };
        self.record_statement(kept, u64::from(row.is_some()));
        Ok(row)
    }

    /// Runs a statement that changes rows.
    pub async fn execute(&mut self, statement: Statement) -> Result<WriteOutcome, SqlError> {
        let kept = self.copy_if_recording(&statement);
        let done = match &mut self.inner {
            TransactionInner::Sqlite(inner) => {
                let done = query::sqlite(statement).execute(&mut **inner);
                WriteOutcome::from(done.await?)
            }
            TransactionInner::Server(_, session) => session.execute(statement).await?,
        };
        self.record_statement(kept, done.rows_affected);
        Ok(done)
    }

    /// Runs an INSERT of one row; the number that the database gave the row in its column `id`.
    pub async fn insert(&mut self, statement: Statement, id: &str) -> Result<i64, SqlError> {
        match self.dialect() {
            Dialect::Sqlite | Dialect::MySql => Ok(self.execute(statement).await?.last_id),
            Dialect::Postgres => {
                let statement = statement.followed_by(&format!(" RETURNING {id}"));
                let row = self.row(statement).await?;
                row.map_or(Ok(0), |row| row.int(0))
            }
        }
    }

    /// Runs several statements without values, separated by `;`.
    ///
    /// MariaDB and MySQL commit before and after each statement that changes the schema (CREATE, ALTER, DROP). The
    /// changes stay if the work fails later, so the script must be repeatable.
    pub async fn script(&mut self, sql: &'static str) -> Result<(), SqlError> {
        match &mut self.inner {
            TransactionInner::Sqlite(inner) => {
                sqlx::raw_sql(sql).execute(&mut **inner).await?;
                Ok(())
            }
            TransactionInner::Server(_, session) => session.script(sql).await,
        }
    }

    /// The names of the database's tables, without views, because some PostgreSQL extensions put views
    /// into the same schema.
    pub async fn table_names(&mut self) -> Result<BTreeSet<String>, SqlError> {
        let sql = match self.dialect() {
            Dialect::Sqlite => {
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            }
            Dialect::Postgres => {
                "SELECT CAST(table_name AS TEXT) FROM information_schema.tables \
                 WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'"
            }
            Dialect::MySql => {
                "SELECT CAST(table_name AS CHAR) FROM information_schema.tables \
                 WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE'"
            }
        };
        let rows = self.rows(Statement::new(sql)).await?;
        rows.iter().map(|row| row.text(0)).collect()
    }

    /// The damage that SQLite finds in the file, as one line; `None` if the file is intact. Servers check themselves.
    pub async fn damage(&mut self) -> Result<Option<String>, SqlError> {
        if self.dialect() != Dialect::Sqlite {
            return Ok(None);
        }
        let found = self.row(Statement::new("PRAGMA quick_check(1)")).await?;
        let found = found.map(|row| row.text(0)).transpose()?;
        Ok(found.filter(|text| text != "ok").map(|text| {
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            lines.join("; ")
        }))
    }

    /// All rows of `head (KEY, KEY, ...) tail` for any number of `keys` of one type. `head` ends with `IN` and may have
    /// bound values; `tail` has none. Without keys, no statement is sent.
    ///
    /// MariaDB and MySQL get one statement per 16,000 keys: an order, a limit or a sum in `tail` applies
    /// to each statement separately.
    pub async fn rows_in<V: Into<Value> + Clone + Sync>(
        &mut self,
        head: &Statement,
        keys: &[V],
        tail: &str,
    ) -> Result<Vec<Row>, SqlError> {
        let mut all = Vec::new();
        for statement in head.with_list(self.dialect(), keys, tail) {
            let rows = self.rows(statement).await?;
            match all.is_empty() {
                true => all = rows,
                false => all.extend(rows),
            }
        }
        Ok(all)
    }

    /// Runs `head (KEY, KEY, ...)` for any number of `keys`; the number of rows affected.
    pub async fn execute_in<V: Into<Value> + Clone + Sync>(
        &mut self,
        head: &Statement,
        keys: &[V],
    ) -> Result<u64, SqlError> {
        let mut affected = 0;
        for statement in head.with_list(self.dialect(), keys, "") {
            affected += self.execute(statement).await?.rows_affected;
        }
        Ok(affected)
    }

    /// `head (?, ..), (?, ..), ... tail` for any number of `rows`, all of the same width.
    pub async fn insert_rows<const WIDTH: usize>(
        &mut self,
        head: &str,
        rows: Vec<[Value; WIDTH]>,
        tail: &str,
    ) -> Result<u64, SqlError> {
        let most = (self.dialect().max_variables() / WIDTH).min(MAX_ROWS_PER_INSERT);
        let mut affected = 0;
        let mut rows = rows.into_iter();
        while rows.len() > 0 {
            let chunk: Vec<[Value; WIDTH]> = rows.by_ref().take(most).collect();
            let group = format!("({})", placeholders(WIDTH));
            let groups = vec![group.as_str(); chunk.len()].join(",");
            let sql = format!("{head} {groups} {tail}");
            let statement = match chunk.len() <= FEW_ROWS {
                true => Statement::recurring(sql),
                false => Statement::new(sql),
            };
            let statement = statement.bind_all(chunk.into_iter().flatten());
            affected += self.execute(statement).await?.rows_affected;
        }
        Ok(affected)
    }

    pub(super) async fn commit(self) -> Result<(), SqlError> {
        match self.inner {
            TransactionInner::Sqlite(inner) => Ok(inner.commit().await?),
            TransactionInner::Server(_, session) => session.commit().await,
        }
    }

    /// An error is ignored: the database rolls back the transaction of a closed connection.
    pub(super) async fn rollback(self) {
        match self.inner {
            TransactionInner::Sqlite(inner) => drop(inner.rollback().await),
            TransactionInner::Server(_, session) => session.rollback().await,
        }
    }
}

/// Rows per INSERT. Parsing a text grows faster than linearly past some size in every database.
const MAX_ROWS_PER_INSERT: usize = 500;

/// INSERTs with up to this many rows are frequent and are prepared once per connection.
const FEW_ROWS: usize = 8;
