//! The node sweep: one run per scenario, effect, side and fault; and a second kill during the recovery from each kill.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use berth_fault_injection::{
    Effect, EffectPhase, Fault, FaultRepetition, GateDecision, InjectionPoint, Trace,
};
use berth_model::SeededRng;
use berth_tests::sample::one_of;

use crate::case::{Case, run};
use crate::judge;
use crate::regressions;
use crate::report;
use crate::rows::{self, Cell, FaultOutcome};
use crate::scenarios::{FaultScenario, Situation};

/// How many cases of each cell ended how.
pub(crate) type CellTally = BTreeMap<Cell, BTreeMap<FaultOutcome, usize>>;

/// A scenario with its clean run.
pub(crate) struct CleanRun {
    pub(crate) situation: Situation,
    pub(crate) clean: Case,
}

impl CleanRun {
    pub(crate) fn of(journey: FaultScenario) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let situation = runtime.block_on(Situation::of(journey));
        let clean = run(&situation, &[]);
        Self { situation, clean }
    }

    /// The effect of a point of the clean run's trace.
    pub(crate) fn crossing(&self, point: &InjectionPoint) -> &Effect {
        let mut lines = self.clean.trace.lines().iter();
        let line = lines.find(|line| line.number == point.number);
        &line.expect("points come from this trace").effect
    }
}

/// Which pairs of faults are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PairSelection {
    /// After each kill one more, somewhere in the recovery.
    SampledKills,
    /// After each kill a second one at every effect of the recovery (`BERTH_FAULT_PAIRS=kill`).
    EveryKill,
    /// After each fault every fault at every later effect (`BERTH_FAULT_PAIRS=all`), which takes a night.
    Everything,
}

impl PairSelection {
    fn asked_for() -> Self {
        match std::env::var("BERTH_FAULT_PAIRS").as_deref() {
            Err(_) => Self::SampledKills,
            Ok("kill") => Self::EveryKill,
            Ok("all") => Self::Everything,
            Ok(other) => panic!("BERTH_FAULT_PAIRS is kill or all, not {other}"),
        }
    }

    /// The second points after a run that failed at the first.
    fn after(self, first: InjectionPoint, case: &Case) -> Vec<InjectionPoint> {
        let is_kill = |point: &InjectionPoint| {
            point.fault == Fault::Kill && point.repetition == FaultRepetition::Once
        };
        // Crossings that ran side by side with the first may have come to the gate before it struck.
        let mut recovery = Trace::default();
        let lines = case.trace.lines().iter();
        let since = lines.skip_while(|line| line.event.decision() == GateDecision::Proceed);
        since.skip(1).cloned().for_each(|line| recovery.push(line));
        let later = recovery.points();
        match self {
            Self::Everything => later,
            _ if !is_kill(&first) => Vec::new(),
            Self::EveryKill => later.into_iter().filter(is_kill).collect(),
            Self::SampledKills => {
                let later: Vec<InjectionPoint> = later.into_iter().filter(is_kill).collect();
                let side = u64::from(first.phase == EffectPhase::After);
                let seed = u64::try_from(first.number).unwrap_or(0) * 2 + side;
                let drawn = SeededRng::new(seed).below(later.len());
                later.get(drawn).copied().into_iter().collect()
            }
        }
    }
}

/// `BERTH_FAULT_PART=3/8`: of every eight points of the clean runs the third, with the second faults after them. All parts
/// together are the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SweepPart {
    number: usize,
    of: usize,
}

impl SweepPart {
    pub(crate) const WHOLE: SweepPart = SweepPart { number: 1, of: 1 };
    /// What `make test` runs.
    const SAMPLE: SweepPart = SweepPart {
        number: 1,
        of: one_of(8),
    };

    pub(crate) fn asked_for() -> Self {
        let is_page_written = std::env::var_os("BLESS").is_some();
        match std::env::var("BERTH_FAULT_PART") {
            Err(_) if is_page_written => Self::WHOLE,
            Err(_) => Self::SAMPLE,
            Ok(text) => Self::read(&text)
                .unwrap_or_else(|| panic!("BERTH_FAULT_PART is N/M, 1/8 for instance, not {text}")),
        }
    }

    fn read(text: &str) -> Option<Self> {
        let (number, of) = text.split_once('/')?;
        let (number, of) = (number.parse().ok()?, of.parse().ok()?);
        (1..=of).contains(&number).then_some(Self { number, of })
    }

    pub(crate) fn take<T>(self, all: impl Iterator<Item = T>) -> Vec<T> {
        all.skip(self.number - 1).step_by(self.of).collect()
    }
}

#[test]
fn the_parts_of_a_sweep_are_the_whole_and_each_case_is_in_one() {
    let mut together: Vec<usize> = (1..=8)
        .map(|number| SweepPart::read(&format!("{number}/8")).unwrap())
        .flat_map(|part| part.take(0..1001))
        .collect();
    together.sort_unstable();
    assert!(together.into_iter().eq(0..1001));
    assert_eq!(SweepPart::WHOLE.take(0..9).len(), 9);
    for bad in ["", "1", "0/8", "9/8", "1/0", "a/8", "1/b", "-1/8"] {
        assert_eq!(SweepPart::read(bad), None, "{bad}");
    }
}

/// What all cases came to.
#[derive(Default)]
struct SweepFindings {
    tally: CellTally,
    cases: usize,
    failed: Vec<(Vec<InjectionPoint>, String)>,
}

/// Runs a case, judges it, and counts it.
fn case(
    swept: &CleanRun,
    points: &[InjectionPoint],
    rows: &rows::Rows,
    findings: &Mutex<SweepFindings>,
) -> Case {
    let journey = swept.situation.journey;
    let case = run(&swept.situation, points);
    let crossing = swept.crossing(&points[0]);
    let cell = Cell::of(journey, points, crossing);
    let seen = FaultOutcome::seen(&case, &swept.situation);
    let wrong = judge::failed(swept, rows, points, &case);
    if !wrong.is_empty() || asked_for().is_some() {
        judge::keep(swept, points, &case, &wrong);
    }
    let mut findings = findings.lock().unwrap();
    findings.cases += 1;
    *findings
        .tally
        .entry(cell)
        .or_default()
        .entry(seen)
        .or_default() += 1;
    if !wrong.is_empty() {
        let text = judge::explain(swept, points, &case, &wrong);
        findings.failed.push((points.to_vec(), text));
    }
    drop(findings);
    case
}

/// A failure of the past; not counted among the cases.
fn replay(swept: &CleanRun, points: &[InjectionPoint], rows: &rows::Rows, wrong: &mut Vec<String>) {
    let case = run(&swept.situation, points);
    let found = judge::failed(swept, rows, points, &case);
    if !found.is_empty() {
        wrong.push(judge::explain(swept, points, &case, &found));
    }
}

/// Runs every item on every processor.
pub(crate) fn on_all_processors<T: Sync>(items: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(2, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(item);
                }
            });
        }
    });
}

/// `BERTH_FAULT_AT=SCENARIO:POINT[,POINT…]`: only that case.
fn asked_for() -> Option<(FaultScenario, Vec<InjectionPoint>)> {
    let text = std::env::var("BERTH_FAULT_AT").ok()?;
    let (name, points) = text.split_once(':').expect("SCENARIO:effect:NUMBER:...");
    let journey = FaultScenario::ALL
        .into_iter()
        .find(|known| known.as_str() == name);
    let points = points
        .split(',')
        .map(|point| point.parse().expect("a point"));
    Some((journey.expect("a scenario's name"), points.collect()))
}

/// Runs a scenario with every fault, or with the one that `BERTH_FAULT_AT` names, and compares its part of the page.
fn fails_well_at_every_effect(scenario: FaultScenario) {
    let (asked, pairs, rows) = (asked_for(), PairSelection::asked_for(), rows::read());
    let part = SweepPart::asked_for();
    let findings = Mutex::new(SweepFindings::default());
    if asked.as_ref().is_some_and(|(named, _)| *named != scenario) {
        return;
    }
    let swept = CleanRun::of(scenario);
    let mut wrong = judge::clean(&swept);
    if let Some((_, points)) = &asked {
        let case = case(&swept, points, &rows, &findings);
        println!("{}\n{:#?}", case.trace, case.history);
    } else {
        if part.number == 1 {
            for points in regressions::of(&swept) {
                replay(&swept, &points, &rows, &mut wrong);
            }
        }
        let firsts = part.take(swept.clean.trace.points().into_iter());
        on_all_processors(&firsts, |first| {
            let single = case(&swept, &[*first], &rows, &findings);
            for second in pairs.after(*first, &single) {
                case(&swept, &[*first, second], &rows, &findings);
            }
        });
    }
    let mut findings = findings.into_inner().unwrap();
    findings.failed.sort();
    let (count, cases) = (findings.failed.len(), findings.cases);
    let failed = findings.failed.into_iter().take(30);
    wrong.extend(failed.map(|(_, text)| text));
    let is_single = asked.is_none() && pairs == PairSelection::SampledKills;
    let is_whole = is_single && part == SweepPart::WHOLE;
    if is_whole {
        wrong.extend(report::never_exercised(scenario, &rows, &findings.tally));
    }
    println!("{cases} cases");
    if std::env::var_os("BERTH_FAULT_TALLY").is_some() {
        println!("{}", report::as_rows(&findings.tally));
    }
    assert!(
        wrong.is_empty(),
        "{count} of {cases} cases failed\n{}",
        wrong.join("\n")
    );
    if is_whole {
        report::compare(&swept, &findings.tally);
    } else if is_single {
        report::compare_sample(&swept, &findings.tally);
    }
}

#[test]
fn a_tick_fails_well_at_every_effect() {
    fails_well_at_every_effect(FaultScenario::Tick);
}

#[test]
fn a_reshape_at_the_start_fails_well_at_every_effect() {
    fails_well_at_every_effect(FaultScenario::StartupReshape);
}

#[test]
fn a_first_start_fails_well_at_every_effect() {
    fails_well_at_every_effect(FaultScenario::Greenfield);
}

#[test]
fn a_rename_fails_well_at_every_effect() {
    fails_well_at_every_effect(FaultScenario::Rename);
}

#[test]
fn link_groups_under_guests_fail_well_at_every_effect() {
    fails_well_at_every_effect(FaultScenario::LinkGroups);
}
