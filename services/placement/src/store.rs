//! Access to the SQL tables of the Placement service: one module per resource (`inventories`, `traits`, ...) or per task on
//! several resources (`candidate_roots`, `invalidation`, `name_resolution`, `replace`). Here are the helpers that they
//! share.
//!
//! Reads take an open transaction. Each write is a value that `SqlStore::write` runs, and retries as a whole after a
//! conflict.

pub(crate) mod aggregates;
pub(crate) mod allocations;
pub(crate) mod candidate_roots;
pub(crate) mod consumers;
pub(crate) mod invalidation;
pub(crate) mod inventories;
pub(crate) mod name_resolution;
pub(crate) mod providers;
pub(crate) mod replace;
pub(crate) mod resource_classes;
pub(crate) mod schema;
pub(crate) mod traits;
pub(crate) mod trees;
pub(crate) mod usages;

use berth_http::Fault;
use berth_store::{Disposition, Retryable, Row, SqlError, SqlTimestamp, Value};

/// The current time as a column value.
pub(crate) fn now() -> Value {
    Value::Timestamp(SqlTimestamp::now())
}

/// A timestamp column; `None` if it is empty or invalid.
pub(crate) fn moment(row: &Row, column: usize) -> Result<Option<SqlTimestamp>, SqlError> {
    match row.opt_moment(column) {
        // An invalid date must not make the row unreadable.
        Err(SqlError::Column { .. }) => Ok(None),
        moment => moment,
    }
}

/// A timestamp out of the JSON text of several columns; `None` if it is empty or invalid. PostgreSQL writes
/// `2026-11-23T10:00:00` there, other databases a space instead of the `T`.
pub(crate) fn packed_moment(text: Option<&str>) -> Option<SqlTimestamp> {
    text?.replacen('T', " ", 1).parse().ok()
}

/// Logs a database error, and returns the response to the client. Callers do not log it again.
pub(crate) fn fault(error: &SqlError) -> Fault {
    // The request has a text that this database cannot store, for example with a NUL. It is the client's error, also in a
    // search, although another database would find nothing.
    if let SqlError::Nul(_) | SqlError::Character(_) = error {
        return Fault::bad_request(format!("{error}; {}.", error.hint()));
    }
    tracing::error!(
        error = error as &dyn std::error::Error,
        hint = error.hint(),
        "a database request failed"
    );
    let message = format!("The database failed: {error}; {}.", error.hint());
    match error.will_pass() {
        true => Fault::unavailable(message),
        false => Fault::internal(message),
    }
}

/// The generation after `steps` more changes.
pub(crate) fn generation_after(generation: i64, steps: i64) -> Result<i64, SqlError> {
    generation.checked_add(steps).ok_or(SqlError::CounterFull {
        counter: "generation",
        value: generation,
    })
}

/// Whether the transaction that failed with this error is retried. A duplicate key and a broken reference are retried:
/// the next attempt sees the rows of the other writer.
pub(crate) fn retry_disposition(error: &SqlError) -> Disposition {
    match error {
        SqlError::Duplicate(_) | SqlError::Constraint(_) => Disposition::Retry,
        other => other.disposition(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use berth_store::{SqlError, Transaction, Work};

    /// SQL statements that insert the rows of a test.
    pub(crate) struct Sql(pub(crate) &'static str);

    impl Work for Sql {
        type Output = ();
        type Error = SqlError;

        async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
            tx.script(self.0).await
        }
    }
}
