//! Access to the tables of the compute API, and the mapping of database errors to responses.

pub(crate) mod schema;
mod upgrade;

use std::str::FromStr;

use berth_http::Fault;
use berth_store::{Disposition, Retryable, SqlError, SqlStore, Transaction, Work};

/// The tables. Clones share one store.
#[derive(Debug, Clone)]
pub(crate) struct ComputeTables(SqlStore);

impl ComputeTables {
    pub(crate) fn of(store: SqlStore) -> Self {
        Self(store)
    }

    /// Begins a reading transaction.
    pub(crate) async fn read(&self) -> Result<Transaction, SqlError> {
        self.0.read().await
    }

    /// Truncates SQLite's write-ahead log, which still holds deleted rows. After a failure the next call does it.
    pub(crate) async fn empty_log(&self) {
        if let Err(error) = self.0.empty_log().await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "truncating the database log failed; it still holds deleted rows"
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
pub enum ComputeTableError {
    #[error("the database of the compute API failed")]
    Sql(#[from] SqlError),
    /// A column holds a value that no version of this service writes.
    #[error("column {column} of table {table} holds the unknown value {text:?}")]
    Foreign {
        table: &'static str,
        column: &'static str,
        /// The beginning of the value.
        text: String,
    },
}

impl ComputeTableError {
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Sql(error) => error.write_disposition(),
            Self::Foreign { .. } => Disposition::Fatal,
        }
    }
}

impl Retryable for ComputeTableError {
    fn disposition(&self) -> Disposition {
        self.disposition()
    }
}

/// Parses a text column.
pub(crate) fn typed<T: FromStr>(
    text: &str,
    table: &'static str,
    column: &'static str,
) -> Result<T, ComputeTableError> {
    text.parse().map_err(|_| foreign(text, table, column))
}

/// That a column holds this.
pub(crate) fn foreign(text: &str, table: &'static str, column: &'static str) -> ComputeTableError {
    ComputeTableError::Foreign {
        table,
        column,
        text: text.chars().take(80).collect(),
    }
}

/// The message for a row that this service cannot read. Its content may belong to another user.
pub(crate) const FOREIGN: &str = "The database holds what this service did not write.";

/// The response to a database failure. The cause is logged here, once.
pub(crate) fn fault(error: &ComputeTableError) -> Fault {
    match error {
        ComputeTableError::Foreign { .. } => {
            tracing::error!(
                error = error as &dyn std::error::Error,
                "a database request failed"
            );
            Fault::internal(FOREIGN)
        }
        ComputeTableError::Sql(error) => sql_fault(error, "database"),
    }
}

/// The response to a failure of any database. Details are only in the log.
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
        hint = error.hint(),
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
