//! Checks that a persistent fault is visible while it lasts: in the log, in `STATUS=`, in `/healthz` and in a metric.
//! It must be visible in none of them after it is healed and the service has settled. The expectations in
//! `visibility.toml` were written first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Mutex;

use berth_fault_injection::{EffectPhase, Fault};

use berth_tests::sample::one_of;

use crate::rows::kind;
use crate::scenarios::{FaultScenario, Situation};
use crate::sweep::on_all_processors;
use crate::watched::{PersistentFault, UnitObservation, WatchedRun, watch};

/// One of so many lasting faults is watched.
const CELLS: usize = one_of(13);

/// Where a fault is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum VisibilityChannel {
    Log,
    Status,
    Health,
    Metric,
}

impl VisibilityChannel {
    const ALL: [VisibilityChannel; 4] = [
        VisibilityChannel::Log,
        VisibilityChannel::Status,
        VisibilityChannel::Health,
        VisibilityChannel::Metric,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            VisibilityChannel::Log => "log",
            VisibilityChannel::Status => "status",
            VisibilityChannel::Health => "health",
            VisibilityChannel::Metric => "metric",
        }
    }
}

/// The visibility of a fault, as a word of `visibility.toml`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum FaultVisibility {
    /// Nothing was delayed, held or refused, and all looked as without it.
    Borne,
    /// The process gave no sign of life, and the service manager killed it.
    Killed,
    /// In all four places.
    Shown,
    /// In all four places, and in some for good: what it led to is true until a person looks.
    ShownForGood,
    /// The process ended with this code, with the reason in the log and in its last `STATUS=`.
    Ends(u8),
    /// In these places only.
    Only(BTreeSet<VisibilityChannel>),
    /// It ended with this code, and the reason is in these places only.
    EndsIn(u8, BTreeSet<VisibilityChannel>),
}

impl fmt::Display for FaultVisibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = |places: &BTreeSet<VisibilityChannel>| {
            let words: Vec<_> = places.iter().map(|place| place.as_str()).collect();
            words.join(", ")
        };
        match self {
            FaultVisibility::Borne => f.write_str("borne"),
            FaultVisibility::Killed => f.write_str("killed"),
            FaultVisibility::Shown => f.write_str("shown"),
            FaultVisibility::ShownForGood => f.write_str("shown for good"),
            FaultVisibility::Ends(code) => write!(f, "ends {code}"),
            FaultVisibility::Only(places) => write!(f, "only {}", words(places)),
            FaultVisibility::EndsIn(code, places) => {
                write!(f, "ends {code}, only {}", words(places))
            }
        }
    }
}

impl FaultVisibility {
    /// What the looks have that those of a run without a fault have not.
    fn of(watched: &WatchedRun, clean: &WatchedRun) -> Self {
        let places = places(&watched.under_fault, clean);
        match watched.ends.first() {
            Some((code, _))
                if places.contains(&VisibilityChannel::Log)
                    && places.contains(&VisibilityChannel::Status) =>
            {
                FaultVisibility::Ends(*code)
            }
            Some((code, _)) => FaultVisibility::EndsIn(*code, places),
            None if places.is_empty() && watched.silenced > 0 => FaultVisibility::Killed,
            None if places.is_empty() => FaultVisibility::Borne,
            None if places.len() == VisibilityChannel::ALL.len()
                && left_over(watched, clean).is_empty() =>
            {
                FaultVisibility::Shown
            }
            None if places.len() == VisibilityChannel::ALL.len() => FaultVisibility::ShownForGood,
            None => FaultVisibility::Only(places),
        }
    }
}

fn places(observations: &[UnitObservation], clean: &WatchedRun) -> BTreeSet<VisibilityChannel> {
    let usual = &clean.under_fault;
    let is_new = |place: &VisibilityChannel| {
        observations.iter().any(|observation| match place {
            VisibilityChannel::Log => !observation
                .log
                .is_subset(&all(usual, |observation| &observation.log)),
            VisibilityChannel::Status => {
                !observation.status.is_empty()
                    && usual.iter().all(|usual| usual.status != observation.status)
            }
            VisibilityChannel::Health => !observation
                .findings
                .is_subset(&all(usual, |observation| &observation.findings)),
            VisibilityChannel::Metric => {
                let more = |usual: &UnitObservation| {
                    (0..2).any(|n| observation.counted[n] > usual.counted[n])
                };
                usual.iter().all(more)
            }
        })
    };
    VisibilityChannel::ALL.into_iter().filter(is_new).collect()
}

fn all<'a>(
    observations: &'a [UnitObservation],
    of: impl Fn(&'a UnitObservation) -> &'a BTreeSet<String>,
) -> BTreeSet<String> {
    observations.iter().flat_map(of).cloned().collect()
}

/// What is still seen when all is healed.
fn left_over(watched: &WatchedRun, clean: &WatchedRun) -> Vec<String> {
    let (Some(now), Some(usual)) = (&watched.settled, &clean.settled) else {
        return vec!["it did not settle when all was healed".to_owned()];
    };
    let mut left = Vec::new();
    if now.status != usual.status {
        left.push(format!("STATUS is still {:?}", now.status));
    }
    if now.findings != usual.findings {
        left.push(format!("health still shows {:?}", now.findings));
    }
    left
}

type Words = BTreeMap<String, BTreeMap<String, BTreeMap<String, String>>>;

/// The visibility and the problems, by scenario, fault and kind.
type VisibilityProblems<'a> = BTreeMap<(FaultScenario, String, &'a str), (String, Vec<String>)>;

/// The faults that can persist, at each kind of effect of a scenario. A killed process reports nothing.
fn lasting(clean: &WatchedRun) -> BTreeSet<PersistentFault> {
    let mut lasting = BTreeMap::new();
    for crossing in &clean.crossings {
        for moment in [EffectPhase::Before, EffectPhase::After] {
            for fault in Fault::applying(crossing, moment) {
                let kind = kind(crossing);
                let one = PersistentFault {
                    fault,
                    kind,
                    moment,
                };
                lasting.entry((fault, kind)).or_insert(one);
            }
        }
    }
    let mut lasting: BTreeSet<PersistentFault> = lasting.into_values().collect();
    lasting.retain(|one| !matches!(one.fault, Fault::Kill | Fault::PowerCut));
    lasting
}

fn situation(scenario: FaultScenario) -> Situation {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(Situation::of(scenario))
}

#[test]
fn a_persistent_fault_is_visible_in_log_status_health_and_metric_until_it_is_healed() {
    let words: Words = toml::from_str(include_str!("visibility.toml")).unwrap();
    let watched: Vec<_> = FaultScenario::ALL
        .into_iter()
        .map(|scenario| {
            let situation = situation(scenario);
            let clean = watch(&situation, None);
            (situation, clean)
        })
        .collect();
    let cells: Vec<_> = watched
        .iter()
        .flat_map(|(situation, clean)| {
            lasting(clean)
                .into_iter()
                .map(move |lasting| (situation, clean, lasting))
        })
        .step_by(CELLS)
        .collect();
    let found: Mutex<VisibilityProblems<'_>> = Mutex::default();
    on_all_processors(&cells, |(situation, clean, lasting)| {
        let seen = watch(situation, Some(*lasting));
        let mut wrong = left_over(&seen, clean);
        if seen.struck == 0 {
            wrong.push("the fault struck nowhere".to_owned());
        }
        let cell = (
            situation.journey,
            format!("{} {}", lasting.fault.row(), lasting.fault),
            lasting.kind,
        );
        let word = FaultVisibility::of(&seen, clean);
        if word == FaultVisibility::ShownForGood && seen.settled.is_some() {
            wrong.clear();
        }
        let word = word.to_string();
        let mut found = found.lock().unwrap();
        found.insert(cell, (word, wrong));
    });
    let found = found.into_inner().unwrap();
    if std::env::var_os("BERTH_FAULT_TALLY").is_some() {
        let mut before = None;
        for ((scenario, fault, kind), (word, _)) in &found {
            let table = format!("[{}.\"{fault}\"]", scenario.as_str());
            if before.as_ref() != Some(&table) {
                println!("{table}");
                before = Some(table);
            }
            println!("{kind} = \"{word}\"");
        }
    }
    let mut wrong = Vec::new();
    let mut written = 0;
    for ((scenario, fault, kind), (word, left)) in &found {
        let cell = format!("[{}.\"{fault}\"] {kind}", scenario.as_str());
        let expected = words
            .get(scenario.as_str())
            .and_then(|faults| faults.get(fault)?.get(*kind));
        written += usize::from(expected.is_some());
        if expected != Some(word) {
            wrong.push(format!(
                "{cell} is {expected:?} in visibility.toml and was {word:?}"
            ));
        }
        wrong.extend(left.iter().map(|left| format!("{cell}: {left}")));
    }
    let listed: usize = words
        .values()
        .flat_map(BTreeMap::values)
        .map(BTreeMap::len)
        .sum();
    if CELLS == 1 {
        assert_eq!(
            listed, written,
            "visibility.toml lists cells of no scenario"
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A run that everybody saw.
fn seen_by_all() -> (WatchedRun, WatchedRun) {
    let situation = situation(FaultScenario::StartupReshape);
    let refused = PersistentFault {
        fault: Fault::ConnectionRefused,
        kind: "read",
        moment: EffectPhase::Before,
    };
    let clean = watch(&situation, None);
    let seen = watch(&situation, Some(refused));
    assert_eq!(FaultVisibility::of(&seen, &clean), FaultVisibility::Shown);
    assert_eq!(left_over(&seen, &clean), Vec::<String>::new());
    (seen, clean)
}

#[test]
fn an_agent_that_omits_one_of_the_four_reports_is_caught() {
    let (seen, clean) = seen_by_all();
    for place in VisibilityChannel::ALL {
        let mut silent = seen.clone();
        for observation in &mut silent.under_fault {
            let usual = clean.settled.clone().unwrap();
            match place {
                VisibilityChannel::Log => observation.log.clear(),
                VisibilityChannel::Status => observation.status = usual.status,
                VisibilityChannel::Health => observation.findings = usual.findings,
                VisibilityChannel::Metric => observation.counted = usual.counted,
            }
        }
        let others = VisibilityChannel::ALL
            .into_iter()
            .filter(|other| *other != place);
        assert_eq!(
            FaultVisibility::of(&silent, &clean),
            FaultVisibility::Only(others.collect())
        );
    }
}

#[test]
fn an_agent_that_keeps_complaining_or_never_settles_is_caught() {
    let (seen, clean) = seen_by_all();
    let mut complains = seen.clone();
    let trouble = seen
        .under_fault
        .iter()
        .find(|observation| observation.has_errors);
    complains.settled = trouble.cloned();
    assert_eq!(left_over(&complains, &clean).len(), 2);
    assert_eq!(
        FaultVisibility::of(&complains, &clean),
        FaultVisibility::ShownForGood
    );
    let mut restless = seen;
    restless.settled = None;
    assert_eq!(left_over(&restless, &clean).len(), 1);
}
