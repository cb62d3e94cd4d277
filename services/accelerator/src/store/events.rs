//! The outbox: events that are written with what they tell of, and sent afterwards.

use std::time::Duration;

use berth_model::{ArqUuid, ConsumerUuid};
use berth_store::{Disposition, Moment, Retryable, SqlError, Statement, Transaction, Value, Work};
use berth_wire::compute::EventStatus;
use uuid::Uuid;

use super::{ReadError, foreign, now, typed};

const TABLE: &str = "events";
/// How many events are read at once.
const BATCH: i64 = 512;

/// One event that waits to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    pub(crate) id: i64,
    pub(crate) instance: Uuid,
    pub(crate) arq: Uuid,
    /// The host that the request was to be bound on.
    pub(crate) host: String,
    pub(crate) status: EventStatus,
    pub(crate) attempts: u32,
    pub(crate) since: Moment,
}

/// Writes events about requests of one guest. What was still to be told of the same requests is not true any more.
pub(crate) async fn tell(
    tx: &mut Transaction,
    events: &[(ConsumerUuid, ArqUuid)],
    status: EventStatus,
) -> Result<(), SqlError> {
    forget(tx, events.iter().map(|(_, arq)| *arq)).await?;
    let row = |(instance, arq): &(ConsumerUuid, ArqUuid)| {
        [
            Value::from(instance.to_string()),
            Value::from(arq.to_string()),
            Value::from(status.as_str()),
            Value::from(0_i64),
            now(),
            now(),
        ]
    };
    let head =
        "INSERT INTO events (instance_uuid, arq_uuid, status, attempts, due_at, created_at) VALUES";
    tx.insert_rows(head, events.iter().map(row).collect(), "")
        .await?;
    Ok(())
}

/// Drops what was still to be told of these requests.
pub(crate) async fn forget(
    tx: &mut Transaction,
    arqs: impl Iterator<Item = ArqUuid>,
) -> Result<(), SqlError> {
    let keys: Vec<String> = arqs.map(|arq| arq.to_string()).collect();
    let head = Statement::new("DELETE FROM events WHERE arq_uuid IN");
    tx.execute_in(&head, &keys).await?;
    Ok(())
}

/// An event goes with its request, so that one without is none.
const DUE: &str = "SELECT e.id, e.instance_uuid, e.arq_uuid, e.status, e.attempts, e.created_at, a.hostname \
                              FROM events e LEFT JOIN accelerator_requests a ON a.uuid = e.arq_uuid \
                              WHERE e.due_at <= ? ORDER BY e.due_at, e.id LIMIT ?";

/// The events that are due, the longest first.
pub(crate) async fn due(tx: &mut Transaction) -> Result<Vec<Pending>, ReadError> {
    let rows = tx.rows(Statement::new(DUE).bind(now()).bind(BATCH)).await?;
    let pending = |row: &berth_store::Row| {
        let status = row.text(3)?;
        Ok(Pending {
            id: row.int(0)?,
            instance: typed(&row.text(1)?, TABLE, "instance_uuid")?,
            arq: typed(&row.text(2)?, TABLE, "arq_uuid")?,
            status: EventStatus::of_word(&status)
                .ok_or_else(|| foreign(&status, TABLE, "status"))?,
            host: row.opt_text(6)?.unwrap_or_default(),
            attempts: u32::try_from(row.int(4)?).unwrap_or(u32::MAX),
            since: row.moment(5)?,
        })
    };
    rows.iter().map(pending).collect()
}

impl Pending {
    /// Binds what tells it from another: SQLite gives the number of one that was forgotten to the next.
    fn told_by(&self, statement: Statement) -> Statement {
        statement
            .bind(self.id)
            .bind(self.arq.to_string())
            .bind(self.since)
    }
}

/// Takes events for one process to send: nobody else finds them due for so long. Should it end before it says what came of
/// them, they are due again then.
pub(crate) struct Take<'a> {
    pub(crate) events: &'a [Pending],
    pub(crate) lasts: Duration,
}

impl Work for Take<'_> {
    /// The numbers of those that nobody else had, and that are still to be told.
    type Output = Vec<i64>;
    type Error = SentError;

    async fn run(&self, tx: &mut Transaction) -> Result<Vec<i64>, SentError> {
        // From when the turn came, for which others may have been waited.
        let now = Moment::now();
        let mut taken = Vec::new();
        for event in self.events {
            let sql = "UPDATE events SET due_at = ? WHERE due_at <= ? AND id = ? AND arq_uuid = ? AND created_at = ?";
            let statement = Statement::new(sql).bind(now.after(self.lasts)).bind(now);
            if tx.execute(event.told_by(statement)).await?.rows_affected > 0 {
                taken.push(event.id);
            }
        }
        Ok(taken)
    }
}

/// What came of sending some events.
pub(crate) struct Sent {
    pub(crate) events: Vec<Pending>,
    pub(crate) outcome: SentOutcome,
}

/// Whether they are sent again.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SentOutcome {
    Done,
    Again {
        attempts: u32,
        after: Duration,
    },
    /// They were not sent; whoever comes may.
    GivenBack,
}

/// Why the outcome could not be written.
#[derive(Debug, thiserror::Error)]
#[error("the outcome of events cannot be written")]
pub(crate) struct SentError(#[from] SqlError);

impl Retryable for SentError {
    fn disposition(&self) -> Disposition {
        super::retry(&self.0)
    }
}

impl Work for Sent {
    type Output = ();
    type Error = SentError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SentError> {
        for event in &self.events {
            let statement = match self.outcome {
                SentOutcome::Done => Statement::new(
                    "DELETE FROM events WHERE id = ? AND arq_uuid = ? AND created_at = ?",
                ),
                SentOutcome::Again { attempts, after } => Statement::new(
                    "UPDATE events SET attempts = ?, due_at = ? WHERE id = ? AND arq_uuid = ? AND created_at = ?",
                )
                .bind(i64::from(attempts))
                .bind(Moment::now().after(after)),
                SentOutcome::GivenBack => Statement::new(
                    "UPDATE events SET due_at = ? WHERE id = ? AND arq_uuid = ? AND created_at = ?",
                )
                .bind(now()),
            };
            tx.execute(event.told_by(statement)).await?;
        }
        Ok(())
    }
}
