//! Runs the agent's own service under a persistent fault, and observes it as an operator and systemd do: log,
//! `STATUS=`, `/healthz` and `/metrics`. This module also plays systemd: it restarts a process that ended, if its exit
//! code says so, and kills one without a sign of life.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::{Future, poll_fn, ready};
use std::os::unix::net::UnixDatagram;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_agent::metrics::Metrics;
use berth_agent::notify::Notifier;
use berth_agent::service::{self, Agent, LiveOptions};
use berth_agent::triggers::Interval;
use berth_agent_api::client::AdminClient;
use berth_agent_api::{AdminOptions, AuditTrail};
use berth_fault_injection::{
    Effect, EffectOutcome, EffectPhase, Fault, Gate, GateDecision, GateFuture,
};
use berth_model::error_chain;
use berth_tests::cloud::Cloud;
use berth_tests::fault::{
    FaultStage, GatedDriver, GatedFiles, GatedHttp, HarnessClock, SwitchedGate, busy,
};
use berth_tests::node::{MemoryFiles, ViewDriver};
use berth_tests::unit::code;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::log::Log;
use crate::rows::kind;
use crate::scenarios::{CountFrom, Situation};

/// How often the service is observed.
const POLL_INTERVAL: Duration = Duration::from_secs(10);
/// How long a fault persists: longer than a service takes to show it. A hang is distinguished from a slow peer after 15
/// minutes.
const LASTS: Duration = Duration::from_mins(4);
const HANG_LASTS: Duration = Duration::from_mins(35);
/// How long a healed service may take to settle.
const SETTLES: Duration = Duration::from_mins(20);
/// `WatchdogSec=`, `TimeoutStartSec=` and `RestartSec=` of the unit.
const WATCHDOG: Duration = Duration::from_secs(60);
const START: Duration = Duration::from_secs(90);
const RESTART: Duration = Duration::from_secs(2);

/// A fault at every effect of a kind, while it persists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PersistentFault {
    pub(crate) fault: Fault,
    pub(crate) kind: &'static str,
    pub(crate) moment: EffectPhase,
}

/// One observation of the service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UnitObservation {
    /// Warnings and errors logged since the look before.
    pub(crate) log: BTreeSet<String>,
    /// `STATUS=`.
    pub(crate) status: String,
    /// The codes of `/healthz`; empty if it does not answer.
    pub(crate) findings: BTreeSet<String>,
    /// `berth_health_messages`: errors and warnings.
    pub(crate) counted: [u64; 2],
    /// `/healthz` has an error among its findings.
    pub(crate) has_errors: bool,
    /// Every node is `in_sync` by `berth_plan_state`.
    pub(crate) in_sync: bool,
}

/// What was seen of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct WatchedRun {
    /// While the fault lasted.
    pub(crate) under_fault: Vec<UnitObservation>,
    /// Each end of a process while it lasted: exit code and reason.
    pub(crate) ends: Vec<(u8, String)>,
    /// How often systemd killed it for being silent while it lasted.
    pub(crate) silenced: usize,
    /// When it had settled after that; none: it did not.
    pub(crate) settled: Option<UnitObservation>,
    /// How often the fault struck.
    pub(crate) struck: usize,
    /// The crossings, of a run without a fault.
    pub(crate) crossings: BTreeSet<Effect>,
}

/// Injects the fault while it is active, and records the effects.
struct PersistentFaultGate {
    lasting: Option<PersistentFault>,
    seen: Mutex<(usize, BTreeSet<Effect>)>,
}

impl PersistentFaultGate {
    fn decide(&self, crossing: &Effect, now: EffectPhase) -> GateDecision {
        let mut seen = self.seen.lock().unwrap();
        seen.1.insert(crossing.clone());
        match self.lasting {
            Some(PersistentFault {
                fault,
                kind: of,
                moment,
            }) if moment == now && of == kind(crossing) && fault.applies(crossing, now) => {
                seen.0 += 1;
                GateDecision::Fault(fault)
            }
            _ => GateDecision::Proceed,
        }
    }
}

impl Gate for PersistentFaultGate {
    fn before<'a>(&'a self, crossing: &'a Effect) -> GateFuture<'a> {
        Box::pin(ready(self.decide(crossing, EffectPhase::Before)))
    }

    fn after<'a>(&'a self, crossing: &'a Effect, _: &'a EffectOutcome) -> GateFuture<'a> {
        Box::pin(ready(self.decide(crossing, EffectPhase::After)))
    }
}

/// Runs it; without a fault for as long as any fault but a hang lasts.
pub(crate) fn watch(situation: &Situation, lasting: Option<PersistentFault>) -> WatchedRun {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let log = Log::default();
    // With a single subscriber, an event that another thread is the first to reach would stay silent for all.
    let _second = tracing::Dispatch::new(log.clone());
    let _logs = tracing::subscriber::set_default(log.clone());
    runtime.block_on(async {
        let unit = WatchedUnit::of(situation, lasting, log).await;
        // Around all of it: a process that is dropped half-way leaves its clock standing still.
        unit.stage.run(|| true, unit.run(situation)).await
    })
}

/// The unit and all around it.
struct WatchedUnit {
    stage: FaultStage,
    driver: Arc<GatedDriver<ViewDriver>>,
    shown: Arc<ViewDriver>,
    files: Arc<GatedFiles>,
    cloud: Cloud,
    gate: Arc<SwitchedGate<PersistentFaultGate>>,
    live: LiveOptions,
    folder: TempDir,
    manager: Manager,
    times: RunProgress,
    log: Log,
}

/// How far a run is.
struct RunProgress {
    began: Instant,
    lasts: Duration,
    healed: Cell<bool>,
    /// The scenario begins when the first process is ready.
    waits: Cell<bool>,
}

impl RunProgress {
    fn gives_up(&self) -> Duration {
        self.lasts + SETTLES
    }
}

struct Manager {
    socket: UnixDatagram,
    messages: RefCell<RunMessages>,
}

struct RunMessages {
    status: String,
    ready: bool,
    sign: Instant,
}

/// How a process ended.
enum WatchedProcessEnd {
    Exit(u8, String),
    Silent,
    AtRest,
}

impl Manager {
    /// Takes all that was sent.
    fn receive(&self) {
        let mut buffer = [0; 16 << 10];
        let mut messages = self.messages.borrow_mut();
        while let Ok(length) = self.socket.recv(&mut buffer) {
            for line in String::from_utf8_lossy(&buffer[..length]).lines() {
                match line.split_once('=') {
                    Some(("STATUS", status)) => status.clone_into(&mut messages.status),
                    Some(("READY", _)) => {
                        messages.ready = true;
                        messages.sign = Instant::now();
                    }
                    Some(("WATCHDOG" | "EXTEND_TIMEOUT_USEC", _)) => messages.sign = Instant::now(),
                    _ => {}
                }
            }
        }
    }

    fn is_ready(&self) -> bool {
        self.messages.borrow().ready
    }

    /// Whether it has been silent for longer than the unit allows.
    fn gives_up(&self) -> bool {
        let messages = self.messages.borrow();
        let patience = if messages.ready { WATCHDOG } else { START };
        messages.sign.elapsed() > patience
    }

    fn begin(&self) {
        let mut messages = self.messages.borrow_mut();
        (messages.ready, messages.sign) = (false, Instant::now());
        messages.status.clear();
    }
}

impl WatchedUnit {
    async fn of(situation: &Situation, lasting: Option<PersistentFault>, log: Log) -> Self {
        let clock = HarnessClock::begin();
        let cloud = Cloud::of(situation.snapshot).await.behind_keystone(&clock);
        let gate = PersistentFaultGate {
            lasting,
            seen: Mutex::default(),
        };
        let (gate, view) = match situation.begins {
            CountFrom::AtStart => (SwitchedGate::on(gate), situation.is.view()),
            CountFrom::WhenReady => (SwitchedGate::off(gate), situation.was.view()),
        };
        let hangs = lasting.is_some_and(|lasting| lasting.fault == Fault::Hang);
        let times = RunProgress {
            began: Instant::now(),
            lasts: if hangs { HANG_LASTS } else { LASTS },
            healed: Cell::new(false),
            waits: Cell::new(situation.begins == CountFrom::WhenReady),
        };
        let gate = Arc::new(gate);
        let stage = FaultStage::with_clock(gate.clone(), clock);
        let files = MemoryFiles::default();
        for (name, content) in &situation.files {
            files.put(name, content);
        }
        let shown = Arc::new(ViewDriver::new(view));
        let before = Some(situation.was.view());
        let folder = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        socket.set_nonblocking(true).unwrap();
        let messages = RunMessages {
            status: String::new(),
            ready: false,
            sign: Instant::now(),
        };
        Self {
            driver: Arc::new(GatedDriver::around(Arc::clone(&shown), &stage, before)),
            files: Arc::new(GatedFiles::around(Arc::new(files), &stage)),
            cloud: cloud.decorated(|http| GatedHttp::around(http, &stage)),
            live: LiveOptions {
                tracker: situation.options.clone(),
                interval: Interval::Every(Duration::from_mins(1)),
                periodic_fuzzy_delay: Duration::ZERO,
                ..LiveOptions::default()
            },
            manager: Manager {
                socket,
                messages: RefCell::new(messages),
            },
            stage,
            times,
            shown,
            gate,
            folder,
            log,
        }
    }

    fn agent(&self) -> Agent<GatedDriver<ViewDriver>> {
        let (metrics, files) = (Metrics::default(), self.files.clone());
        let placement = self
            .cloud
            .placement()
            .with_observer(Arc::new(metrics.clone()));
        let mut agent = Agent::new(self.driver.clone(), placement, files);
        let notify = self.folder.path().join("notify").into_os_string();
        agent.notifier = Notifier::to(&notify, Some(WATCHDOG)).unwrap();
        agent.admin = Some(AdminOptions {
            socket: self.folder.path().join("agent.sock"),
            group: "berth".to_owned(),
            metrics_listen: None,
            tls: None,
            audit: AuditTrail::default(),
        });
        (agent.live, agent.metrics, agent.seed) = (self.live.clone(), metrics, 1);
        agent
    }

    async fn run(&self, situation: &Situation) -> WatchedRun {
        let mut watched = WatchedRun::default();
        while watched.settled.is_none() && self.times.began.elapsed() < self.times.gives_up() {
            match self.process(situation, &mut watched).await {
                WatchedProcessEnd::Exit(code, reason) if !self.is_healed() => {
                    watched.under_fault.push(self.last_observation(&reason));
                    watched.ends.push((code, reason));
                    if matches!(code, 76 | 78) {
                        // The operator fixes the cause, and starts the unit again.
                        self.heal();
                    }
                }
                WatchedProcessEnd::Silent if !self.is_healed() => watched.silenced += 1,
                WatchedProcessEnd::Exit(..)
                | WatchedProcessEnd::Silent
                | WatchedProcessEnd::AtRest => {}
            }
            sleep(RESTART).await;
            self.heal_in_time();
        }
        let seen = self.gate.inner().seen.lock().unwrap().clone();
        (watched.struck, watched.crossings) = seen;
        watched
    }

    fn heal(&self) {
        self.times.healed.set(true);
        self.gate.switch_off();
    }

    fn heal_in_time(&self) {
        if self.times.began.elapsed() >= self.times.lasts {
            self.heal();
        }
    }

    fn is_healed(&self) -> bool {
        self.times.healed.get()
    }

    /// What stays of a process that ended: its last words. The program prints the reason as its last line of log.
    fn last_observation(&self, reason: &str) -> UnitObservation {
        self.manager.receive();
        let mut observation = UnitObservation {
            log: self.log.take(),
            ..UnitObservation::default()
        };
        observation.log.insert(format!("the agent ended: {reason}"));
        observation
            .status
            .clone_from(&self.manager.messages.borrow().status);
        observation
    }

    /// One process until it ends, is killed, or has settled after all was healed.
    async fn process(&self, situation: &Situation, watched: &mut WatchedRun) -> WatchedProcessEnd {
        self.manager.begin();
        let service = service::run(self.agent(), CancellationToken::new());
        let mut service = pin!(self.with_manager(situation, service));
        loop {
            tokio::select! {
                biased;
                ended = &mut service => {
                    let error = ended.expect_err("it is not stopped");
                    return WatchedProcessEnd::Exit(code(error.reason()), error_chain(&error));
                }
                () = sleep(POLL_INTERVAL) => {}
            }
            let observation = self.observe().await;
            if !self.is_healed() {
                watched.under_fault.push(observation);
                self.heal_in_time();
            } else if observation.in_sync && !observation.has_errors && observation.log.is_empty() {
                watched.settled = Some(observation);
                return WatchedProcessEnd::AtRest;
            }
            if self.manager.gives_up() {
                return WatchedProcessEnd::Silent;
            }
            if self.times.began.elapsed() >= self.times.gives_up() {
                return WatchedProcessEnd::AtRest;
            }
        }
    }

    async fn with_manager<F: Future>(&self, situation: &Situation, service: F) -> F::Output {
        let mut service = pin!(service);
        let messages = poll_fn(|context| {
            let polled = service.as_mut().poll(context);
            self.manager.receive();
            if self.manager.is_ready() && self.times.waits.replace(false) {
                self.shown.show(&situation.is);
                self.gate.switch_on();
            }
            polled
        });
        messages.await
    }

    async fn observe(&self) -> UnitObservation {
        if self.manager.messages.borrow().status.is_empty() {
            // It has not reached its loop: its socket exists, but does not answer.
            return UnitObservation {
                log: self.log.take(),
                ..UnitObservation::default()
            };
        }
        let client = AdminClient::new(&self.folder.path().join("agent.sock")).unwrap();
        let asked = async { (client.health().await, client.metrics().await) };
        let (health, metrics) = busy(asked).await;
        let findings = health.map(|health| health.messages).unwrap_or_default();
        let metrics = metrics.unwrap_or_default();
        let value = |series: &str| -> u64 {
            let line = metrics.lines().find_map(|line| line.strip_prefix(series));
            line.and_then(|value| value.trim().parse().ok())
                .unwrap_or_default()
        };
        UnitObservation {
            log: self.log.take(),
            status: self.manager.messages.borrow().status.clone(),
            has_errors: findings.iter().any(|finding| finding.severity == "error"),
            findings: findings.into_iter().map(|finding| finding.code).collect(),
            counted: ["error", "warning"].map(|severity| {
                value(&format!("berth_health_messages{{severity=\"{severity}\"}}"))
            }),
            in_sync: value("berth_plan_state{state=\"in_sync\"}") == 1,
        }
    }
}
