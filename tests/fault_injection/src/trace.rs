//! The trace of a run: its effects in order, with their outcomes and the faults injected. Runs are compared by their traces.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use berth_invariants::{Step, StepBoundary, StepKind};

use crate::{
    Boundary, Effect, EffectKind, EffectOutcome, EffectPhase, Fault, FaultRepetition, GateDecision,
    InjectionPoint,
};

/// One side of an effect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TraceEvent {
    Before(GateDecision),
    After(EffectOutcome, GateDecision),
}

impl TraceEvent {
    #[must_use]
    pub const fn phase(&self) -> EffectPhase {
        match self {
            TraceEvent::Before(_) => EffectPhase::Before,
            TraceEvent::After(..) => EffectPhase::After,
        }
    }

    pub const fn decision(&self) -> GateDecision {
        match self {
            TraceEvent::Before(decision) | TraceEvent::After(_, decision) => *decision,
        }
    }
}

/// One line of a trace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceLine {
    /// The number of the effect in its run, counted from 1 in order of arrival. Both lines of an effect have the same number.
    pub number: usize,
    /// The time of the harness since the run began.
    pub at: Duration,
    /// Empty if there is only one task.
    pub task: Arc<str>,
    pub effect: Effect,
    pub event: TraceEvent,
}

impl fmt::Display for TraceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at.as_secs_f64();
        write!(f, "{:>4} {seconds:.3}s ", self.number)?;
        if !self.task.is_empty() {
            write!(f, "[{}] ", self.task)?;
        }
        write!(f, "{} {}", self.event.phase(), self.effect)?;
        if let TraceEvent::After(outcome, _) = &self.event {
            write!(f, ": {outcome}")?;
        }
        match self.event.decision() {
            GateDecision::Proceed => Ok(()),
            GateDecision::Fault(fault) => write!(f, " !! {fault}"),
        }
    }
}

/// The ordered lines of one run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Trace {
    lines: Vec<TraceLine>,
}

impl Trace {
    pub fn push(&mut self, line: TraceLine) {
        self.lines.push(line);
    }

    #[must_use]
    pub fn lines(&self) -> &[TraceLine] {
        &self.lines
    }

    /// The `before` line of each effect, in order of arrival.
    pub fn effects(&self) -> impl Iterator<Item = &TraceLine> {
        self.lines
            .iter()
            .filter(|line| line.event.phase() == EffectPhase::Before)
    }

    /// The effects as the invariants take them.
    #[must_use]
    pub fn steps(&self) -> Vec<Step> {
        self.effects().map(step).collect()
    }

    /// A hash of the trace, to compare runs by one line of text. Valid only within one build.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// The same trace with each UUID in subjects and outcomes replaced by `uuid-N`, numbered by first appearance. Runs that differ only
    /// in random UUIDs become equal.
    #[must_use]
    pub fn aliased(&self) -> Trace {
        let mut aliases = HashMap::new();
        let mut lines = self.lines.clone();
        for line in &mut lines {
            line.effect.subject = alias(&line.effect.subject, &mut aliases);
            if let TraceEvent::After(EffectOutcome::Done(text) | EffectOutcome::Failed(text), _) =
                &mut line.event
            {
                *text = alias(text, &mut aliases);
            }
        }
        Trace { lines }
    }

    /// Every injection point of a run like this one: each effect, each side, each fault that applies, once. A conflict also forever.
    #[must_use]
    pub fn points(&self) -> Vec<InjectionPoint> {
        let mut points = Vec::new();
        for line in &self.lines {
            let phase = line.event.phase();
            for fault in Fault::applying(&line.effect, phase) {
                let point = InjectionPoint {
                    number: line.number,
                    phase,
                    fault,
                    repetition: FaultRepetition::Once,
                };
                points.push(point);
                if fault == Fault::Conflict {
                    let repetition = FaultRepetition::Forever;
                    points.push(InjectionPoint {
                        repetition,
                        ..point
                    });
                }
            }
        }
        points.sort();
        points
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

fn step(line: &TraceLine) -> Step {
    Step {
        at: line.at,
        task: line.task.to_string(),
        boundary: match line.effect.boundary {
            Boundary::Http => StepBoundary::Http,
            Boundary::Driver => StepBoundary::Driver,
            Boundary::Sysfs => StepBoundary::Sysfs,
            Boundary::Store | Boundary::Database => StepBoundary::Store,
        },
        kind: match line.effect.kind {
            EffectKind::Read => StepKind::Read,
            EffectKind::Write => StepKind::Write,
        },
        operation: line.effect.operation.to_string(),
    }
}

/// Length of a UUID in its usual form.
const UUID_LEN: usize = 36;

fn alias(text: &str, aliases: &mut HashMap<String, usize>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(here) = rest.chars().next() {
        match rest.get(..UUID_LEN).filter(|head| is_uuid(head)) {
            Some(uuid) => {
                let next = aliases.len() + 1;
                let number = *aliases.entry(uuid.to_ascii_lowercase()).or_insert(next);
                out.push_str(&format!("uuid-{number}"));
                rest = &rest[UUID_LEN..];
            }
            None => {
                out.push(here);
                rest = &rest[here.len_utf8()..];
            }
        }
    }
    out
}

fn is_uuid(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Boundary;

    fn line(number: usize, subject: &str, event: TraceEvent) -> TraceLine {
        TraceLine {
            number,
            at: Duration::from_millis(1500),
            task: "tick".into(),
            effect: Effect::write(Boundary::Http, "PUT /x", subject),
            event,
        }
    }

    #[test]
    fn a_line_shows_number_time_task_and_effect() {
        let mut trace = Trace::default();
        trace.push(line(1, "gpu-01", TraceEvent::Before(GateDecision::Proceed)));
        let failed = EffectOutcome::Failed("409".into());
        let event = TraceEvent::After(failed, GateDecision::Fault(Fault::AnswerLost));
        trace.push(line(1, "gpu-01", event));
        assert_eq!(
            trace.to_string(),
            "   1 1.500s [tick] before http PUT /x gpu-01\n   \
             1 1.500s [tick] after http PUT /x gpu-01: failed 409 !! answer_lost\n"
        );
        let [step] = &trace.steps()[..] else { panic!() };
        assert_eq!(
            (step.boundary, step.kind),
            (StepBoundary::Http, StepKind::Write)
        );
        assert_eq!(
            (step.operation.as_str(), step.at.as_millis()),
            ("PUT /x", 1500)
        );
    }

    #[test]
    fn runs_that_differ_only_in_random_uuids_are_alike() {
        let run = |uuid: &str| {
            let mut trace = Trace::default();
            let twice = format!("é{uuid}/{uuid}");
            trace.push(line(1, &twice, TraceEvent::Before(GateDecision::Proceed)));
            trace
        };
        let one = run("6f2a4c2e-0f0e-4d0f-9d65-2b3c5f3a1c01");
        let other = run("0f2a4c2e-0f0e-4d0f-9d65-2b3c5f3a1c01");
        assert_ne!(one, other);
        assert_ne!(one.fingerprint(), other.fingerprint());
        assert_eq!(one.aliased(), other.aliased());
        assert_eq!(one.aliased().fingerprint(), other.aliased().fingerprint());
        assert_eq!(one.aliased().lines()[0].effect.subject, "éuuid-1/uuid-1");
    }

    #[test]
    fn a_clean_run_has_every_injection_point() {
        let mut trace = Trace::default();
        trace.push(line(1, "", TraceEvent::Before(GateDecision::Proceed)));
        let done = EffectOutcome::Done("204".into());
        trace.push(line(1, "", TraceEvent::After(done, GateDecision::Proceed)));
        let points = trace.points();
        assert_eq!(points.len(), 15 + 7 + 1);
        let texts: Vec<_> = points.iter().map(ToString::to_string).collect();
        assert!(texts.contains(&"effect:1:before:conflict:for_ever".to_owned()));
        assert!(texts.contains(&"effect:1:after:kill".to_owned()));
    }
}
