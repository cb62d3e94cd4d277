//! S12: loops send a bounded number of requests and pause after a failure.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{InvariantId, LoopLimits, Pass, PassOutcome, StepBoundary, SystemSnapshot, Violation};

const MINUTE: Duration = Duration::from_secs(60);

pub(crate) fn s12(snapshot: &SystemSnapshot) -> Vec<Violation> {
    let Some(limits) = &snapshot.histories.limits else {
        return Vec::new();
    };
    requests(snapshot, limits)
        .into_iter()
        .chain(pauses(&snapshot.histories.passes, limits))
        .map(|finding| Violation::of(InvariantId::S12, finding))
        .collect()
}

/// The busiest minute of each task.
fn requests(snapshot: &SystemSnapshot, limits: &LoopLimits) -> Vec<String> {
    let mut times: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    for step in snapshot
        .trace
        .iter()
        .filter(|step| step.boundary == StepBoundary::Http)
    {
        times.entry(&step.task).or_default().push(step.at);
    }
    let mut findings = Vec::new();
    for (task, mut times) in times {
        times.sort();
        let mut first = 0;
        let mut most = 0;
        for (last, at) in times.iter().enumerate() {
            while *at - times[first] >= MINUTE {
                first += 1;
            }
            most = most.max(last - first + 1);
        }
        if most > limits.requests_per_minute {
            let allowed = limits.requests_per_minute;
            findings.push(format!(
                "{task} sent {most} requests in a minute; {allowed} are allowed"
            ));
        }
    }
    findings
}

/// After a failed pass there is a pause, and not too long a one.
fn pauses(passes: &[Pass], limits: &LoopLimits) -> Vec<String> {
    let mut failed: BTreeMap<&str, Duration> = BTreeMap::new();
    let mut findings = Vec::new();
    for pass in passes {
        let name = pass.loop_name.as_str();
        if let Some(ended) = failed.remove(name) {
            let pause = pass.began.saturating_sub(ended);
            if pause.is_zero() {
                findings.push(format!("{name} tried again without a pause"));
            } else if pause > limits.longest_pause {
                findings.push(format!("{name} paused for {} s", pause.as_secs()));
            }
        }
        if pass.end == PassOutcome::Failed {
            failed.insert(name, pass.ended);
        }
    }
    findings
}
