//! Idle requests, which hold no handle and have not changed for the grace time.

use std::collections::BTreeMap;

use berth_model::{ArqPhase, ArqUuid};
use berth_store::{SqlError, SqlTimestamp, Statement, Transaction, Work};

use super::arqs::ArqError;
use super::{events, typed};

/// The states of a request that holds nothing.
const PHASES: [ArqPhase; 3] = [ArqPhase::Initial, ArqPhase::Unbound, ArqPhase::BindFailed];
/// How many are deleted in one transaction.
pub(crate) const BATCH: usize = 512;

/// Checks the handles as well as the state of a request.
const HOLD_NOTHING: &str = "NOT EXISTS (SELECT 1 FROM attach_handles WHERE arq_id = accelerator_requests.id) \
     AND NOT EXISTS (SELECT 1 FROM programmings WHERE arq_id = accelerator_requests.id)";

/// Idle requests, by the time of their last change.
#[derive(Debug, Clone, Copy)]
pub(crate) enum IdleArqs {
    Before(SqlTimestamp),
    /// By a clock that was ahead: the moment is not before now.
    After(SqlTimestamp),
}

impl IdleArqs {
    /// A statement on them.
    fn statement(self, verb: &str, tail: &str) -> Statement {
        let (compared, moment) = match self {
            Self::Before(moment) => ("<", moment),
            Self::After(moment) => (">", moment),
        };
        let sql = format!(
            "{verb} accelerator_requests WHERE state IN (?, ?, ?) AND coalesce(updated_at, created_at) {compared} ? \
             AND {HOLD_NOTHING} {tail}"
        );
        Statement::new(sql)
            .bind_all(PHASES.map(ArqPhase::as_str))
            .bind(moment)
    }

    /// Whether there is any. Locks nothing.
    pub(crate) async fn any(self, tx: &mut Transaction) -> Result<bool, SqlError> {
        let search = self.statement("SELECT 1 FROM", "LIMIT 1");
        Ok(tx.row(search).await?.is_some())
    }

    /// All of them, by their number in the table: when each was touched.
    pub(crate) async fn all(
        self,
        tx: &mut Transaction,
    ) -> Result<BTreeMap<i64, SqlTimestamp>, SqlError> {
        let search = self.statement("SELECT id, coalesce(updated_at, created_at) FROM", "");
        let rows = tx.rows(search).await?;
        let all = rows.iter().map(|row| Ok((row.int(0)?, row.moment(1)?)));
        all.collect()
    }
}

/// Deletes up to [`BATCH`] idle requests; returns their UUIDs.
pub(crate) struct DeleteIdleArqs {
    pub(crate) touched: IdleArqs,
    /// If set, only requests among these, at most [`BATCH`].
    pub(crate) among: Option<Vec<i64>>,
}

impl Work for DeleteIdleArqs {
    type Output = Vec<ArqUuid>;
    type Error = ArqError;

    async fn run(&self, tx: &mut Transaction) -> Result<Vec<ArqUuid>, ArqError> {
        let search = |tail| self.touched.statement("SELECT id, uuid FROM", tail);
        let batch = i64::try_from(BATCH).unwrap_or(i64::MAX);
        let rows = match &self.among {
            None => tx.rows(search("ORDER BY id LIMIT ?").bind(batch)).await?,
            Some(ids) => tx.rows_in(&search("AND id IN"), ids, "ORDER BY id").await?,
        };
        let mut ids: Vec<i64> = Vec::with_capacity(rows.len());
        let mut uuids: Vec<ArqUuid> = Vec::with_capacity(rows.len());
        for row in &rows {
            ids.push(row.int(0)?);
            uuids.push(typed(&row.text(1)?, "accelerator_requests", "uuid")?);
        }
        // Check state and age again: a bind may have happened between the two statements.
        let head = self.touched.statement("DELETE FROM", "AND id IN");
        let deleted = tx.execute_in(&head, &ids).await?;
        if usize::try_from(deleted) != Ok(ids.len()) {
            return Err(ArqError::Raced);
        }
        events::delete(tx, uuids.iter().copied()).await?;
        Ok(uuids)
    }
}
