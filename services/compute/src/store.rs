//! The tables as all nouns see them: how they are read and written, and what a failure of the database is called.

pub(crate) mod schema;
mod upgrade;

use std::str::FromStr;

use berth_http::Fault;
use berth_store::{Disposition, Retryable, SqlError, SqlStore, Transaction, Work};

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

    /// Takes what was deleted out of SQLite's log, too. What is left there now goes with the next time.
    pub(crate) async fn empty_log(&self) {
        if let Err(error) = self.0.empty_log().await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the log of the database still has what was deleted"
            );
        }
    }

    /// Runs `work` as one transaction.
    pub(crate) async fn write<W: Work>(&self, work: &W) -> Result<W::Output, W::Error> {
        self.0.write(work).await
    }
}

/// Why the tables could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error("the database of the compute API failed")]
    Sql(#[from] SqlError),
    /// A column holds what no version of this service writes.
    #[error("column {column} of table {table} holds {text:?}, which this service does not write")]
    Foreign {
        table: &'static str,
        column: &'static str,
        /// The beginning of what it holds.
        text: String,
    },
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

/// That a column holds this.
pub(crate) fn foreign(text: &str, table: &'static str, column: &'static str) -> TableError {
    TableError::Foreign {
        table,
        column,
        text: text.chars().take(80).collect(),
    }
}

/// Whether the database's error may pass when the whole transaction runs again. A duplicate key is such a case too: the
/// other writer's row will be seen then.
pub(crate) fn retry(error: &SqlError) -> Disposition {
    match error {
        SqlError::Duplicate(_) => Disposition::Retry,
        other => other.disposition(),
    }
}

/// What a caller is told where a table holds what nobody here wrote: that may be somebody else's.
pub(crate) const FOREIGN: &str = "The database holds what this service did not write.";

/// What a caller is told when the database failed. The cause goes to the log, once, here.
pub(crate) fn fault(error: &TableError) -> Fault {
    match error {
        TableError::Foreign { .. } => {
            tracing::error!(error = error as &dyn std::error::Error, "database");
            Fault::internal(FOREIGN)
        }
        TableError::Sql(error) => sql_fault(error, "database"),
    }
}

/// The same of any database, which the log calls so. What an operator can do about it is for the log alone.
pub(crate) fn sql_fault(error: &SqlError, database: &'static str) -> Fault {
    match error {
        SqlError::Nul(_) => {
            return Fault::bad_request("A text has a NUL character in it, which cannot be kept.");
        }
        SqlError::Character(_) => {
            return Fault::bad_request(format!("The database says that {error}."));
        }
        _ => {}
    }
    tracing::error!(
        error = error as &dyn std::error::Error,
        mend = error.mend(),
        "{database}"
    );
    match error {
        SqlError::OutcomeUnknown(_) => Fault::internal(
            "The database failed, and what was asked for was done or not: see which before you ask again.",
        ),
        error if error.will_pass() => {
            Fault::unavailable("The database cannot be asked now; try again.")
        }
        _ => Fault::internal("The database failed."),
    }
}
