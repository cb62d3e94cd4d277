//! Waits at the accelerator service for what an operator changes there (a device that is taken out of service, or put into it
//! again), so that Placement knows it before the next report is due.
//!
//! A wait only says that a report would be answered otherwise: what is wanted comes with that answer. Where the service lets
//! nobody wait, because it is another's or an older one, the reports come now and then all the same.

use std::collections::BTreeMap;
use std::future::pending;
use std::time::Duration;

use berth_agent_tracker::backoff::Backoff;
use berth_client::{AcceleratorClient, AcceleratorError};
use berth_model::NodeName;
use berth_virt::VirtDriver;
use futures_util::future::{BoxFuture, FutureExt as _, select_all};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::devices::Devices;

/// How long one request waits: less than what stands between agent and service gives a request.
const WAIT: Duration = Duration::from_secs(25);
/// The least pause between two waits, for a service that lets nobody wait now.
const PAUSE: Duration = Duration::from_secs(2);

/// What a wait came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    /// A report would be answered otherwise.
    Change,
    Nothing,
}

impl<D: VirtDriver> Devices<D> {
    /// Waits for changes of all nodes until `shutdown`, and has each told at once; returns at once where there is no service.
    pub(super) async fn listen(&self, shutdown: CancellationToken) {
        let Some(service) = &self.inner.service else {
            return;
        };
        let mut backoff = Backoff::seeded(self.inner.options.seed);
        let mut waits = Waits::default();
        loop {
            waits.are_for(service, self.marks());
            let heard = tokio::select! {
                () = shutdown.cancelled() => return,
                // What was told now is waited for from now on.
                () = self.inner.told.notified() => continue,
                heard = waits.heard() => heard,
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
            waits = Waits::default();
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = sleep(pause) => {}
            }
        }
    }

    /// By what to wait, for each node whose report the service lets wait.
    fn marks(&self) -> BTreeMap<NodeName, String> {
        let known = self.known();
        let told = known.told.iter();
        let marks = told.filter_map(|(node, told)| Some((node.clone(), told.changes.clone()?)));
        marks.collect()
    }
}

/// Waits that are under way, each with what it is for and by what. A host of many nodes tells one of them at a time, and then the
/// waits for all others go on; once one ends by itself all begin anew.
#[derive(Default)]
struct Waits<'a> {
    under_way: BTreeMap<(NodeName, String), BoxFuture<'a, Answer>>,
}

type Answer = Result<Heard, Box<AcceleratorError>>;

impl<'a> Waits<'a> {
    /// Begins those that are missing, and gives up those for another mark.
    fn are_for(&mut self, service: &'a AcceleratorClient, marks: BTreeMap<NodeName, String>) {
        self.under_way
            .retain(|(node, after), _| marks.get(node) == Some(after));
        for mark in marks {
            self.under_way.entry(mark).or_insert_with_key(|mark| {
                let (node, after) = mark.clone();
                async move {
                    let told = service.host_changes(node.as_str(), &after, WAIT).await;
                    let told = told.map_err(Box::new)?;
                    Ok(match told.changes == after {
                        true => Heard::Nothing,
                        false => Heard::Change,
                    })
                }
                .boxed()
            });
        }
    }

    /// The first answer; never, where nothing is waited for.
    async fn heard(&mut self) -> Answer {
        if self.under_way.is_empty() {
            return pending().await;
        }
        let waits = self.under_way.iter_mut();
        let waits = waits.map(|(mark, wait)| wait.map(|heard| (mark.clone(), heard)));
        let ((mark, heard), ..) = select_all(waits).await;
        self.under_way.remove(&mark);
        heard
    }
}
