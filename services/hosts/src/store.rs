//! Access to the service's tables: read and write transactions, errors, and conversions of columns.

pub(crate) mod schema;

use std::str::FromStr;

use berth_http::Fault;
use berth_http::request_id::random_uuid;
use berth_store::{
    Disposition, Retryable, SqlError, SqlStore, SqlTimestamp, Statement, Transaction, Work,
};

/// Locks aggregates and sets their new revision. Every writer of aggregates runs this statement first, so writers are
/// serialised; readers use the revision as a cache key.
const LOCK_AGGREGATES: &str = "UPDATE compute_hosts_schema SET aggregates = ?";

/// The service's tables. Clones share the connection pool.
#[derive(Debug, Clone)]
pub(crate) struct HostTables(SqlStore);

impl HostTables {
    /// Uses a prepared database ([`crate::prepare`]).
    pub(crate) fn of(store: SqlStore) -> Self {
        Self(store)
    }

    /// Begins a read transaction.
    pub(crate) async fn read(&self) -> Result<Transaction, SqlError> {
        self.0.read().await
    }

    /// Runs `work` as one transaction.
    pub(crate) async fn write<W: Work>(&self, work: &W) -> Result<W::Output, W::Error> {
        self.0.write(work).await
    }

    /// Runs `work` as one transaction that holds the lock of aggregates. The rule of one zone per host spans rows
    /// that a single change does not touch.
    pub(crate) async fn write_aggregates<W: Work>(&self, work: &W) -> Result<W::Output, W::Error> {
        self.0.write(&WithAggregatesLock(work)).await
    }
}

/// Takes the lock of aggregates before the inner work.
struct WithAggregatesLock<'a, W>(&'a W);

impl<W: Work> Work for WithAggregatesLock<'_, W> {
    type Output = W::Output;
    type Error = W::Error;

    async fn run(&self, tx: &mut Transaction) -> Result<W::Output, W::Error> {
        let lock = Statement::new(LOCK_AGGREGATES).bind(new_revision());
        tx.execute(lock).await?;
        self.0.run(tx).await
    }
}

/// A random revision. A counter could repeat a value for other aggregates in a database that was
/// restored from a backup.
fn new_revision() -> i64 {
    let (half, other) = random_uuid().as_u64_pair();
    (half ^ other).cast_signed()
}

/// Error of reading or writing the tables.
#[derive(Debug, thiserror::Error)]
pub enum HostTableError {
    #[error("the database of compute hosts failed: {}; {}", .0, .0.hint())]
    Sql(SqlError),
    /// A column holds a value that no release of this service writes.
    #[error(
        "column {column} of table {table} contains {text:?}, which this service does not write"
    )]
    UnexpectedValue {
        table: &'static str,
        column: &'static str,
        /// The first characters of the value.
        text: String,
    },
}

impl From<SqlError> for HostTableError {
    fn from(error: SqlError) -> Self {
        Self::Sql(error)
    }
}

impl HostTableError {
    /// How a caller's loop continues after the error.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Sql(error) => error.write_disposition(),
            Self::UnexpectedValue { .. } => Disposition::Fatal,
        }
    }
}

impl Retryable for HostTableError {
    fn disposition(&self) -> Disposition {
        self.disposition()
    }
}

/// Parses the text of a column.
pub(crate) fn typed<T: FromStr>(
    text: &str,
    table: &'static str,
    column: &'static str,
) -> Result<T, HostTableError> {
    text.parse()
        .map_err(|_| unexpected_value(text, table, column))
}

pub(crate) fn unexpected_value(
    text: &str,
    table: &'static str,
    column: &'static str,
) -> HostTableError {
    HostTableError::UnexpectedValue {
        table,
        column,
        text: text.chars().take(80).collect(),
    }
}

/// Seconds from one time to another; negative if the clock was set back in between.
pub(crate) fn seconds_between(from: SqlTimestamp, to: SqlTimestamp) -> f64 {
    let micros = to.as_micros().saturating_sub(from.as_micros());
    let span = std::time::Duration::from_micros(micros.unsigned_abs()).as_secs_f64();
    if micros < 0 { -span } else { span }
}

/// Converts a database error into a response, and logs the cause. The only place where it is logged.
pub(crate) fn fault(error: &HostTableError) -> Fault {
    let message = match error {
        HostTableError::Sql(SqlError::Nul(_)) => {
            return Fault::bad_request("A text contains a NUL character, which cannot be stored.");
        }
        HostTableError::Sql(error @ SqlError::Character(_)) => {
            return Fault::bad_request(format!("The database says that {error}."));
        }
        HostTableError::Sql(sql) => {
            tracing::error!(
                error = sql as &dyn std::error::Error,
                hint = sql.hint(),
                "a database request failed"
            );
            format!("The database failed: {sql}; {}.", sql.hint())
        }
        HostTableError::UnexpectedValue { .. } => {
            tracing::error!(
                error = error as &dyn std::error::Error,
                "a database request failed"
            );
            "The database contains a value that this service did not write.".to_owned()
        }
    };
    match error {
        HostTableError::Sql(sql) if sql.will_pass() => Fault::unavailable(message),
        _ => Fault::internal(message),
    }
}
