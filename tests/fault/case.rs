//! One run of a scenario with a fault at one point, at several or at none, until its unit is idle.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_client::HttpService;
use berth_fault_injection::{
    DeterministicScheduler, Effect, InjectionPoint, PointGate, RecordingGate, SchedulerState, Trace,
};
use berth_model::HeldUnits;
use berth_tests::cloud::Cloud;
use berth_tests::fault::{
    FaultStage, GatedDriver, GatedFiles, GatedHttp, HarnessClock, SwitchedGate,
};
use berth_tests::node::{MemoryFiles, ViewDriver};
use berth_tests::unit::{Exit, Unit, UnitEnd, UnitHistory};
use berth_tests::witness::{Witness, WitnessReport};
use berth_tests::worlds::PlacementRows;
use tokio::time::timeout;

use crate::scenarios::{CountFrom, Situation};

/// How long a fault that lasts is let last, and how long a healed unit may take to settle (virtual time).
const FAULT_PHASE: Duration = Duration::from_mins(40);
const HEALED_PHASE: Duration = Duration::from_mins(20);

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) trace: Trace,
    /// Where the faults struck, in order.
    pub(crate) struck: Vec<Effect>,
    /// What had changed, and how, when the unit came to rest under the fault.
    pub(crate) under_fault: UnderFault,
    /// Placement when the fault phase was over.
    pub(crate) then: PlacementRows,
    /// Placement in the end.
    pub(crate) end: PlacementRows,
    /// The state files in the end.
    pub(crate) files: BTreeMap<String, String>,
    /// Ends of processes and failed passes, all of the run.
    pub(crate) history: UnitHistory,
    /// Whether the unit settled in the end.
    pub(crate) settled: bool,
    /// What it reports as held.
    pub(crate) held: Vec<HeldUnits>,
    /// What was noted directly before Placement, all in all.
    pub(crate) testimony: WitnessReport,
    /// The same until the fault phase was over.
    pub(crate) testimony_then: WitnessReport,
    /// Writes to Placement that were done before the fault phase was over.
    pub(crate) writes: usize,
}

/// How the unit stood when the fault phase was over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UnderFault {
    /// It had settled by itself.
    Settled,
    /// Its process ended and is not started again.
    Stopped(Exit, String),
    /// It was alive and tried on.
    Trying,
}

type Gates = RecordingGate<SwitchedGate<PointGate>>;

pub(crate) fn run(situation: &Situation, points: &[InjectionPoint]) -> Case {
    run_tampered(situation, points, |http| http)
}

/// The same with something on the way that spoils what the agent sends: a planted bug.
pub(crate) fn run_tampered(
    situation: &Situation,
    points: &[InjectionPoint],
    tamper: impl Fn(HttpService) -> HttpService,
) -> Case {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(run_in(situation, points, tamper))
}

async fn run_in(
    situation: &Situation,
    points: &[InjectionPoint],
    tamper: impl Fn(HttpService) -> HttpService,
) -> Case {
    let witness = Witness::default();
    let clock = HarnessClock::begin();
    let cloud = Cloud::of(situation.snapshot).await;
    let points = SwitchedGate::on(PointGate::at(points.iter().copied()));
    let recorded = {
        let clock = clock.clone();
        RecordingGate::new(points, "", Arc::new(move || clock.elapsed()))
    };
    let armed: Arc<SwitchedGate<Gates>> = Arc::new(match situation.begins {
        CountFrom::AtStart => SwitchedGate::on(recorded),
        CountFrom::WhenReady => SwitchedGate::off(recorded),
    });
    let turns = DeterministicScheduler::seeded(1);
    let task_gate = turns.task_gate(armed.clone());
    let stage = FaultStage::with_clock(Arc::new(task_gate.clone()), clock.clone());
    let files = Arc::new(MemoryFiles::default());
    for (name, content) in &situation.files {
        files.put(name, content);
    }
    let shown = Arc::new(ViewDriver::new(match situation.begins {
        CountFrom::AtStart => situation.is.view(),
        CountFrom::WhenReady => situation.was.view(),
    }));
    let unit = Unit {
        driver: Arc::new(GatedDriver::around(
            Arc::clone(&shown),
            &stage,
            Some(situation.was.view()),
        )),
        name: situation.is.name().clone(),
        options: situation.options.clone(),
        files: Arc::new(GatedFiles::around(files.clone(), &stage)),
        cloud: cloud
            .witnessed(&witness)
            .decorated(&tamper)
            .behind_keystone(&clock)
            .decorated(|http| GatedHttp::around(http, &stage)),
    };
    let history = Mutex::new(UnitHistory::default());
    let ready = || {
        shown.show(&situation.is);
        armed.switch_on();
    };
    let idle = || turns.state() != SchedulerState::Running;
    let lives = || task_gate.run(unit.run(|| stage.killed(), &ready, &history));
    let mut resting = pin!(stage.run(idle, lives()));
    let rest = timeout(FAULT_PHASE, &mut resting).await;
    if rest.is_ok() {
        stage.settle_debts().await;
    }
    let (then, testimony_then) = (cloud.rows().await, witness.testimony());
    let writes = acknowledged_writes(&armed.inner().trace());
    armed.inner().inner().switch_off();
    let (under_fault, rest) = match rest {
        Ok(UnitEnd::Settled { held }) => (UnderFault::Settled, Ok(UnitEnd::Settled { held })),
        Ok(UnitEnd::Stopped { exit, reason }) => {
            // The operator has fixed the cause, and starts the unit again.
            let rest = timeout(HEALED_PHASE, stage.run(idle, lives())).await;
            (UnderFault::Stopped(exit, reason), rest)
        }
        Err(_) => {
            let rest = timeout(HEALED_PHASE, &mut resting).await;
            (UnderFault::Trying, rest)
        }
    };
    let held = match rest {
        Ok(UnitEnd::Settled { held }) => Some(held),
        _ => None,
    };
    stage.settle_debts().await;
    let struck = armed.inner().inner().inner().triggered();
    let history = history.lock().unwrap().clone();
    Case {
        trace: armed.inner().trace(),
        struck: struck.into_iter().map(|(_, crossing)| crossing).collect(),
        under_fault,
        then,
        end: cloud.rows().await,
        files: files.content(),
        history,
        settled: held.is_some(),
        held: held.unwrap_or_default(),
        testimony: witness.testimony(),
        testimony_then,
        writes,
    }
}

fn acknowledged_writes(trace: &Trace) -> usize {
    use berth_fault_injection::{Boundary, EffectKind, EffectOutcome, TraceEvent};
    let lines = trace.lines().iter();
    lines
        .filter(|line| {
            line.effect.boundary == Boundary::Http
                && line.effect.kind == EffectKind::Write
                && matches!(line.event, TraceEvent::After(EffectOutcome::Done(_), _))
        })
        .count()
}
