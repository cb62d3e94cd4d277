//! Requests that hold nothing and that nobody touched for long: found, and deleted.

use berth_model::{ArqPhase, ArqUuid};
use berth_store::{Moment, SqlError, Statement, Transaction, Work};

use super::arqs::ArqError;
use super::{events, typed};

/// The states of a request that holds nothing.
const PHASES: [ArqPhase; 3] = [ArqPhase::Initial, ArqPhase::Unbound, ArqPhase::BindFailed];
/// How many are deleted in one transaction.
pub(crate) const BATCH: usize = 512;

/// What follows a verb: the requests of those states that were made or changed last before a moment. That they hold nothing is
/// asked, too: their state is a word about it.
const OLD: &str = "accelerator_requests WHERE state IN (?, ?, ?) AND coalesce(updated_at, created_at) < ? \
     AND NOT EXISTS (SELECT 1 FROM attach_handles WHERE arq_id = accelerator_requests.id) \
     AND NOT EXISTS (SELECT 1 FROM programmings WHERE arq_id = accelerator_requests.id)";

/// Requests of those states that were made or changed last after a moment.
const DATED_AHEAD: &str =
    "accelerator_requests WHERE state IN (?, ?, ?) AND coalesce(updated_at, created_at) > ?";

/// Takes what is dated too late for changed now: a clock was set back since, and until it is as late again the request would not
/// grow older.
pub(crate) struct DateBack {
    pub(crate) now: Moment,
    /// What is dated later is dated too late.
    pub(crate) latest: Moment,
}

impl DateBack {
    /// A statement on them.
    fn statement(&self, verb: &str, tail: &str) -> Statement {
        Statement::new(format!("{verb} {DATED_AHEAD} {tail}"))
            .bind_all(PHASES.map(ArqPhase::as_str))
            .bind(self.latest)
    }

    /// Whether there is any: nothing is locked for that.
    pub(crate) async fn any(&self, tx: &mut Transaction) -> Result<bool, SqlError> {
        let search = self.statement("SELECT 1 FROM", "LIMIT 1");
        Ok(tx.row(search).await?.is_some())
    }
}

impl Work for DateBack {
    type Output = ();
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        let rows = tx
            .rows(self.statement("SELECT id FROM", "ORDER BY id"))
            .await?;
        let ids: Result<Vec<i64>, _> = rows.iter().map(|row| row.int(0)).collect();
        // One that is being bound by now is dated back as well: it was changed a moment ago.
        let head = Statement::new("UPDATE accelerator_requests SET updated_at = ? WHERE id IN");
        tx.execute_in(&head.bind(self.now), &ids?).await?;
        Ok(())
    }
}

/// Deletes up to [`BATCH`] of them; which.
pub(crate) struct DeleteUnbound {
    /// What was touched since then stays.
    pub(crate) before: Moment,
}

impl DeleteUnbound {
    /// A statement on them.
    fn statement(&self, verb: &str, tail: &str) -> Statement {
        Statement::new(format!("{verb} {OLD} {tail}"))
            .bind_all(PHASES.map(ArqPhase::as_str))
            .bind(self.before)
    }

    /// Whether there is any: nothing is locked for that.
    pub(crate) async fn any(&self, tx: &mut Transaction) -> Result<bool, SqlError> {
        let search = self.statement("SELECT 1 FROM", "LIMIT 1");
        Ok(tx.row(search).await?.is_some())
    }
}

impl Work for DeleteUnbound {
    type Output = Vec<ArqUuid>;
    type Error = ArqError;

    async fn run(&self, tx: &mut Transaction) -> Result<Vec<ArqUuid>, ArqError> {
        let search = self.statement("SELECT id, uuid FROM", "ORDER BY id LIMIT ?");
        let batch = i64::try_from(BATCH).unwrap_or(i64::MAX);
        let rows = tx.rows(search.bind(batch)).await?;
        let mut ids: Vec<i64> = Vec::with_capacity(rows.len());
        let mut uuids: Vec<ArqUuid> = Vec::with_capacity(rows.len());
        for row in &rows {
            ids.push(row.int(0)?);
            uuids.push(typed(&row.text(1)?, "accelerator_requests", "uuid")?);
        }
        // State and age once more: what a bind took between the two statements is not this one's.
        let head = self.statement("DELETE FROM", "AND id IN");
        let deleted = tx.execute_in(&head, &ids).await?;
        if usize::try_from(deleted) != Ok(ids.len()) {
            return Err(ArqError::Raced);
        }
        events::forget(tx, uuids.iter().copied()).await?;
        Ok(uuids)
    }
}
