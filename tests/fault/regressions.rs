//! Replays past failures by name, because an effect's number changes with its scenario, but its name rarely does. Each
//! is a line in `regressions/SCENARIO.txt`; a failure of the sweep prints the line to add there.

use std::path::PathBuf;

use berth_fault_injection::{EffectPhase, Fault, FaultRepetition, InjectionPoint, Trace};

use crate::case::run;
use crate::scenarios::FaultScenario;
use crate::sweep::CleanRun;

/// The seed of the order, as in the sweep.
const SEED: &str = "1";

fn lines(scenario: FaultScenario) -> Vec<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fault/regressions");
    let file = folder.join(format!("{}.txt", scenario.as_str()));
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

/// The points of each line of a scenario.
pub(crate) fn of(swept: &CleanRun) -> Vec<Vec<InjectionPoint>> {
    let scenario = swept.situation.journey;
    let points = |line: String| {
        points(swept, &line)
            .unwrap_or_else(|what| panic!("regressions/{}.txt: {line}: {what}", scenario.as_str()))
    };
    lines(scenario).into_iter().map(points).collect()
}

fn points(swept: &CleanRun, line: &str) -> Result<Vec<InjectionPoint>, String> {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let (seed, cells) = cells.split_first().ok_or("no seed")?;
    if *seed != SEED {
        return Err(format!("the seed is {SEED} in every sweep"));
    }
    let mut points: Vec<InjectionPoint> = Vec::new();
    for cells in cells.chunks(4) {
        let [crossing, which, side, fault] = cells else {
            return Err("EFFECT | NUMBER | SIDE | FAULT are expected".to_owned());
        };
        // The second fault is at an effect of the run with the first one.
        let failed = (!points.is_empty()).then(|| run(&swept.situation, &points).trace);
        let trace = failed.as_ref().unwrap_or(&swept.clean.trace);
        let which: usize = which.parse().map_err(|_| "WHICH is a number".to_owned())?;
        let number = number(trace, crossing, which)
            .ok_or_else(|| format!("the run has no such effect: {crossing} {which}"))?;
        let point = format!("effect:{number}:{side}:{fault}");
        points.push(point.parse().map_err(|error| format!("{error}"))?);
    }
    Ok(points)
}

fn number(trace: &Trace, crossing: &str, which: usize) -> Option<usize> {
    let mut named = trace
        .effects()
        .filter(|line| line.effect.to_string() == crossing);
    named.nth(which.checked_sub(1)?).map(|line| line.number)
}

/// The line that names these points of a run.
pub(crate) fn line(trace: &Trace, points: &[InjectionPoint]) -> String {
    let mut text = SEED.to_owned();
    for point in points {
        let Some(at) = trace.effects().find(|line| line.number == point.number) else {
            continue;
        };
        let same = trace
            .effects()
            .filter(|line| line.effect == at.effect && line.number <= at.number);
        let (crossing, which, fault) = (&at.effect, same.count(), point.fault);
        let (side, ever) = match (point.phase, point.repetition) {
            (moment, FaultRepetition::Once) => (moment, ""),
            (moment, FaultRepetition::Forever) => (moment, ":for_ever"),
        };
        text.push_str(&format!(" | {crossing} | {which} | {side} | {fault}{ever}"));
    }
    text
}

#[test]
fn a_line_names_its_points() {
    let swept = CleanRun::of(FaultScenario::StartupReshape);
    let written = lines(FaultScenario::StartupReshape);
    assert!(!written.is_empty());
    for (text, points) in written.iter().zip(of(&swept)) {
        let trace = run(&swept.situation, &points).trace;
        assert_eq!(line(&trace, &points), *text);
    }
}

#[test]
fn a_line_without_a_match_is_reported() {
    let swept = CleanRun::of(FaultScenario::Tick);
    for bad in [
        "2 | driver observe | 1 | before | kill",
        "1 | driver observe | 99 | before | kill",
        "1 | driver observe | 0 | before | kill",
        "1 | driver stare | 1 | before | kill",
        "1 | driver observe | 1 | during | kill",
        "1 | driver observe | 1 | before | explode",
        "1 | driver observe | 1 | before",
    ] {
        assert!(points(&swept, bad).is_err(), "{bad}");
    }
    let good = points(&swept, "1 | driver observe | 1 | before | kill").unwrap();
    assert_eq!(
        (good[0].fault, good[0].phase),
        (Fault::Kill, EffectPhase::Before)
    );
}
