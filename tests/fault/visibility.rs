//! Whether a fault that lasts is seen: in the log, in `STATUS=`, in `/healthz` and in a metric while it lasts, and in none of
//! them when it is healed and the service has settled. What must be seen where is written first, in `visibility.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Mutex;

use berth_fault_injection::{EffectPhase, Fault};

use berth_tests::sample::one_of;

use crate::journeys::{Journey, Situation};
use crate::rows::kind;
use crate::sweep::on_all_processors;
use crate::watched::{Lasting, Look, Watched, watch};

/// One of so many lasting faults is watched.
const CELLS: usize = one_of(5);

/// Where a fault is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Log,
    Status,
    Health,
    Metric,
}

impl Place {
    const ALL: [Place; 4] = [Place::Log, Place::Status, Place::Health, Place::Metric];

    const fn as_str(self) -> &'static str {
        match self {
            Place::Log => "log",
            Place::Status => "status",
            Place::Health => "health",
            Place::Metric => "metric",
        }
    }
}

/// What was seen of a fault, as a word of `visibility.toml`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
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
    Only(BTreeSet<Place>),
    /// It ended with this code, and the reason is in these places only.
    EndsIn(u8, BTreeSet<Place>),
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = |places: &BTreeSet<Place>| {
            let words: Vec<_> = places.iter().map(|place| place.as_str()).collect();
            words.join(", ")
        };
        match self {
            Seen::Borne => f.write_str("borne"),
            Seen::Killed => f.write_str("killed"),
            Seen::Shown => f.write_str("shown"),
            Seen::ShownForGood => f.write_str("shown for good"),
            Seen::Ends(code) => write!(f, "ends {code}"),
            Seen::Only(places) => write!(f, "only {}", words(places)),
            Seen::EndsIn(code, places) => write!(f, "ends {code}, only {}", words(places)),
        }
    }
}

impl Seen {
    /// What the looks have that those of a run without a fault have not.
    fn of(watched: &Watched, clean: &Watched) -> Self {
        let places = places(&watched.under_fault, clean);
        match watched.ends.first() {
            Some((code, _)) if places.contains(&Place::Log) && places.contains(&Place::Status) => {
                Seen::Ends(*code)
            }
            Some((code, _)) => Seen::EndsIn(*code, places),
            None if places.is_empty() && watched.silenced > 0 => Seen::Killed,
            None if places.is_empty() => Seen::Borne,
            None if places.len() == Place::ALL.len() && left_over(watched, clean).is_empty() => {
                Seen::Shown
            }
            None if places.len() == Place::ALL.len() => Seen::ShownForGood,
            None => Seen::Only(places),
        }
    }
}

fn places(looks: &[Look], clean: &Watched) -> BTreeSet<Place> {
    let usual = &clean.under_fault;
    let is_new = |place: &Place| {
        looks.iter().any(|look| match place {
            Place::Log => !look.log.is_subset(&all(usual, |look| &look.log)),
            Place::Status => {
                !look.status.is_empty() && usual.iter().all(|usual| usual.status != look.status)
            }
            Place::Health => !look.findings.is_subset(&all(usual, |look| &look.findings)),
            Place::Metric => {
                let more = |usual: &Look| (0..2).any(|n| look.counted[n] > usual.counted[n]);
                usual.iter().all(more)
            }
        })
    };
    Place::ALL.into_iter().filter(is_new).collect()
}

fn all<'a>(looks: &'a [Look], of: impl Fn(&'a Look) -> &'a BTreeSet<String>) -> BTreeSet<String> {
    looks.iter().flat_map(of).cloned().collect()
}

/// What is still seen when all is healed.
fn left_over(watched: &Watched, clean: &Watched) -> Vec<String> {
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

/// By journey, fault and kind: the word, and what is wrong.
type Found<'a> = BTreeMap<(Journey, String, &'a str), (String, Vec<String>)>;

/// The faults that can last, at each kind of crossing that a journey has. A process that is killed has nothing to say.
fn lasting(clean: &Watched) -> BTreeSet<Lasting> {
    let mut lasting = BTreeMap::new();
    for crossing in &clean.crossings {
        for moment in [EffectPhase::Before, EffectPhase::After] {
            for fault in Fault::applying(crossing, moment) {
                let kind = kind(crossing);
                let one = Lasting {
                    fault,
                    kind,
                    moment,
                };
                lasting.entry((fault, kind)).or_insert(one);
            }
        }
    }
    let mut lasting: BTreeSet<Lasting> = lasting.into_values().collect();
    lasting.retain(|one| !matches!(one.fault, Fault::Kill | Fault::PowerCut));
    lasting
}

fn situation(journey: Journey) -> Situation {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(Situation::of(journey))
}

#[test]
fn a_fault_that_lasts_is_seen_in_log_status_health_and_metric_and_is_gone_when_it_is_healed() {
    let words: Words = toml::from_str(include_str!("visibility.toml")).unwrap();
    let watched: Vec<_> = Journey::ALL
        .into_iter()
        .map(|journey| {
            let situation = situation(journey);
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
    let found: Mutex<Found<'_>> = Mutex::default();
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
        let word = Seen::of(&seen, clean);
        if word == Seen::ShownForGood && seen.settled.is_some() {
            wrong.clear();
        }
        let word = word.to_string();
        let mut found = found.lock().unwrap();
        found.insert(cell, (word, wrong));
    });
    let found = found.into_inner().unwrap();
    if std::env::var_os("BERTH_FAULT_TALLY").is_some() {
        let mut before = None;
        for ((journey, fault, kind), (word, _)) in &found {
            let table = format!("[{}.\"{fault}\"]", journey.as_str());
            if before.as_ref() != Some(&table) {
                println!("{table}");
                before = Some(table);
            }
            println!("{kind} = \"{word}\"");
        }
    }
    let mut wrong = Vec::new();
    let mut written = 0;
    for ((journey, fault, kind), (word, left)) in &found {
        let cell = format!("[{}.\"{fault}\"] {kind}", journey.as_str());
        let expected = words
            .get(journey.as_str())
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
            "visibility.toml lists cells that no journey has"
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A run that everybody saw.
fn seen_by_all() -> (Watched, Watched) {
    let situation = situation(Journey::StartupReshape);
    let refused = Lasting {
        fault: Fault::ConnectionRefused,
        kind: "read",
        moment: EffectPhase::Before,
    };
    let clean = watch(&situation, None);
    let seen = watch(&situation, Some(refused));
    assert_eq!(Seen::of(&seen, &clean), Seen::Shown);
    assert_eq!(left_over(&seen, &clean), Vec::<String>::new());
    (seen, clean)
}

#[test]
fn an_agent_that_says_nothing_in_one_of_the_four_places_is_caught() {
    let (seen, clean) = seen_by_all();
    for place in Place::ALL {
        let mut silent = seen.clone();
        for look in &mut silent.under_fault {
            let usual = clean.settled.clone().unwrap();
            match place {
                Place::Log => look.log.clear(),
                Place::Status => look.status = usual.status,
                Place::Health => look.findings = usual.findings,
                Place::Metric => look.counted = usual.counted,
            }
        }
        let others = Place::ALL.into_iter().filter(|other| *other != place);
        assert_eq!(Seen::of(&silent, &clean), Seen::Only(others.collect()));
    }
}

#[test]
fn an_agent_that_goes_on_complaining_or_never_settles_is_caught() {
    let (seen, clean) = seen_by_all();
    let mut complains = seen.clone();
    let trouble = seen.under_fault.iter().find(|look| look.has_errors);
    complains.settled = trouble.cloned();
    assert_eq!(left_over(&complains, &clean).len(), 2);
    assert_eq!(Seen::of(&complains, &clean), Seen::ShownForGood);
    let mut restless = seen;
    restless.settled = None;
    assert_eq!(left_over(&restless, &clean).len(), 1);
}
