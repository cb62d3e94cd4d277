//! Test bench: the service with its peers and with the socket of a service manager, and functions that wait for a
//! state.

use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::time::Duration;

use berth_agent_api::{AgentRequest, AgentState, Phase, States, TickOutcome};
use berth_agent_instances::GuestChanges;
use berth_agent_journal::SqlJournal;
use berth_agent_tracker::disabled::{DisabledByOperator, DisabledError};
use berth_client::{AdapterOptions, Auth, HostsClient, HttpService, TransportOptions};
use berth_store::state_dir::StateDir;
use berth_virt::{HostView, VirtDriver};
use futures_util::{StreamExt, stream};
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::host_state::{HostStateOptions, HostStateService, OwnHostName};
use crate::metrics::Metrics;
use crate::notify::Notifier;
use crate::service::error::ServiceError;
use crate::service::event_loop::EventLoop;
use crate::service::tests::driver::{ScriptedDriver, host};
use crate::service::tests::placement::FakePlacement;
use crate::service::{Agent, EventLoopSources, Mode};
use crate::triggers::Interval;

pub(super) struct Bench {
    pub(super) driver: Arc<ScriptedDriver>,
    pub(super) placement: FakePlacement,
    pub(super) metrics: Metrics,
    folder: tempfile::TempDir,
    manager: UnixDatagram,
}

pub(super) struct Running {
    states: States,
    requests: mpsc::Sender<AgentRequest>,
    hangups: mpsc::Sender<()>,
    pub(super) shutdown: CancellationToken,
}

impl Bench {
    pub(super) fn with(view: HostView) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let manager = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        manager.set_nonblocking(true).unwrap();
        Self {
            driver: Arc::new(ScriptedDriver::showing(view)),
            placement: FakePlacement::empty(),
            metrics: Metrics::default(),
            folder,
            manager,
        }
    }

    /// An agent that serves, with a watchdog of one minute.
    pub(super) fn agent(&self) -> Agent<ScriptedDriver> {
        let files = self.files();
        let placement = self
            .placement
            .client(&self.metrics, AdapterOptions::DEFAULT_TIMEOUT);
        let mut agent = Agent::new(Arc::clone(&self.driver), placement, Arc::new(files));
        let socket = self.folder.path().join("notify").into_os_string();
        agent.notifier = Notifier::to(&socket, Some(Duration::from_mins(1))).unwrap();
        agent.metrics = self.metrics.clone();
        agent.live.periodic_fuzzy_delay = Duration::ZERO;
        agent.seed = 7;
        agent
    }

    /// A host state service that nothing reads here.
    pub(super) async fn host_state(&self) -> HostStateService {
        let auth = Auth::none("http://scheduler").unwrap();
        let http = HttpService::network(&TransportOptions::default()).unwrap();
        let journal = SqlJournal::open(self.folder.path()).await.unwrap();
        HostStateService {
            client: HostsClient::new(http, auth, &AdapterOptions::default()),
            journal: Arc::new(journal),
            changes: tokio::sync::watch::channel(GuestChanges::default()).1,
            own_name: OwnHostName::default(),
            options: HostStateOptions::default(),
        }
    }

    fn files(&self) -> StateDir {
        StateDir::open(&self.folder.path().join("state")).unwrap()
    }

    pub(super) fn file(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn state_file(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join("state").join(name)
    }

    /// Runs the agent concurrently with a script, and stops it when the script ends.
    pub(super) async fn run<T>(
        &self,
        agent: Agent<ScriptedDriver>,
        script: impl AsyncFnOnce(&mut Running) -> T,
    ) -> (Result<(), ServiceError>, T) {
        let shutdown = CancellationToken::new();
        let events = agent.driver.watch();
        let (event_loop, states) = EventLoop::new(agent);
        let (asked, requests) = mpsc::channel(16);
        let (hangups, hung) = mpsc::channel(16);
        let hung = stream::unfold(hung, async |mut hung| Some((hung.recv().await?, hung))).boxed();
        let sources = EventLoopSources {
            events,
            hangups: hung,
            requests,
            blocked_guests: None,
            journals: stream::SelectAll::new(),
            report_errors: stream::pending().boxed(),
            device_changes: stream::pending().boxed(),
        };
        let mut running = Running {
            states,
            requests: asked,
            hangups,
            shutdown: shutdown.clone(),
        };
        let scripted = async {
            let value = script(&mut running).await;
            shutdown.cancel();
            value
        };
        LocalSet::new()
            .run_until(async { tokio::join!(event_loop.run(sources, &shutdown), scripted) })
            .await
    }

    /// Runs the agent until it ends.
    pub(super) async fn run_to_end(
        &self,
        agent: Agent<ScriptedDriver>,
    ) -> Result<(), ServiceError> {
        self.run(agent, async |_| {
            tokio::time::sleep(Duration::from_hours(24)).await
        })
        .await
        .0
    }

    /// An agent that starts, ticks once and exits.
    pub(super) fn once(&self, deadline: Duration) -> Agent<ScriptedDriver> {
        Agent {
            mode: Mode::Once { deadline },
            ..self.agent()
        }
    }

    /// Notifications to the service manager since the last call, except `STATUS=`.
    pub(super) fn notifications(&self) -> Vec<String> {
        self.messages()
            .into_iter()
            .filter(|message| !message.starts_with("STATUS="))
            .collect()
    }

    /// Lets the time pass, and receives the notifications meanwhile (the socket's queue is short).
    pub(super) async fn notifications_within(&self, time: Duration) -> Vec<String> {
        let (mut notifications, end) = (self.messages(), Instant::now() + time);
        while Instant::now() < end {
            tokio::time::sleep(Duration::from_secs(1)).await;
            notifications.extend(self.messages());
        }
        notifications
    }

    /// All notifications to the service manager since the last call.
    pub(super) fn messages(&self) -> Vec<String> {
        let mut buffer = [0; 8192];
        std::iter::from_fn(|| {
            let length = self.manager.recv(&mut buffer).ok()?;
            Some(
                String::from_utf8_lossy(&buffer[..length])
                    .trim_end()
                    .to_owned(),
            )
        })
        .collect()
    }
}

/// Runs a script concurrently with an agent that has started with these nodes. The agent must end without an error
/// after the script.
pub(super) async fn stage(
    nodes: &[&str],
    prepare: impl FnOnce(&mut Agent<ScriptedDriver>),
    script: impl AsyncFnOnce(&Bench, &mut Running),
) {
    let bench = Bench::with(host(nodes));
    let mut agent = bench.agent();
    prepare(&mut agent);
    let (ended, ()) = bench
        .run(agent, async |running| {
            running.started().await;
            script(&bench, running).await;
        })
        .await;
    ended.unwrap();
}

/// Leaves the agent unchanged.
pub(super) fn usual(_: &mut Agent<ScriptedDriver>) {}

/// Turns the timer off: only events and requests cause a pass.
pub(super) fn without_timer(agent: &mut Agent<ScriptedDriver>) {
    agent.live.interval = Interval::Off;
}

impl Running {
    /// Waits for a state, for at most one day.
    pub(super) async fn until(
        &self,
        what: &str,
        reached: impl Fn(&AgentState) -> bool,
    ) -> Arc<AgentState> {
        let mut states = self.states.clone();
        match timeout(
            Duration::from_hours(24),
            states.wait_for(|state| reached(state)),
        )
        .await
        {
            Ok(Ok(state)) => Arc::clone(&state),
            Ok(Err(_)) => panic!("the service ended before: {what}"),
            Err(_) => panic!(
                "not within one day: {what}: {}",
                self.state().summary(Instant::now())
            ),
        }
    }

    /// Waits until all nodes are reported.
    pub(super) async fn started(&self) {
        self.until("running", |state| state.phase == Phase::Running)
            .await;
    }

    /// Waits until no node's last pass has failed.
    pub(super) async fn healed(&self) {
        self.until("healed", |state| {
            state.nodes.values().all(|node| node.failures == 0)
        })
        .await;
    }

    pub(super) fn state(&self) -> Arc<AgentState> {
        Arc::clone(&self.states.borrow())
    }

    /// Codes of the visible findings.
    pub(super) fn codes(&self) -> Vec<&'static str> {
        self.state()
            .health
            .visible(Instant::now())
            .iter()
            .map(|message| message.code)
            .collect()
    }

    pub(super) async fn tick(&self) -> TickOutcome {
        let (reply, outcome) = tokio::sync::oneshot::channel();
        self.requests
            .send(AgentRequest::Tick { reply })
            .await
            .unwrap();
        outcome.await.expect("the pass is answered")
    }

    pub(super) async fn set_disabled(&self, reason: Option<&str>) -> TickOutcome {
        self.try_set_disabled(reason)
            .await
            .expect("the setting is stored")
    }

    pub(super) async fn try_disable(&self, reason: &str) -> Result<TickOutcome, DisabledError> {
        self.try_set_disabled(Some(reason)).await
    }

    async fn try_set_disabled(&self, reason: Option<&str>) -> Result<TickOutcome, DisabledError> {
        let now = std::time::SystemTime::now();
        let disabled = reason.map(|reason| DisabledByOperator::new(reason, now, Some(0)).unwrap());
        let (reply, outcome) = tokio::sync::oneshot::channel();
        self.requests
            .send(AgentRequest::SetDisabled { disabled, reply })
            .await
            .unwrap();
        outcome.await.expect("the pass is answered")
    }

    /// Reports the setting of the cloud, and waits for the pass that reports it.
    pub(super) async fn set_disabled_in_cloud(&self, reason: Option<&str>) {
        let reason = reason.map(str::to_owned);
        let asked = AgentRequest::SetDisabledInCloud {
            reason: reason.clone(),
        };
        self.requests.send(asked).await.unwrap();
        self.until("the setting of the cloud", |state| {
            let known = state.disabled_in_cloud.as_ref();
            known.map(|it| it.reason.as_str()) == reason.as_deref()
        })
        .await;
        self.tick().await;
    }

    pub(super) async fn hang_up(&self) {
        self.hangups.send(()).await.unwrap();
    }
}
