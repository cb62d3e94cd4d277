//! The service around the journeys: it starts every node, then keeps each in step, for as long as the process lives. The
//! composition root builds an [`Agent`] and calls [`run`]; the exit code follows from [`ServiceError::reason`].
//!
//! | room | what it does |
//! |---|---|
//! | `event_loop` | waits for a reason to look, observes, begins passes, tells the world |
//! | `nodes` | which node has a pass under way, waits after a failure, has a newer view waiting |
//! | `pass` | one pass over one node, as a task that nobody cancels |
//! | `pulse` | whether a pass goes on or hangs |
//! | `state` | what the admin API and `STATUS=` show |
//! | `findings` | what the nodes' passes mean for health |
//! | `guests` | guests, kept as they should be beside the passes, and devices |
//! | `trees` | the nodes' trees, for whoever builds guests |
//! | `error` | what ends the service and what makes it try again |

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

/// Hosts for tests of other rooms.
#[cfg(test)]
pub(crate) mod samples {
    pub(crate) use super::tests::driver::host;
}

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use berth_agent_api::{AdminOptions, Door, Request, SocketLock};
use berth_agent_instances::HeldGuests;
use berth_agent_tracker::KnownTrees;
use berth_agent_tracker::error_chain::sentence;
use berth_agent_tracker::options::TrackerOptions;
use berth_agent_tracker::startup::ReviewedPlans;
use berth_client::{JitterRng, PlacementClient};
use berth_store::state_dir::StateFiles;
use berth_virt::{HostEvents, VirtDriver};
use futures_util::stream::{self, BoxStream, SelectAll};
use futures_util::{Stream, StreamExt};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;
use tokio_util::sync::CancellationToken;

use crate::host_state::{HostStateReporter, HostStateService, ReporterDeps};
use crate::metrics::{Metrics, MetricsBeside, MetricsPage};
use crate::notify::Notifier;
use crate::service::event_loop::EventLoop;
use crate::service::guests::BackgroundTask;
use crate::triggers::Interval;

pub use error::{ExitReason, LastFailure, PassError, ServiceError};
pub use guests::{DeviceService, GuestService};

/// The options that SIGHUP may change.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveOptions {
    /// Options of the resource tracker.
    pub tracker: TrackerOptions,
    /// `update_resources_interval`.
    pub interval: Interval,
    /// `periodic_fuzzy_delay`: the first periodic pass is put off by a random part of it.
    pub periodic_fuzzy_delay: Duration,
    /// `graceful_shutdown_timeout`: how long a stop waits for passes under way.
    pub graceful_shutdown_timeout: Duration,
    /// The whole configuration, secrets masked, as `GET /v1/config` shows it.
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

/// Reads the configuration again and checks it whole; what it says is in force only if this returns it. Called off the
/// runtime's threads, so it may block.
pub type Reload = Arc<dyn Fn() -> Result<LiveOptions, String> + Send + Sync>;

/// How long the service runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Until it is told to stop.
    Serve,
    /// A start and one tick (`--once`).
    Once {
        /// How long it may take (`--deadline`); a pass under way then is still finished as long as answers come, within
        /// `graceful_shutdown_timeout`.
        deadline: Duration,
    },
}

impl Mode {
    /// `--deadline` where none is given.
    pub const DEFAULT_DEADLINE: Duration = Duration::from_mins(1);
}

/// Everything the service needs. All fields are to be filled; [`Agent::new`] fills what has a default.
pub struct Agent<D> {
    /// What sees the host.
    pub driver: Arc<D>,
    /// Placement. Give it [`Agent::metrics`] as its observer, so that its requests are counted.
    pub placement: PlacementClient,
    pub files: Arc<dyn StateFiles>,
    /// Options that SIGHUP may change.
    pub live: LiveOptions,
    /// What SIGHUP calls; none: SIGHUP makes a pass that reads Placement anew, and changes nothing.
    pub reload: Option<Reload>,
    /// How long to run.
    pub mode: Mode,
    /// The admin socket; none: nobody can ask, and nothing keeps a second agent away.
    pub admin: Option<AdminOptions>,
    /// The guests; none: this agent makes none.
    pub guests: Option<GuestService>,
    /// What is known of the devices beside what the driver sees; none: nothing is laid over a view.
    pub devices: Option<DeviceService>,
    /// The scheduler that is told of this host; none: nobody is.
    pub host_state: Option<HostStateService>,
    /// Journals of services that run beside in this process, each with its name and why it cannot be used; none: it can.
    pub beside: Vec<(&'static str, watch::Receiver<Option<String>>)>,
    /// Where the nodes' trees are shown to whoever needs them in this process.
    pub trees: KnownTrees,
    /// The lock that keeps a second agent away, if it was taken before; else it is taken with the admin socket.
    pub lock: Option<SocketLock>,
    pub metrics: Metrics,
    /// Metrics of what runs beside in this process; none: nothing does that has any.
    pub metrics_beside: Option<Arc<dyn MetricsBeside>>,
    pub notifier: Notifier,
    /// The plans, one for each node, that a start must follow or refuse (`--expect-plan`).
    pub reviewed: Option<ReviewedPlans>,
    /// The seed of all jitter.
    pub seed: u64,
}

impl<D> Agent<D> {
    /// An agent with Nova's defaults that serves, without admin socket and service manager.
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
            beside: Vec::new(),
            trees: KnownTrees::default(),
            lock: None,
            metrics: Metrics::default(),
            metrics_beside: None,
            notifier: Notifier::silent(),
            reviewed: None,
            seed: JitterRng::thrown().next(),
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

/// Where reasons to look come from.
struct EventLoopSources {
    events: HostEvents,
    hangups: Pin<Box<dyn Stream<Item = ()> + Send>>,
    requests: mpsc::Receiver<Request>,
    /// The guests that stand still.
    holding: Option<watch::Receiver<HeldGuests>>,
    /// Journals, each with why it cannot be used.
    journals: SelectAll<BoxStream<'static, (&'static str, Option<String>)>>,
    /// Why the scheduler is not told of this host, whenever that changes. Never ends.
    untold: BoxStream<'static, Option<String>>,
    /// What is laid over the next view is another one. Never ends.
    device_changes: HostEvents,
}

impl EventLoopSources {
    /// The next word about guests that stand still.
    async fn held(holding: &mut Option<watch::Receiver<HeldGuests>>) -> HeldGuests {
        if let Some(told) = holding {
            if told.changed().await.is_ok() {
                return told.borrow_and_update().clone();
            }
            *holding = None;
        }
        std::future::pending().await
    }
}

/// The journal of guests, by its name in findings.
const GUESTS: &str = "guests.db";

/// What is said of a journal, now and whenever it changes.
fn words(
    name: &'static str,
    told: watch::Receiver<Option<String>>,
) -> BoxStream<'static, (&'static str, Option<String>)> {
    let first = true;
    stream::unfold((told, first), move |(mut told, first)| async move {
        if !first {
            told.changed().await.ok()?;
        }
        let word = told.borrow_and_update().clone();
        Some(((name, word), (told, false)))
    })
    .boxed()
}

/// Why the scheduler is not told of this host, whenever that changes.
fn untold_of(told: watch::Receiver<Option<String>>) -> BoxStream<'static, Option<String>> {
    let changes = stream::unfold(told, async |mut told| {
        told.changed().await.ok()?;
        let word = told.borrow_and_update().clone();
        Some((word, told))
    });
    changes.chain(stream::pending()).boxed()
}

/// How many requests of the admin API may wait for the loop.
const REQUESTS: usize = 16;

/// Runs the agent until `shutdown`, until its `Once` is done, or until an error ends it. A stop finishes the passes under way,
/// for at most `graceful_shutdown_timeout`.
///
/// Errors: Another agent runs, a state file cannot be used, a start failed for good, a reshape is needed, a deadline
/// passed.
pub async fn run<D: VirtDriver>(
    mut agent: Agent<D>,
    shutdown: CancellationToken,
) -> Result<(), ServiceError> {
    // Held to the end, whether there is a socket or not.
    let lock = agent.lock.take();
    let options = agent.admin.take();
    let guests = agent.guests.take();
    let devices = agent.devices.clone();
    let beside = std::mem::take(&mut agent.beside);
    let (door, mut hangup) = match doors(options, lock.as_ref()).await {
        Ok(doors) => doors,
        Err(error) => {
            agent.notifier.last_words(&sentence(&error));
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
    let events = guests::heard_by(guests.as_ref(), events);
    let metrics = agent.metrics.clone();
    let page = MetricsPage {
        own: metrics.clone(),
        beside: agent.metrics_beside.take(),
    };
    let grace = agent.live.graceful_shutdown_timeout;
    // A run that ends after its tick tells the scheduler nothing.
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
    let guests_journal = guests.as_ref().map(|it| (GUESTS, it.guests.unusable()));
    let journals = beside.into_iter().chain(guests_journal);
    let journals = stream::select_all(journals.map(|(name, told)| words(name, told)));
    if let Some(service) = &guests {
        service.guests.count_by(Arc::new(metrics.clone()));
    }
    let holding = guests.as_ref().map(|service| service.guests.holding());
    let keeping = guests.map(|service| service.begin(event_loop.started()));
    let telling = devices.filter(|_| serves).map(DeviceService::begin);
    let (untold, told_of) = watch::channel(None);
    let host_state = agent_host_state.map(|service| {
        let around = ReporterDeps {
            driver,
            states: state.clone(),
            requests: asked.clone(),
            metrics: metrics.clone(),
            failure: untold,
        };
        BackgroundTask::of(HostStateReporter::new(around, service))
    });
    let serving = door.map(|door| door.serve(state, Arc::new(page), asked, routes));
    // The passes are tasks of their own, but on this thread: an agent waits far more than it computes.
    let sources = EventLoopSources {
        events,
        hangups,
        requests,
        holding,
        journals,
        untold: untold_of(told_of),
        device_changes,
    };
    let ended = LocalSet::new()
        .run_until(event_loop.run(sources, &shutdown))
        .await;
    if let Some(serving) = serving {
        serving.stop().await;
    }
    for keeping in [host_state, telling, keeping].into_iter().flatten() {
        keeping.stop(grace).await;
    }
    ended
}

/// Where the world comes in: the admin socket and SIGHUP.
async fn doors(
    options: Option<AdminOptions>,
    lock: Option<&SocketLock>,
) -> Result<(Option<Door>, Signal), ServiceError> {
    let door = match options {
        Some(options) => Some(Door::open(&options, lock).await?),
        None => None,
    };
    let hangup = signal(SignalKind::hangup()).map_err(ServiceError::Signals)?;
    Ok((door, hangup))
}
