//! Deletes idle accelerator requests, which hold no handle and have not changed for a grace time.
//!
//! A client has no name for a request before it is created. If the answer is lost, or a proxy repeats the POST, the
//! request exists but no client knows it. It holds no device, but its device profile cannot be deleted. Only its age
//! distinguishes it from a request that is about to be bound. The HTTP request id does not help:
//! `X-Openstack-Request-Id` identifies a whole operation, which may create requests of the same profile more than once.
//!
//! A concurrent bind happens either before the deletion and wins, or after it and gets 404.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use berth_store::{SqlError, SqlStore, SqlTimestamp};
use tokio::time::Instant;

use crate::store::AcceleratorTables;
use crate::store::arqs::ArqError;
use crate::store::idle_arqs::{BATCH, DeleteIdleArqs, IdleArqs};

/// A timestamp further in the future than this counts as ahead. Smaller differences between clocks are normal.
const AHEAD: Duration = Duration::from_secs(60);
/// The longest interval of the deletion. With a short grace time it is a quarter of that.
const INTERVAL: Duration = Duration::from_secs(60);
/// How many requests a line of the log names.
const NAMED: usize = 8;

/// Deleting idle requests failed; the next run tries again.
#[derive(Debug, thiserror::Error)]
#[error("requests that hold nothing cannot be deleted")]
pub struct IdleArqsError(#[source] ArqError);

impl From<SqlError> for IdleArqsError {
    fn from(error: SqlError) -> Self {
        Self(error.into())
    }
}

/// Idle requests as one process sees them over time.
#[derive(Debug, Default)]
pub struct IdleArqCollector {
    /// Requests with a timestamp in the future, and since when they are seen. The clock was set back, so their
    /// timestamps do not show their age.
    ahead: BTreeMap<i64, (SqlTimestamp, Instant)>,
}

impl IdleArqCollector {
    /// Deletes requests that have been idle for `grace`. Returns their number.
    pub async fn delete(
        &mut self,
        store: &SqlStore,
        grace: Duration,
    ) -> Result<usize, IdleArqsError> {
        let tables = AcceleratorTables::of(store.clone());
        let now = SqlTimestamp::now();
        let ahead = IdleArqs::After(now.after(AHEAD));
        let old = IdleArqs::Before(now.before(grace));
        let (seen, mut is_any_left) = {
            let mut tx = tables.read().await?;
            (ahead.all(&mut tx).await?, old.any(&mut tx).await?)
        };
        let mut all = 0;
        for some in self.ripe(&seen, grace, Instant::now()).chunks(BATCH) {
            let ripe = DeleteIdleArqs {
                touched: ahead,
                among: Some(some.to_vec()),
            };
            all += delete(&tables, &ripe, grace).await?;
        }
        let old = DeleteIdleArqs {
            touched: old,
            among: None,
        };
        while is_any_left {
            let deleted = delete(&tables, &old, grace).await?;
            all += deleted;
            is_any_left = deleted == BATCH;
        }
        Ok(all)
    }

    /// Requests that have been seen ahead for the grace time without a change.
    fn ripe(
        &mut self,
        seen: &BTreeMap<i64, SqlTimestamp>,
        grace: Duration,
        now: Instant,
    ) -> Vec<i64> {
        self.ahead
            .retain(|id, (first, _)| seen.get(id).is_some_and(|date| date <= first));
        let ripe = seen.iter().filter(|(id, date)| {
            let (_, since) = self.ahead.entry(**id).or_insert((**date, now));
            now.duration_since(*since) >= grace
        });
        ripe.map(|(id, _)| *id).collect()
    }
}

async fn delete(
    tables: &AcceleratorTables,
    doomed: &DeleteIdleArqs,
    grace: Duration,
) -> Result<usize, IdleArqsError> {
    let deleted = tables.write(doomed).await.map_err(IdleArqsError)?;
    if !deleted.is_empty() {
        let named: Vec<String> = deleted
            .iter()
            .take(NAMED)
            .map(ToString::to_string)
            .collect();
        tracing::info!(
            requests = deleted.len(),
            grace_seconds = grace.as_secs(),
            among_them = named.join(", "),
            "deleted idle accelerator requests"
        );
    }
    Ok(deleted.len())
}

/// Deletes idle requests every minute until `shutdown` resolves. Does nothing if `grace` is zero.
pub async fn delete_idle_arqs(
    store: SqlStore,
    grace: Duration,
    shutdown: impl Future<Output = ()> + Send,
) {
    if grace.is_zero() {
        return;
    }
    let mut shutdown = pin!(shutdown);
    let mut requests = IdleArqCollector::default();
    let interval = INTERVAL.min(grace / 4);
    loop {
        tokio::select! {
            () = &mut shutdown => return,
            () = tokio::time::sleep(interval) => {}
        }
        if let Err(error) = requests.delete(&store, grace).await {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "accelerator requests that hold nothing stay");
        }
    }
}
