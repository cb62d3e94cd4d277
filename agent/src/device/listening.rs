//! Waits at the accelerator service for what an operator changes there (a device that is taken out of service, or put into it
//! again), so that Placement knows it before the next report is due.
//!
//! A wait only says that a report would be answered otherwise: what is wanted comes with that answer. Where the service lets
//! nobody wait, because it is another's or an older one, the reports come now and then all the same.

use std::pin::Pin;
use std::time::Duration;

use berth_client::{AcceleratorClient, AcceleratorError};
use berth_model::NodeName;
use berth_virt::VirtDriver;
use futures_util::future::select_all;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Devices;
use crate::backoff::Backoff;

/// How long one request waits: less than what stands between agent and service gives a request.
const WAIT: Duration = Duration::from_secs(25);
/// The least pause between two waits, for a service that lets nobody wait now.
const PAUSE: Duration = Duration::from_secs(2);

/// What a wait came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    /// A report would be answered otherwise.
    Change,
    /// Nothing new.
    Nothing,
}

impl<D: VirtDriver> Devices<D> {
    /// Waits for changes of all nodes until `shutdown`, and has each told at once; returns at once where there is no service.
    pub(super) async fn listen(&self, shutdown: CancellationToken) {
        let Some(service) = &self.inner.service else {
            return;
        };
        let mut backoff = Backoff::seeded(self.inner.options.seed);
        loop {
            let heard = tokio::select! {
                () = shutdown.cancelled() => return,
                // What was told now is waited for from now on.
                () = self.inner.told.notified() => continue,
                heard = heard(service, self.marks()) => heard,
            };
            let pause = match heard {
                Ok(Heard::Change) => {
                    backoff.worked();
                    self.stir();
                    tokio::select! {
                        () = shutdown.cancelled() => return,
                        () = self.inner.told.notified() => continue,
                    }
                }
                Ok(Heard::Nothing) => {
                    backoff.worked();
                    PAUSE
                }
                // The reports tell it, if it lasts.
                Err(error) => {
                    tracing::debug!(%error, "changes at the accelerator service cannot be waited for");
                    backoff.failed().max(PAUSE)
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = sleep(pause) => {}
            }
        }
    }

    /// By what to wait, for each node whose report the service lets wait.
    fn marks(&self) -> Vec<(NodeName, String)> {
        let known = self.known();
        let told = known.told.iter();
        let marks = told.filter_map(|(node, told)| Some((node.clone(), told.changes.clone()?)));
        marks.collect()
    }
}

/// The first answer to waits for these nodes; never, for none.
async fn heard(
    service: &AcceleratorClient,
    marks: Vec<(NodeName, String)>,
) -> Result<Heard, Box<AcceleratorError>> {
    let waits: Vec<Pin<Box<_>>> = marks
        .iter()
        .map(|(node, after)| {
            Box::pin(async move {
                let told = service.host_changes(node.as_str(), after, WAIT).await;
                let told = told.map_err(Box::new)?;
                Ok(match told.changes == *after {
                    true => Heard::Nothing,
                    false => Heard::Change,
                })
            })
        })
        .collect();
    if waits.is_empty() {
        std::future::pending::<()>().await;
    }
    select_all(waits).await.0
}
