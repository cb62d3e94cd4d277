//! One run per journey, crossing, side and fault.

use std::collections::BTreeMap;
use std::sync::Mutex;

use berth_model::ProviderTree;
use berth_seam::Fault;
use berth_tests::guest_cloud::{Crossed, GuestCloud, Point};

use super::journeys::{Journey, Outcome};
use super::rows::{self, Rows, kind};
use crate::sweep::on_all_processors;

/// The faults of the sweep: an answer lost before and after its effect, refusals, a time limit, a full disk, a kill.
pub(super) const FAULTS: [Fault; 9] = [
    Fault::ConnectionRefused,
    Fault::AnswerLost,
    Fault::InternalError,
    Fault::Conflict,
    Fault::Twice,
    Fault::Late,
    Fault::InputOutput,
    Fault::DiskFull,
    Fault::Kill,
];

/// Of how many points one is run where nothing is said (`BERTH_GUEST_FAULTS=1`: every one).
const ONE_OF: usize = 12;

/// A runtime whose clock is paused.
pub(super) fn virtually<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(tokio::task::LocalSet::new().run_until(future))
}

/// The same in real time.
fn really<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(tokio::task::LocalSet::new().run_until(future))
}

/// What a journey crosses, and what Placement has of the node afterwards.
struct Clean {
    crossed: Vec<Crossed>,
    tree: Option<ProviderTree>,
}

/// A journey without a fault.
async fn clean(cloud: &GuestCloud, journey: Journey) -> Clean {
    journey.scene(cloud).await;
    cloud.crossings.arm(&[]);
    let outcome = journey.run(cloud).await;
    let crossed = cloud.crossings.history();
    cloud.crossings.heal();
    let wrong = cloud.rests(None).await;
    assert!(wrong.is_empty(), "{}: {wrong:#?}", journey.as_str());
    assert_eq!(outcome, Outcome::Done, "{}", journey.as_str());
    let tree = cloud.tree().await;
    let wrong = Journey::clear(cloud).await;
    assert!(wrong.is_empty(), "after {}: {wrong:#?}", journey.as_str());
    Clean { crossed, tree }
}

/// A journey with a fault; how it ended, and what is wrong.
async fn failed(
    cloud: &GuestCloud,
    journey: Journey,
    clean: &Clean,
    point: &Point,
) -> (Outcome, Vec<String>) {
    journey.scene(cloud).await;
    cloud.crossings.arm(std::slice::from_ref(point));
    let outcome = journey.run(cloud).await;
    let struck = cloud.crossings.struck();
    cloud.crossings.heal();
    let expected = match outcome {
        Outcome::Done => clean.tree.as_ref(),
        _ => None,
    };
    let mut wrong = cloud.rests(expected).await;
    if struck.is_empty() {
        wrong.push("the fault did not strike".to_owned());
    }
    let left = Journey::clear(cloud).await;
    wrong.extend(left.into_iter().map(|line| format!("afterwards: {line}")));
    (outcome, wrong)
}

#[derive(Default)]
struct Findings {
    cases: usize,
    tally: BTreeMap<(Journey, Fault, &'static str), BTreeMap<Outcome, usize>>,
    wrong: Vec<String>,
}

fn one_of() -> usize {
    match std::env::var("BERTH_GUEST_FAULTS") {
        Err(_) => ONE_OF,
        Ok(text) => text.parse().expect("BERTH_GUEST_FAULTS is a number"),
    }
}

fn swept(journey: Journey, rows: &Rows, findings: &Mutex<Findings>) {
    virtually(async {
        let mut cloud = GuestCloud::new().await;
        let clean = clean(&cloud, journey).await;
        let asked = std::env::var("BERTH_GUEST_FAULT_AT").ok();
        let points = clean.crossed.iter().flat_map(|crossed| {
            let points = crossed.points(&FAULTS);
            points.map(move |point| (kind(crossed), point))
        });
        let chosen = points.enumerate().filter(|(at, (_, point))| match &asked {
            Some(text) => *text == point.to_string(),
            None => at % one_of() == journey as usize % one_of(),
        });
        for (_, (kind, point)) in chosen {
            let (outcome, wrong) = failed(&cloud, journey, &clean, &point).await;
            let allowed = rows.get(&(journey, point.fault, kind.to_owned()));
            let is_clean = wrong.is_empty();
            {
                let mut findings = findings.lock().unwrap();
                findings.cases += 1;
                let cell = findings.tally.entry((journey, point.fault, kind));
                *cell.or_default().entry(outcome).or_default() += 1;
                let name = journey.as_str();
                if !allowed.is_some_and(|allowed| allowed.contains(&outcome)) {
                    let (fault, outcome) = (point.fault, outcome.as_str());
                    findings.wrong.push(format!(
                        "{name} at {point}: guests.toml does not say that {fault} at {kind} is {outcome}"
                    ));
                }
                if !is_clean {
                    findings
                        .wrong
                        .push(format!("{name} at {point}: {wrong:#?}"));
                }
            }
            if !is_clean {
                // What is left must not be the next one's.
                cloud.end();
                cloud = GuestCloud::new().await;
            }
        }
        cloud.end();
    });
}

#[test]
fn boot_and_delete_cross_their_seams_and_leave_nothing() {
    really(async {
        let cloud = GuestCloud::new().await;
        for journey in [Journey::Boot, Journey::Delete] {
            let clean = clean(&cloud, journey).await;
            let crossings = clean.crossed.len();
            assert!(
                crossings > 30,
                "{}: {crossings} crossings",
                journey.as_str()
            );
        }
        cloud.end();
    });
}

#[test]
#[ignore = "on demand: cargo test -p berth-tests --test fault every_journey_of_a_guest -- --ignored"]
fn every_journey_of_a_guest_fails_well_at_every_crossing() {
    let (rows, findings) = (rows::read(), Mutex::new(Findings::default()));
    let only = std::env::var("BERTH_GUEST_JOURNEY").ok();
    let journeys: Vec<Journey> = Journey::ALL
        .into_iter()
        .filter(|journey| only.as_deref().is_none_or(|it| it == journey.as_str()))
        .collect();
    on_all_processors(&journeys, |journey| swept(*journey, &rows, &findings));
    let findings = findings.into_inner().unwrap();
    let count = findings.wrong.len();
    let first: Vec<_> = findings.wrong.into_iter().take(30).collect();
    println!("{} cases, {:#?}", findings.cases, findings.tally);
    assert!(
        count == 0,
        "{count} of {} cases: {}",
        findings.cases,
        first.join("\n")
    );
}
