//! Background tasks next to the passes: guests, devices and the host state. Guests are reconciled once the nodes are
//! reported, or after a time limit. A stop ends guest operations between two steps; the guests keep running.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use berth_agent_devices::{DeviceConditions, DeviceManager};
use berth_agent_instances::reconcile::Reconciler;
use berth_agent_instances::{GuestManager, GuestResources};
use berth_virt::{HostEvent, HostEvents, VirtDriver};
use futures_util::StreamExt;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::host_state::HostStateReporter;

/// How long guests wait for the first passes of the nodes. A reshape must still find the guests of its plan. But a host
/// that boots while Placement does not answer must start its guests nevertheless.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// Guests of an agent, and how often they are reconciled.
#[derive(Clone)]
pub struct GuestService {
    /// A [`berth_agent_instances::reconcile::Reconciler`], which compares the guests with other sources, or the guests
    /// alone.
    pub guests: Arc<dyn GuestManager>,
    /// Routes for the admin API.
    pub routes: Router,
    /// Time between two reconcile runs (`reconcile_interval`).
    pub interval: Duration,
}

/// States of the devices, and the event after which they are checked again.
#[derive(Clone)]
pub struct DeviceService {
    pub devices: Arc<dyn DeviceConditions>,
    /// Routes for the admin API.
    pub routes: Router,
    /// Changes whenever an operation on a guest has ended.
    pub ends: Option<watch::Receiver<u64>>,
}

impl DeviceService {
    #[must_use]
    pub fn new<D: VirtDriver>(
        devices: DeviceManager<D>,
        ends: Option<watch::Receiver<u64>>,
    ) -> Self {
        Self {
            routes: berth_agent_api::devices::routes(&devices),
            devices: Arc::new(devices),
            ends,
        }
    }

    /// Starts to report devices and to reset used ones.
    pub(super) fn begin(self) -> BackgroundTask {
        let end = CancellationToken::new();
        let task = tokio::spawn(self.devices.run(self.ends, end.clone()));
        BackgroundTask { task, end }
    }
}

/// A running background task.
pub(super) struct BackgroundTask {
    task: JoinHandle<()>,
    end: CancellationToken,
}

impl BackgroundTask {
    /// Starts to report the host state. The task can be aborted at any point, because reports can be repeated.
    pub(super) fn report_host_state<D: VirtDriver>(reporter: HostStateReporter<D>) -> Self {
        let end = CancellationToken::new();
        let shutdown = end.clone();
        let task = tokio::spawn(async move {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = reporter.run() => {}
            }
        });
        Self { task, end }
    }
}

impl GuestService {
    /// Guests that this reconciler compares every `interval`.
    #[must_use]
    pub fn new<D: VirtDriver, R: GuestResources>(
        reconciler: Reconciler<D, R>,
        interval: Duration,
    ) -> Self {
        let routes = berth_agent_api::instances::routes(reconciler.guests());
        Self {
            routes: routes.merge(berth_agent_api::reconcile::routes(&reconciler)),
            guests: Arc::new(reconciler),
            interval,
        }
    }

    /// Starts to reconcile the guests as soon as `started` is true.
    pub(super) fn begin(self, mut started: watch::Receiver<bool>) -> BackgroundTask {
        let end = CancellationToken::new();
        let shutdown = end.clone();
        let task = tokio::spawn(async move {
            // A dropped sender means that the service ends.
            let reported = async { started.wait_for(|started| *started).await.is_ok() };
            let begins = tokio::select! {
                biased;
                () = shutdown.cancelled() => false,
                reported = timeout(LONGEST_WAIT, reported) => reported.unwrap_or(true),
            };
            if begins {
                self.guests.run(self.interval, shutdown).await;
            } else {
                self.guests.stop().await;
            }
        });
        BackgroundTask { task, end }
    }
}

/// Passes the driver's events through. Events about guests also wake the reconcile loop.
pub(super) fn wake_guests_on_events(
    guests: Option<&GuestService>,
    events: HostEvents,
) -> HostEvents {
    let Some(service) = guests else {
        return events;
    };
    let guests = Arc::clone(&service.guests);
    let wake = move |event: &HostEvent| match event {
        HostEvent::Guests | HostEvent::Unknown => guests.notify_changed(),
        HostEvent::Devices => {}
    };
    events.inspect(wake).boxed()
}

impl BackgroundTask {
    /// Stops the task within this time. The next start continues unfinished operations.
    pub(super) async fn stop(self, grace: Duration) {
        self.end.cancel();
        let mut task = self.task;
        if timeout(grace, &mut task).await.is_err() {
            tracing::warn!(
                ?grace,
                "the background task did not finish within graceful_shutdown_timeout; the next start continues"
            );
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures_util::future::BoxFuture;

    use super::*;
    use berth_agent_instances::BlockedGuests;

    /// Records the calls. `keep` runs until shutdown.
    #[derive(Clone, Default)]
    struct RecordingGuests(Arc<Mutex<Vec<&'static str>>>);

    impl RecordingGuests {
        fn note(&self, what: &'static str) {
            self.0.lock().unwrap().push(what);
        }

        fn all(&self) -> Vec<&'static str> {
            self.0.lock().unwrap().clone()
        }
    }

    impl GuestManager for RecordingGuests {
        fn run(&self, _: Duration, shutdown: CancellationToken) -> BoxFuture<'static, ()> {
            let calls = self.clone();
            Box::pin(async move {
                calls.note("keep");
                shutdown.cancelled().await;
                calls.note("kept");
            })
        }

        fn stop(&self) -> BoxFuture<'static, ()> {
            let calls = self.clone();
            Box::pin(async move { calls.note("stop") })
        }

        fn subscribe_blocked(&self) -> watch::Receiver<BlockedGuests> {
            watch::channel(BlockedGuests::new()).1
        }

        fn notify_changed(&self) {
            self.note("stir");
        }

        fn subscribe_journal_error(&self) -> watch::Receiver<Option<String>> {
            watch::channel(None).1
        }
    }

    fn service(calls: &RecordingGuests) -> GuestService {
        GuestService {
            guests: Arc::new(calls.clone()),
            routes: Router::new(),
            interval: Duration::from_secs(1),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn guests_are_kept_once_the_nodes_are_reported() {
        let calls = RecordingGuests::default();
        let (started, when) = watch::channel(false);
        let task = service(&calls).begin(when);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(calls.all().is_empty(), "a reshape may be running");
        started.send_replace(true);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(calls.all(), ["keep"]);
        task.stop(Duration::from_secs(1)).await;
        assert_eq!(calls.all(), ["keep", "kept"]);
    }

    #[tokio::test]
    async fn guests_are_compared_at_once_when_the_hypervisor_says_that_they_changed() {
        let calls = RecordingGuests::default();
        let all = [HostEvent::Devices, HostEvent::Guests, HostEvent::Unknown];
        let events = futures_util::stream::iter(all).boxed();
        let passed_on: Vec<_> = wake_guests_on_events(Some(&service(&calls)), events)
            .collect()
            .await;
        assert_eq!(
            (passed_on, calls.all()),
            (all.to_vec(), vec!["stir", "stir"])
        );
    }

    #[tokio::test(start_paused = true)]
    async fn guests_come_back_although_placement_is_away() {
        let calls = RecordingGuests::default();
        let (_started, when) = watch::channel(false);
        let task = service(&calls).begin(when);
        tokio::time::sleep(LONGEST_WAIT + Duration::from_millis(1)).await;
        assert_eq!(calls.all(), ["keep"]);
        task.stop(Duration::from_secs(1)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_before_that_ends_what_was_asked_for_meanwhile() {
        let calls = RecordingGuests::default();
        let (_started, when) = watch::channel(false);
        let task = service(&calls).begin(when);
        task.stop(Duration::from_secs(1)).await;
        assert_eq!(calls.all(), ["stop"]);
    }
}
