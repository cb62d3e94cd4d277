//! The tables, a file per noun. Reads take an open transaction; each write is a value that `SqlStore::write` runs, and runs
//! again as a whole when another writer came in between.

pub(crate) mod adopted;
pub(crate) mod arqs;
pub(crate) mod attributes;
pub(crate) mod bind;
pub(crate) mod deployables;
pub(crate) mod device_profiles;
pub(crate) mod devices;
pub(crate) mod events;
pub(crate) mod handles;
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
use berth_store::{Disposition, Retryable, Row, SqlError, Value};

/// Why a row could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The database failed.
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
    Value::Text(Timestamp::now().to_sql())
}

/// The moment in a column, as documents hold it.
pub(crate) fn moment(row: &Row, column: usize) -> Result<Option<String>, SqlError> {
    let text = row.opt_text(column)?;
    let moment = text.as_deref().and_then(Timestamp::parse);
    Ok(moment.map(Timestamp::to_iso))
}

/// What a caller is told when the database failed. The cause goes to the log, once, here.
pub(crate) fn fault(error: &ReadError) -> Fault {
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
        ReadError::Sql(SqlError::Busy(_) | SqlError::Closed) => Fault::unavailable(message),
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
