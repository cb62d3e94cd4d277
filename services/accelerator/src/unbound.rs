//! Deletes requests that hold nothing and that nobody touched for a grace time.
//!
//! A request has no name before it is made. One whose answer was lost, or that a proxy sent twice, is there and nobody knows it;
//! it holds no device, but its profile cannot be deleted while it is there. The service cannot tell it from one that is bound
//! in a moment, but by its age. The id of the HTTP request says nothing either: `X-Openstack-Request-Id` is of a whole
//! operation, and one operation may make requests of the same profile more than once.
//!
//! A bind that comes just then is before it or after it, never in between: it wins, or is told that there is no such request.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use berth_store::{Moment, SqlError, SqlStore};
use tokio::time::Instant;

use crate::store::Tables;
use crate::store::arqs::ArqError;
use crate::store::unbound::{BATCH, DeleteUnbound, Touched};

/// What is dated later than now by more is dated ahead; another host's clock may be ahead by less.
const AHEAD: Duration = Duration::from_secs(60);
/// How often it is looked.
const LOOK: Duration = Duration::from_secs(60);
/// How many requests a line of the log names.
const NAMED: usize = 8;

/// Requests that hold nothing could not be deleted; the next look tries again.
#[derive(Debug, thiserror::Error)]
#[error("requests that hold nothing cannot be deleted")]
pub struct UnboundError(#[source] ArqError);

impl From<SqlError> for UnboundError {
    fn from(error: SqlError) -> Self {
        Self(error.into())
    }
}

/// The requests that hold nothing, as one process sees them from look to look.
#[derive(Debug, Default)]
pub struct UnboundRequests {
    /// Those that are dated ahead: when that is, and since when it is seen. The clock was set back since, or is behind now; either way
    /// their dates say nothing of their age.
    ahead: BTreeMap<i64, (Moment, Instant)>,
}

impl UnboundRequests {
    /// Deletes those never bound, unbound, or failed to be bound that nobody touched for `grace`. How many there were.
    pub async fn delete(
        &mut self,
        store: &SqlStore,
        grace: Duration,
    ) -> Result<usize, UnboundError> {
        let tables = Tables::of(store.clone());
        let now = Moment::now();
        let ahead = Touched::After(now.after(AHEAD));
        let old = Touched::Before(now.before(grace));
        let (seen, mut is_any_left) = {
            let mut tx = tables.read().await?;
            (ahead.all(&mut tx).await?, old.any(&mut tx).await?)
        };
        let mut all = 0;
        for some in self.ripe(&seen, grace, Instant::now()).chunks(BATCH) {
            let ripe = DeleteUnbound {
                touched: ahead,
                among: Some(some.to_vec()),
            };
            all += delete(&tables, &ripe, grace).await?;
        }
        let old = DeleteUnbound {
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

    /// Those that have been seen ahead for so long, and that nobody touched since.
    fn ripe(&mut self, seen: &BTreeMap<i64, Moment>, grace: Duration, now: Instant) -> Vec<i64> {
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
    tables: &Tables,
    doomed: &DeleteUnbound,
    grace: Duration,
) -> Result<usize, UnboundError> {
    let deleted = tables.write(doomed).await.map_err(UnboundError)?;
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
            "accelerator requests that held nothing, and that nobody touched for the grace time, are deleted"
        );
    }
    Ok(deleted.len())
}

/// Deletes them every minute, until `shutdown` is ready; never where `grace` is zero.
pub async fn delete_unbound_requests(
    store: SqlStore,
    grace: Duration,
    shutdown: impl Future<Output = ()> + Send,
) {
    if grace.is_zero() {
        return;
    }
    let mut shutdown = pin!(shutdown);
    let mut requests = UnboundRequests::default();
    loop {
        tokio::select! {
            () = &mut shutdown => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        if let Err(error) = requests.delete(&store, grace).await {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "accelerator requests that hold nothing stay");
        }
    }
}
