//! The loop: it waits for the first of the stop, a time, a task that came back and a reason to look; it owns all state and
//! never waits inside an arm. Its rooms: `keeping` (`disabled.json`), `looking` (observations), `passes`, `reloading`,
//! `stopping`.

mod disabled_file;
mod observe;
mod passes;
mod reloading;
mod stopping;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_agent_api::health::{HOST_EVENTS_LOST, Health, NO_PROGRESS};
use berth_agent_api::{AgentState, Phase, Request, States, TickOutcome};
use berth_agent_devices::ObservationId;
use berth_agent_instances::HeldGuests;
use berth_agent_tracker::KnownTrees;
use berth_agent_tracker::backoff::Backoff;
use berth_agent_tracker::disabled::{Disabled, DisabledError, DisabledInCloud, Words};
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
use crate::service::nodes::{Nodes, Terms};
use crate::service::pass::{PassContext, Returned};
use crate::service::progress_watchdog::{LONGEST_LOOK, MARGIN};
use crate::service::waiting_requests::Waiting;
use crate::service::{Agent, EventLoopSources, LiveOptions, Mode, Reload, findings};
use crate::triggers::{Interval, Trigger, Triggers, wake};

pub(super) struct EventLoop<D> {
    surroundings: Arc<PassContext<D>>,
    work: JoinSet<TaskCompletion<D>>,
    nodes: Nodes<D>,
    triggers: Triggers,
    observation: Observation,
    live: LiveOptions,
    terms: Terms,
    phase: Phase,
    once: Option<Once>,
    health: Health,
    disabled: Words,
    /// Whether the scheduler is told of this host, and says whether it is disabled in the cloud.
    tells: bool,
    view: Option<Arc<HostView>>,
    keeping: Option<DisabledFileIo>,
    /// Subjects that the log said to make no progress.
    overdue: BTreeSet<String>,
    waiting: Waiting,
    reload: Option<Reload>,
    reloading: Reloading,
    notifier: Notifier,
    keepalive: Keepalive,
    metrics: Metrics,
    last_failure: LastFailure,
    driver: &'static str,
    config: Arc<serde_json::Value>,
    devices: Option<DeviceService>,
    trees: KnownTrees,
    published: watch::Sender<Arc<AgentState>>,
    /// Whether all nodes have been reported once.
    started: watch::Sender<bool>,
    dice: JitterRng,
}

/// A task that came back.
enum TaskCompletion<D> {
    Observed {
        sequence: u64,
        /// What of the host was not made as it should be, if it was tried.
        unprepared: Option<Vec<DeviceError>>,
        view: Result<HostView, ObserveError>,
    },
    Passed(Box<Returned<D>>),
    Reloaded(Result<LiveOptions, String>),
    Recalled(Result<Words, DisabledError>),
    Kept {
        disabled: Option<Disabled>,
        kept: Result<(), DisabledError>,
        reply: oneshot::Sender<Result<TickOutcome, DisabledError>>,
    },
    KeptOfCloud {
        disabled: Option<DisabledInCloud>,
        kept: Result<(), DisabledError>,
    },
}

/// `disabled.json` is being read or written: no look begins and nobody else is heard meanwhile.
struct DisabledFileIo {
    since: Instant,
}

/// Where looking at the host stands.
struct Observation {
    /// The number of the last one that began.
    sequence: u64,
    running: Option<Running>,
    backoff: Backoff,
    retry_at: Option<Instant>,
    /// Why the last one failed.
    failure: Option<String>,
    /// What was said last of the host's devices that are not as they should be.
    unprepared: Vec<String>,
}

struct Running {
    task: AbortHandle,
    /// Its number among all looks at the devices.
    look: Option<ObservationId>,
    since: Instant,
    breaks_backoff: bool,
}

/// A `--once` run.
struct Once {
    given: Duration,
    deadline: Instant,
    /// The observation of the tick after the start, once the start is done.
    tick: Option<u64>,
}

/// Whether the configuration is being read, and whether it is to be read once more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reloading {
    No,
    Yes,
    AndAgain,
}

/// Something that is to end by itself, and how long it has shown no sign of life.
struct UnderWay {
    subject: String,
    silence: Duration,
    may_be_silent: Duration,
}

/// A time that a timer can still be set to, however much the configuration allows.
const LONGEST_TIMER: Duration = Duration::from_hours(24 * 365);

/// Whether everything under way has shown a sign of life lately.
#[derive(PartialEq, Eq)]
enum Progress {
    Made,
    None,
}

/// Whether the loop goes on.
#[derive(PartialEq, Eq)]
enum Flow {
    On,
    Finished,
}

impl<D: VirtDriver> EventLoop<D> {
    pub(super) fn new(agent: Agent<D>) -> (Self, States) {
        let now = Instant::now();
        let dice = JitterRng::seeded(agent.seed);
        let (interval, once) = match agent.mode {
            Mode::Serve => (agent.live.interval, None),
            Mode::Once { deadline } => (
                Interval::Off,
                Some(Once {
                    given: deadline,
                    deadline: now + deadline,
                    tick: None,
                }),
            ),
        };
        let fuzzy = agent.live.periodic_fuzzy_delay.mul_f64(dice.fraction());
        let triggers = Triggers::new(interval, fuzzy, now);
        let terms = Terms {
            service: Words::default().service(),
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
            surroundings: Arc::new(PassContext {
                driver: agent.driver,
                placement: agent.placement,
                files: agent.files,
            }),
            work: JoinSet::new(),
            nodes: Nodes::new(dice.next()),
            triggers,
            observation: Observation {
                sequence: 0,
                running: None,
                backoff: Backoff::seeded(dice.next()),
                retry_at: None,
                failure: None,
                unprepared: Vec::new(),
            },
            live: agent.live,
            terms,
            phase: Phase::Starting,
            once,
            health: Health::default(),
            disabled: Words::default(),
            tells: agent.host_state.is_some(),
            view: None,
            keeping: None,
            overdue: BTreeSet::new(),
            waiting: Waiting::default(),
            reload: agent.reload,
            reloading: Reloading::No,
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
            dice,
        };
        (event_loop, state)
    }

    /// What tells that all nodes have been reported once.
    pub(super) fn started(&self) -> watch::Receiver<bool> {
        self.started.subscribe()
    }

    /// Runs to the end, and stops in order whatever the end is.
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
        self.begin_recall();
        loop {
            let now = Instant::now();
            if self.advance(now)? == Flow::Finished {
                return Ok(());
            }
            let wake_at = self.wake_at(now);
            let free = self.keeping.is_none();
            tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                () = wake(wake_at) => {}
                Some(done) = self.work.join_next() => self.done(done)?,
                event = sources.events.next(), if listening && free => {
                    listening = event.is_some();
                    self.event(event);
                }
                Some(()) = sources.hangups.next(), if free => self.hangup(),
                Some(request) = sources.requests.recv(), if free => self.request(request),
                held = EventLoopSources::held(&mut sources.holding) => self.held_guests(&held),
                Some((name, word)) = sources.journals.next() => self.journal(name, word),
                Some(untold) = sources.untold.next() => {
                    findings::of_scheduler(&mut self.health, untold, Instant::now());
                }
                Some(event) = sources.device_changes.next(), if free => self.event(Some(event)),
            }
        }
    }

    /// Does what is due, and tells the world how things stand.
    fn advance(&mut self, now: Instant) -> Result<Flow, ServiceError> {
        self.check_deadline(now)?;
        if self.check_started(now) == Flow::Finished {
            return Ok(Flow::Finished);
        }
        // While the hypervisor is away, its pause holds for the nodes that wait too.
        let retry = self.observation.retry_at.or_else(|| self.nodes.retry_at());
        self.triggers.retry_at(retry);
        if self.keeping.is_none()
            && let Some(causes) = self.triggers.begin(now)
        {
            self.observe(&causes, now);
        }
        let progress = self.check_progress(now);
        self.publish(now);
        let due = self.keepalive.due(now);
        if due.extend && progress == Progress::Made {
            self.notifier.extend_timeout(EXTEND_BY);
        }
        if due.alive && progress == Progress::Made {
            self.notifier.alive();
        }
        Ok(Flow::On)
    }

    fn wake_at(&self, now: Instant) -> Option<Instant> {
        earliest([
            self.triggers.wake_at().filter(|_| self.keeping.is_none()),
            self.keepalive.wake_at(),
            self.health.next_change(now),
            self.once.as_ref().map(|once| once.deadline),
            self.under_way(now)
                .map(|work| now + work.may_be_silent.saturating_sub(work.silence))
                .filter(|at| *at > now)
                .min(),
        ])
    }

    /// Everything that is to end by itself.
    fn under_way(&self, now: Instant) -> impl Iterator<Item = UnderWay> {
        let nodes = u32::try_from(self.nodes.count()).unwrap_or(u32::MAX);
        let may_be_silent = self
            .surroundings
            .placement
            .longest_quiet(nodes)
            .saturating_add(MARGIN)
            .min(LONGEST_TIMER);
        let observing = self.observation.running.as_ref().map(|running| UnderWay {
            subject: "the hypervisor".to_owned(),
            silence: now.duration_since(running.since),
            may_be_silent: LONGEST_LOOK,
        });
        let passes = self
            .nodes
            .silences(now)
            .map(move |(node, silence)| UnderWay {
                subject: node.to_string(),
                silence,
                may_be_silent,
            });
        passes.chain(observing).chain(self.keeping(now))
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

    /// Notes that all nodes have been reported once; a `--once` run then wants its tick, and ends after that.
    fn check_started(&mut self, now: Instant) -> Flow {
        if self.phase == Phase::Starting && self.nodes.all_started() {
            self.phase = Phase::Running;
            self.started.send_replace(true);
            self.keepalive.started();
            self.terms.reviewed = None;
            self.publish(now);
            self.notifier.ready();
            if let Some(once) = &mut self.once {
                once.tick = Some(self.observation.sequence + 1);
                self.triggers.note(Trigger::Request, now);
            }
            tracing::info!(
                nodes = self.nodes.states().count(),
                "all nodes are reported"
            );
        }
        let tick = self.once.as_ref().and_then(|once| once.tick);
        let ticked = tick.is_some_and(|sequence| self.nodes.all_finished(sequence));
        let mut nodes = self.nodes.states().peekable();
        let well = nodes.peek().is_some() && nodes.all(|(_, node)| node.trouble.is_none());
        if ticked && well {
            Flow::Finished
        } else {
            Flow::On
        }
    }

    /// Looks for passes and observations that neither end nor go on.
    fn check_progress(&mut self, now: Instant) -> Progress {
        let silent: BTreeMap<String, Duration> = self
            .under_way(now)
            .filter(|work| work.silence >= work.may_be_silent)
            .map(|work| (work.subject, work.silence))
            .collect();
        self.health
            .clear_others(&NO_PROGRESS, &silent.keys().cloned().collect());
        for (subject, silence) in &silent {
            let seconds = silence.as_secs().to_string();
            self.health.set(
                NO_PROGRESS
                    .found()
                    .of(subject.clone())
                    .with("seconds", seconds),
                now,
            );
            if self.overdue.insert(subject.clone()) {
                tracing::warn!(%subject, ?silence, "no sign of life for longer than that may take");
            }
        }
        for subject in self.overdue.extract_if(.., |was| !silent.contains_key(was)) {
            tracing::info!(%subject, "it came to an end or goes on");
        }
        if silent.is_empty() {
            Progress::Made
        } else {
            Progress::None
        }
    }

    fn done(&mut self, done: Result<TaskCompletion<D>, JoinError>) -> Result<(), ServiceError> {
        match done {
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
            Ok(TaskCompletion::Passed(returned)) => self.passed(*returned),
            Ok(TaskCompletion::Reloaded(options)) => {
                self.reloaded(options);
                Ok(())
            }
            Ok(TaskCompletion::Recalled(read)) => self.recalled(read),
            Ok(TaskCompletion::Kept {
                disabled,
                kept,
                reply,
            }) => {
                self.kept(disabled, kept, reply);
                Ok(())
            }
            Ok(TaskCompletion::KeptOfCloud { disabled, kept }) => {
                self.kept_of_cloud(disabled, kept);
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
            // A task that was told to end.
            Err(_) => Ok(()),
        }
    }

    fn event(&mut self, event: Option<HostEvent>) {
        let now = Instant::now();
        match event {
            Some(event) => {
                tracing::debug!(?event, "something changed on the host");
                self.triggers.note(Trigger::HostEvent, now);
            }
            None => self.health.set(HOST_EVENTS_LOST.found(), now),
        }
    }

    fn request(&mut self, request: Request) {
        // A pass under way may have looked before whatever the asker wants seen.
        let sequence = self.observation.sequence + 1;
        match request {
            Request::Tick { reply } => {
                self.waiting.for_tick(sequence, reply);
                self.triggers.note(Trigger::Request, Instant::now());
            }
            Request::SetDisabled { disabled, reply } => self.begin_keep(disabled, reply),
            Request::SetDisabledInCloud { reason } => self.begin_keep_of_cloud(reason.as_deref()),
        }
    }

    fn held_guests(&mut self, held: &HeldGuests) {
        findings::of_guests(&mut self.health, held, Instant::now());
        self.metrics.held_guests(held.len());
    }

    fn journal(&mut self, name: &'static str, unusable: Option<String>) {
        findings::of_journal(&mut self.health, name, unusable, Instant::now());
    }

    fn publish(&mut self, now: Instant) {
        let state = self.state();
        self.notifier.status(&state.sentence(now));
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
            disabled: self.disabled.here.clone(),
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
