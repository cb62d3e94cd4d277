//! The agent's service: starts every node, then keeps each in sync with Placement until the process stops. The
//! composition root builds an [`Agent`] and calls [`run`]; the exit code follows from [`ServiceError::reason`].
//!
//! ```text
//! triggers ─► event_loop ─► observe ─► nodes ─► pass (one task per node) ─► Placement
//!                  │                                   │
//!                  └──── findings, state, metrics ◄────┘
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `event_loop` | owns all state: waits for triggers, observes the host, starts passes, publishes the state |
//! | `nodes` | the nodes, each with its running pass, its backoff and its next view |
//! | `pass` | one pass over one node, as a task that is not cancelled |
//! | `progress_watchdog` | detects a pass that hangs |
//! | `keepalive` | when to notify the service manager |
//! | `waiting_requests` | requests that wait for an observation |
//! | `findings` | health findings that follow from passes and observations |
//! | `guests` | background tasks for guests, devices and the host state |
//! | `error` | errors that end the service or cause a retry |

mod error;
mod event_loop;
mod findings;
mod guests;
mod keepalive;
mod nodes;
mod pass;
mod progress_watchdog;
mod waiting_requests;

#[cfg(test)]
mod tests;

/// Sample hosts for tests of other modules.
#[cfg(test)]
pub(crate) mod samples {
    pub(crate) use super::tests::driver::host;
}

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use berth_agent_api::{AdminListeners, AdminOptions, AgentRequest, SocketLock};
use berth_agent_instances::BlockedGuests;
use berth_agent_tracker::KnownTrees;
use berth_agent_tracker::options::TrackerOptions;
use berth_agent_tracker::startup::ReviewedPlans;
use berth_client::{JitterRng, PlacementClient};
use berth_model::error_chain;
use berth_store::state_dir::StateFiles;
use berth_virt::{HostEvents, VirtDriver};
use futures_util::stream::{self, BoxStream, SelectAll};
use futures_util::{Stream, StreamExt};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;
use tokio_util::sync::CancellationToken;

use crate::host_state::{HostStateReporter, HostStateService, ReporterDeps};
use crate::metrics::{EmbeddedMetrics, Metrics, MetricsPage};
use crate::notify::Notifier;
use crate::service::event_loop::EventLoop;
use crate::service::guests::BackgroundTask;
use crate::triggers::Interval;

pub use error::{ExitReason, LastFailure, PassError, ServiceError};
pub use guests::{DeviceService, GuestService};

/// Options that SIGHUP can change.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveOptions {
    pub tracker: TrackerOptions,
    /// Time between two periodic passes (`update_resources_interval`).
    pub interval: Interval,
    /// The first periodic pass is delayed by a random part of this time (`periodic_fuzzy_delay`).
    pub periodic_fuzzy_delay: Duration,
    /// How long a stop waits for running passes (`graceful_shutdown_timeout`).
    pub graceful_shutdown_timeout: Duration,
    /// The complete configuration for `GET /v1/config`, with secrets masked.
    pub config: serde_json::Value,
}

impl Default for LiveOptions {
    fn default() -> Self {
        Self {
            tracker: TrackerOptions::default(),
            interval: Interval::Every(Duration::from_mins(1)),
            periodic_fuzzy_delay: Duration::from_mins(1),
            graceful_shutdown_timeout: Duration::from_mins(3),
            config: serde_json::Value::Null,
        }
    }
}

/// Reads and validates the configuration. The result takes effect only if it is valid. Called in a blocking thread.
pub type Reload = Arc<dyn Fn() -> Result<LiveOptions, String> + Send + Sync>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Until the shutdown signal.
    Serve,
    /// For one start and one tick (`--once`).
    Once {
        /// Time limit (`--deadline`). A pass that is running then is finished as long as responses arrive, within
        /// `graceful_shutdown_timeout`.
        deadline: Duration,
    },
}

/// All parts of the service. [`Agent::new`] fills the ones with a default.
pub struct Agent<D> {
    pub driver: Arc<D>,
    /// Use [`Agent::metrics`] as its observer, so that its requests are counted.
    pub placement: PlacementClient,
    pub files: Arc<dyn StateFiles>,
    pub live: LiveOptions,
    /// Reloads the configuration at SIGHUP. `None`: SIGHUP changes nothing and causes a pass that reads Placement
    /// again.
    pub reload: Option<Reload>,
    pub mode: Mode,
    /// The admin API; `None`: no API, and nothing prevents a second agent.
    pub admin: Option<AdminOptions>,
    /// The guests; `None`: this agent manages none.
    pub guests: Option<GuestService>,
    /// States of the devices that the driver cannot know; `None`: views are used as observed.
    pub devices: Option<DeviceService>,
    /// Service that gets the host state for the scheduler; `None`: it is not reported.
    pub host_state: Option<HostStateService>,
    /// Journals of other services in this process: name, and the error while the journal cannot be used.
    pub embedded_journals: Vec<(&'static str, watch::Receiver<Option<String>>)>,
    /// Receives the nodes' provider trees, for other parts of this process.
    pub trees: KnownTrees,
    /// The lock against a second agent, if the caller holds it already. Otherwise it is taken with the admin socket.
    pub lock: Option<SocketLock>,
    pub metrics: Metrics,
    /// Metrics of other services in this process.
    pub embedded_metrics: Option<Arc<dyn EmbeddedMetrics>>,
    pub notifier: Notifier,
    /// Reviewed plans of all nodes, which the start must follow (`--expect-plan`).
    pub reviewed: Option<ReviewedPlans>,
    /// Seed of all jitter.
    pub seed: u64,
}

impl<D> Agent<D> {
    /// A serving agent with Nova's defaults, without admin API and service manager.
    #[must_use]
    pub fn new(driver: Arc<D>, placement: PlacementClient, files: Arc<dyn StateFiles>) -> Self {
        Self {
            driver,
            placement,
            files,
            live: LiveOptions::default(),
            reload: None,
            mode: Mode::Serve,
            admin: None,
            guests: None,
            devices: None,
            host_state: None,
            embedded_journals: Vec::new(),
            trees: KnownTrees::default(),
            lock: None,
            metrics: Metrics::default(),
            embedded_metrics: None,
            notifier: Notifier::silent(),
            reviewed: None,
            seed: JitterRng::from_os().next(),
        }
    }
}

impl<D> fmt::Debug for Agent<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("mode", &self.mode)
            .field("live", &self.live)
            .finish_non_exhaustive()
    }
}

/// Inputs of the event loop.
struct EventLoopSources {
    events: HostEvents,
    hangups: Pin<Box<dyn Stream<Item = ()> + Send>>,
    requests: mpsc::Receiver<AgentRequest>,
    /// The blocked guests, with the reason of each.
    blocked_guests: Option<watch::Receiver<BlockedGuests>>,
    /// Journals, each with the error while it cannot be used.
    journals: SelectAll<BoxStream<'static, (&'static str, Option<String>)>>,
    /// Error of the last report of the host state, whenever it changes. Never ends.
    report_errors: BoxStream<'static, Option<String>>,
    /// Changes of the devices' states. Never ends.
    device_changes: HostEvents,
}

impl EventLoopSources {
    /// Waits for the next change of the blocked guests.
    async fn next_blocked(
        blocked_guests: &mut Option<watch::Receiver<BlockedGuests>>,
    ) -> BlockedGuests {
        if let Some(receiver) = blocked_guests {
            if receiver.changed().await.is_ok() {
                return receiver.borrow_and_update().clone();
            }
            *blocked_guests = None;
        }
        std::future::pending().await
    }
}

/// Name of the guests' journal in findings.
const GUESTS: &str = "guests.db";

/// The current state of a journal, and each change of it.
fn journal_states(
    name: &'static str,
    receiver: watch::Receiver<Option<String>>,
) -> BoxStream<'static, (&'static str, Option<String>)> {
    let first = true;
    stream::unfold((receiver, first), move |(mut receiver, first)| async move {
        if !first {
            receiver.changed().await.ok()?;
        }
        let error = receiver.borrow_and_update().clone();
        Some(((name, error), (receiver, false)))
    })
    .boxed()
}

/// Error of the last report of the host state, whenever it changes.
fn report_failures(
    receiver: watch::Receiver<Option<String>>,
) -> BoxStream<'static, Option<String>> {
    let changes = stream::unfold(receiver, async |mut receiver| {
        receiver.changed().await.ok()?;
        let error = receiver.borrow_and_update().clone();
        Some((error, receiver))
    });
    changes.chain(stream::pending()).boxed()
}

/// Capacity of the queue of requests from the admin API.
const REQUESTS: usize = 16;

/// Runs the agent until `shutdown`, until its `Once` run is done, or until an error ends it. A stop finishes running
/// passes, within `graceful_shutdown_timeout`.
///
/// # Errors
///
/// Another agent runs, a state file cannot be used, a start failed permanently, a reshape is needed, or the deadline has passed.
pub async fn run<D: VirtDriver>(
    mut agent: Agent<D>,
    shutdown: CancellationToken,
) -> Result<(), ServiceError> {
    // Held until the end, also without a socket.
    let lock = agent.lock.take();
    let options = agent.admin.take();
    let guests = agent.guests.take();
    let devices = agent.devices.clone();
    let embedded_journals = std::mem::take(&mut agent.embedded_journals);
    let (listeners, mut hangup) = match open_inputs(options, lock.as_ref()).await {
        Ok(inputs) => inputs,
        Err(error) => {
            agent.notifier.final_status(&error_chain(&error));
            return Err(error);
        }
    };
    let hangups = stream::poll_fn(move |context| hangup.poll_recv(context)).boxed();
    let (asked, requests) = mpsc::channel(REQUESTS);
    let serves = agent.mode == Mode::Serve;
    let (events, device_changes) = match (serves, &devices) {
        (true, Some(devices)) => (agent.driver.watch(), devices.devices.changes()),
        (true, None) => (agent.driver.watch(), stream::pending().boxed()),
        (false, _) => (stream::pending().boxed(), stream::pending().boxed()),
    };
    let events = guests::wake_guests_on_events(guests.as_ref(), events);
    let metrics = agent.metrics.clone();
    let page = MetricsPage {
        own: metrics.clone(),
        embedded: agent.embedded_metrics.take(),
    };
    let grace = agent.live.graceful_shutdown_timeout;
    // A one-shot run does not report the host state.
    let agent_host_state = agent.host_state.clone().filter(|_| serves);
    let driver = Arc::clone(&agent.driver);
    let (event_loop, state) = EventLoop::new(agent);
    let routes = [
        guests.as_ref().map(|service| service.routes.clone()),
        devices.as_ref().map(|service| service.routes.clone()),
    ];
    let routes = routes
        .into_iter()
        .flatten()
        .fold(Router::new(), Router::merge);
    let guests_journal = guests
        .as_ref()
        .map(|it| (GUESTS, it.guests.subscribe_journal_error()));
    let journals = embedded_journals.into_iter().chain(guests_journal);
    let journals = stream::select_all(journals.map(|(name, errors)| journal_states(name, errors)));
    if let Some(service) = &guests {
        service
            .guests
            .set_finding_observer(Arc::new(metrics.clone()));
    }
    let blocked_guests = guests
        .as_ref()
        .map(|service| service.guests.subscribe_blocked());
    let guest_task = guests.map(|service| service.begin(event_loop.started()));
    let device_task = devices.filter(|_| serves).map(DeviceService::begin);
    let (failure_sender, report_errors) = watch::channel(None);
    let host_state = agent_host_state.map(|service| {
        let deps = ReporterDeps {
            driver,
            states: state.clone(),
            requests: asked.clone(),
            metrics: metrics.clone(),
            failure: failure_sender,
        };
        BackgroundTask::report_host_state(HostStateReporter::new(deps, service))
    });
    let server = listeners.map(|listeners| listeners.serve(state, Arc::new(page), asked, routes));
    // Passes are tasks on this thread: the agent mostly waits and hardly computes.
    let sources = EventLoopSources {
        events,
        hangups,
        requests,
        blocked_guests,
        journals,
        report_errors: report_failures(report_errors),
        device_changes,
    };
    let ended = LocalSet::new()
        .run_until(event_loop.run(sources, &shutdown))
        .await;
    if let Some(server) = server {
        server.stop().await;
    }
    for task in [host_state, device_task, guest_task].into_iter().flatten() {
        task.stop(grace).await;
    }
    ended
}

/// Opens the external inputs: the admin API and SIGHUP.
async fn open_inputs(
    options: Option<AdminOptions>,
    lock: Option<&SocketLock>,
) -> Result<(Option<AdminListeners>, Signal), ServiceError> {
    let listeners = match options {
        Some(options) => Some(AdminListeners::open(&options, lock).await?),
        None => None,
    };
    let hangup = signal(SignalKind::hangup()).map_err(ServiceError::Signals)?;
    Ok((listeners, hangup))
}
