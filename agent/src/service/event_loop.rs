//! The loop: it waits for the first of the stop, a time, a task that came back and a reason to look; it owns all state and
//! never waits inside an arm for anything but the disk.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use berth_client::Dice;
use berth_model::{Disposition, NodeName};
use berth_virt::{HostEvent, HostView, ObserveError, VirtDriver};
use futures_util::StreamExt;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::error::{LastFailure, PassError, ServiceError, sentence};
use super::keepalive::{EXTEND_BY, Keepalive};
use super::nodes::{Nodes, SILENCE, Seen, Standing};
use super::pass::{self, Journey, Order, Progressed, Returned, Surroundings};
use super::requests::{Request, TickOutcome, Waiting};
use super::state::{AgentState, NodeState, PassResult, Phase};
use super::{Agent, LiveOptions, Mode, Reload, Sources, States, findings};
use crate::backoff::Backoff;
use crate::disabled::{self, Disabled};
use crate::health::{
    CONFIG_RELOAD_FAILED, HOST_EVENTS_LOST, HYPERVISOR_AWAY, Health, NO_NODE, NO_PROGRESS,
    STATE_FILES,
};
use crate::metrics::Metrics;
use crate::notify::Notifier;
use crate::startup::StartupError;
use crate::tick::TickError;
use crate::triggers::{Causes, Interval, Trigger, Triggers, wake};

/// What stays of the time to stop when passes under way were waited for.
const TIDY_UP: Duration = Duration::from_secs(20);

pub(super) struct EventLoop<D> {
    surroundings: Arc<Surroundings<D>>,
    work: JoinSet<Done<D>>,
    nodes: Nodes<D>,
    triggers: Triggers,
    observation: Observation,
    live: LiveOptions,
    standing: Standing,
    phase: Phase,
    once: Option<Once>,
    health: Health,
    disabled: Option<Disabled>,
    waiting: Waiting,
    reload: Reload,
    reloading: Reloading,
    notifier: Notifier,
    keepalive: Keepalive,
    metrics: Metrics,
    last_failure: LastFailure,
    driver: &'static str,
    config: Arc<serde_json::Value>,
    published: watch::Sender<Arc<AgentState>>,
    dice: Dice,
}

/// A task that came back.
enum Done<D> {
    Observed {
        sequence: u64,
        view: Result<HostView, ObserveError>,
    },
    Passed(Box<Returned<D>>),
    Reloaded(Result<LiveOptions, String>),
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
}

struct Running {
    task: AbortHandle,
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
    pub(super) fn new(agent: Agent<D>, disabled: Option<Disabled>) -> (Self, States) {
        let now = Instant::now();
        let dice = Dice::seeded(agent.seed);
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
        let mut triggers = Triggers::new(interval, fuzzy, now);
        triggers.note(Trigger::Start, now);
        let standing = Standing {
            service: disabled::service(disabled.as_ref()),
            options: Arc::new(agent.live.tracker.clone()),
            reviewed: agent.reviewed.map(Arc::new),
        };
        let driver = agent.driver.name();
        let config = Arc::new(agent.live.config.clone());
        let unknown = AgentState::unknown(driver);
        let nothing = AgentState {
            disabled: disabled.clone(),
            config: Arc::clone(&config),
            ..unknown
        };
        let (published, state) = watch::channel(Arc::new(nothing));
        let event_loop = Self {
            surroundings: Arc::new(Surroundings {
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
            },
            live: agent.live,
            standing,
            phase: Phase::Starting,
            once,
            health: Health::default(),
            disabled,
            waiting: Waiting::default(),
            reload: agent.reload,
            reloading: Reloading::No,
            keepalive: Keepalive::new(agent.notifier.watchdog_period(), now),
            notifier: agent.notifier,
            metrics: agent.metrics,
            last_failure: LastFailure::NoAnswer,
            driver,
            config,
            published,
            dice,
        };
        (event_loop, state)
    }

    /// Runs to the end, and stops in order whatever the end is.
    pub(super) async fn run(
        mut self,
        sources: Sources,
        shutdown: &CancellationToken,
    ) -> Result<(), ServiceError> {
        let ended = self.until_end(sources, shutdown).await;
        self.stop(ended.as_ref().err()).await;
        ended
    }

    async fn until_end(
        &mut self,
        mut sources: Sources,
        shutdown: &CancellationToken,
    ) -> Result<(), ServiceError> {
        let mut listening = true;
        loop {
            let now = Instant::now();
            if self.advance(now)? == Flow::Finished {
                return Ok(());
            }
            let wake_at = self.wake_at(now);
            tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                () = wake(wake_at) => {}
                Some(done) = self.work.join_next() => self.done(done)?,
                event = sources.events.next(), if listening => {
                    listening = event.is_some();
                    self.event(event);
                }
                Some(()) = sources.hangups.next() => self.hangup(),
                Some(request) = sources.requests.recv() => self.request(request).await,
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
        if let Some(causes) = self.triggers.begin(now) {
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
            self.triggers.wake_at(),
            self.keepalive.wake_at(),
            self.health.next_change(now),
            self.once.as_ref().map(|once| once.deadline),
            self.nodes
                .silences(now)
                .map(|(_, silence)| now + SILENCE.saturating_sub(silence))
                .filter(|at| *at > now)
                .min(),
            self.observation
                .running
                .as_ref()
                .map(|running| running.since + SILENCE)
                .filter(|at| *at > now),
        ])
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
            self.keepalive.started();
            self.standing.reviewed = None;
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
        let observing = self
            .observation
            .running
            .as_ref()
            .map(|running| now.duration_since(running.since));
        let observing = observing.map(|silence| ("the hypervisor".to_owned(), silence));
        let passes = self
            .nodes
            .silences(now)
            .map(|(node, silence)| (node.to_string(), silence));
        let silent: BTreeMap<String, Duration> = passes
            .chain(observing)
            .filter(|(_, silence)| *silence >= SILENCE)
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
        }
        if silent.is_empty() {
            Progress::Made
        } else {
            Progress::None
        }
    }

    fn observe(&mut self, causes: &Causes, now: Instant) {
        self.observation.sequence += 1;
        let sequence = self.observation.sequence;
        tracing::debug!(%causes, sequence, "looking at the host");
        let driver = Arc::clone(&self.surroundings.driver);
        let task = self.work.spawn_local(async move {
            Done::Observed {
                sequence,
                view: driver.observe().await,
            }
        });
        let breaks_backoff = causes.break_backoff();
        self.observation.running = Some(Running {
            task,
            since: now,
            breaks_backoff,
        });
    }

    fn done(&mut self, done: Result<Done<D>, JoinError>) -> Result<(), ServiceError> {
        match done {
            Ok(Done::Observed { sequence, view }) => self.observed(sequence, view),
            Ok(Done::Passed(returned)) => self.passed(*returned),
            Ok(Done::Reloaded(options)) => {
                self.reloaded(options);
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

    fn observed(
        &mut self,
        sequence: u64,
        view: Result<HostView, ObserveError>,
    ) -> Result<(), ServiceError> {
        let now = Instant::now();
        let running = self.observation.running.take();
        self.triggers.finish();
        let view = match view {
            Ok(view) => view,
            Err(error)
                if self.phase == Phase::Starting && error.disposition() == Disposition::Fatal =>
            {
                return Err(ServiceError::Observe(error));
            }
            Err(error) => {
                self.unobserved(sequence, error, now);
                return Ok(());
            }
        };
        if self.observation.failure.take().is_some() {
            tracing::info!("the hypervisor answers again");
        }
        self.observation.backoff.worked();
        self.observation.retry_at = None;
        self.health.clear(&HYPERVISOR_AWAY, "");
        self.see_nodes(&view, now);
        let breaks_backoff = running.is_some_and(|running| running.breaks_backoff);
        let seen = Seen {
            view: Arc::new(view),
            sequence,
            breaks_backoff,
        };
        for (progressed, order) in self.nodes.begin(&seen, &self.standing, now) {
            self.begin_pass(progressed, order);
        }
        self.answer_waiting();
        Ok(())
    }

    fn unobserved(&mut self, sequence: u64, error: ObserveError, now: Instant) {
        let text = sentence(&error);
        if self.observation.failure.as_deref() != Some(&text) {
            tracing::warn!(error = %text, "the hypervisor cannot be observed; trying again");
        }
        self.observation.retry_at = Some(now + self.observation.backoff.failed());
        self.health
            .set(HYPERVISOR_AWAY.found().with("error", text.clone()), now);
        let outcome = TickOutcome {
            at: SystemTime::now(),
            unobserved: Some(text.clone()),
            nodes: Vec::new(),
        };
        self.waiting.answer(sequence, &outcome);
        self.observation.failure = Some(text);
        self.last_failure = LastFailure::Observe(error);
    }

    fn see_nodes(&mut self, view: &HostView, now: Instant) {
        let journey = match self.phase {
            Phase::Starting => Journey::Startup,
            Phase::Running | Phase::Stopping => Journey::Tick,
        };
        let changes = self.nodes.see(view, journey);
        for node in &changes.came {
            findings::node_came(&mut self.health, node);
            tracing::info!(%node, "the hypervisor shows a node");
        }
        for node in &changes.went {
            findings::node_went(&mut self.health, node, now);
            tracing::warn!(%node, "the hypervisor no longer shows a node; its provider stays as it is");
        }
        if view.nodes.is_empty() {
            self.health.set(NO_NODE.found(), now);
            self.observation.retry_at = Some(now + self.observation.backoff.failed());
            self.last_failure = LastFailure::NoNode;
        } else {
            self.health.clear(&NO_NODE, "");
        }
    }

    fn begin_pass(&mut self, progressed: Progressed<D>, order: Order) {
        let surroundings = Arc::clone(&self.surroundings);
        self.work.spawn_local(async move {
            Done::Passed(Box::new(pass::run(surroundings, progressed, order).await))
        });
    }

    fn passed(&mut self, returned: Returned<D>) -> Result<(), ServiceError> {
        let now = Instant::now();
        let (node, journey, took) = (returned.node.clone(), returned.journey, returned.took);
        self.metrics.pass_took(took);
        let before = self.nodes.state(&node).cloned();
        let (next, error) = self.nodes.returned(returned, &self.standing, now);
        findings::of_nodes(&mut self.health, self.nodes.states(), now);
        self.log(&node, before.as_ref());
        if let Some((progressed, order)) = next {
            self.begin_pass(progressed, order);
        }
        self.answer_waiting();
        match error {
            None => Ok(()),
            Some(error) => self.failed(node, journey, error),
        }
    }

    /// Tries again, unless that cannot help.
    fn failed(
        &mut self,
        node: NodeName,
        journey: Journey,
        source: PassError,
    ) -> Result<(), ServiceError> {
        if matches!(source, PassError::Startup(StartupError::Refused(_))) {
            self.metrics.reshape_refused();
        }
        match source {
            PassError::Tick(TickError::ReshapeNeeded(pending)) => {
                Err(ServiceError::ReshapeNeeded { node, pending })
            }
            source if journey == Journey::Startup && source.disposition() == Disposition::Fatal => {
                Err(ServiceError::Start { node, source })
            }
            source => {
                self.last_failure = LastFailure::Pass { node, source };
                Ok(())
            }
        }
    }

    /// One line where something changed; a failure that repeats is said again at every doubling only.
    fn log(&self, node: &NodeName, before: Option<&NodeState>) {
        let Some(state) = self.nodes.state(node) else {
            return;
        };
        let Some(last) = &state.last else { return };
        let took = last.took;
        if last.result == PassResult::Failed {
            let (failures, error) = (state.failures, &last.text);
            if failures.is_power_of_two() {
                tracing::warn!(%node, failures, %error, "the pass failed");
            } else {
                tracing::debug!(%node, failures, %error, "the pass failed");
            }
            return;
        }
        let was_well =
            before.is_some_and(|before| before.last.is_some() && before.trouble.is_none());
        if last.result == PassResult::InSync && was_well {
            tracing::debug!(%node, ?took, "in sync");
        } else {
            tracing::info!(%node, ?took, result = last.result.as_str(), "{}", last.text);
        }
        if before.is_none_or(|before| before.held != state.held) {
            for held in &state.held {
                tracing::warn!(%node, "{held}");
            }
        }
    }

    fn answer_waiting(&mut self) {
        while let Some(sequence) = self.waiting.first() {
            let over = self.observation.running.is_none() || self.observation.sequence > sequence;
            if sequence > self.observation.sequence || !over || !self.nodes.all_finished(sequence) {
                return;
            }
            let nodes = self
                .nodes
                .states()
                .filter_map(|(name, node)| Some((name.clone(), node.last.clone()?)));
            let outcome = TickOutcome {
                at: SystemTime::now(),
                unobserved: None,
                nodes: nodes.collect(),
            };
            self.waiting.answer(sequence, &outcome);
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

    fn hangup(&mut self) {
        match self.reloading {
            Reloading::No => self.begin_reload(),
            Reloading::Yes | Reloading::AndAgain => self.reloading = Reloading::AndAgain,
        }
    }

    fn begin_reload(&mut self) {
        self.reloading = Reloading::Yes;
        // Before the first READY=1 the manager waits for the start, not for a reload.
        if self.phase == Phase::Running {
            self.notifier.reloading();
        }
        let reload = Arc::clone(&self.reload);
        self.work.spawn_local(async move {
            let read = tokio::task::spawn_blocking(move || reload()).await;
            Done::Reloaded(
                read.unwrap_or_else(|error| Err(format!("reading it ended in a panic: {error}"))),
            )
        });
    }

    fn reloaded(&mut self, options: Result<LiveOptions, String>) {
        let now = Instant::now();
        match options {
            Ok(options) => self.take_options(options, now),
            Err(error) => {
                tracing::error!(%error, "the new configuration is refused; the one before stays in force");
                self.health
                    .set(CONFIG_RELOAD_FAILED.found().with("error", error), now);
            }
        }
        if self.reloading == Reloading::AndAgain {
            self.begin_reload();
            return;
        }
        self.reloading = Reloading::No;
        if self.phase == Phase::Running {
            self.notifier.ready();
        }
    }

    fn take_options(&mut self, options: LiveOptions, now: Instant) {
        self.health.clear(&CONFIG_RELOAD_FAILED, "");
        if options.interval != self.live.interval && self.once.is_none() {
            let fuzzy = options.periodic_fuzzy_delay.mul_f64(self.dice.fraction());
            self.triggers.set_interval(options.interval, fuzzy, now);
        }
        self.standing.options = Arc::new(options.tracker.clone());
        self.config = Arc::new(options.config.clone());
        self.live = options;
        self.triggers.note(Trigger::Reload, now);
        tracing::info!("the configuration was read again");
    }

    async fn request(&mut self, request: Request) {
        let now = Instant::now();
        // A pass under way may have looked before whatever the asker wants seen.
        let sequence = self.observation.sequence + 1;
        match request {
            Request::Tick { reply } => self.waiting.for_tick(sequence, reply),
            Request::SetDisabled { disabled, reply } => {
                let kept =
                    disabled::write(self.surroundings.files.as_ref(), disabled.as_ref()).await;
                if let Err(error) = kept {
                    self.health
                        .set(STATE_FILES.found().with("error", sentence(&error)), now);
                    // Who asked may have gone away.
                    drop(reply.send(Err(error)));
                    return;
                }
                self.health.clear(&STATE_FILES, "");
                tracing::info!(
                    disabled = disabled.is_some(),
                    "an operator changed whether this host takes guests"
                );
                self.standing.service = disabled::service(disabled.as_ref());
                self.disabled = disabled;
                self.waiting.for_disabled(sequence, reply);
            }
        }
        self.triggers.note(Trigger::Request, now);
    }

    fn publish(&mut self, now: Instant) {
        let state = self.state();
        self.notifier.status(&state.sentence(now));
        self.metrics
            .plan_states(state.nodes.values().map(|node| node.plan));
        self.metrics
            .held_units(state.nodes.values().flat_map(|node| &node.held));
        self.published.send_replace(Arc::new(state));
    }

    fn state(&self) -> AgentState {
        AgentState {
            phase: self.phase,
            driver: self.driver,
            disabled: self.disabled.clone(),
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

    /// Ends: nothing new begins, passes under way are finished, at most for `graceful_shutdown_timeout`.
    async fn stop(&mut self, error: Option<&ServiceError>) {
        let grace = self.live.graceful_shutdown_timeout;
        self.phase = Phase::Stopping;
        self.publish(Instant::now());
        self.notifier.stopping();
        self.notifier.extend_timeout(grace + TIDY_UP);
        // Looking changes nothing and need not be waited for.
        if let Some(running) = self.observation.running.take() {
            running.task.abort();
        }
        self.nodes.drop_waiting();
        let deadline = Instant::now() + grace;
        while self.nodes.any_busy() {
            match timeout_at(deadline, self.work.join_next()).await {
                Ok(Some(Ok(Done::Passed(returned)))) => self.finished(*returned),
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => {
                    tracing::warn!(
                        ?grace,
                        "a pass did not end within graceful_shutdown_timeout and is cut off"
                    );
                    break;
                }
            }
        }
        self.work.shutdown().await;
        if let Some(error) = error {
            self.notifier.last_words(&sentence(error));
        }
    }

    /// A pass that came back during the stop.
    fn finished(&mut self, returned: Returned<D>) {
        let (now, node) = (Instant::now(), returned.node.clone());
        let before = self.nodes.state(&node).cloned();
        self.nodes.returned(returned, &self.standing, now);
        self.log(&node, before.as_ref());
        self.publish(now);
    }
}

fn earliest<const N: usize>(times: [Option<Instant>; N]) -> Option<Instant> {
    times.into_iter().flatten().min()
}
