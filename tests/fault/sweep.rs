//! One run per journey, crossing, side and fault.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use berth_model::audit::{Histories, Worlds, audit, audit_at_rest};
use berth_seam::{Crossing, Point};
use berth_tests::host::consumer;

use crate::case::{Case, UnderFault, run};
use crate::evidence;
use crate::journeys::{Journey, Situation};
use crate::rows::{self, Cell, Outcome, Rows};

/// How many cases of each cell ended how.
pub(crate) type Tally = BTreeMap<Cell, BTreeMap<Outcome, usize>>;

/// A journey with its clean run.
pub(crate) struct Swept {
    pub(crate) situation: Situation,
    pub(crate) clean: Case,
}

impl Swept {
    pub(crate) fn of(journey: Journey) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let situation = runtime.block_on(Situation::of(journey));
        let clean = run(&situation, None);
        Self { situation, clean }
    }

    /// The crossing that a point of the clean run's trace is at.
    fn crossing(&self, point: &Point) -> &Crossing {
        let lines = self.clean.trace.lines().iter();
        &lines
            .clone()
            .find(|line| line.number == point.number)
            .unwrap()
            .crossing
    }
}

/// What is wrong with a clean run.
fn judge_clean(swept: &Swept) -> Vec<String> {
    let Swept { situation, clean } = swept;
    let mut wrong = Vec::new();
    if clean.under_fault != UnderFault::Settled || clean.history.failures().count() > 0 {
        wrong.push(format!(
            "the clean run did not settle: {:?} {:?}",
            clean.under_fault, clean.history
        ));
    }
    for (n, expected) in &situation.expected {
        let held = clean.end.held_by(consumer(*n));
        if held != *expected {
            wrong.push(format!(
                "consumer {n} holds {held:?} instead of {expected:?}"
            ));
        }
    }
    wrong.extend(audited(swept, clean));
    wrong
}

/// What is wrong with a failed run.
fn judge(swept: &Swept, rows: &Rows, point: &Point, case: &Case) -> Vec<String> {
    let Swept { situation, clean } = swept;
    let mut wrong = Vec::new();
    let meant = swept.crossing(point);
    match &case.struck {
        None => wrong.push("the fault did not strike".to_owned()),
        Some(struck) if struck != meant => {
            wrong.push(format!("it struck {struck}, not {meant}"));
        }
        Some(_) => {}
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
    for (n, expected) in &situation.expected {
        let held = case.end.held_by(consumer(*n));
        if held != *expected {
            wrong.push(format!(
                "consumer {n} holds {held:?} instead of {expected:?}"
            ));
        }
    }
    wrong.extend(audited(swept, case));
    let cell = Cell::of(situation.journey, point, meant);
    let seen = Outcome::seen(case, situation);
    match rows.get(&cell) {
        None => wrong.push(format!(
            "rows.toml does not say what {cell} is; it was {seen}"
        )),
        Some(allowed) if !allowed.contains(&seen) => {
            wrong.push(format!("{cell} was {seen}"));
        }
        Some(_) => {}
    }
    wrong
}

/// What the audit finds.
fn audited(swept: &Swept, case: &Case) -> Vec<String> {
    let worlds = evidence::worlds(&swept.situation, case, &swept.clean.end);
    let mut found: Vec<String> = audit_at_rest(&worlds)
        .iter()
        .map(ToString::to_string)
        .collect();
    // What had to hold then and there, before anything was mended.
    let histories = Histories {
        requests: case.testimony_then.writes.clone(),
        reshapes: case.testimony_then.reshapes.clone(),
        ..worlds.histories
    };
    let then = Worlds {
        placement: (&case.then).into(),
        histories,
        ..worlds
    };
    found.extend(
        audit(&then)
            .iter()
            .map(|violation| format!("under the fault: {violation}")),
    );
    found
}

/// A line that repeats the case, what is wrong, and where the rest is.
fn explain(swept: &Swept, point: &Point, case: &Case, wrong: &[String]) -> String {
    let journey = swept.situation.journey.as_str();
    let mut text =
        format!("BERTH_FAULT_AT={journey}:{point} cargo test -p berth-tests --test fault\n");
    let _ = writeln!(
        text,
        "  at {} ({:?})",
        swept.crossing(point),
        case.under_fault
    );
    for line in wrong {
        let _ = writeln!(text, "  {}", line.replace('\n', "\n    "));
    }
    text
}

/// Writes all of a case where a person, or a later audit, can read it.
fn keep(swept: &Swept, point: &Point, case: &Case, wrong: &[String]) {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("faults");
    std::fs::create_dir_all(&folder).unwrap();
    let journey = swept.situation.journey.as_str();
    let trace: Vec<String> = case.trace.lines().iter().map(ToString::to_string).collect();
    let kept = serde_json::json!({
        "point": point.to_string(), "wrong": wrong, "ends": case.history.ends,
        "failures": case.history.failures().collect::<Vec<_>>(),
        "trace": trace, "files": case.files,
        "placement": {"before": swept.situation.before, "then": case.then, "end": case.end},
    });
    let name = format!("{journey}-{}.json", point.to_string().replace(':', "-"));
    std::fs::write(
        folder.join(name),
        serde_json::to_string_pretty(&kept).unwrap(),
    )
    .unwrap();
}

/// Runs every case on every processor.
fn all<T: Send>(cases: &[T], work: impl Fn(&T) + Sync)
where
    T: Sync,
{
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(2, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(case);
                }
            });
        }
    });
}

fn asked_for() -> Option<(Journey, Point)> {
    let text = std::env::var("BERTH_FAULT_AT").ok()?;
    let (journey, point) = text.split_once(':').expect("JOURNEY:crossing:NUMBER:...");
    let journey = Journey::ALL
        .into_iter()
        .find(|known| known.as_str() == journey);
    Some((
        journey.expect("a journey's name"),
        point.parse().expect("a point"),
    ))
}

#[test]
fn every_journey_fails_well_at_every_crossing() {
    let asked = asked_for();
    let rows = rows::read();
    let swept: Vec<Swept> = Journey::ALL.into_iter().map(Swept::of).collect();
    let mut cases = Vec::new();
    let mut findings: Vec<String> = Vec::new();
    for swept in &swept {
        let wrong = judge_clean(swept);
        if !wrong.is_empty() {
            findings.push(format!(
                "{}: {wrong:#?}\n{}",
                swept.situation.journey.as_str(),
                swept.clean.trace
            ));
        }
        for point in swept.clean.trace.points() {
            if asked.is_none_or(|asked| asked == (swept.situation.journey, point)) {
                cases.push((swept, point));
            }
        }
    }
    let (tally, failed) = (Mutex::new(Tally::new()), Mutex::new(Vec::new()));
    all(&cases, |(swept, point)| {
        let case = run(&swept.situation, Some(*point));
        let cell = Cell::of(swept.situation.journey, point, swept.crossing(point));
        let seen = Outcome::seen(&case, &swept.situation);
        *tally
            .lock()
            .unwrap()
            .entry(cell)
            .or_default()
            .entry(seen)
            .or_default() += 1;
        let wrong = judge(swept, &rows, point, &case);
        if !wrong.is_empty() || asked.is_some() {
            keep(swept, point, &case, &wrong);
        }
        if !wrong.is_empty() {
            let text = explain(swept, point, &case, &wrong);
            failed
                .lock()
                .unwrap()
                .push((swept.situation.journey, *point, text));
        }
    });
    let mut failed = failed.into_inner().unwrap();
    failed.sort();
    let count = failed.len();
    findings.extend(failed.into_iter().take(30).map(|(_, _, text)| text));
    let tally = tally.into_inner().unwrap();
    if asked.is_none() {
        findings.extend(crate::report::never_exercised(&rows, &tally));
    }
    println!("{} cases", cases.len());
    if std::env::var_os("BERTH_FAULT_TALLY").is_some() {
        println!("{}", crate::report::as_rows(&tally));
    }
    assert!(
        findings.is_empty(),
        "{count} of {} cases failed\n{}",
        cases.len(),
        findings.join("\n")
    );
    if asked.is_none() {
        crate::report::compare(&swept, &tally);
    }
}
