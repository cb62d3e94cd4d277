//! The tables, a file per noun. Reads take an open transaction; each write is a value that [`Tables::write`] runs, and runs
//! again as a whole when another writer came in between.
//!
//! Writers take turns, in all processes on the database: what a write decides on (that nobody else holds a deployable that is to
//! be programmed, that a guest has no other requests, that all programmings of a bind have ended) stands in rows that it does
//! not change, or in rows that are not there. One at a time is what SQLite gives, and what these writes are right under.

pub(crate) mod adopted;
pub(crate) mod arqs;
pub(crate) mod attributes;
pub(crate) mod bind;
pub(crate) mod deployables;
pub(crate) mod device_profiles;
pub(crate) mod devices;
pub(crate) mod events;
pub(crate) mod handles;
pub(crate) mod host_changes;
pub(crate) mod host_devices;
pub(crate) mod known_devices;
#[cfg(test)]
mod plans;
pub(crate) mod programmings;
pub(crate) mod providers;
pub(crate) mod schema;
pub(crate) mod strangers;
pub(crate) mod unbound;

use std::str::FromStr;

use berth_http::{Fault, Timestamp};
use berth_store::{
    Disposition, Moment, Retryable, Row, SqlError, SqlStore, Transaction, Value, Work,
};

/// What each writer changes first: who comes after it waits for its end, or is told that it came second.
const TURN: &str = "UPDATE accelerator_schema SET writes = writes + 1";

/// The tables. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Tables(SqlStore);

impl Tables {
    /// Those of a prepared database ([`crate::prepare`]).
    pub(crate) fn of(store: SqlStore) -> Self {
        Self(store)
    }

    /// Whether other processes may write to them as well.
    pub(crate) fn are_shared(&self) -> bool {
        self.0.is_shared()
    }

    /// Begins a reading transaction.
    pub(crate) async fn read(&self) -> Result<Transaction, SqlError> {
        self.0.read().await
    }

    /// Runs `work` as one transaction, with no other writer beside it.
    pub(crate) async fn write<W: Work>(&self, work: &W) -> Result<W::Output, W::Error> {
        self.0.write_in_turn(TURN, work).await
    }
}

/// Why a row could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("the database failed")]
    Sql(#[from] SqlError),
    /// A column holds what no version of this service writes.
    #[error("column {column} of table {table} holds {text:?}, which this service does not write")]
    Foreign {
        table: &'static str,
        column: &'static str,
        text: String,
    },
}

impl Retryable for ReadError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Sql(error) => retry(error),
            Self::Foreign { .. } => Disposition::Fatal,
        }
    }
}

/// A text of a column as the type it stands for.
pub(crate) fn typed<T: FromStr>(
    text: &str,
    table: &'static str,
    column: &'static str,
) -> Result<T, ReadError> {
    text.parse().map_err(|_| foreign(text, table, column))
}

pub(crate) fn foreign(text: &str, table: &'static str, column: &'static str) -> ReadError {
    ReadError::Foreign {
        table,
        column,
        text: text.chars().take(80).collect(),
    }
}

/// Now, as the tables hold it.
pub(crate) fn now() -> Value {
    Value::Moment(Moment::now())
}

/// The moment in a column, as documents hold it.
pub(crate) fn moment(row: &Row, column: usize) -> Result<Option<String>, SqlError> {
    let moment = match row.opt_moment(column) {
        // Written by another hand: nobody is kept from the row for its date.
        Err(SqlError::Column { .. }) => None,
        moment => moment?,
    };
    let moment = moment.and_then(|moment| Timestamp::parse(&moment.to_string()));
    Ok(moment.map(Timestamp::to_iso))
}

/// What a caller is told when the database failed. The cause goes to the log, once, here.
pub(crate) fn fault(error: &ReadError) -> Fault {
    match error {
        ReadError::Sql(SqlError::Nul(_)) => {
            return Fault::bad_request("A text has a NUL character in it, which cannot be kept.");
        }
        ReadError::Sql(error @ SqlError::Character(_)) => {
            return Fault::bad_request(format!("The database says that {error}."));
        }
        _ => {}
    }
    let message = match error {
        ReadError::Sql(sql) => {
            tracing::error!(
                error = sql as &dyn std::error::Error,
                mend = sql.mend(),
                "database"
            );
            format!("The database failed: {sql}; {}.", sql.mend())
        }
        ReadError::Foreign { .. } => {
            tracing::error!(error = error as &dyn std::error::Error, "database");
            "The database holds what this service did not write.".to_owned()
        }
    };
    match error {
        ReadError::Sql(sql) if sql.will_pass() => Fault::unavailable(message),
        _ => Fault::internal(message),
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
