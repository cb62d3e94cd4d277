//! The state that a node's decorators share, and the function that passes an effect through the gate.

use std::collections::BTreeMap;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_fault_injection::{Boundary, Effect, EffectOutcome, Fault, Gate, GateDecision};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::HarnessClock;
use super::paused_clock::turn;
use super::route::Names;

const HOUR: i64 = 3600;
/// How long a hypervisor's call hangs until its driver gives it up.
const CALL_LIMIT: Duration = Duration::from_mins(1);
/// How long a disk or a database hangs before it continues.
const STALL: Duration = Duration::from_mins(2);
/// Longer than anybody waits for an answer.
const UNHEARD: Duration = Duration::from_hours(24);

/// What the decorators of one node share.
#[derive(Clone)]
pub struct FaultStage(Arc<FaultStageState>);

struct FaultStageState {
    gate: Arc<dyn Gate>,
    clock: HarnessClock,
    /// Whether the clock is stopped during an effect; otherwise the wrapped object controls it.
    still: bool,
    /// Set once the process is killed: a hanging effect then does nothing.
    over: Arc<AtomicBool>,
    names: Names,
    kills: AtomicUsize,
    killed: Notify,
    owed: Mutex<BTreeMap<Boundary, Vec<AbandonedEffect>>>,
}

/// An effect that its caller has given up.
pub(super) type AbandonedEffect = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One effect at a boundary, as its decorator executes it.
pub(super) trait EffectAction: Sync {
    type Value: Send;

    /// Calls the wrapped object.
    fn perform(&self) -> impl Future<Output = Self::Value> + Send;

    /// The result in words that are equal in each run, for traces.
    fn outcome(&self, value: &Self::Value) -> EffectOutcome;

    /// The result that the caller gets if the fault prevents the effect.
    fn result_if_prevented(&self, fault: Fault) -> Self::Value;

    /// The result that the caller gets if the fault follows the effect. `value` is the result of the effect.
    fn result_if_failed_after(&self, value: Self::Value, fault: Fault) -> Self::Value;

    /// The effect without its caller, to be executed after the caller's timeout.
    fn detached(&self) -> AbandonedEffect;

    /// The delay until an abandoned effect is executed; none: just before the next one at its boundary.
    fn queue(&self) -> Option<Duration> {
        None
    }
}

/// How a hang ended.
enum HangEnd {
    GaveUp,
    GoesOn,
}

impl FaultStage {
    /// A stage that passes its effects through this gate. Must be called inside a runtime.
    #[must_use]
    pub fn new(gate: Arc<dyn Gate>) -> Self {
        Self::with_clock(gate, HarnessClock::begin())
    }

    /// The same with a clock that the gate's trace uses as well.
    #[must_use]
    pub fn with_clock(gate: Arc<dyn Gate>, clock: HarnessClock) -> Self {
        Self::of(gate, clock, true, Arc::default())
    }

    /// The same for effects that contain effects of other stages: only those that leave the process (see
    /// [`super::busy`]) keep the clock stopped.
    #[must_use]
    pub fn of_nested_effects(
        gate: Arc<dyn Gate>,
        clock: HarnessClock,
        over: Arc<AtomicBool>,
    ) -> Self {
        Self::of(gate, clock, false, over)
    }

    fn of(gate: Arc<dyn Gate>, clock: HarnessClock, still: bool, over: Arc<AtomicBool>) -> Self {
        Self(Arc::new(FaultStageState {
            gate,
            clock,
            still,
            over,
            names: Names::default(),
            kills: AtomicUsize::new(0),
            killed: Notify::new(),
            owed: Mutex::default(),
        }))
    }

    #[must_use]
    pub fn clock(&self) -> &HarnessClock {
        &self.0.clock
    }

    /// How often a fault killed the process.
    #[must_use]
    pub fn kills(&self) -> usize {
        self.0.kills.load(Ordering::SeqCst)
    }

    /// Returns when a fault kills the process; the caller then drops its future.
    pub async fn killed(&self) {
        self.0.killed.notified().await;
    }

    /// Does what callers gave up waiting for.
    pub async fn settle_debts(&self) {
        for seam in Boundary::ALL {
            self.pay(seam).await;
        }
        self.0.clock.let_time_pass();
    }

    /// Runs a node's future. Its clock is stopped from the first effect on, until `idle` reports that nothing can
    /// continue without time. Otherwise an answer from another thread would be taken for one that never arrives.
    pub async fn run<F: Future>(&self, idle: impl Fn() -> bool, node: F) -> F::Output {
        let mut node = std::pin::pin!(node);
        let run = std::future::poll_fn(|context| {
            let polled = node.as_mut().poll(context);
            if polled.is_ready() || idle() {
                self.0.clock.let_time_pass();
            }
            polled
        });
        run.await
    }

    pub(super) fn names(&self) -> &Names {
        &self.0.names
    }

    /// Passes an effect through the gate and executes the decision.
    pub(super) async fn cross<A: EffectAction>(&self, crossing: &Effect, act: &A) -> A::Value {
        self.pay(crossing.boundary).await;
        if let GateDecision::Fault(fault) = self.0.gate.before(crossing).await {
            match fault {
                Fault::Kill | Fault::PowerCut => self.die().await,
                Fault::Hang => match self.hang(crossing.boundary).await {
                    HangEnd::GaveUp => return act.result_if_prevented(Fault::Late),
                    HangEnd::GoesOn => {}
                },
                Fault::ClockForward => self.0.clock.jump(HOUR).await,
                Fault::ClockBackward => self.0.clock.jump(-HOUR).await,
                Fault::Twice => drop(self.done(act.perform()).await),
                Fault::Late => {
                    self.owe(crossing.boundary, act);
                    return act.result_if_prevented(fault);
                }
                other => return act.result_if_prevented(other),
            }
        }
        let value = self.done(act.perform()).await;
        match self.0.gate.after(crossing, &act.outcome(&value)).await {
            GateDecision::Proceed => value,
            GateDecision::Fault(Fault::Kill | Fault::PowerCut) => self.die().await,
            GateDecision::Fault(Fault::Hang) => match self.hang(crossing.boundary).await {
                HangEnd::GaveUp => act.result_if_prevented(Fault::Late),
                HangEnd::GoesOn => value,
            },
            GateDecision::Fault(fault) => act.result_if_failed_after(value, fault),
        }
    }

    /// If the harness controls the clock, this function ends the wait. Otherwise time passes until the caller gives up:
    /// the client of a service, or the driver for its hypervisor. Calls to a disk or a database are not given up; they
    /// continue.
    async fn hang(&self, seam: Boundary) -> HangEnd {
        let (limit, hung) = match seam {
            _ if self.0.still => return pending().await,
            Boundary::Http => (UNHEARD, HangEnd::GaveUp),
            Boundary::Driver => (CALL_LIMIT, HangEnd::GaveUp),
            Boundary::Store | Boundary::Sysfs | Boundary::Database => (STALL, HangEnd::GoesOn),
        };
        turn(limit).await;
        if self.0.over.load(Ordering::SeqCst) {
            return pending().await;
        }
        hung
    }

    async fn done<T>(&self, effect: impl Future<Output = T>) -> T {
        match self.0.still {
            true => self.0.clock.standing_still(effect).await,
            false => effect.await,
        }
    }

    fn owe(&self, seam: Boundary, act: &impl EffectAction) {
        let effect = act.detached();
        match act.queue() {
            // The request is in another process, which a kill of the caller does not stop.
            Some(queue) => {
                tokio::spawn(async move {
                    sleep(queue).await;
                    effect.await;
                });
            }
            None => {
                let mut owed = self.0.owed.lock().unwrap_or_else(PoisonError::into_inner);
                owed.entry(seam).or_default().push(effect);
            }
        }
    }

    async fn pay(&self, seam: Boundary) {
        let owed = {
            let mut owed = self.0.owed.lock().unwrap_or_else(PoisonError::into_inner);
            owed.remove(&seam)
        };
        for effect in owed.into_iter().flatten() {
            self.done(effect).await;
        }
    }

    /// Never returns: the runner of the node drops it.
    async fn die<T>(&self) -> T {
        self.0.kills.fetch_add(1, Ordering::SeqCst);
        self.0.killed.notify_one();
        pending().await
    }
}

impl std::fmt::Debug for FaultStage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stage")
            .field("kills", &self.kills())
            .finish_non_exhaustive()
    }
}
