//! The event loop. It owns all state and waits for the first of: shutdown, a timer, a finished task, a trigger. No
//! `select!` arm waits itself.
//!
//! Submodules: `observe` (observations), `passes`, `disabled_file` (`disabled.json`), `reload` (SIGHUP), `shutdown`.

mod disabled_file;
mod observe;
mod passes;
mod reload;
mod shutdown;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_agent_api::health::{AgentHealth, HOST_EVENTS_LOST, NO_PROGRESS};
use berth_agent_api::{AgentRequest, AgentState, Phase, States, TickOutcome};
use berth_agent_devices::ObservationId;
use berth_agent_instances::BlockedGuests;
use berth_agent_tracker::KnownTrees;
use berth_agent_tracker::backoff::LoopBackoff;
use berth_agent_tracker::disabled::{
    DisabledByOperator, DisabledError, DisabledInCloud, DisabledState,
};
use berth_client::JitterRng;
use berth_virt::{DeviceError, HostEvent, HostView, ObserveError, VirtDriver};
use futures_util::StreamExt;
use tokio::sync::{oneshot, watch};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::notify::Notifier;
use crate::service::error::{LastFailure, ServiceError};
use crate::service::guests::DeviceService;
use crate::service::keepalive::{EXTEND_BY, Keepalive};
use crate::service::nodes::{Nodes, PassSettings};
use crate::service::pass::{FinishedPass, PassContext};
use crate::service::progress_watchdog::{LONGEST_OBSERVATION, MARGIN};
use crate::service::waiting_requests::WaitingRequests;
use crate::service::{Agent, EventLoopSources, LiveOptions, Mode, Reload, findings};
use crate::triggers::{Interval, Trigger, Triggers, wake};

pub(super) struct EventLoop<D> {
    context: Arc<PassContext<D>>,
    work: JoinSet<TaskCompletion<D>>,
    nodes: Nodes<D>,
    triggers: Triggers,
    observation: Observation,
    live: LiveOptions,
    settings: PassSettings,
    phase: Phase,
    once: Option<OneShotRun>,
    health: AgentHealth,
    disabled: DisabledState,
    /// Whether the host state is reported to the scheduler, whose answer says whether the host is disabled in the
    /// cloud.
    reports_to_scheduler: bool,
    view: Option<Arc<HostView>>,
    disabled_file_io: Option<DisabledFileIo>,
    /// Subjects without progress that were already logged.
    overdue: BTreeSet<String>,
    waiting: WaitingRequests,
    reload: Option<Reload>,
    reloading: ReloadState,
    notifier: Notifier,
    keepalive: Keepalive,
    metrics: Metrics,
    last_failure: LastFailure,
    driver: &'static str,
    config: Arc<serde_json::Value>,
    devices: Option<DeviceService>,
    trees: KnownTrees,
    published: watch::Sender<Arc<AgentState>>,
    /// Becomes true once all nodes have been reported.
    started: watch::Sender<bool>,
    rng: JitterRng,
}

/// Result of a finished task.
enum TaskCompletion<D> {
    Observed {
        sequence: u64,
        /// Errors of preparing the host's devices, if the task prepared them.
        unprepared: Option<Vec<DeviceError>>,
        view: Result<HostView, ObserveError>,
    },
    PassFinished(Box<FinishedPass<D>>),
    ConfigReloaded(Result<LiveOptions, String>),
    DisabledLoaded(Result<DisabledState, DisabledError>),
    DisabledStored {
        disabled: Option<DisabledByOperator>,
        kept: Result<(), DisabledError>,
        reply: oneshot::Sender<Result<TickOutcome, DisabledError>>,
    },
    DisabledInCloudStored {
        disabled: Option<DisabledInCloud>,
        kept: Result<(), DisabledError>,
    },
}

/// `disabled.json` is being read or written. Meanwhile no observation starts and no other request is received.
struct DisabledFileIo {
    since: Instant,
}

/// State of the observations of the host.
struct Observation {
    /// Number of the last started observation.
    sequence: u64,
    running: Option<ObservationTask>,
    backoff: LoopBackoff,
    retry_at: Option<Instant>,
    /// Error of the last one, if it failed.
    failure: Option<String>,
    /// Last logged errors of preparing the host's devices.
    unprepared: Vec<String>,
}

struct ObservationTask {
    task: AbortHandle,
    observation_id: Option<ObservationId>,
    since: Instant,
    breaks_backoff: bool,
}

/// State of a `--once` run.
struct OneShotRun {
    given: Duration,
    deadline: Instant,
    /// Number of the observation for the tick, once the start is done.
    tick: Option<u64>,
}

/// Whether the configuration is being read, and whether it must be read again after that.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReloadState {
    Idle,
    Running,
    RunAgain,
}

/// A task that is monitored for progress, with the time since its last progress.
struct MonitoredTask {
    subject: String,
    silence: Duration,
    may_be_silent: Duration,
}

/// Longest supported timer, whatever the configuration allows.
const LONGEST_TIMER: Duration = Duration::from_hours(24 * 365);

/// Whether all monitored tasks have made progress recently.
#[derive(PartialEq, Eq)]
enum OverallProgress {
    Made,
    None,
}

/// Whether the loop continues.
#[derive(PartialEq, Eq)]
enum Flow {
    On,
    Finished,
}

impl<D: VirtDriver> EventLoop<D> {
    pub(super) fn new(agent: Agent<D>) -> (Self, States) {
        let now = Instant::now();
        let rng = JitterRng::seeded(agent.seed);
        let (interval, once) = match agent.mode {
            Mode::Serve => (agent.live.interval, None),
            Mode::Once { deadline } => (
                Interval::Off,
                Some(OneShotRun {
                    given: deadline,
                    deadline: now + deadline,
                    tick: None,
                }),
            ),
        };
        let fuzzy = agent.live.periodic_fuzzy_delay.mul_f64(rng.fraction());
        let triggers = Triggers::new(interval, fuzzy, now);
        let settings = PassSettings {
            service: DisabledState::default().service(),
            options: Arc::new(agent.live.tracker.clone()),
            reviewed: agent.reviewed.map(Arc::new),
        };
        let driver = agent.driver.name();
        let config = Arc::new(agent.live.config.clone());
        let unknown = AgentState::unknown(driver);
        let nothing = AgentState {
            config: Arc::clone(&config),
            ..unknown
        };
        let (published, state) = watch::channel(Arc::new(nothing));
        let event_loop = Self {
            context: Arc::new(PassContext {
                driver: agent.driver,
                placement: agent.placement,
                files: agent.files,
            }),
            work: JoinSet::new(),
            nodes: Nodes::new(rng.next()),
            triggers,
            observation: Observation {
                sequence: 0,
                running: None,
                backoff: LoopBackoff::seeded(rng.next()),
                retry_at: None,
                failure: None,
                unprepared: Vec::new(),
            },
            live: agent.live,
            settings,
            phase: Phase::Starting,
            once,
            health: AgentHealth::default(),
            disabled: DisabledState::default(),
            reports_to_scheduler: agent.host_state.is_some(),
            view: None,
            disabled_file_io: None,
            overdue: BTreeSet::new(),
            waiting: WaitingRequests::default(),
            reload: agent.reload,
            reloading: ReloadState::Idle,
            keepalive: Keepalive::new(agent.notifier.watchdog_period(), now),
            notifier: agent.notifier,
            metrics: agent.metrics,
            last_failure: LastFailure::NoAnswer,
            driver,
            config,
            devices: agent.devices,
            trees: agent.trees,
            published,
            started: watch::Sender::default(),
            rng,
        };
        (event_loop, state)
    }

    /// Becomes true once all nodes have been reported.
    pub(super) fn started(&self) -> watch::Receiver<bool> {
        self.started.subscribe()
    }

    /// Runs the loop until it ends, then shuts down in an orderly way.
    pub(super) async fn run(
        mut self,
        sources: EventLoopSources,
        shutdown: &CancellationToken,
    ) -> Result<(), ServiceError> {
        let ended = self.until_end(sources, shutdown).await;
        self.stop(ended.as_ref().err()).await;
        ended
    }

    async fn until_end(
        &mut self,
        mut sources: EventLoopSources,
        shutdown: &CancellationToken,
    ) -> Result<(), ServiceError> {
        let mut listening = true;
        self.begin_load_disabled();
        loop {
            let now = Instant::now();
            if self.advance(now)? == Flow::Finished {
                return Ok(());
            }
            let wake_at = self.wake_at(now);
            let free = self.disabled_file_io.is_none();
            tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                () = wake(wake_at) => {}
                Some(result) = self.work.join_next() => self.task_finished(result)?,
                event = sources.events.next(), if listening && free => {
                    listening = event.is_some();
                    self.event(event);
                }
                Some(()) = sources.hangups.next(), if free => self.hangup(),
                Some(request) = sources.requests.recv(), if free => self.request(request),
                held = EventLoopSources::next_blocked(&mut sources.blocked_guests) => self.held_guests(&held),
                Some((name, error)) = sources.journals.next() => self.journal(name, error),
                Some(error) = sources.report_errors.next() => {
                    findings::of_scheduler(&mut self.health, error, Instant::now());
                }
                Some(event) = sources.device_changes.next(), if free => self.event(Some(event)),
            }
        }
    }

    /// Performs what is due, and publishes the state.
    fn advance(&mut self, now: Instant) -> Result<Flow, ServiceError> {
        self.check_deadline(now)?;
        if self.check_started(now) == Flow::Finished {
            return Ok(Flow::Finished);
        }
        // While the hypervisor does not answer, its backoff also applies to waiting nodes.
        let retry = self.observation.retry_at.or_else(|| self.nodes.retry_at());
        self.triggers.retry_at(retry);
        if self.disabled_file_io.is_none()
            && let Some(causes) = self.triggers.begin(now)
        {
            self.observe(&causes, now);
        }
        let progress = self.check_progress(now);
        self.publish(now);
        let due = self.keepalive.due(now);
        if due.extend && progress == OverallProgress::Made {
            self.notifier.extend_timeout(EXTEND_BY);
        }
        if due.alive && progress == OverallProgress::Made {
            self.notifier.alive();
        }
        Ok(Flow::On)
    }

    fn wake_at(&self, now: Instant) -> Option<Instant> {
        earliest([
            self.triggers
                .wake_at()
                .filter(|_| self.disabled_file_io.is_none()),
            self.keepalive.wake_at(),
            self.health.next_change(now),
            self.once.as_ref().map(|once| once.deadline),
            self.in_progress(now)
                .map(|work| now + work.may_be_silent.saturating_sub(work.silence))
                .filter(|at| *at > now)
                .min(),
        ])
    }

    /// All running tasks that are monitored for progress.
    fn in_progress(&self, now: Instant) -> impl Iterator<Item = MonitoredTask> {
        let nodes = u32::try_from(self.nodes.count()).unwrap_or(u32::MAX);
        let may_be_silent = self
            .context
            .placement
            .longest_quiet(nodes)
            .saturating_add(MARGIN)
            .min(LONGEST_TIMER);
        let observing = self
            .observation
            .running
            .as_ref()
            .map(|running| MonitoredTask {
                subject: "the hypervisor".to_owned(),
                silence: now.duration_since(running.since),
                may_be_silent: LONGEST_OBSERVATION,
            });
        let passes = self
            .nodes
            .silences(now)
            .map(move |(node, silence)| MonitoredTask {
                subject: node.to_string(),
                silence,
                may_be_silent,
            });
        passes.chain(observing).chain(self.disabled_file_io(now))
    }

    fn check_deadline(&mut self, now: Instant) -> Result<(), ServiceError> {
        match &self.once {
            Some(once) if once.deadline <= now => {
                let last = std::mem::replace(&mut self.last_failure, LastFailure::NoAnswer);
                Err(ServiceError::DeadlinePassed {
                    deadline: once.given,
                    last: Box::new(last),
                })
            }
            _ => Ok(()),
        }
    }

    /// Detects that all nodes have been reported. A `--once` run then requests its tick, and ends after it.
    fn check_started(&mut self, now: Instant) -> Flow {
        if self.phase == Phase::Starting && self.nodes.all_started() {
            self.phase = Phase::Running;
            self.started.send_replace(true);
            self.keepalive.started();
            self.settings.reviewed = None;
            self.publish(now);
            self.notifier.ready();
            if let Some(once) = &mut self.once {
                once.tick = Some(self.observation.sequence + 1);
                self.triggers.add(Trigger::Request, now);
            }
            tracing::info!(
                nodes = self.nodes.states().count(),
                "all nodes are reported"
            );
        }
        let tick = self.once.as_ref().and_then(|once| once.tick);
        let ticked = tick.is_some_and(|sequence| self.nodes.all_finished(sequence));
        let mut nodes = self.nodes.states().peekable();
        let well = nodes.peek().is_some() && nodes.all(|(_, node)| node.failure_cause.is_none());
        if ticked && well {
            Flow::Finished
        } else {
            Flow::On
        }
    }

    /// Detects running tasks without progress.
    fn check_progress(&mut self, now: Instant) -> OverallProgress {
        let silent: BTreeMap<String, Duration> = self
            .in_progress(now)
            .filter(|work| work.silence >= work.may_be_silent)
            .map(|work| (work.subject, work.silence))
            .collect();
        self.health
            .clear_others(&NO_PROGRESS, &silent.keys().cloned().collect());
        for (subject, silence) in &silent {
            let seconds = silence.as_secs().to_string();
            self.health.set(
                NO_PROGRESS
                    .finding()
                    .about(subject.clone())
                    .with("seconds", seconds),
                now,
            );
            if self.overdue.insert(subject.clone()) {
                tracing::warn!(%subject, ?silence, "no progress for longer than expected; stuck");
            }
        }
        for subject in self.overdue.extract_if(.., |was| !silent.contains_key(was)) {
            tracing::info!(%subject, "no longer stuck");
        }
        if silent.is_empty() {
            OverallProgress::Made
        } else {
            OverallProgress::None
        }
    }

    fn task_finished(
        &mut self,
        result: Result<TaskCompletion<D>, JoinError>,
    ) -> Result<(), ServiceError> {
        match result {
            Ok(TaskCompletion::Observed {
                sequence,
                unprepared,
                view,
            }) => {
                if let Some(errors) = unprepared {
                    self.unprepared(&errors);
                }
                self.observed(sequence, view)
            }
            Ok(TaskCompletion::PassFinished(finished)) => self.pass_finished(*finished),
            Ok(TaskCompletion::ConfigReloaded(options)) => {
                self.reloaded(options);
                Ok(())
            }
            Ok(TaskCompletion::DisabledLoaded(read)) => self.disabled_loaded(read),
            Ok(TaskCompletion::DisabledStored {
                disabled,
                kept,
                reply,
            }) => {
                self.disabled_stored(disabled, kept, reply);
                Ok(())
            }
            Ok(TaskCompletion::DisabledInCloudStored { disabled, kept }) => {
                self.in_cloud_stored(disabled, kept);
                Ok(())
            }
            Err(error) if error.is_panic() => {
                let panic = error.into_panic();
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let message = text
                    .or_else(|| panic.downcast_ref::<&str>().copied())
                    .unwrap_or("no message");
                Err(ServiceError::Panicked {
                    message: message.to_owned(),
                })
            }
            // A cancelled task.
            Err(_) => Ok(()),
        }
    }

    fn event(&mut self, event: Option<HostEvent>) {
        let now = Instant::now();
        match event {
            Some(event) => {
                tracing::debug!(?event, "the host changed");
                self.triggers.add(Trigger::HostEvent, now);
            }
            None => self.health.set(HOST_EVENTS_LOST.finding(), now),
        }
    }

    fn request(&mut self, request: AgentRequest) {
        // A running observation may have started before the change that the request is about.
        let sequence = self.observation.sequence + 1;
        match request {
            AgentRequest::Tick { reply } => {
                self.waiting.for_tick(sequence, reply);
                self.triggers.add(Trigger::Request, Instant::now());
            }
            AgentRequest::SetDisabled { disabled, reply } => {
                self.begin_store_disabled(disabled, reply)
            }
            AgentRequest::SetDisabledInCloud { reason } => {
                self.begin_store_in_cloud(reason.as_deref())
            }
        }
    }

    fn held_guests(&mut self, held: &BlockedGuests) {
        findings::of_guests(&mut self.health, held, Instant::now());
        self.metrics.held_guests(held.len());
    }

    fn journal(&mut self, name: &'static str, unusable: Option<String>) {
        findings::of_journal(&mut self.health, name, unusable, Instant::now());
    }

    fn publish(&mut self, now: Instant) {
        let state = self.state();
        self.notifier.status(&state.summary(now));
        self.metrics
            .plan_states(state.nodes.values().map(|node| node.plan));
        self.metrics
            .held_units(state.nodes.values().flat_map(|node| &node.held));
        let known = state.nodes.iter();
        let known = known.filter_map(|(name, node)| Some((name.clone(), node.tree.clone()?)));
        self.trees.set(known);
        self.published.send_replace(Arc::new(state));
    }

    fn state(&self) -> AgentState {
        AgentState {
            phase: self.phase,
            driver: self.driver,
            disabled: self.disabled.by_operator.clone(),
            disabled_in_cloud: self.disabled.in_cloud.clone(),
            view: self.view.clone(),
            nodes: self
                .nodes
                .states()
                .map(|(name, node)| (name.clone(), node.clone()))
                .collect(),
            unobserved: self.observation.failure.clone(),
            consumers: self.nodes.consumers(),
            health: self.health.clone(),
            config: Arc::clone(&self.config),
        }
    }
}

fn earliest<const N: usize>(times: [Option<Instant>; N]) -> Option<Instant> {
    times.into_iter().flatten().min()
}
