//! The guest sweep: one run per scenario, effect, side and fault; and per pair of faults, with the second one in the
//! recovery from the first.
//!
//! `make test` runs one case of [`ONE_OF`], and after each kill of a server's scenario among them another one somewhere in the
//! recovery. The complete sweep and all pairs are run by `make soak`:
//!
//! - `BERTH_GUEST_FAULTS=1`: every case; `N`: one of N, from the `BERTH_GUEST_FROM`th on.
//! - `BERTH_GUEST_PAIRS=N`: after each of these, whatever the first fault, a kill at one of N effects of the recovery, each side;
//!   with `BERTH_GUEST_PAIR_FAULTS=all` also each further applicable fault.
//! - `BLESS=1 BERTH_GUEST_FAULTS=1` writes the page, with `BERTH_GUEST_JOURNEY` only that scenario's part of it.
//! - `BERTH_GUEST_FIRST=hang,kill`: only these faults as the first one.
//! - `BERTH_FAULT_PART=N/M`: the Nth of M parts of either.
//! - `BERTH_GUEST_JOURNEY=boot`, `BERTH_GUEST_FAULT_AT='POINT'` or `'POINT + POINT'`: that scenario, that case.

use std::collections::BTreeMap;
use std::sync::Mutex;

use berth_fault_injection::{Fault, FaultRepetition};
use berth_model::ProviderTree;
use berth_tests::guest_cloud::{CloudFaultPoint, GuestCloud, RecordedEffect};

use super::report::{self, CleanGuestRun, OutcomeTally};
use super::rows::{self, FaultStrike, Rows, kind};
use super::scenarios::{GuestOutcome, GuestScenario};
use crate::sweep::{SweepPart, on_all_processors};

/// The faults of the sweep: an answer lost before and after its effect; an outdated, a corrupt or an endless answer;
/// refusals; a conflict (once and forever); a time limit; a hang; a full disk; a kill; a power cut; a clock jump.
pub(super) const FAULTS: [Fault; 20] = [
    Fault::ConnectionRefused,
    Fault::AnswerLost,
    Fault::InternalError,
    Fault::Conflict,
    Fault::Unauthorized,
    Fault::Forbidden,
    Fault::BadRequest,
    Fault::Twice,
    Fault::Late,
    Fault::Stale,
    Fault::Truncated,
    Fault::WrongBody,
    Fault::EndlessBody,
    Fault::InputOutput,
    Fault::DiskFull,
    Fault::Kill,
    Fault::Hang,
    Fault::PowerCut,
    Fault::ClockForward,
    Fault::ClockBackward,
];

/// The default: one of this number of cases is run.
const ONE_OF: usize = 96;
/// Of how many cases one may be without its fault.
const MISSED_ONE_OF: usize = 4;
/// How many cases share a cloud.
const AT_A_TIME: usize = 8;

/// Runs a future on a runtime with a paused clock.
pub(super) fn virtually<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    // The tasks hold databases, which are closed inside a runtime.
    let _inside = runtime.enter();
    let tasks = tokio::task::LocalSet::new();
    runtime.block_on(tasks.run_until(future))
}

/// Runs a scenario without a fault, on a fresh cloud.
async fn clean(scenario: GuestScenario) -> CleanGuestRun {
    let cloud = scenario.cloud().await;
    scenario.scene(&cloud).await;
    cloud.effects.arm(&[]);
    let outcome = scenario.run(&cloud).await;
    let crossed = cloud.effects.history();
    cloud.effects.heal();
    let wrong = cloud.rests(None).await;
    assert!(wrong.is_empty(), "{}: {wrong:#?}", scenario.as_str());
    assert_eq!(outcome, GuestOutcome::Done, "{}", scenario.as_str());
    let tree = cloud.tree().await;
    let wrong = scenario.clear(&cloud).await;
    assert!(wrong.is_empty(), "after {}: {wrong:#?}", scenario.as_str());
    cloud.end();
    CleanGuestRun {
        scenario,
        crossed,
        tree,
    }
}

/// The result of a scenario with faults.
struct FailedRun {
    outcome: GuestOutcome,
    /// How many faults struck.
    struck: usize,
    recovery: Vec<RecordedEffect>,
    wrong: Vec<String>,
}

/// Says which cases were run where one ends in a panic: the one before it may be to blame.
#[derive(Default)]
struct CaseReporter {
    before: String,
    now: String,
}

impl CaseReporter {
    fn begins(&mut self, scenario: GuestScenario, case: &[CloudFaultPoint]) {
        let at: Vec<String> = case.iter().map(ToString::to_string).collect();
        let now = format!("{} at {}", scenario.as_str(), at.join(" + "));
        self.before = std::mem::replace(&mut self.now, now);
    }
}

impl Drop for CaseReporter {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("in {}\nafter {}", self.now, self.before);
        }
    }
}

async fn failed(
    cloud: &GuestCloud,
    scenario: GuestScenario,
    tree: Option<&ProviderTree>,
    points: &[CloudFaultPoint],
) -> FailedRun {
    scenario.scene(cloud).await;
    cloud.effects.arm(points);
    let outcome = scenario.run(cloud).await;
    let struck = cloud.effects.struck().len();
    let recovery = cloud.effects.recovery();
    cloud.effects.heal();
    let expected = tree.filter(|_| outcome == GuestOutcome::Done);
    let mut wrong = cloud.rests(expected).await;
    let left = scenario.clear(cloud).await;
    wrong.extend(left.into_iter().map(|line| format!("afterwards: {line}")));
    FailedRun {
        outcome,
        struck,
        recovery,
        wrong,
    }
}

#[derive(Default)]
struct GuestSweepFindings {
    cases: usize,
    /// Cases with an effect that did not occur again: polls and caches differ between runs.
    missed: usize,
    tally: OutcomeTally,
    wrong: Vec<String>,
}

/// The selection in the environment.
struct SweepSelection {
    one_of: usize,
    from: usize,
    pairs: Option<usize>,
    /// Whether each kill of a server's scenario is followed by another one, somewhere in the recovery.
    samples_pairs: bool,
    first: Vec<Fault>,
    second: &'static [Fault],
    part: SweepPart,
    scenario: Option<String>,
    at: Option<String>,
}

fn number(name: &str) -> Option<usize> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a number")),
    )
}

impl SweepSelection {
    fn read() -> Self {
        let at = std::env::var("BERTH_GUEST_FAULT_AT").ok();
        let of = if at.is_some() { 1 } else { ONE_OF };
        let one_of = number("BERTH_GUEST_FAULTS");
        Self {
            one_of: one_of.unwrap_or(of).max(1),
            samples_pairs: one_of.is_none() && at.is_none(),
            from: number("BERTH_GUEST_FROM").unwrap_or(0),
            pairs: number("BERTH_GUEST_PAIRS"),
            first: match std::env::var("BERTH_GUEST_FIRST") {
                Err(_) => FAULTS.to_vec(),
                Ok(names) => {
                    let faults = names.split(',').map(str::parse);
                    let faults: Result<_, _> = faults.collect();
                    faults.unwrap_or_else(|error| panic!("BERTH_GUEST_FIRST: {error}"))
                }
            },
            second: match std::env::var("BERTH_GUEST_PAIR_FAULTS").as_deref() {
                Err(_) | Ok("kill") => &[Fault::Kill],
                Ok("all") => &FAULTS,
                Ok(other) => panic!("BERTH_GUEST_PAIR_FAULTS is kill or all, not {other}"),
            },
            part: SweepPart::asked_for(),
            scenario: std::env::var("BERTH_GUEST_JOURNEY").ok(),
            at,
        }
    }

    /// Whether each case is run once, for all scenarios or for the selected one.
    fn is_whole(&self) -> bool {
        let all = self.at.is_none() && self.part == SweepPart::WHOLE;
        all && self.one_of == 1 && self.pairs.is_none() && self.first == FAULTS
    }

    /// The first points that are run.
    fn firsts<'a>(
        &'a self,
        swept: &'a [CleanGuestRun],
    ) -> Vec<(&'a CleanGuestRun, &'static str, CloudFaultPoint)> {
        let at = self.at.as_deref();
        let first = at.map(|text| text.split(" + ").next().unwrap_or_default());
        let all = swept.iter().flat_map(|swept| {
            let crossed = swept.crossed.iter();
            crossed.flat_map(move |crossed| {
                let points = crossed.points(&self.first);
                points.map(move |point| (swept, kind(crossed), point))
            })
        });
        let chosen = all.enumerate().filter(|(n, (_, _, point))| match first {
            Some(text) => point.to_string() == text,
            None => n % self.one_of == self.from % self.one_of,
        });
        self.part.take(chosen.map(|(_, case)| case))
    }

    /// The second points after one, in the recovery from it.
    fn seconds(
        &self,
        scenario: GuestScenario,
        first: &CloudFaultPoint,
        recovery: &[RecordedEffect],
    ) -> Vec<CloudFaultPoint> {
        let faults = match self.at {
            Some(_) => &FAULTS,
            None => self.second,
        };
        let points = |crossed: &RecordedEffect| crossed.points(faults).collect::<Vec<_>>();
        // A permanent fault has no recovery before it is healed.
        let is_over = first.repetition == FaultRepetition::Once;
        let later = recovery.iter().filter(|_| is_over).flat_map(points);
        if let Some((_, second)) = self.at.as_ref().and_then(|text| text.split_once(" + ")) {
            return later.filter(|it| it.to_string() == second).collect();
        }
        let Some(one_of) = self.pairs else {
            let is_sampled =
                self.samples_pairs && scenario.is_of_servers() && first.fault == Fault::Kill;
            let later: Vec<CloudFaultPoint> = later.filter(|_| is_sampled).collect();
            // Somewhere else after each first point, and at the same place in each run.
            let n = first.nth * 31 + first.to_string().len() * 7;
            let one = later.get(n % later.len().max(1));
            return one.into_iter().cloned().collect();
        };
        // Which of them differs from one first point to the next.
        later
            .skip(first.nth % one_of.max(1))
            .step_by(one_of.max(1))
            .collect()
    }
}

/// Runs some cases on one cloud, and on another after each that left something.
fn swept(
    cases: &[(&CleanGuestRun, &'static str, CloudFaultPoint)],
    asked: &SweepSelection,
    rows: &Rows,
    all: &Mutex<GuestSweepFindings>,
) {
    virtually(async {
        let Some((first_of_all, ..)) = cases.first() else {
            return;
        };
        let mut cloud = first_of_all.scenario.cloud().await;
        let mut reported = CaseReporter::default();
        let mut is_of_servers = first_of_all.scenario.is_of_servers();
        for (swept, kind, first) in cases {
            if is_of_servers != swept.scenario.is_of_servers() {
                is_of_servers = swept.scenario.is_of_servers();
                cloud.end();
                cloud = swept.scenario.cloud().await;
            }
            let mut points = vec![vec![first.clone()]];
            while let Some(case) = points.pop() {
                reported.begins(swept.scenario, &case);
                let tree = swept.tree.as_ref();
                let mut run = failed(&cloud, swept.scenario, tree, &case).await;
                if run.struck < case.len() && run.wrong.is_empty() {
                    // An agent's observations depend on the age of its cache. On a fresh cloud they equal those of the
                    // clean run.
                    cloud.end();
                    cloud = swept.scenario.cloud().await;
                    run = failed(&cloud, swept.scenario, tree, &case).await;
                }
                let failed = run;
                if case.len() == 1 {
                    let seconds = asked.seconds(swept.scenario, first, &failed.recovery);
                    let seconds = seconds.into_iter();
                    points.extend(seconds.map(|second| vec![first.clone(), second]));
                }
                if !failed.wrong.is_empty() {
                    // What is left must not be the next one's.
                    cloud.end();
                    cloud = swept.scenario.cloud().await;
                }
                all.lock()
                    .unwrap()
                    .count(swept.scenario, kind, &case, failed, rows);
            }
        }
        cloud.end();
    });
}

impl GuestSweepFindings {
    fn count(
        &mut self,
        scenario: GuestScenario,
        kind: &'static str,
        case: &[CloudFaultPoint],
        failed: FailedRun,
        rows: &Rows,
    ) {
        let (strike, outcome) = (FaultStrike::of(&case[0]), failed.outcome);
        self.missed += usize::from(failed.struck < case.len());
        let mut wrong = failed.wrong;
        // With two faults the client may get the error of either; a kill gives no error.
        let is_reported = case.iter().skip(1).all(|point| point.fault == Fault::Kill);
        let allowed = rows.get(&(scenario, strike, kind.to_owned()));
        if is_reported && !allowed.is_some_and(|allowed| allowed.contains(&outcome)) {
            let outcome = outcome.as_str();
            wrong.push(format!(
                "guests.toml does not say that {strike} at {kind} is {outcome}"
            ));
        }
        self.cases += 1;
        if case.len() == 1 {
            let cell = self.tally.entry((scenario, strike, kind));
            *cell.or_default().entry(outcome).or_default() += 1;
        }
        if self.cases.is_multiple_of(500) {
            println!(
                "so far {}, of which {} failed",
                self.cases,
                self.wrong.len()
            );
        }
        if !wrong.is_empty() {
            let at: Vec<String> = case.iter().map(ToString::to_string).collect();
            let text = format!("{} at {}: {wrong:#?}", scenario.as_str(), at.join(" + "));
            println!("{text}");
            self.wrong.push(text);
        }
    }
}

/// Runs the selection; returns the scenarios without a fault, and how often each outcome followed each fault.
fn sweep(asked: &SweepSelection) -> (Vec<CleanGuestRun>, OutcomeTally) {
    let rows = rows::read();
    let scenarios: Vec<GuestScenario> = GuestScenario::ALL
        .into_iter()
        .filter(|it| {
            asked
                .scenario
                .as_deref()
                .is_none_or(|name| name == it.as_str())
        })
        .collect();
    // The first clouds are made, all others begin with what they came to.
    virtually(async { GuestCloud::new().await.end() });
    virtually(async { GuestCloud::with_api().await.end() });
    let cleans = Mutex::new(BTreeMap::new());
    on_all_processors(&scenarios, |scenario| {
        let swept = virtually(clean(*scenario));
        cleans.lock().unwrap().insert(*scenario, swept);
    });
    let cleans: Vec<CleanGuestRun> = cleans.into_inner().unwrap().into_values().collect();
    let firsts = asked.firsts(&cleans);
    println!(
        "one case of {} from number {}: BERTH_GUEST_FAULTS, BERTH_GUEST_FROM",
        asked.one_of, asked.from
    );
    let findings = Mutex::new(GuestSweepFindings::default());
    let at_a_time = match asked.pairs {
        Some(_) => 1,
        None => AT_A_TIME,
    };
    let parts: Vec<_> = firsts.chunks(at_a_time).collect();
    on_all_processors(&parts, |cases| swept(cases, asked, &rows, &findings));
    let findings = findings.into_inner().unwrap();
    println!("{} cases", findings.cases);
    println!("{} of them did not reach their effect", findings.missed);
    assert!(
        findings.missed * MISSED_ONE_OF <= findings.cases,
        "too few faults struck"
    );
    let count = findings.wrong.len();
    let first: Vec<_> = findings.wrong.into_iter().take(30).collect();
    assert!(
        count == 0,
        "{count} of {} cases: {}",
        findings.cases,
        first.join("\n")
    );
    (cleans, findings.tally)
}

#[test]
fn every_scenario_of_a_guest_fails_well_at_its_effects() {
    let asked = SweepSelection::read();
    let (cleans, tally) = sweep(&asked);
    let is_blessed = asked.is_whole() && std::env::var_os("BLESS").is_some();
    match (is_blessed, asked.scenario.is_some()) {
        (true, false) => report::write(&cleans, &tally),
        (true, true) => cleans
            .iter()
            .for_each(|swept| report::write_scenario(swept, &tally)),
        (false, _) => report::compare(&tally),
    }
}
