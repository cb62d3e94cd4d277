//! Judges a run: its violations, and the command that reproduces it.

use std::fmt::Write as _;
use std::path::Path;

use berth_fault_injection::{Fault, InjectionPoint};
use berth_invariants::{Histories, SystemSnapshot, audit, audit_at_rest};
use berth_tests::host::consumer;
use berth_tests::worlds::PlacementRows;

use crate::case::{Case, UnderFault};
use crate::evidence;
use crate::rows::{Cell, FaultOutcome, Rows};
use crate::scenarios::Situation;
use crate::sweep::CleanRun;

/// What is wrong with a clean run.
pub(crate) fn clean(swept: &CleanRun) -> Vec<String> {
    let CleanRun { situation, clean } = swept;
    let mut wrong = units(situation, &clean.end);
    if clean.under_fault != UnderFault::Settled || clean.history.failures().count() > 0 {
        let (stood, history) = (&clean.under_fault, &clean.history);
        wrong.push(format!(
            "the clean run did not settle: {stood:?} {history:?}"
        ));
    }
    wrong.extend(audited(swept, clean));
    let scenario = situation.journey.as_str();
    wrong
        .iter()
        .map(|line| format!("{scenario}: {line}\n{}", clean.trace))
        .collect()
}

/// What is wrong with a failed run.
pub(crate) fn failed(
    swept: &CleanRun,
    rows: &Rows,
    points: &[InjectionPoint],
    case: &Case,
) -> Vec<String> {
    let CleanRun { situation, clean } = swept;
    let meant = swept.crossing(&points[0]);
    let mut wrong = Vec::new();
    if case.struck.first() != Some(meant) || case.struck.len() != points.len() {
        wrong.push(format!(
            "the faults struck {:?}, the first was meant for {meant}",
            case.struck
        ));
    }
    if !case.settled {
        wrong.push("the unit did not settle when all was healed".to_owned());
    }
    let difference = clean.end.essence().difference(&case.end.essence());
    if !difference.is_empty() {
        wrong.push(format!(
            "Placement is not as after a clean run:\n{difference}"
        ));
    }
    wrong.extend(units(situation, &case.end));
    wrong.extend(audited(swept, case));
    wrong.extend(another_outcome(swept, rows, points, case));
    wrong
}

/// Every unit, by hand.
fn units(situation: &Situation, end: &PlacementRows) -> Vec<String> {
    let expected = situation.expected.iter();
    let held = expected.map(|(n, expected)| (n, expected, end.held_by(consumer(*n))));
    held.filter(|(_, expected, held)| held != *expected)
        .map(|(n, expected, held)| format!("consumer {n} holds {held:?} instead of {expected:?}"))
        .collect()
}

/// An outcome that `rows.toml` does not have for the cell. Pairs have cells where both are kills.
fn another_outcome(
    swept: &CleanRun,
    rows: &Rows,
    points: &[InjectionPoint],
    case: &Case,
) -> Option<String> {
    if points.len() > 1 && points.iter().any(|point| point.fault != Fault::Kill) {
        return None;
    }
    let cell = Cell::of(swept.situation.journey, points, swept.crossing(&points[0]));
    let seen = FaultOutcome::seen(case, &swept.situation);
    match rows.get(&cell) {
        None => Some(format!(
            "rows.toml does not say what {cell} is; it was {seen}"
        )),
        Some(allowed) if allowed.contains(&seen) => None,
        Some(_) => Some(format!("{cell} was {seen}")),
    }
}

/// What the audit finds: at rest, and when the fault phase was over.
fn audited(swept: &CleanRun, case: &Case) -> Vec<String> {
    let worlds = evidence::worlds(&swept.situation, case, &swept.clean.end);
    let at_rest = audit_at_rest(&worlds);
    let histories = Histories {
        requests: case.testimony_then.writes.clone(),
        reshapes: case.testimony_then.reshapes.clone(),
        ..worlds.histories
    };
    let placement = (&case.then).into();
    let then = audit(&SystemSnapshot {
        placement,
        histories,
        ..worlds
    });
    let then = then
        .iter()
        .map(|violation| format!("under the fault: {violation}"));
    at_rest
        .iter()
        .map(ToString::to_string)
        .chain(then)
        .collect()
}

fn name(points: &[InjectionPoint]) -> String {
    let points: Vec<String> = points.iter().map(ToString::to_string).collect();
    points.join(",")
}

/// A line that repeats the case, and what is wrong.
pub(crate) fn explain(
    swept: &CleanRun,
    points: &[InjectionPoint],
    case: &Case,
    wrong: &[String],
) -> String {
    let (scenario, points_name) = (swept.situation.journey.as_str(), name(points));
    let mut text = format!(
        "BERTH_FAULT_AT={scenario}:{points_name} cargo test -p berth-tests --test fault fails_well_at_every_effect -- --nocapture\n"
    );
    let _ = writeln!(
        text,
        "  at {} ({:?})",
        swept.crossing(&points[0]),
        case.under_fault
    );
    let regression = crate::regressions::line(&case.trace, points);
    let _ = writeln!(
        text,
        "  add to tests/fault/regressions/{scenario}.txt: {regression}"
    );
    for line in wrong {
        let _ = writeln!(text, "  {}", line.replace('\n', "\n    "));
    }
    text
}

/// Writes all of a case, in the target folder, where a person or a later audit can read it.
pub(crate) fn keep(swept: &CleanRun, points: &[InjectionPoint], case: &Case, wrong: &[String]) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("faults");
    std::fs::create_dir_all(&folder).unwrap();
    let trace: Vec<String> = case.trace.lines().iter().map(ToString::to_string).collect();
    let kept = serde_json::json!({
        "points": name(points), "wrong": wrong, "ends": case.history.ends,
        "failures": case.history.failures().collect::<Vec<_>>(),
        "trace": trace, "files": case.files,
        "placement": {"before": swept.situation.before, "then": case.then, "end": case.end},
    });
    let file = format!(
        "{}-{}.json",
        swept.situation.journey.as_str(),
        name(points).replace([':', ','], "-")
    );
    std::fs::write(
        folder.join(file),
        serde_json::to_string_pretty(&kept).unwrap(),
    )
    .unwrap();
}
