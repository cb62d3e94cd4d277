//! A transaction and what can be done in it.

use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{AssertSqlSafe, Sqlite};
use std::future::Future;

use super::statement::placeholders;
use super::{Dialect, Retryable, Row, SqlError, Statement, Value};

/// What a writing statement did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// Rows inserted, changed or deleted.
    pub rows_affected: u64,
    /// The id of the last row inserted on this connection.
    pub last_id: i64,
}

/// A whole writing transaction as a value, so that it can be run again.
///
/// [`super::SqlStore::write`] begins, runs, commits; on an error it rolls back.
pub trait Work: Sync {
    /// What the caller gets after the commit.
    type Output: Send;
    /// Why it may fail; must say whether another run may help.
    type Error: From<SqlError> + Retryable + std::fmt::Display + Send;

    /// Does the work. Called again from the start after a retryable error.
    fn run(
        &self,
        tx: &mut Transaction,
    ) -> impl Future<Output = Result<Self::Output, Self::Error>> + Send;
}

/// An open transaction. Dropped without commit, it is rolled back.
pub struct Transaction {
    inner: sqlx::Transaction<'static, Sqlite>,
    record: Option<Vec<Asked>>,
}

/// One statement of a transaction that is recorded.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The statement.
    pub statement: Statement,
    /// The rows that it was answered with, or that it changed.
    pub rows: u64,
}

impl Transaction {
    pub(super) fn sqlite(inner: sqlx::Transaction<'static, Sqlite>) -> Self {
        Self {
            inner,
            record: None,
        }
    }

    /// Records each statement from now on, for whoever judges what a piece of work asks of the database.
    pub fn record(&mut self) {
        self.record = Some(Vec::new());
    }

    /// What was recorded; nothing is from now on.
    pub fn recorded(&mut self) -> Vec<Asked> {
        self.record.take().unwrap_or_default()
    }

    fn asked(&mut self, statement: Option<Statement>, rows: u64) {
        if let (Some(record), Some(statement)) = (&mut self.record, statement) {
            record.push(Asked { statement, rows });
        }
    }

    /// A copy for the record, where there is one.
    fn kept(&self, statement: &Statement) -> Option<Statement> {
        self.record.as_ref().map(|_| statement.clone())
    }

    /// The SQL this transaction speaks.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    /// All rows of an answer.
    ///
    /// # Errors
    /// [`SqlError`] when the statement is refused.
    pub async fn rows(&mut self, statement: Statement) -> Result<Vec<Row>, SqlError> {
        let kept = self.kept(&statement);
        let rows = query(statement).fetch_all(&mut *self.inner).await?;
        self.asked(kept, u64::try_from(rows.len()).unwrap_or(u64::MAX));
        Ok(rows.into_iter().map(Row::sqlite).collect())
    }

    /// The first row of an answer, if any.
    ///
    /// # Errors
    /// [`SqlError`] when the statement is refused.
    pub async fn row(&mut self, statement: Statement) -> Result<Option<Row>, SqlError> {
        let kept = self.kept(&statement);
        let row = query(statement).fetch_optional(&mut *self.inner).await?;
        self.asked(kept, u64::from(row.is_some()));
        Ok(row.map(Row::sqlite))
    }

    /// Runs a statement that changes rows.
    ///
    /// # Errors
    /// [`SqlError`] when the statement is refused.
    pub async fn execute(&mut self, statement: Statement) -> Result<Done, SqlError> {
        let kept = self.kept(&statement);
        let done = query(statement).execute(&mut *self.inner).await?;
        self.asked(kept, done.rows_affected());
        Ok(Done {
            rows_affected: done.rows_affected(),
            last_id: done.last_insert_rowid(),
        })
    }

    /// Runs several statements without values, separated by `;`.
    ///
    /// # Errors
    /// [`SqlError`] when one is refused.
    pub async fn script(&mut self, sql: &'static str) -> Result<(), SqlError> {
        sqlx::raw_sql(sql).execute(&mut *self.inner).await?;
        Ok(())
    }

    /// All rows of `head (KEY, KEY, ...) tail` for any number of `keys`. `head` may have bound values of its own. No
    /// statement without keys.
    ///
    /// # Errors
    /// [`SqlError`] when the statement is refused.
    pub async fn rows_in<V: Into<Value> + Clone>(
        &mut self,
        head: &Statement,
        keys: &[V],
        tail: &str,
    ) -> Result<Vec<Row>, SqlError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        self.rows(head.with_list(self.dialect(), keys, tail)).await
    }

    /// Runs `head (KEY, KEY, ...)` for any number of `keys`; the number of rows affected.
    ///
    /// # Errors
    /// [`SqlError`] when the statement is refused.
    pub async fn execute_in<V: Into<Value> + Clone>(
        &mut self,
        head: &Statement,
        keys: &[V],
    ) -> Result<u64, SqlError> {
        if keys.is_empty() {
            return Ok(0);
        }
        let statement = head.with_list(self.dialect(), keys, "");
        Ok(self.execute(statement).await?.rows_affected)
    }

    /// `head (?, ..), (?, ..), ... tail` for any number of `rows`, all of the same width.
    ///
    /// # Errors
    /// [`SqlError`] when a statement is refused.
    pub async fn insert_rows<const WIDTH: usize>(
        &mut self,
        head: &str,
        rows: Vec<[Value; WIDTH]>,
        tail: &str,
    ) -> Result<u64, SqlError> {
        let per_statement = (self.dialect().max_variables() / WIDTH).min(MAX_ROWS_PER_INSERT);
        let mut affected = 0;
        let mut rows = rows.into_iter().peekable();
        while rows.peek().is_some() {
            let chunk: Vec<[Value; WIDTH]> = rows.by_ref().take(per_statement).collect();
            let group = format!("({})", placeholders(WIDTH));
            let groups = vec![group.as_str(); chunk.len()].join(",");
            let statement = Statement::new(format!("{head} {groups} {tail}"))
                .bind_all(chunk.into_iter().flatten());
            affected += self.execute(statement).await?.rows_affected;
        }
        Ok(affected)
    }

    pub(super) async fn commit(self) -> Result<(), SqlError> {
        Ok(self.inner.commit().await?)
    }

    pub(super) async fn rollback(self) -> Result<(), SqlError> {
        Ok(self.inner.rollback().await?)
    }
}

/// Rows per INSERT. Parsing a text grows faster than linearly past some size in every database.
const MAX_ROWS_PER_INSERT: usize = 500;

/// The driver's form of a statement.
pub(super) fn query(statement: Statement) -> Query<'static, Sqlite, SqliteArguments> {
    let mut query =
        sqlx::query::<Sqlite>(AssertSqlSafe(statement.sql)).persistent(statement.recurring);
    for value in statement.values {
        query = match value {
            Value::Null => query.bind(None::<i64>),
            Value::Int(number) => query.bind(number),
            Value::Double(number) => query.bind(number),
            Value::Text(text) => query.bind(text),
        };
    }
    query
}
