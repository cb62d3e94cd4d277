//! The outbox: events are stored with the change that they describe, and sent afterwards.

use std::time::Duration;

use berth_model::{ArqUuid, ConsumerUuid};
use berth_store::{
    Disposition, Retryable, SqlError, SqlTimestamp, Statement, Transaction, Value, Work,
};
use berth_wire::compute::EventStatus;
use uuid::Uuid;

use super::{AcceleratorTableError, foreign, now, typed};

const TABLE: &str = "events";
/// How many events are read at once.
const BATCH: i64 = 512;

/// One event that waits to be sent.
#[derive(Debug, Clone)]
pub(crate) struct PendingEvent {
    pub(crate) id: i64,
    pub(crate) instance: Uuid,
    pub(crate) arq: Uuid,
    /// The host that the request was to be bound on.
    pub(crate) host: String,
    pub(crate) status: EventStatus,
    pub(crate) attempts: u32,
    pub(crate) since: SqlTimestamp,
}

/// Stores events about requests of one guest. They replace pending events of the same requests.
pub(crate) async fn insert(
    tx: &mut Transaction,
    events: &[(ConsumerUuid, ArqUuid)],
    status: EventStatus,
) -> Result<(), SqlError> {
    delete(tx, events.iter().map(|(_, arq)| *arq)).await?;
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

/// Deletes the pending events of these requests.
pub(crate) async fn delete(
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
pub(crate) async fn due(tx: &mut Transaction) -> Result<Vec<PendingEvent>, AcceleratorTableError> {
    let rows = tx.rows(Statement::new(DUE).bind(now()).bind(BATCH)).await?;
    let pending = |row: &berth_store::Row| {
        let status = row.text(3)?;
        Ok(PendingEvent {
            id: row.int(0)?,
            instance: typed(&row.text(1)?, TABLE, "instance_uuid")?,
            arq: typed(&row.text(2)?, TABLE, "arq_uuid")?,
            status: EventStatus::from_name(&status)
                .ok_or_else(|| foreign(&status, TABLE, "status"))?,
            host: row.opt_text(6)?.unwrap_or_default(),
            attempts: u32::try_from(row.int(4)?).unwrap_or(u32::MAX),
            since: row.moment(5)?,
        })
    };
    rows.iter().map(pending).collect()
}

impl PendingEvent {
    /// Binds the columns that identify an event. SQLite may reuse the number of a deleted row.
    fn bind_to(&self, statement: Statement) -> Statement {
        statement
            .bind(self.id)
            .bind(self.arq.to_string())
            .bind(self.since)
    }
}

/// Claims events for one process to send, by postponing their due time. If the process dies, they become due again.
pub(crate) struct ClaimEvents<'a> {
    pub(crate) events: &'a [PendingEvent],
    pub(crate) lasts: Duration,
}

impl Work for ClaimEvents<'_> {
    /// The numbers of the claimed events.
    type Output = Vec<i64>;
    type Error = DeliveryRecordError;

    async fn run(&self, tx: &mut Transaction) -> Result<Vec<i64>, DeliveryRecordError> {
        // The time after the lock was acquired.
        let now = SqlTimestamp::now();
        let mut taken = Vec::new();
        for event in self.events {
            let sql = "UPDATE events SET due_at = ? WHERE due_at <= ? AND id = ? AND arq_uuid = ? AND created_at = ?";
            let statement = Statement::new(sql).bind(now.after(self.lasts)).bind(now);
            if tx.execute(event.bind_to(statement)).await?.rows_affected > 0 {
                taken.push(event.id);
            }
        }
        Ok(taken)
    }
}

/// The result of sending events.
pub(crate) struct RecordDelivery {
    pub(crate) events: Vec<PendingEvent>,
    pub(crate) outcome: DeliveryOutcome,
}

/// Whether they are sent again.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DeliveryOutcome {
    Done,
    Again {
        attempts: u32,
        after: Duration,
    },
    /// Not sent; the claim is released.
    Released,
}

/// Why the outcome could not be written.
#[derive(Debug, thiserror::Error)]
#[error("the outcome of events cannot be written")]
pub(crate) struct DeliveryRecordError(#[from] SqlError);

impl Retryable for DeliveryRecordError {
    fn disposition(&self) -> Disposition {
        self.0.write_disposition()
    }
}

impl Work for RecordDelivery {
    type Output = ();
    type Error = DeliveryRecordError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), DeliveryRecordError> {
        for event in &self.events {
            let statement = match self.outcome {
                DeliveryOutcome::Done => Statement::new(
                    "DELETE FROM events WHERE id = ? AND arq_uuid = ? AND created_at = ?",
                ),
                DeliveryOutcome::Again { attempts, after } => Statement::new(
                    "UPDATE events SET attempts = ?, due_at = ? WHERE id = ? AND arq_uuid = ? AND created_at = ?",
                )
                .bind(i64::from(attempts))
                .bind(SqlTimestamp::now().after(after)),
                DeliveryOutcome::Released => Statement::new(
                    "UPDATE events SET due_at = ? WHERE id = ? AND arq_uuid = ? AND created_at = ?",
                )
                .bind(now()),
            };
            tx.execute(event.bind_to(statement)).await?;
        }
        Ok(())
    }
}
