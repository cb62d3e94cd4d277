//! Ends binds whose devices were not programmed in time: their hosts may be gone, and their guests wait.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use berth_store::{Moment, SqlStore};

use crate::events::EventsBell;
use crate::store::Tables;
use crate::store::programmings::{EndLate, any_late};

/// How often it is looked.
const LOOK: Duration = Duration::from_secs(1);
/// How long the end of what an operator asked for is known.
const KNOWN: Duration = Duration::from_secs(600);

/// Ends what is late, until `shutdown` is ready; what came of it is told by events.
pub async fn end_late_programmings(
    store: SqlStore,
    bell: EventsBell,
    shutdown: impl Future<Output = ()> + Send,
) {
    let tables = Tables::of(store);
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        let now = Moment::now();
        let late = EndLate {
            now,
            forget: now.before(KNOWN),
        };
        let asked = async {
            let mut tx = tables.read().await?;
            any_late(&mut tx, &late).await
        };
        if matches!(asked.await, Ok(false)) {
            continue;
        }
        match tables.write(&late).await {
            Ok(0) => {}
            Ok(_) => bell.ring(),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, "late programmings cannot be ended");
            }
        }
    }
}
