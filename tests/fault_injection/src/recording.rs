//! The gate that records each effect in a trace and leaves the decision to an inner gate.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{Effect, EffectOutcome, Gate, GateFuture, Trace, TraceEvent, TraceLine};

/// The time of the harness since the run began. It is virtual time if the trace has to be the same in each run.
pub type TraceClock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Records each effect, its outcome and both decisions of the inner gate. Several recording gates can share a trace: one for each task.
pub struct RecordingGate<G> {
    inner: G,
    task: Arc<str>,
    clock: TraceClock,
    record: Arc<Mutex<RecordedTrace>>,
}

#[derive(Default)]
struct RecordedTrace {
    trace: Trace,
    effects: usize,
    open: Vec<(Arc<str>, Effect, usize)>,
}

impl<G: Gate> RecordingGate<G> {
    /// Begins a trace. `task` may be empty if there is only one task.
    #[must_use]
    pub fn new(inner: G, task: &str, clock: TraceClock) -> Self {
        Self {
            inner,
            task: task.into(),
            clock,
            record: Arc::default(),
        }
    }

    /// A gate for another task that records into the same trace.
    #[must_use]
    pub fn for_task<H: Gate>(&self, inner: H, task: &str) -> RecordingGate<H> {
        RecordingGate {
            inner,
            task: task.into(),
            clock: Arc::clone(&self.clock),
            record: Arc::clone(&self.record),
        }
    }

    #[must_use]
    pub fn inner(&self) -> &G {
        &self.inner
    }

    #[must_use]
    pub fn trace(&self) -> Trace {
        self.record().trace.clone()
    }

    fn record(&self) -> MutexGuard<'_, RecordedTrace> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, record: &mut RecordedTrace, number: usize, effect: &Effect, event: TraceEvent) {
        record.trace.push(TraceLine {
            number,
            at: (self.clock)(),
            task: Arc::clone(&self.task),
            effect: effect.clone(),
            event,
        });
    }
}

impl<G: Gate> Gate for RecordingGate<G> {
    fn before<'a>(&'a self, effect: &'a Effect) -> GateFuture<'a> {
        Box::pin(async move {
            let decision = self.inner.before(effect).await;
            let mut record = self.record();
            record.effects += 1;
            let number = record.effects;
            self.write(&mut record, number, effect, TraceEvent::Before(decision));
            if decision.effect_follows() {
                let task = Arc::clone(&self.task);
                record.open.push((task, effect.clone(), number));
            }
            decision
        })
    }

    fn after<'a>(&'a self, effect: &'a Effect, outcome: &'a EffectOutcome) -> GateFuture<'a> {
        Box::pin(async move {
            let decision = self.inner.after(effect, outcome).await;
            let mut record = self.record();
            let open = record
                .open
                .iter()
                .rposition(|(task, open, _)| *task == self.task && open == effect);
            // Number 0 means that a decorator called `after` without `before`.
            let number = open.map_or(0, |at| record.open.swap_remove(at).2);
            let event = TraceEvent::After(outcome.clone(), decision);
            self.write(&mut record, number, effect, event);
            decision
        })
    }
}

impl<G> std::fmt::Debug for RecordingGate<G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordingGate")
            .field("task", &self.task)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::finish;
    use crate::{Boundary, Fault, GateDecision, PointGate};

    #[test]
    fn the_trace_has_effects_and_faults() {
        let points = PointGate::at(["effect:2:before:kill".parse().unwrap()]);
        let gate = RecordingGate::new(points, "", Arc::new(|| Duration::ZERO));
        let read = Effect::read(Boundary::Driver, "observe", "");
        let write = Effect::write(Boundary::Http, "POST /reshaper", "");
        let done = EffectOutcome::Done("1 node".into());
        assert_eq!(finish(gate.before(&read)), GateDecision::Proceed);
        assert_eq!(finish(gate.after(&read, &done)), GateDecision::Proceed);
        assert_eq!(
            finish(gate.before(&write)),
            GateDecision::Fault(Fault::Kill)
        );
        assert_eq!(
            gate.trace().to_string(),
            "   1 0.000s before driver observe\n   1 0.000s after driver observe: done 1 node\n   \
             2 0.000s before http POST /reshaper !! kill\n"
        );
    }

    #[test]
    fn tasks_share_one_trace() {
        let tick = RecordingGate::new(crate::OpenGate, "tick", Arc::new(|| Duration::ZERO));
        let boot = tick.for_task(crate::OpenGate, "boot");
        let read = Effect::read(Boundary::Driver, "observe", "");
        let done = EffectOutcome::Done(String::new());
        for decision in [
            finish(tick.before(&read)),
            finish(boot.before(&read)),
            finish(tick.after(&read, &done)),
        ] {
            assert_eq!(decision, GateDecision::Proceed);
        }
        let numbers: Vec<_> = tick.trace().lines().iter().map(|l| l.number).collect();
        assert_eq!(numbers, [1, 2, 1]);
        assert_eq!(boot.trace(), tick.trace());
    }
}
