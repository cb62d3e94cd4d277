//! Access to the tables, one module per resource. Reads take an open transaction. Each write is a value that
//! `SqlStore::write` runs, and retries as a whole after a conflict.

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

/// A timestamp in packed columns, where PostgreSQL writes a `T`; `None` if it is empty or invalid.
pub(crate) fn packed_moment(text: Option<&str>) -> Option<SqlTimestamp> {
    text?.replacen('T', " ", 1).parse().ok()
}

/// The response to a database failure. The cause is logged here, once.
pub(crate) fn fault(error: &SqlError) -> Fault {
    // The caller's own text is invalid in this database. Others would search for it and find nothing.
    if let SqlError::Nul(_) | SqlError::Character(_) = error {
        return Fault::bad_request(format!("{error}; {}.", error.hint()));
    }
    tracing::error!(
        error = error as &dyn std::error::Error,
        hint = error.hint(),
        "database"
    );
    let message = format!("The database failed: {error}; {}.", error.hint());
    match error.will_pass() {
        true => Fault::unavailable(message),
        false => Fault::internal(message),
    }
}

/// A generation after `steps` more changes.
pub(crate) fn raised(generation: i64, steps: i64) -> Result<i64, SqlError> {
    generation.checked_add(steps).ok_or(SqlError::CounterFull {
        counter: "generation",
        value: generation,
    })
}

/// Whether a database error may pass if the transaction is retried. Duplicate keys and broken references count: the
/// retry sees the other writer's rows.
pub(crate) fn retry(error: &SqlError) -> Disposition {
    match error {
        SqlError::Duplicate(_) | SqlError::Constraint(_) => Disposition::Retry,
        other => other.disposition(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use berth_store::{SqlError, Transaction, Work};

    /// Statements without values, for a test's rows.
    pub(crate) struct Sql(pub(crate) &'static str);

    impl Work for Sql {
        type Output = ();
        type Error = SqlError;

        async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
            tx.script(self.0).await
        }
    }
}
