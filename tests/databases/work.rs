//! Statements and transactions that several tests use.

use std::time::Duration;

use berth_store::{
    Disposition, Retryable, Row, SqlError, SqlStore, Statement, Transaction, Value, Work,
};

#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkError {
    #[error("another writer came first")]
    Outrun,
    #[error("never")]
    Never,
    #[error("the database failed: {0:?}")]
    Sql(#[from] SqlError),
}

impl Retryable for WorkError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Outrun => Disposition::Refresh,
            Self::Never => Disposition::Fatal,
            Self::Sql(error) => error.disposition(),
        }
    }
}

pub(crate) struct Script(pub(crate) &'static str);

impl Work for Script {
    type Output = ();
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        tx.script(self.0).await
    }
}

pub(crate) struct Execute(pub(crate) Statement);

impl Work for Execute {
    type Output = u64;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<u64, SqlError> {
        Ok(tx.execute(self.0.clone()).await?.rows_affected)
    }
}

/// An INSERT; the id of the row.
pub(crate) struct Insert(pub(crate) Statement);

impl Work for Insert {
    type Output = i64;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<i64, SqlError> {
        tx.insert(self.0.clone(), "id").await
    }
}

pub(crate) fn named(name: impl Into<Value>) -> Insert {
    Insert(
        Statement::new("INSERT INTO things (name, weight) VALUES (?, ?)")
            .bind(name)
            .bind(4.0),
    )
}

pub(crate) async fn one(store: &SqlStore, statement: Statement) -> Row {
    let mut rows = store.rows(statement).await.unwrap();
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

/// One row of a statement without values.
pub(crate) async fn ask(store: &SqlStore, sql: &'static str) -> Row {
    one(store, Statement::new(sql)).await
}

/// The result of a future with a time limit: without it, a wait for a failed task or a server would block the test.
pub(crate) async fn in_time<T>(waiting: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(Duration::from_secs(60), waiting).await;
    ended.expect("it finishes in time")
}

pub(crate) async fn count(store: &SqlStore) -> i64 {
    ask(store, "SELECT COUNT(*) FROM things")
        .await
        .int(0)
        .unwrap()
}
