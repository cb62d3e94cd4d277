//! L7: a settled node sends nothing.

use std::collections::BTreeSet;

use crate::{InvariantId, StepBoundary, StepKind, SystemSnapshot, Violation};

/// How many further ticks must be run.
const TICKS: usize = 2;

/// Each further tick sends no write, and at most one read, plus one for the usages of each further provider that is
/// reported as held.
pub(crate) fn l7(snapshot: &SystemSnapshot) -> Vec<Violation> {
    let Some(ticks) = &snapshot.quiet_ticks else {
        return Vec::new();
    };
    let held: BTreeSet<_> = snapshot
        .reported
        .held
        .iter()
        .map(|(provider, _)| provider)
        .collect();
    let most = held.len().max(1);
    let mut findings = Vec::new();
    if ticks.len() < TICKS {
        findings.push(format!(
            "{} further ticks were tried, not {TICKS}",
            ticks.len()
        ));
    }
    for (tick, steps) in (1..).zip(ticks) {
        let sent = |effect| {
            let mut sent = steps
                .iter()
                .filter(|step| step.boundary == StepBoundary::Http && step.kind == effect);
            (
                sent.clone().count(),
                sent.next().map(|step| step.operation.as_str()),
            )
        };
        if let (1.., Some(first)) = sent(StepKind::Write) {
            findings.push(format!("tick {tick} after settling wrote: {first}"));
        }
        let (reads, _) = sent(StepKind::Read);
        if reads > most {
            findings.push(format!(
                "tick {tick} after settling sent {reads} reads; {most} is allowed"
            ));
        }
    }
    findings
        .into_iter()
        .map(|finding| Violation::of(InvariantId::L7, finding))
        .collect()
}
