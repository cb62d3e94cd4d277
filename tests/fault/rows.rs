//! The expected outcomes, which were written before the first run, and the classification of a run's outcome.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use berth_fault_injection::{Boundary, Effect, Fault, FaultRepetition, InjectionPoint};

use crate::case::{Case, UnderFault};
use crate::scenarios::{FaultScenario, Situation};

/// How a run ended under its fault. What `rows.toml` means by its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FaultOutcome {
    Done,
    Undone,
    Held,
    Refused,
}

impl FaultOutcome {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            FaultOutcome::Done => "done",
            FaultOutcome::Undone => "undone",
            FaultOutcome::Held => "held",
            FaultOutcome::Refused => "refused",
        }
    }

    fn of(text: &str) -> Option<Self> {
        [Self::Done, Self::Undone, Self::Held, Self::Refused]
            .into_iter()
            .find(|outcome| outcome.as_str() == text)
    }

    /// What a run shows.
    pub(crate) fn seen(case: &Case, situation: &Situation) -> Self {
        let as_before = case.then.essence() == situation.before.essence();
        match (&case.under_fault, as_before, case.writes) {
            (UnderFault::Settled, _, _) => Self::Done,
            (UnderFault::Stopped(..), true, 0) => Self::Refused,
            (UnderFault::Stopped(..), true, _) => Self::Undone,
            (UnderFault::Stopped(..), false, _) | (UnderFault::Trying, ..) => Self::Held,
        }
    }
}

impl fmt::Display for FaultOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The kind of an effect, as far as outcomes depend on it.
pub(crate) fn kind(crossing: &Effect) -> &'static str {
    let operation = crossing.operation.as_ref();
    match (crossing.boundary, operation) {
        (Boundary::Driver, _) => "observe",
        (Boundary::Store, "read") => "file_read",
        (Boundary::Store | Boundary::Sysfs, _) => "file_write",
        (Boundary::Database, _) => "database",
        (Boundary::Http, "POST /v3/auth/tokens") => "login",
        (Boundary::Http, "POST /resource_providers") => "create",
        (Boundary::Http, "POST /reshaper") => "reshape",
        (Boundary::Http, "PUT /resource_providers/{uuid}") => "rename",
        (Boundary::Http, operation) if operation.starts_with("GET") => "read",
        (Boundary::Http, operation) if operation.starts_with("DELETE") => "remove",
        (Boundary::Http, _) => "write",
    }
}

/// A second kill, during the recovery from the first.
const KILLED_AGAIN: &str = "F8 kill, and again";

/// A fault as `rows.toml` names it.
fn name(points: &[InjectionPoint]) -> String {
    let [point] = points else {
        return KILLED_AGAIN.to_owned();
    };
    let InjectionPoint {
        fault, repetition, ..
    } = point;
    match repetition {
        FaultRepetition::Once => format!("{} {fault}", fault.row()),
        FaultRepetition::Forever => format!("{} {fault} forever", fault.row()),
    }
}

/// A cell of the table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cell {
    pub(crate) journey: FaultScenario,
    pub(crate) fault: String,
    pub(crate) kind: String,
}

impl Cell {
    pub(crate) fn of(
        scenario: FaultScenario,
        points: &[InjectionPoint],
        crossing: &Effect,
    ) -> Self {
        Self {
            journey: scenario,
            fault: name(points),
            kind: kind(crossing).to_owned(),
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "[{}.\"{}\"] {}",
            self.journey.as_str(),
            self.fault,
            self.kind
        )
    }
}

pub(crate) type Rows = BTreeMap<Cell, BTreeSet<FaultOutcome>>;

/// Reads `rows.toml`: a table per scenario, in it a table per fault, in it one or several outcomes per kind of effect.
pub(crate) fn read() -> Rows {
    let text = include_str!("rows.toml");
    let table: BTreeMap<String, BTreeMap<String, BTreeMap<String, String>>> =
        toml::from_str(text).expect("rows.toml has journeys, faults and kinds");
    let faults: BTreeSet<String> = Fault::ALL
        .iter()
        .flat_map(|fault| {
            [
                format!("{} {fault}", fault.row()),
                format!("{} {fault} forever", fault.row()),
            ]
        })
        .collect();
    let is_fault = |fault: &String| faults.contains(fault) || fault == KILLED_AGAIN;
    let mut rows = Rows::new();
    for (scenario_name, by_fault) in table {
        let scenario = FaultScenario::ALL
            .into_iter()
            .find(|scenario| scenario.as_str() == scenario_name);
        let scenario = scenario.unwrap_or_else(|| panic!("rows.toml: no scenario {scenario_name}"));
        for (fault, by_kind) in by_fault {
            assert!(is_fault(&fault), "rows.toml: no fault {fault}");
            for (kind, words) in by_kind {
                let outcomes = words.split(" or ").map(|word| {
                    FaultOutcome::of(word).unwrap_or_else(|| panic!("rows.toml: no outcome {word}"))
                });
                let cell = Cell {
                    journey: scenario,
                    fault: fault.clone(),
                    kind,
                };
                rows.insert(cell, outcomes.collect());
            }
        }
    }
    rows
}
