//! Long-polls the accelerator service for changes by its operators, such as a disabled device, so that Placement learns
//! of them before the next periodic report.
//!
//! A finished poll only shows that the answer to a report would change; the changes themselves come with the next report's answer. If
//! the service does not support polling, the periodic reports remain.

use std::collections::BTreeMap;
use std::future::pending;
use std::time::Duration;

use berth_agent_tracker::backoff::LoopBackoff;
use berth_client::{AcceleratorClient, AcceleratorError};
use berth_model::NodeName;
use berth_virt::VirtDriver;
use futures_util::future::{BoxFuture, FutureExt as _, select_all};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::devices::DeviceManager;

/// Duration of one poll: shorter than the timeout of common proxies.
const WAIT: Duration = Duration::from_secs(25);
/// Minimum pause between polls, for a service that answers at once.
const PAUSE: Duration = Duration::from_secs(2);

/// The result of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitOutcome {
    /// The answer to a report would change.
    Change,
    Nothing,
}

impl<D: VirtDriver> DeviceManager<D> {
    /// Polls for changes of all nodes until `shutdown`, and requests a report after each. Returns at once without a
    /// service.
    pub(super) async fn watch_changes(&self, shutdown: CancellationToken) {
        let Some(service) = &self.inner.service else {
            return;
        };
        let mut backoff = LoopBackoff::seeded(self.inner.options.seed);
        let mut waits = Waits::default();
        loop {
            waits.update(service, self.change_tokens());
            let polled = tokio::select! {
                () = shutdown.cancelled() => return,
                // A report was sent: poll with its change token.
                () = self.inner.reported.notified() => continue,
                polled = waits.next_outcome() => polled,
            };
            let pause = match polled {
                Ok(WaitOutcome::Change) => {
                    backoff.reset();
                    self.request_report();
                    tokio::select! {
                        () = shutdown.cancelled() => return,
                        () = self.inner.reported.notified() => continue,
                    }
                }
                Ok(WaitOutcome::Nothing) => {
                    backoff.reset();
                    PAUSE
                }
                // A lasting failure is logged by the reporter.
                Err(error) => {
                    tracing::debug!(%error, "polling for changes at the accelerator service failed");
                    backoff.next_delay().max(PAUSE)
                }
            };
            waits = Waits::default();
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = sleep(pause) => {}
            }
        }
    }

    /// The change token of each node whose report supports polling.
    fn change_tokens(&self) -> BTreeMap<NodeName, String> {
        let table = self.table();
        let report = table.reports.iter();
        let marks =
            report.filter_map(|(node, report)| Some((node.clone(), report.changes.clone()?)));
        marks.collect()
    }
}

/// Running polls, by node and change token. Reports of many nodes are sent one at a time, and the polls of the other
/// nodes continue meanwhile; after the end of a poll, all are restarted.
#[derive(Default)]
struct Waits<'a> {
    in_progress: BTreeMap<(NodeName, String), BoxFuture<'a, WaitResult>>,
}

type WaitResult = Result<WaitOutcome, Box<AcceleratorError>>;

impl<'a> Waits<'a> {
    /// Starts missing polls, and drops those with an outdated token.
    fn update(&mut self, service: &'a AcceleratorClient, marks: BTreeMap<NodeName, String>) {
        self.in_progress
            .retain(|(node, after), _| marks.get(node) == Some(after));
        for mark in marks {
            self.in_progress.entry(mark).or_insert_with_key(|mark| {
                let (node, after) = mark.clone();
                async move {
                    let answer = service.host_changes(node.as_str(), &after, WAIT).await;
                    let answer = answer.map_err(Box::new)?;
                    Ok(match answer.changes == after {
                        true => WaitOutcome::Nothing,
                        false => WaitOutcome::Change,
                    })
                }
                .boxed()
            });
        }
    }

    /// Waits for the first result. Never returns if no poll is running.
    async fn next_outcome(&mut self) -> WaitResult {
        if self.in_progress.is_empty() {
            return pending().await;
        }
        let waits = self.in_progress.iter_mut();
        let waits = waits.map(|(mark, wait)| wait.map(|polled| (mark.clone(), polled)));
        let ((mark, polled), ..) = select_all(waits).await;
        self.in_progress.remove(&mark);
        polled
    }
}
