//! Records the effects of all processes by name: what a clean run did, and where a fault is injected.
//!
//! A point is named by its effect and the number of its occurrence, not by a position in the run: several processes act
//! concurrently, and a repeated request of one must not shift the points of the others.

use std::collections::BTreeMap;
use std::fmt;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_fault_injection::{
    Effect, EffectOutcome, EffectPhase, Fault, FaultRepetition, Gate, GateDecision, GateFuture,
};
use berth_model::SeededRng;
use uuid::Uuid;

use crate::fault::turn;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CloudProcess {
    /// The agent of the so manyth host, from 0 on.
    Agent(usize),
    /// The conductor, with the compute API where the cloud has one.
    Conductor,
    /// The client of the compute API.
    Client,
    Placement,
    Accelerators,
}

impl CloudProcess {
    /// Whether this process is affected by the fault. A service can only be killed, because every other fault of a
    /// request is injected at its caller's effect. A power cut of a host also ends its guests; for a process without
    /// guests it equals a kill, and is omitted.
    fn suffers(self, fault: Fault) -> bool {
        match self {
            Self::Agent(_) => true,
            Self::Conductor | Self::Client => fault != Fault::PowerCut,
            Self::Placement | Self::Accelerators => fault == Fault::Kill,
        }
    }
}

impl fmt::Display for CloudProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(0) => f.pad("agent"),
            Self::Agent(host) => write!(f, "agent {}", host + 1),
            Self::Conductor => f.pad("conductor"),
            Self::Client => f.pad("client"),
            Self::Placement => f.pad("placement"),
            Self::Accelerators => f.pad("accelerators"),
        }
    }
}

/// An effect that occurred in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedEffect {
    pub process: CloudProcess,
    pub crossing: Effect,
    /// For the how-manieth time, from 1 on.
    pub nth: usize,
}

impl RecordedEffect {
    /// All points of this effect: each side with each applicable fault, a conflict both once and permanent.
    pub fn points<'a>(&'a self, faults: &'a [Fault]) -> impl Iterator<Item = CloudFaultPoint> + 'a {
        [EffectPhase::Before, EffectPhase::After]
            .into_iter()
            .flat_map(move |moment| {
                let applying = Fault::applying(&self.crossing, moment);
                let applying =
                    applying.filter(|fault| faults.contains(fault) && self.process.suffers(*fault));
                let struck = applying.flat_map(|fault| {
                    let again = (fault == Fault::Conflict).then_some(FaultRepetition::Forever);
                    let how_often = [FaultRepetition::Once].into_iter().chain(again);
                    how_often.map(move |repetition| (fault, repetition))
                });
                struck.map(move |(fault, repetition)| CloudFaultPoint {
                    process: self.process,
                    crossing: self.crossing.to_string(),
                    nth: self.nth,
                    moment,
                    fault,
                    repetition,
                })
            })
    }
}

/// A fault at one side of one effect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CloudFaultPoint {
    pub process: CloudProcess,
    pub crossing: String,
    /// For the how-manieth time, from 1 on.
    pub nth: usize,
    pub moment: EffectPhase,
    pub fault: Fault,
    /// Whether it does at each later one of the same text, too.
    pub repetition: FaultRepetition,
}

impl CloudFaultPoint {
    fn strikes(
        &self,
        process: CloudProcess,
        crossing: &str,
        nth: usize,
        moment: EffectPhase,
    ) -> bool {
        let is_its_time = match self.repetition {
            FaultRepetition::Once => nth == self.nth,
            FaultRepetition::Forever => nth >= self.nth,
        };
        is_its_time && (self.process, self.moment) == (process, moment) && self.crossing == crossing
    }
}

impl fmt::Display for CloudFaultPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            process,
            crossing,
            nth,
            moment,
            fault,
            repetition,
        } = self;
        write!(f, "{process} {crossing} #{nth} {moment}: {fault}")?;
        match repetition {
            FaultRepetition::Once => Ok(()),
            FaultRepetition::Forever => f.write_str(" forever"),
        }
    }
}

/// Faults that a seed draws.
struct SeededFaults {
    seeded: SeededRng,
    faults: &'static [Fault],
    left: usize,
    /// One of how many sides is struck.
    one_in: usize,
}

#[derive(Default)]
struct CloudEffectState {
    armed: bool,
    counts: BTreeMap<(CloudProcess, String), usize>,
    open: Vec<(CloudProcess, String, usize)>,
    history: Vec<RecordedEffect>,
    points: Vec<CloudFaultPoint>,
    struck: Vec<CloudFaultPoint>,
    /// How many effects there were when the first fault struck.
    struck_after: usize,
    drawn: Option<SeededFaults>,
}

impl CloudEffectState {
    fn strike(&mut self, point: Option<CloudFaultPoint>) {
        if self.struck.is_empty() {
            self.struck_after = self.history.len();
        }
        self.struck.extend(point);
    }
}

/// The effects of all processes, in all of their runs.
#[derive(Clone, Default)]
pub struct CloudEffects(Arc<Mutex<CloudEffectState>>);

impl CloudEffects {
    fn state(&self) -> MutexGuard<'_, CloudEffectState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on effects are counted, and struck at these points.
    pub fn arm(&self, points: &[CloudFaultPoint]) {
        *self.state() = CloudEffectState {
            armed: true,
            points: points.to_vec(),
            ..CloudEffectState::default()
        };
    }

    /// From now on effects are counted, take their turns by this seed, and at most `faults` of them are struck.
    pub fn arm_seeded(&self, seed: u64, faults: &'static [Fault], at_most: usize, one_in: usize) {
        *self.state() = CloudEffectState {
            armed: true,
            drawn: Some(SeededFaults {
                seeded: SeededRng::new(seed),
                faults,
                left: at_most,
                one_in,
            }),
            ..CloudEffectState::default()
        };
    }

    /// From now on nothing strikes; what was counted is forgotten at the next arming.
    pub fn heal(&self) {
        let mut state = self.state();
        state.armed = false;
        state.drawn = None;
    }

    /// What crossed since it was armed.
    #[must_use]
    pub fn history(&self) -> Vec<RecordedEffect> {
        self.state().history.clone()
    }

    /// What crossed after the first fault struck: the recovery.
    #[must_use]
    pub fn recovery(&self) -> Vec<RecordedEffect> {
        let state = self.state();
        match state.struck.is_empty() {
            true => Vec::new(),
            false => state.history[state.struck_after..].to_vec(),
        }
    }

    /// The points that struck.
    #[must_use]
    pub fn struck(&self) -> Vec<CloudFaultPoint> {
        self.state().struck.clone()
    }

    /// The gate of a life of a process.
    #[must_use]
    pub fn gate_of(&self, process: CloudProcess) -> ProcessGate {
        ProcessGate {
            effects: self.clone(),
            process,
            over: Arc::default(),
            is_cut: Arc::default(),
        }
    }

    fn begins(&self, process: CloudProcess, crossing: &Effect) -> (GateDecision, Duration) {
        let crossing = &without_uuids(crossing);
        let mut state = self.state();
        if !state.armed {
            return (GateDecision::Proceed, Duration::ZERO);
        }
        let text = crossing.to_string();
        let nth = state.counts.entry((process, text.clone())).or_default();
        *nth += 1;
        let nth = *nth;
        state.history.push(RecordedEffect {
            process,
            crossing: crossing.clone(),
            nth,
        });
        let (release, pause) = judge(&mut state, process, crossing, nth, EffectPhase::Before);
        if release.effect_follows() {
            state.open.push((process, text, nth));
        }
        (release, pause)
    }

    fn ends(&self, process: CloudProcess, crossing: &Effect) -> (GateDecision, Duration) {
        let crossing = &without_uuids(crossing);
        let mut state = self.state();
        let text = crossing.to_string();
        let open = state.open.iter();
        let mut open = open.enumerate().rev();
        let Some((at, _)) = open.find(|(_, (of, what, _))| *of == process && *what == text) else {
            return (GateDecision::Proceed, Duration::ZERO);
        };
        let (_, _, nth) = state.open.swap_remove(at);
        if !state.armed {
            return (GateDecision::Proceed, Duration::ZERO);
        }
        judge(&mut state, process, crossing, nth, EffectPhase::After)
    }
}

/// The effect by which a point is found again in another run: a client that creates a server does not know its UUID.
fn without_uuids(crossing: &Effect) -> Effect {
    let words = crossing.subject.split(' ');
    let words = words.map(|word| match word.parse::<Uuid>() {
        Ok(_) => "{uuid}",
        Err(_) => word,
    });
    Effect {
        subject: words.collect::<Vec<_>>().join(" "),
        ..crossing.clone()
    }
}

/// What happens at this side, and how long it is held before that.
fn judge(
    state: &mut CloudEffectState,
    process: CloudProcess,
    crossing: &Effect,
    nth: usize,
    moment: EffectPhase,
) -> (GateDecision, Duration) {
    let crossed = RecordedEffect {
        process,
        crossing: crossing.clone(),
        nth,
    };
    if let Some(drawn) = &mut state.drawn {
        // Each side is delayed in virtual time, so that the seed decides which one is next.
        let pause = Duration::from_micros(drawn.seeded.below(50_000) as u64);
        let fault = drawn.faults[drawn.seeded.below(drawn.faults.len())];
        let strikes = drawn.left > 0
            && drawn.seeded.below(drawn.one_in) == 0
            && fault.applies(crossing, moment)
            && process.suffers(fault);
        if !strikes {
            return (GateDecision::Proceed, pause);
        }
        drawn.left -= 1;
        let at = [fault];
        let point = crossed.points(&at).find(|point| point.moment == moment);
        state.strike(point);
        return (GateDecision::Fault(fault), pause);
    }
    let text = crossing.to_string();
    let points = state.points.iter();
    let mut here = points.filter(|point| point.strikes(process, &text, nth, moment));
    let Some(point) = here.next().cloned() else {
        return (GateDecision::Proceed, Duration::ZERO);
    };
    let fault = point.fault;
    if point.repetition == FaultRepetition::Once {
        state.points.retain(|it| *it != point);
    }
    if !state.struck.contains(&point) {
        state.strike(Some(point));
    }
    (GateDecision::Fault(fault), Duration::ZERO)
}

/// The gate of one process run: once the run has ended, none of its effects passes.
#[derive(Clone)]
pub struct ProcessGate {
    effects: CloudEffects,
    process: CloudProcess,
    over: Arc<AtomicBool>,
    is_cut: Arc<AtomicBool>,
}

impl ProcessGate {
    pub fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    /// Set once it has ended.
    pub(super) fn over(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.over)
    }

    /// Whether it ended because its host's power went.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::SeqCst)
    }

    async fn release(
        &self,
        decide: impl FnOnce() -> (GateDecision, Duration) + Send,
    ) -> GateDecision {
        if self.over.load(Ordering::SeqCst) {
            pending::<()>().await;
        }
        let (release, pause) = decide();
        if !pause.is_zero() {
            turn(pause).await;
            if self.over.load(Ordering::SeqCst) {
                pending::<()>().await;
            }
        }
        match release {
            GateDecision::Fault(Fault::Kill) => self.end(),
            GateDecision::Fault(Fault::PowerCut) => {
                self.is_cut.store(true, Ordering::SeqCst);
                self.end();
            }
            _ => {}
        }
        release
    }
}

impl Gate for ProcessGate {
    fn before<'a>(&'a self, crossing: &'a Effect) -> GateFuture<'a> {
        Box::pin(self.release(|| self.effects.begins(self.process, crossing)))
    }

    fn after<'a>(&'a self, crossing: &'a Effect, _: &'a EffectOutcome) -> GateFuture<'a> {
        Box::pin(self.release(|| self.effects.ends(self.process, crossing)))
    }
}
