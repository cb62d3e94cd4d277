//! The gate that writes the trace.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{Crossing, EffectEnd, Gate, Released, Trace, TraceEvent, TraceLine};

/// The harness's time since the run began; virtual where the trace shall be the same in each run.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Asks another gate and writes each crossing, its outcome and both releases into a trace. Several of them may share
/// one trace (one per journey, each with its name).
pub struct RecordingGate<G> {
    inner: G,
    journey: Arc<str>,
    clock: Clock,
    record: Arc<Mutex<Record>>,
}

#[derive(Default)]
struct Record {
    trace: Trace,
    crossings: usize,
    open: Vec<(Arc<str>, Crossing, usize)>,
}

impl<G: Gate> RecordingGate<G> {
    /// Begins a trace. `journey` may be empty where there is one only.
    #[must_use]
    pub fn new(inner: G, journey: &str, clock: Clock) -> Self {
        Self {
            inner,
            journey: journey.into(),
            clock,
            record: Arc::default(),
        }
    }

    /// A gate for another journey that writes into the same trace.
    #[must_use]
    pub fn beside<H: Gate>(&self, inner: H, journey: &str) -> RecordingGate<H> {
        RecordingGate {
            inner,
            journey: journey.into(),
            clock: Arc::clone(&self.clock),
            record: Arc::clone(&self.record),
        }
    }

    #[must_use]
    pub fn inner(&self) -> &G {
        &self.inner
    }

    /// The trace so far.
    #[must_use]
    pub fn trace(&self) -> Trace {
        self.record().trace.clone()
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, record: &mut Record, number: usize, crossing: &Crossing, event: TraceEvent) {
        record.trace.push(TraceLine {
            number,
            at: (self.clock)(),
            journey: Arc::clone(&self.journey),
            crossing: crossing.clone(),
            event,
        });
    }
}

impl<G: Gate> Gate for RecordingGate<G> {
    fn before<'a>(&'a self, crossing: &'a Crossing) -> Released<'a> {
        Box::pin(async move {
            let release = self.inner.before(crossing).await;
            let mut record = self.record();
            record.crossings += 1;
            let number = record.crossings;
            self.write(&mut record, number, crossing, TraceEvent::Before(release));
            if release.effect_follows() {
                let journey = Arc::clone(&self.journey);
                record.open.push((journey, crossing.clone(), number));
            }
            release
        })
    }

    fn after<'a>(&'a self, crossing: &'a Crossing, outcome: &'a EffectEnd) -> Released<'a> {
        Box::pin(async move {
            let release = self.inner.after(crossing, outcome).await;
            let mut record = self.record();
            let open = record
                .open
                .iter()
                .rposition(|(journey, open, _)| *journey == self.journey && open == crossing);
            // Only a decorator that asks `after` without `before` gets number 0.
            let number = open.map_or(0, |at| record.open.swap_remove(at).2);
            let event = TraceEvent::After(outcome.clone(), release);
            self.write(&mut record, number, crossing, event);
            release
        })
    }
}

impl<G> std::fmt::Debug for RecordingGate<G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordingGate")
            .field("journey", &self.journey)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::finish;
    use crate::{Fault, PointGate, Release, Seam};

    #[test]
    fn the_trace_holds_what_crossed_and_what_struck() {
        let points = PointGate::at(["crossing:2:before:kill".parse().unwrap()]);
        let gate = RecordingGate::new(points, "", Arc::new(|| Duration::ZERO));
        let read = Crossing::read(Seam::Driver, "observe", "");
        let write = Crossing::write(Seam::Http, "POST /reshaper", "");
        let done = EffectEnd::Done("1 node".into());
        assert_eq!(finish(gate.before(&read)), Release::Proceed);
        assert_eq!(finish(gate.after(&read, &done)), Release::Proceed);
        assert_eq!(finish(gate.before(&write)), Release::Fault(Fault::Kill));
        assert_eq!(
            gate.trace().to_string(),
            "   1 0.000s before driver observe\n   1 0.000s after driver observe: done 1 node\n   \
             2 0.000s before http POST /reshaper !! kill\n"
        );
    }

    #[test]
    fn journeys_share_one_trace() {
        let tick = RecordingGate::new(crate::OpenGate, "tick", Arc::new(|| Duration::ZERO));
        let boot = tick.beside(crate::OpenGate, "boot");
        let read = Crossing::read(Seam::Driver, "observe", "");
        let done = EffectEnd::Done(String::new());
        for release in [
            finish(tick.before(&read)),
            finish(boot.before(&read)),
            finish(tick.after(&read, &done)),
        ] {
            assert_eq!(release, Release::Proceed);
        }
        let numbers: Vec<_> = tick.trace().lines().iter().map(|l| l.number).collect();
        assert_eq!(numbers, [1, 2, 1]);
        assert_eq!(boot.trace(), tick.trace());
    }
}
