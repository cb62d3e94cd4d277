//! Access to the tables, one module per resource. Reads take an open transaction. Each write is a value that
//! [`Tables::write`] runs, and retries as a whole after a conflict.
//!
//! Writers of all processes are serialised. A write depends on rows that it does not change, or on the absence of rows
//! (no other request holds a deployable, a guest has no other requests, all programmings of a bind have ended), which
//! row locks do not protect.

pub(crate) mod adopted;
pub(crate) mod arqs;
pub(crate) mod arqs_of_unknown_instances;
pub(crate) mod attributes;
pub(crate) mod bind;
pub(crate) mod deployables;
pub(crate) mod device_profiles;
pub(crate) mod devices;
pub(crate) mod events;
pub(crate) mod handles;
pub(crate) mod host_changes;
pub(crate) mod host_devices;
pub(crate) mod idle_arqs;
pub(crate) mod known_devices;
pub(crate) mod programmings;
pub(crate) mod providers;
#[cfg(test)]
mod query_plans;
pub(crate) mod schema;

use std::str::FromStr;

use berth_http::Fault;
use berth_store::{
    Disposition, Retryable, Row, SqlError, SqlStore, SqlTimestamp, Transaction, Value, Work,
};

/// Each writer updates this row first, so that a concurrent writer waits or gets a conflict.
const TURN: &str = "UPDATE accelerator_schema SET writes = writes + 1";

/// The tables. Clones share one store.
#[derive(Debug, Clone)]
pub(crate) struct AcceleratorTables(SqlStore);

impl AcceleratorTables {
    pub(crate) fn of(store: SqlStore) -> Self {
        Self(store)
    }

    /// Whether other processes may write to the tables.
    pub(crate) fn are_shared(&self) -> bool {
        self.0.is_shared()
    }

    /// Begins a reading transaction.
    pub(crate) async fn read(&self) -> Result<Transaction, SqlError> {
        self.0.read().await
    }

    /// Runs `work` as one serialised transaction.
    pub(crate) async fn write<W: Work>(&self, work: &W) -> Result<W::Output, W::Error> {
        self.0.write_in_turn(TURN, work).await
    }
}

/// Why a row could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AcceleratorTableError {
    #[error("the database failed")]
    Sql(#[from] SqlError),
    /// A column holds a value that no version of this service writes.
    #[error("column {column} of table {table} holds the unknown value {text:?}")]
    Foreign {
        table: &'static str,
        column: &'static str,
        text: String,
    },
}

impl Retryable for AcceleratorTableError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Sql(error) => error.write_disposition(),
            Self::Foreign { .. } => Disposition::Fatal,
        }
    }
}

/// Parses a text column.
pub(crate) fn typed<T: FromStr>(
    text: &str,
    table: &'static str,
    column: &'static str,
) -> Result<T, AcceleratorTableError> {
    text.parse().map_err(|_| foreign(text, table, column))
}

pub(crate) fn foreign(
    text: &str,
    table: &'static str,
    column: &'static str,
) -> AcceleratorTableError {
    AcceleratorTableError::Foreign {
        table,
        column,
        text: text.chars().take(80).collect(),
    }
}

/// The current time as a column value.
pub(crate) fn now() -> Value {
    Value::Timestamp(SqlTimestamp::now())
}

/// A timestamp column in the format of the API's documents.
pub(crate) fn moment(row: &Row, column: usize) -> Result<Option<String>, SqlError> {
    let moment = match row.opt_moment(column) {
        // An invalid date must not make the row unreadable.
        Err(SqlError::Column { .. }) => None,
        moment => moment?,
    };
    Ok(moment.map(|moment| {
        let text = moment.to_string().replace(' ', "T");
        format!("{}+00:00", text.get(..19).unwrap_or(&text))
    }))
}

/// The response to a database failure. The cause is logged here, once.
pub(crate) fn fault(error: &AcceleratorTableError) -> Fault {
    match error {
        AcceleratorTableError::Sql(SqlError::Nul(_)) => {
            return Fault::bad_request("A text has a NUL character in it, which cannot be kept.");
        }
        AcceleratorTableError::Sql(error @ SqlError::Character(_)) => {
            return Fault::bad_request(format!("The database says that {error}."));
        }
        _ => {}
    }
    let message = match error {
        AcceleratorTableError::Sql(sql) => {
            tracing::error!(
                error = sql as &dyn std::error::Error,
                hint = sql.hint(),
                "a database request failed"
            );
            format!("The database failed: {sql}; {}.", sql.hint())
        }
        AcceleratorTableError::Foreign { .. } => {
            tracing::error!(
                error = error as &dyn std::error::Error,
                "a database request failed"
            );
            "The database holds what this service did not write.".to_owned()
        }
    };
    match error {
        AcceleratorTableError::Sql(sql) if sql.will_pass() => Fault::unavailable(message),
        _ => Fault::internal(message),
    }
}
