//! S12: loops are bounded, and pause.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{InvariantId, Limits, Pass, PassEnd, StepSeam, Violation, Worlds};

const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn s12(worlds: &Worlds) -> Vec<Violation> {
    let Some(limits) = &worlds.histories.limits else {
        return Vec::new();
    };
    requests(worlds, limits)
        .into_iter()
        .chain(pauses(&worlds.histories.passes, limits))
        .map(|finding| Violation::of(InvariantId::S12, finding))
        .collect()
}

/// The fullest minute of each journey.
fn requests(worlds: &Worlds, limits: &Limits) -> Vec<String> {
    let mut times: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    for step in worlds
        .trace
        .iter()
        .filter(|step| step.seam == StepSeam::Http)
    {
        times.entry(&step.journey).or_default().push(step.at);
    }
    let mut findings = Vec::new();
    for (journey, mut times) in times {
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
                "{journey} sent {most} requests in a minute; {allowed} are allowed"
            ));
        }
    }
    findings
}

/// After a failed pass there is a pause, and not too long a one.
fn pauses(passes: &[Pass], limits: &Limits) -> Vec<String> {
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
        if pass.end == PassEnd::Failed {
            failed.insert(name, pass.ended);
        }
    }
    findings
}
