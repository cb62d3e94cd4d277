//! Records of scheduling decisions: one JSON document per decision, limited in number and age.

use berth_store::{
    Disposition, Retryable, Row, SqlError, SqlTimestamp, Statement, Transaction, Work,
};
use berth_wire::BodyError;
use serde::de::IgnoredAny;

use crate::hosts::{Hosts, RecordBounds};
use crate::report::check_name_text;
use crate::store::HostTableError;

/// Maximum size of a record in bytes; fits in a database packet.
const MAX_RECORD_SIZE: usize = 4 << 20;

/// The record of one decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulingRecord {
    /// ID; grows with each decision.
    pub id: i64,
    /// The request. One request may have several decisions.
    pub request_id: String,
    /// When, by the database's clock.
    pub created_at: SqlTimestamp,
    /// The explanation as JSON.
    pub record: String,
}

/// A record without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulingRecordHead {
    pub id: i64,
    pub request_id: String,
    /// When, by the database's clock.
    pub created_at: SqlTimestamp,
}

/// Error of storing or reading a record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A field is invalid.
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error(transparent)]
    Table(#[from] HostTableError),
}

impl From<SqlError> for RecordError {
    fn from(error: SqlError) -> Self {
        Self::Table(error.into())
    }
}

impl RecordError {
    /// How a caller's loop continues after the error.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Body(_) => Disposition::Fatal,
            Self::Table(error) => error.disposition(),
        }
    }
}

impl Retryable for RecordError {
    fn disposition(&self) -> Disposition {
        self.disposition()
    }
}

impl Hosts {
    /// Stores the record of one decision and deletes records beyond the limits. Returns the record's ID.
    ///
    /// Errors: [`RecordError::Body`] if the request ID is empty, or the record is not JSON or is longer than 4 MiB.
    pub async fn insert_record(&self, request_id: &str, record: &str) -> Result<i64, RecordError> {
        check_name_text("request_id", request_id)?;
        if record.len() > MAX_RECORD_SIZE {
            let reason = format!(
                "it has {} bytes; at most {MAX_RECORD_SIZE} are allowed",
                record.len()
            );
            return Err(BodyError::field("record", reason).into());
        }
        serde_json::from_str::<IgnoredAny>(record)
            .map_err(|error| BodyError::field("record", format!("it is not JSON: {error}")))?;
        let insert = InsertRecord {
            request_id,
            record,
            bounds: self.options.records,
        };
        self.tables.write(&insert).await
    }

    /// The records of a request, oldest first.
    pub async fn records_for_request(
        &self,
        request_id: &str,
    ) -> Result<Vec<SchedulingRecord>, RecordError> {
        let mut tx = self.tables.read().await?;
        let oldest = self.oldest(&mut tx).await?;
        let sql = "SELECT id, request_id, created_at, record FROM scheduling_records \
                   WHERE request_id = ? AND created_at >= ? ORDER BY id";
        let select = Statement::new(sql).bind(request_id).bind(oldest);
        let rows = tx.rows(select).await?;
        let record = |row: &Row| {
            let head = head(row)?;
            Ok(SchedulingRecord {
                id: head.id,
                request_id: head.request_id,
                created_at: head.created_at,
                record: row.text(3)?,
            })
        };
        rows.iter().map(record).collect()
    }

    /// At most `limit` records, newest first, only those with an ID below `before` if it is given.
    pub async fn records(
        &self,
        limit: u32,
        before: Option<i64>,
    ) -> Result<Vec<SchedulingRecordHead>, RecordError> {
        let mut tx = self.tables.read().await?;
        let oldest = self.oldest(&mut tx).await?;
        let sql = "SELECT id, request_id, created_at FROM scheduling_records \
                   WHERE id < ? AND created_at >= ? ORDER BY id DESC LIMIT ?";
        let select = Statement::new(sql)
            .bind(before.unwrap_or(i64::MAX))
            .bind(oldest)
            .bind(i64::from(limit));
        let rows = tx.rows(select).await?;
        Ok(rows.iter().map(head).collect::<Result<_, SqlError>>()?)
    }

    /// Records created before this time have expired.
    async fn oldest(&self, tx: &mut Transaction) -> Result<SqlTimestamp, SqlError> {
        Ok(now(tx).await?.before(self.options.records.age))
    }
}

fn head(row: &Row) -> Result<SchedulingRecordHead, SqlError> {
    Ok(SchedulingRecordHead {
        id: row.int(0)?,
        request_id: row.text(1)?,
        created_at: row.moment(2)?,
    })
}

/// The database's current time.
async fn now(tx: &mut Transaction) -> Result<SqlTimestamp, SqlError> {
    let sql = format!("SELECT {} FROM compute_hosts_schema", tx.dialect().now());
    let row = tx.row(Statement::recurring(sql)).await?;
    row.map_or_else(|| Ok(SqlTimestamp::now()), |row| row.moment(0))
}

struct InsertRecord<'a> {
    request_id: &'a str,
    record: &'a str,
    bounds: RecordBounds,
}

impl Work for InsertRecord<'_> {
    type Output = i64;
    type Error = RecordError;

    async fn run(&self, tx: &mut Transaction) -> Result<i64, RecordError> {
        let now = now(tx).await?;
        let sql =
            "INSERT INTO scheduling_records (request_id, created_at, record) VALUES (?, ?, ?)";
        let insert = Statement::new(sql)
            .bind(self.request_id)
            .bind(now)
            .bind(self.record);
        let id = tx.insert(insert, "id").await?;
        let last = id.saturating_sub(i64::from(self.bounds.count));
        let sql = "DELETE FROM scheduling_records WHERE id <= ?";
        tx.execute(Statement::new(sql).bind(last)).await?;
        let sql = "DELETE FROM scheduling_records WHERE created_at < ?";
        let oldest = now.before(self.bounds.age);
        tx.execute(Statement::new(sql).bind(oldest)).await?;
        Ok(id)
    }
}
