//! Records of where guests were put, and why: a row for each decision, so many at most and none too old.

use std::time::Duration;

use berth_store::{Disposition, Moment, Retryable, Row, SqlError, Statement, Transaction, Work};
use berth_wire::BodyError;
use serde::de::IgnoredAny;

use crate::hosts::Hosts;
use crate::report::own_name;
use crate::store::TableError;

/// The longest record, in bytes: a database's packet takes it.
const LONGEST: usize = 4 << 20;

/// What is kept of past decisions; the oldest go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordBounds {
    /// So many at most. On a Galera cluster, whose numbers have gaps, fewer.
    pub count: u32,
    /// None that is older.
    pub age: Duration,
}

impl Default for RecordBounds {
    fn default() -> Self {
        Self {
            count: 10_000,
            age: Duration::from_secs(7 * 24 * 3_600),
        }
    }
}

/// The record of one decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulingRecord {
    /// Its number; later decisions have larger ones.
    pub id: i64,
    /// The request that was decided; it may have been decided several times.
    pub request_id: String,
    /// When, by the database's clock.
    pub created_at: Moment,
    /// What was kept of it, as JSON.
    pub record: String,
}

/// A record without what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulingRecordHead {
    pub id: i64,
    pub request_id: String,
    /// When, by the database's clock.
    pub created_at: Moment,
}

/// Why a record could not be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A field is not what it may be.
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error(transparent)]
    Table(#[from] TableError),
}

impl From<SqlError> for RecordError {
    fn from(error: SqlError) -> Self {
        Self::Table(error.into())
    }
}

impl RecordError {
    /// What a loop does about it.
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
    /// Keeps the record of one decision, and lets go of those that are too many or too old; its number.
    ///
    /// # Errors
    /// [`RecordError::Body`] where the request has no name, or the record is no JSON or longer than 4 MiB.
    pub async fn put_record(&self, request_id: &str, record: &str) -> Result<i64, RecordError> {
        own_name("request_id", request_id)?;
        if record.len() > LONGEST {
            let reason = format!("it has {} bytes, and {LONGEST} are the most", record.len());
            return Err(BodyError::field("record", reason).into());
        }
        serde_json::from_str::<IgnoredAny>(record)
            .map_err(|error| BodyError::field("record", format!("it is no JSON: {error}")))?;
        let put = Put {
            request_id,
            record,
            bounds: self.options.records,
        };
        self.tables.write(&put).await
    }

    /// The records of a request, as it was decided.
    pub async fn records_of(&self, request_id: &str) -> Result<Vec<SchedulingRecord>, RecordError> {
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

    /// The newest records, the newest first; `limit` at most, and of those before the one of the number `before`, where one is given.
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

    /// No record from before this moment is told.
    async fn oldest(&self, tx: &mut Transaction) -> Result<Moment, SqlError> {
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

/// The database's own time.
async fn now(tx: &mut Transaction) -> Result<Moment, SqlError> {
    let sql = format!("SELECT {} FROM compute_hosts_schema", tx.dialect().now());
    let row = tx.row(Statement::recurring(sql)).await?;
    row.map_or_else(|| Ok(Moment::now()), |row| row.moment(0))
}

struct Put<'a> {
    request_id: &'a str,
    record: &'a str,
    bounds: RecordBounds,
}

impl Work for Put<'_> {
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
