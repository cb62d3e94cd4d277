//! The expected outcomes, which were written before the first run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use berth_fault_injection::{Boundary, Effect, EffectKind, Fault, FaultRepetition};
use berth_tests::guest_cloud::{CloudFaultPoint, CloudProcess, RecordedEffect};
use serde::Deserialize;

use super::scenarios::{GuestOutcome, GuestScenario};

impl GuestOutcome {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Undone => "undone",
            Self::Held => "held",
            Self::Refused => "refused",
        }
    }
}

/// The kind of an effect, as far as outcomes depend on it.
pub(super) fn kind(crossed: &RecordedEffect) -> &'static str {
    let Effect {
        boundary: seam,
        kind: effect,
        ..
    } = crossed.crossing;
    let is_served = matches!(
        crossed.process,
        CloudProcess::Placement | CloudProcess::Accelerators
    );
    match (seam, effect) {
        (_, EffectKind::Read) if is_served => "served_read",
        (_, EffectKind::Write) if is_served => "served_write",
        (Boundary::Http, EffectKind::Read) => "read",
        (Boundary::Http, EffectKind::Write) => "write",
        (Boundary::Driver, EffectKind::Read) => "look",
        (Boundary::Driver, EffectKind::Write) => "act",
        (Boundary::Store | Boundary::Sysfs, EffectKind::Read) => "journal_read",
        (Boundary::Store | Boundary::Sysfs, EffectKind::Write) => "journal_write",
        (Boundary::Database, EffectKind::Read) => "database_read",
        (Boundary::Database, EffectKind::Write) => "database_write",
    }
}

/// What happens at a point, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FaultStrike {
    pub(super) fault: Fault,
    repetition: FaultRepetition,
}

impl FaultStrike {
    pub(super) const fn of(point: &CloudFaultPoint) -> Self {
        Self {
            fault: point.fault,
            repetition: point.repetition,
        }
    }

    pub(super) fn is_once(self) -> bool {
        self.repetition == FaultRepetition::Once
    }

    /// Whether the outcome depends on when the fault strikes. Whether a client waits until the end of a permanent fault
    /// depends on how long it has waited already. After a jump of the clock, all hosts look silent until they report their state
    /// again, once a minute. A conductor waits for such hosts during the first minute (`service_down_time`) of its life, and
    /// then fails the boot.
    pub(super) fn has_timed_outcome(self) -> bool {
        !self.is_once() || matches!(self.fault, Fault::ClockForward | Fault::ClockBackward)
    }

    /// All that the faults may be, in the order of the table.
    pub(super) fn all(faults: &[Fault]) -> impl Iterator<Item = Self> {
        let known = Fault::ALL.into_iter();
        known
            .filter(|fault| faults.contains(fault))
            .flat_map(|fault| {
                [FaultRepetition::Once, FaultRepetition::Forever]
                    .map(|repetition| Self { fault, repetition })
            })
    }

    fn read(text: &str) -> Self {
        let (fault, repetition) = match text.strip_suffix(" forever") {
            Some(fault) => (fault, FaultRepetition::Forever),
            None => (text, FaultRepetition::Once),
        };
        let fault = fault.parse();
        Self {
            fault: fault.unwrap_or_else(|error| panic!("guests.toml: {error}")),
            repetition,
        }
    }
}

impl fmt::Display for FaultStrike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.repetition {
            FaultRepetition::Once => write!(f, "{}", self.fault),
            FaultRepetition::Forever => write!(f, "{} forever", self.fault),
        }
    }
}

/// By scenario, fault and kind.
pub(super) type Rows = BTreeMap<(GuestScenario, FaultStrike, String), BTreeSet<GuestOutcome>>;

/// A table: the outcomes of the scenarios that it names, by fault and kind.
#[derive(Deserialize)]
struct Table {
    scenarios: Vec<String>,
    #[serde(flatten)]
    faults: BTreeMap<String, BTreeMap<String, String>>,
}

/// Reads `guests.toml`.
pub(super) fn read() -> Rows {
    let text = include_str!("../guests.toml");
    let tables: BTreeMap<String, Table> =
        toml::from_str(text).expect("guests.toml has tables of scenarios, faults and kinds");
    let mut rows = Rows::new();
    for table in tables.into_values() {
        for name in &table.scenarios {
            let scenario = GuestScenario::ALL
                .into_iter()
                .find(|it| it.as_str() == name);
            let scenario = scenario.unwrap_or_else(|| panic!("guests.toml: no scenario {name}"));
            for (strike, by_kind) in &table.faults {
                let strike = FaultStrike::read(strike);
                for (kind, words) in by_kind {
                    let known = rows.insert((scenario, strike, kind.clone()), outcomes(words));
                    assert!(known.is_none(), "guests.toml: {name} is in two tables");
                }
            }
        }
    }
    rows
}

fn outcomes(words: &str) -> BTreeSet<GuestOutcome> {
    let all = [
        GuestOutcome::Done,
        GuestOutcome::Undone,
        GuestOutcome::Held,
        GuestOutcome::Refused,
    ];
    let outcomes = words.split(" or ").map(|word| {
        let found = all.into_iter().find(|outcome| outcome.as_str() == word);
        found.unwrap_or_else(|| panic!("guests.toml: no outcome {word}"))
    });
    outcomes.collect()
}
