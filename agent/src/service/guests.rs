//! Guests and devices beside the passes. Guests are kept as they should be from the moment on at which the nodes are reported,
//! or when that takes too long; at the stop their journeys are ended between two steps, and the guests run on.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use berth_agent_devices::{DeviceConditions, Devices};
use berth_agent_instances::reconcile::Reconciler;
use berth_agent_instances::{GuestManager, GuestResources};
use berth_virt::{HostEvent, HostEvents, VirtDriver};
use futures_util::StreamExt;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::host_state::HostStateReporter;

/// How long guests wait for the nodes' first passes. A reshape is to find the guests that it read of; but a host that was booted
/// while Placement is away must bring its guests back all the same.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// The guests of an agent and how often they are compared.
#[derive(Clone)]
pub struct GuestService {
    /// The guests: a [`berth_agent_instances::reconcile::Reconciler`] over them, which compares them with all else, or the bare ones.
    pub guests: Arc<dyn GuestManager>,
    /// Their routes, offered on the admin socket.
    pub routes: Router,
    /// `reconcile_interval`.
    pub interval: Duration,
}

/// What is known of devices, and what makes it be looked at again.
#[derive(Clone)]
pub struct DeviceService {
    pub devices: Arc<dyn DeviceConditions>,
    /// Their routes, offered on the admin socket.
    pub routes: Router,
    /// Changes whenever a guest's journey ended.
    pub ends: Option<watch::Receiver<u64>>,
}

impl DeviceService {
    /// The devices of a host with this driver.
    #[must_use]
    pub fn new<D: VirtDriver>(devices: Devices<D>, ends: Option<watch::Receiver<u64>>) -> Self {
        Self {
            routes: berth_agent_api::devices::routes(&devices),
            devices: Arc::new(devices),
            ends,
        }
    }

    /// Begins to tell and to clean.
    pub(super) fn begin(self) -> BackgroundTask {
        let end = CancellationToken::new();
        let task = tokio::spawn(self.devices.keep(self.ends, end.clone()));
        BackgroundTask { task, end }
    }
}

/// Guests or devices while they are kept.
pub(super) struct BackgroundTask {
    task: JoinHandle<()>,
    end: CancellationToken,
}

impl BackgroundTask {
    /// Begins to tell the scheduler; what it is told may be told again, so that it may be cut off anywhere.
    pub(super) fn of<D: VirtDriver>(telling: HostStateReporter<D>) -> Self {
        let end = CancellationToken::new();
        let shutdown = end.clone();
        let task = tokio::spawn(async move {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = telling.run() => {}
            }
        });
        Self { task, end }
    }
}

impl GuestService {
    /// The guests that this reconciler compares every `interval`.
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

    /// Begins to keep the guests as soon as `started` says so.
    pub(super) fn begin(self, mut started: watch::Receiver<bool>) -> BackgroundTask {
        let end = CancellationToken::new();
        let shutdown = end.clone();
        let task = tokio::spawn(async move {
            // A sender that is gone is a service that ends.
            let reported = async { started.wait_for(|started| *started).await.is_ok() };
            let begins = tokio::select! {
                biased;
                () = shutdown.cancelled() => false,
                reported = timeout(LONGEST_WAIT, reported) => reported.unwrap_or(true),
            };
            if begins {
                self.guests.keep(self.interval, shutdown).await;
            } else {
                self.guests.stop().await;
            }
        });
        BackgroundTask { task, end }
    }
}

/// The driver's events; instance events also wake the reconcile loop.
pub(super) fn heard_by(guests: Option<&GuestService>, events: HostEvents) -> HostEvents {
    let Some(service) = guests else {
        return events;
    };
    let guests = Arc::clone(&service.guests);
    let hear = move |event: &HostEvent| match event {
        HostEvent::Guests | HostEvent::Unknown => guests.stir(),
        HostEvent::Devices => {}
    };
    events.inspect(hear).boxed()
}

impl BackgroundTask {
    /// Ends what is under way, within this time; the next start goes on from wherever it stands.
    pub(super) async fn stop(self, grace: Duration) {
        self.end.cancel();
        let mut task = self.task;
        if timeout(grace, &mut task).await.is_err() {
            tracing::warn!(
                ?grace,
                "steps of guests or devices did not end within graceful_shutdown_timeout; the next start goes on with them"
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
    use berth_agent_instances::HeldGuests;

    /// Notes what is asked of it, and keeps until it is told to end.
    #[derive(Clone, Default)]
    struct Noted(Arc<Mutex<Vec<&'static str>>>);

    impl Noted {
        fn note(&self, what: &'static str) {
            self.0.lock().unwrap().push(what);
        }

        fn all(&self) -> Vec<&'static str> {
            self.0.lock().unwrap().clone()
        }
    }

    impl GuestManager for Noted {
        fn keep(&self, _: Duration, shutdown: CancellationToken) -> BoxFuture<'static, ()> {
            let noted = self.clone();
            Box::pin(async move {
                noted.note("keep");
                shutdown.cancelled().await;
                noted.note("kept");
            })
        }

        fn stop(&self) -> BoxFuture<'static, ()> {
            let noted = self.clone();
            Box::pin(async move { noted.note("stop") })
        }

        fn holding(&self) -> watch::Receiver<HeldGuests> {
            watch::channel(HeldGuests::new()).1
        }

        fn stir(&self) {
            self.note("stir");
        }

        fn unusable(&self) -> watch::Receiver<Option<String>> {
            watch::channel(None).1
        }
    }

    fn service(noted: &Noted) -> GuestService {
        GuestService {
            guests: Arc::new(noted.clone()),
            routes: Router::new(),
            interval: Duration::from_secs(1),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn guests_are_kept_once_the_nodes_are_reported() {
        let noted = Noted::default();
        let (started, when) = watch::channel(false);
        let keeping = service(&noted).begin(when);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(noted.all().is_empty(), "a reshape may be under way");
        started.send_replace(true);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(noted.all(), ["keep"]);
        keeping.stop(Duration::from_secs(1)).await;
        assert_eq!(noted.all(), ["keep", "kept"]);
    }

    #[tokio::test]
    async fn guests_are_compared_at_once_when_the_hypervisor_says_that_they_changed() {
        let noted = Noted::default();
        let all = [HostEvent::Devices, HostEvent::Guests, HostEvent::Unknown];
        let events = futures_util::stream::iter(all).boxed();
        let heard: Vec<_> = heard_by(Some(&service(&noted)), events).collect().await;
        assert_eq!((heard, noted.all()), (all.to_vec(), vec!["stir", "stir"]));
    }

    #[tokio::test(start_paused = true)]
    async fn guests_come_back_although_placement_is_away() {
        let noted = Noted::default();
        let (_started, when) = watch::channel(false);
        let keeping = service(&noted).begin(when);
        tokio::time::sleep(LONGEST_WAIT + Duration::from_millis(1)).await;
        assert_eq!(noted.all(), ["keep"]);
        keeping.stop(Duration::from_secs(1)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_before_that_ends_what_was_asked_for_meanwhile() {
        let noted = Noted::default();
        let (_started, when) = watch::channel(false);
        let keeping = service(&noted).begin(when);
        keeping.stop(Duration::from_secs(1)).await;
        assert_eq!(noted.all(), ["stop"]);
    }
}
