//! Deletes requests that hold nothing and that nobody touched for a grace time.
//!
//! A request has no name before it is made. One whose answer was lost, or that a proxy sent twice, is there and nobody knows it;
//! it holds no device, but its profile cannot be deleted while it is there. The service cannot tell it from one that is bound
//! in a moment, but by its age. The id of the HTTP request says nothing either: `X-Openstack-Request-Id` is of a whole
//! operation, and one operation may make requests of the same profile more than once.
//!
//! A bind that comes just then is before it or after it, never in between: it wins, or is told that there is no such request.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use berth_store::{Moment, SqlError, SqlStore};

use crate::store::Tables;
use crate::store::arqs::ArqError;
use crate::store::unbound::{BATCH, DateBack, DeleteUnbound};

/// So much later than now a request may be dated: another host's clock is ahead by less.
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

/// Deletes them once: those never bound, unbound, or failed to be bound that nobody touched for `grace`. How many there were.
///
/// # Errors
/// [`UnboundError`] when the database fails; what was deleted before stays deleted.
pub async fn delete_unbound(store: &SqlStore, grace: Duration) -> Result<usize, UnboundError> {
    let tables = Tables::of(store.clone());
    let now = Moment::now();
    let ahead = DateBack {
        now,
        latest: now.after(AHEAD),
    };
    let old = DeleteUnbound {
        before: now.before(grace),
    };
    let (is_any_ahead, is_any_old) = {
        let mut tx = tables.read().await?;
        (ahead.any(&mut tx).await?, old.any(&mut tx).await?)
    };
    if is_any_ahead {
        tables.write(&ahead).await?;
    }
    if !is_any_old {
        return Ok(0);
    }
    let mut all = 0;
    loop {
        let deleted = tables.write(&old).await.map_err(UnboundError)?;
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
        all += deleted.len();
        if deleted.len() < BATCH {
            return Ok(all);
        }
    }
}

/// Does so every minute, until `shutdown` is ready; never where `grace` is zero.
pub async fn delete_unbound_requests(
    store: SqlStore,
    grace: Duration,
    shutdown: impl Future<Output = ()> + Send,
) {
    if grace.is_zero() {
        return;
    }
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        if let Err(error) = delete_unbound(&store, grace).await {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "accelerator requests that hold nothing stay");
        }
    }
}
