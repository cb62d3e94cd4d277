//! The trace: what crossed, in which order, and what was made of it. Two runs are compared by it.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use berth_model::audit::{Step, StepEffect, StepSeam};

use crate::{Crossing, Effect, EffectEnd, Fault, Moment, Point, Release, Repetition, Seam};

/// What happened at one side of a crossing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TraceEvent {
    /// The effect was about to happen, and was released so.
    Before(Release),
    /// The effect ended so, and its outcome was released so.
    After(EffectEnd, Release),
}

impl TraceEvent {
    #[must_use]
    pub const fn moment(&self) -> Moment {
        match self {
            TraceEvent::Before(_) => Moment::Before,
            TraceEvent::After(..) => Moment::After,
        }
    }

    /// What the gate said.
    pub const fn release(&self) -> Release {
        match self {
            TraceEvent::Before(release) | TraceEvent::After(_, release) => *release,
        }
    }
}

/// One line of a trace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceLine {
    /// The crossing's number in its run, counted from 1 as it came to the gate; both of its lines carry it.
    pub number: usize,
    /// The harness's time since the run began.
    pub at: Duration,
    /// Whose crossing it was; empty where there is one journey only.
    pub journey: Arc<str>,
    pub crossing: Crossing,
    pub event: TraceEvent,
}

impl fmt::Display for TraceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at.as_secs_f64();
        write!(f, "{:>4} {seconds:.3}s ", self.number)?;
        if !self.journey.is_empty() {
            write!(f, "[{}] ", self.journey)?;
        }
        write!(f, "{} {}", self.event.moment(), self.crossing)?;
        if let TraceEvent::After(outcome, _) = &self.event {
            write!(f, ": {outcome}")?;
        }
        match self.event.release() {
            Release::Proceed => Ok(()),
            Release::Fault(fault) => write!(f, " !! {fault}"),
        }
    }
}

/// The ordered lines of one run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Trace {
    lines: Vec<TraceLine>,
}

impl Trace {
    /// Adds a line at the end.
    pub fn push(&mut self, line: TraceLine) {
        self.lines.push(line);
    }

    /// The lines in order.
    #[must_use]
    pub fn lines(&self) -> &[TraceLine] {
        &self.lines
    }

    /// The crossings in the order they came to the gate, each once.
    pub fn crossings(&self) -> impl Iterator<Item = &TraceLine> {
        self.lines
            .iter()
            .filter(|line| line.event.moment() == Moment::Before)
    }

    /// The crossings in the audit's words.
    #[must_use]
    pub fn steps(&self) -> Vec<Step> {
        self.crossings().map(step).collect()
    }

    /// A number that two equal traces share (and two different ones hardly ever), to compare runs by one line of text. The same
    /// in each run of the same build; another build may give another.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// The same with each UUID in subjects and outcomes replaced by `uuid-N`, numbered as they appear: runs that differ
    /// only in random UUIDs become equal.
    #[must_use]
    pub fn aliased(&self) -> Trace {
        let mut aliases = HashMap::new();
        let mut lines = self.lines.clone();
        for line in &mut lines {
            line.crossing.subject = alias(&line.crossing.subject, &mut aliases);
            if let TraceEvent::After(EffectEnd::Done(text) | EffectEnd::Failed(text), _) =
                &mut line.event
            {
                *text = alias(text, &mut aliases);
            }
        }
        Trace { lines }
    }

    /// Every place where a run like this one can be failed: each crossing, each side of it, each fault that makes sense
    /// there, once; a conflict also for ever.
    #[must_use]
    pub fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for line in &self.lines {
            let moment = line.event.moment();
            for fault in Fault::applying(&line.crossing, moment) {
                let point = Point {
                    number: line.number,
                    moment,
                    fault,
                    repetition: Repetition::Once,
                };
                points.push(point);
                if fault == Fault::Conflict {
                    let repetition = Repetition::ForEver;
                    points.push(Point {
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
        journey: line.journey.to_string(),
        seam: match line.crossing.seam {
            Seam::Http => StepSeam::Http,
            Seam::Driver => StepSeam::Driver,
            Seam::Sysfs => StepSeam::Sysfs,
            Seam::Store | Seam::Database => StepSeam::Store,
        },
        effect: match line.crossing.effect {
            Effect::Read => StepEffect::Read,
            Effect::Write => StepEffect::Write,
        },
        operation: line.crossing.operation.to_string(),
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
    use crate::Seam;

    fn line(number: usize, subject: &str, event: TraceEvent) -> TraceLine {
        TraceLine {
            number,
            at: Duration::from_millis(1500),
            journey: "tick".into(),
            crossing: Crossing::write(Seam::Http, "PUT /x", subject),
            event,
        }
    }

    #[test]
    fn a_line_reads_as_a_sentence() {
        let mut trace = Trace::default();
        trace.push(line(1, "gpu-01", TraceEvent::Before(Release::Proceed)));
        let failed = EffectEnd::Failed("409".into());
        let event = TraceEvent::After(failed, Release::Fault(Fault::AnswerLost));
        trace.push(line(1, "gpu-01", event));
        assert_eq!(
            trace.to_string(),
            "   1 1.500s [tick] before http PUT /x gpu-01\n   \
             1 1.500s [tick] after http PUT /x gpu-01: failed 409 !! answer_lost\n"
        );
        let [step] = &trace.steps()[..] else { panic!() };
        assert_eq!(
            (step.seam, step.effect),
            (StepSeam::Http, StepEffect::Write)
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
            trace.push(line(1, &twice, TraceEvent::Before(Release::Proceed)));
            trace
        };
        let one = run("6f2a4c2e-0f0e-4d0f-9d65-2b3c5f3a1c01");
        let other = run("0f2a4c2e-0f0e-4d0f-9d65-2b3c5f3a1c01");
        assert_ne!(one, other);
        assert_ne!(one.fingerprint(), other.fingerprint());
        assert_eq!(one.aliased(), other.aliased());
        assert_eq!(one.aliased().fingerprint(), other.aliased().fingerprint());
        assert_eq!(one.aliased().lines()[0].crossing.subject, "éuuid-1/uuid-1");
    }

    #[test]
    fn a_clean_run_tells_every_point_where_it_can_be_failed() {
        let mut trace = Trace::default();
        trace.push(line(1, "", TraceEvent::Before(Release::Proceed)));
        let done = EffectEnd::Done("204".into());
        trace.push(line(1, "", TraceEvent::After(done, Release::Proceed)));
        let points = trace.points();
        assert_eq!(points.len(), 15 + 7 + 1);
        let texts: Vec<_> = points.iter().map(ToString::to_string).collect();
        assert!(texts.contains(&"crossing:1:before:conflict:for_ever".to_owned()));
        assert!(texts.contains(&"crossing:1:after:kill".to_owned()));
    }
}
