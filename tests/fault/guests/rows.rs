//! The outcomes that were written first.

use std::collections::{BTreeMap, BTreeSet};

use berth_seam::{Crossing, Effect, Fault, Seam};
use berth_tests::guest_cloud::{Crossed, Process};
use serde::Deserialize;

use super::journeys::{Journey, Outcome};

impl Outcome {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Undone => "undone",
            Self::Held => "held",
            Self::Refused => "refused",
        }
    }
}

/// What a crossing does, as far as outcomes differ.
pub(super) fn kind(crossed: &Crossed) -> &'static str {
    let Crossing { seam, effect, .. } = crossed.crossing;
    let is_served = matches!(crossed.process, Process::Placement | Process::Accelerators);
    match (seam, effect) {
        (_, Effect::Read) if is_served => "served_read",
        (_, Effect::Write) if is_served => "served_write",
        (Seam::Http, Effect::Read) => "read",
        (Seam::Http, Effect::Write) => "write",
        (Seam::Driver, Effect::Read) => "look",
        (Seam::Driver, Effect::Write) => "act",
        (Seam::Store | Seam::Sysfs, Effect::Read) => "journal_read",
        (Seam::Store | Seam::Sysfs, Effect::Write) => "journal_write",
        (Seam::Database, Effect::Read) => "database_read",
        (Seam::Database, Effect::Write) => "database_write",
    }
}

/// By journey, fault and kind.
pub(super) type Rows = BTreeMap<(Journey, Fault, String), BTreeSet<Outcome>>;

/// A table: the outcomes of the journeys that it names, by fault and kind.
#[derive(Deserialize)]
struct Table {
    journeys: Vec<String>,
    #[serde(flatten)]
    faults: BTreeMap<String, BTreeMap<String, String>>,
}

/// Reads `guests.toml`.
pub(super) fn read() -> Rows {
    let text = include_str!("../guests.toml");
    let tables: BTreeMap<String, Table> =
        toml::from_str(text).expect("guests.toml has tables of journeys, faults and kinds");
    let mut rows = Rows::new();
    for table in tables.into_values() {
        for name in &table.journeys {
            let journey = Journey::ALL.into_iter().find(|it| it.as_str() == name);
            let journey = journey.unwrap_or_else(|| panic!("guests.toml: no journey {name}"));
            for (fault, by_kind) in &table.faults {
                let fault: Fault = fault.parse().unwrap();
                for (kind, words) in by_kind {
                    let known = rows.insert((journey, fault, kind.clone()), outcomes(words));
                    assert!(known.is_none(), "guests.toml: {name} is in two tables");
                }
            }
        }
    }
    rows
}

fn outcomes(words: &str) -> BTreeSet<Outcome> {
    let all = [
        Outcome::Done,
        Outcome::Undone,
        Outcome::Held,
        Outcome::Refused,
    ];
    let outcomes = words.split(" or ").map(|word| {
        let found = all.into_iter().find(|outcome| outcome.as_str() == word);
        found.unwrap_or_else(|| panic!("guests.toml: no outcome {word}"))
    });
    outcomes.collect()
}
