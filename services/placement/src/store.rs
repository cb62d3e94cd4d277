//! The tables, a file per noun. Reads take an open transaction; each write is a value that
//! `SqlStore::write` runs, and runs again as a whole when another writer came in between.

pub(crate) mod aggregates;
pub(crate) mod allocations;
pub(crate) mod consumers;
pub(crate) mod inventories;
pub(crate) mod meanings;
pub(crate) mod providers;
pub(crate) mod replace;
pub(crate) mod resource_classes;
pub(crate) mod roots;
pub(crate) mod schema;
pub(crate) mod touched;
pub(crate) mod traits;
pub(crate) mod trees;
pub(crate) mod usages;

use berth_http::{Fault, Timestamp};
use berth_store::{Disposition, Moment, Retryable, Row, SqlError, Value};

/// Now, as the tables hold it.
pub(crate) fn now() -> Value {
    Value::Moment(Moment::now())
}

/// The moment in a column, the beginning of time when it is empty or odd.
pub(crate) fn moment(row: &Row, column: usize) -> Result<Option<Timestamp>, SqlError> {
    match row.opt_moment(column) {
        Ok(moment) => Ok(moment.and_then(|moment| Timestamp::parse(&moment.to_string()))),
        // Written by another hand: nobody is kept from the row for its date.
        Err(SqlError::Column { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What a caller is told when the database failed. The cause goes to the log, once, here.
pub(crate) fn fault(error: &SqlError) -> Fault {
    // The caller's own text: another database would have looked for it and found nothing.
    if let SqlError::Nul(_) | SqlError::Character(_) = error {
        return Fault::bad_request(format!("{error}; {}.", error.mend()));
    }
    tracing::error!(
        error = error as &dyn std::error::Error,
        mend = error.mend(),
        "database"
    );
    let message = format!("The database failed: {error}; {}.", error.mend());
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

/// Whether the database's error may pass when the whole transaction runs again. A duplicate key is such a case too: the other
/// writer's row will be seen then. And so is a row that others refer to, or that is referred to and gone.
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
