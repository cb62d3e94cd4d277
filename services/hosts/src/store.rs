//! The tables as all nouns see them: how they are read and written, and what a failure of the database is called.

pub(crate) mod schema;

use std::str::FromStr;

use berth_http::Fault;
use berth_http::request_id::random_uuid;
use berth_store::{
    Disposition, Moment, Retryable, SqlError, SqlStore, Statement, Transaction, Work,
};

/// What each writer of aggregates changes first: who comes after it waits for its end, or begins anew. It is also what they are
/// called from then on, for those who remember what they read.
const AGGREGATES_TURN: &str = "UPDATE compute_hosts_schema SET aggregates = ?";

/// The tables. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Tables(SqlStore);

impl Tables {
    /// Those of a prepared database ([`crate::prepare`]).
    pub(crate) fn of(store: SqlStore) -> Self {
        Self(store)
    }

    /// Begins a reading transaction.
    pub(crate) async fn read(&self) -> Result<Transaction, SqlError> {
        self.0.read().await
    }

    /// Runs `work` as one transaction.
    pub(crate) async fn write<W: Work>(&self, work: &W) -> Result<W::Output, W::Error> {
        self.0.write(work).await
    }

    /// Runs `work` as one transaction, with nobody else beside it who changes aggregates: that a host is in one zone at most
    /// stands in rows that no single change touches all of.
    pub(crate) async fn write_aggregates<W: Work>(&self, work: &W) -> Result<W::Output, W::Error> {
        self.0.write(&InTurn(work)).await
    }
}

/// Changes the row first that all change who change aggregates.
struct InTurn<'a, W>(&'a W);

impl<W: Work> Work for InTurn<'_, W> {
    type Output = W::Output;
    type Error = W::Error;

    async fn run(&self, tx: &mut Transaction) -> Result<W::Output, W::Error> {
        let turn = Statement::new(AGGREGATES_TURN).bind(unheard_of());
        tx.execute(turn).await?;
        self.0.run(tx).await
    }
}

/// A number that was never one before. A count would come to the same numbers again, for other aggregates, in a database that was
/// restored from a backup.
fn unheard_of() -> i64 {
    let (half, other) = random_uuid().as_u64_pair();
    (half ^ other).cast_signed()
}

/// Why the tables could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error("the database of compute hosts failed: {}; {}", .0, .0.mend())]
    Sql(SqlError),
    /// A column holds what no version of this service writes.
    #[error("column {column} of table {table} holds {text:?}, which this service does not write")]
    Foreign {
        table: &'static str,
        column: &'static str,
        /// The beginning of what it holds.
        text: String,
    },
}

impl From<SqlError> for TableError {
    fn from(error: SqlError) -> Self {
        Self::Sql(error)
    }
}

impl TableError {
    /// What a loop does about it.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Sql(error) => retry(error),
            Self::Foreign { .. } => Disposition::Fatal,
        }
    }
}

impl Retryable for TableError {
    fn disposition(&self) -> Disposition {
        self.disposition()
    }
}

/// A text of a column as the type it stands for.
pub(crate) fn typed<T: FromStr>(
    text: &str,
    table: &'static str,
    column: &'static str,
) -> Result<T, TableError> {
    text.parse().map_err(|_| foreign(text, table, column))
}

pub(crate) fn foreign(text: &str, table: &'static str, column: &'static str) -> TableError {
    TableError::Foreign {
        table,
        column,
        text: text.chars().take(80).collect(),
    }
}

/// Seconds from one moment to another; negative where the clock went back in between.
pub(crate) fn seconds(from: Moment, to: Moment) -> f64 {
    let micros = to.as_micros().saturating_sub(from.as_micros());
    let span = std::time::Duration::from_micros(micros.unsigned_abs()).as_secs_f64();
    if micros < 0 { -span } else { span }
}

/// Whether the database's error may pass when the whole transaction runs again. A duplicate key is such a case too: the
/// other writer's row will be seen then.
pub(crate) fn retry(error: &SqlError) -> Disposition {
    match error {
        SqlError::Duplicate(_) => Disposition::Retry,
        other => other.disposition(),
    }
}

/// What a caller is told when the database failed. The cause goes to the log, once, here.
pub(crate) fn fault(error: &TableError) -> Fault {
    let message = match error {
        TableError::Sql(SqlError::Nul(_)) => {
            return Fault::bad_request("A text has a NUL character in it, which cannot be kept.");
        }
        TableError::Sql(error @ SqlError::Character(_)) => {
            return Fault::bad_request(format!("The database says that {error}."));
        }
        TableError::Sql(sql) => {
            tracing::error!(
                error = sql as &dyn std::error::Error,
                mend = sql.mend(),
                "database"
            );
            format!("The database failed: {sql}; {}.", sql.mend())
        }
        TableError::Foreign { .. } => {
            tracing::error!(error = error as &dyn std::error::Error, "database");
            "The database holds what this service did not write.".to_owned()
        }
    };
    match error {
        TableError::Sql(sql) if sql.will_pass() => Fault::unavailable(message),
        _ => Fault::internal(message),
    }
}
