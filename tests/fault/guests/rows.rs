//! The outcomes that were written first.

use std::collections::{BTreeMap, BTreeSet};

use berth_seam::{Crossing, Effect, Fault, Seam};
use berth_tests::guest_cloud::Crossed;

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
    match (seam, effect) {
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

/// Reads `guests.toml`.
pub(super) fn read() -> Rows {
    let text = include_str!("../guests.toml");
    let table: BTreeMap<String, BTreeMap<String, BTreeMap<String, String>>> =
        toml::from_str(text).expect("guests.toml has journeys, faults and kinds");
    let mut rows = Rows::new();
    for (name, by_fault) in table {
        let journey = Journey::ALL.into_iter().find(|it| it.as_str() == name);
        let journey = journey.unwrap_or_else(|| panic!("guests.toml: no journey {name}"));
        for (fault, by_kind) in by_fault {
            let fault: Fault = fault.parse().unwrap();
            for (kind, words) in by_kind {
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
                rows.insert((journey, fault, kind), outcomes.collect());
            }
        }
    }
    rows
}
