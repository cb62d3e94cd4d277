//! Ends binds if their devices were not programmed in time: the host may be down while the guest waits.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use berth_store::{SqlStore, SqlTimestamp};

use crate::events::EventNotifier;
use crate::store::AcceleratorTables;
use crate::store::programmings::{EndLateProgrammings, any_late};

const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long the result of an operator's programming is kept.
const KNOWN: Duration = Duration::from_secs(600);

/// Ends late programmings until `shutdown` resolves. Events report the outcome.
pub async fn end_late_programmings(
    store: SqlStore,
    notifier: EventNotifier,
    shutdown: impl Future<Output = ()> + Send,
) {
    let tables = AcceleratorTables::of(store);
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => return,
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
        let now = SqlTimestamp::now();
        let late = EndLateProgrammings {
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
            Ok(_) => notifier.notify(),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, "late programmings cannot be ended");
            }
        }
    }
}
