//! Explains why a request got its hosts, or none.
//!
//! The selection loop leaves a [`Record`](berth_scheduler::select::Record). An [`Explanation`] is made of it: the hosts
//! that each filter let pass, the rejected hosts with the compared values, the score cards of the best, the decisive
//! weighers, and the claims. If no host is left, a [`Diagnosis`] runs every filter on every host and names the filters
//! that are the obstacle. The size of an explanation is bounded, whatever the number of hosts. It can be serialised and
//! printed. Callers: `cli` and `services/conductor`.

mod diagnosis;
mod masks;
mod nearness;
mod number;
mod outcome;
mod recorded_reason;
mod search;
mod text;
mod verdicts;

use serde::{Deserialize, Serialize};

use berth_scheduler::select::{NoValidHost, PlacementStage, RequestSummary, SelectionResult};

pub use diagnosis::{
    Diagnosis, FilterRelaxation, FilterVerdicts, Nearest, NearestVerdict, diagnose,
};
pub use outcome::{PlacedInstance, RequestOutcome, WhyNone};
pub use recorded_reason::RecordedReason;
pub use search::{
    Claims, FilterPassed, Pivotal, RecordedClaim, RejectedBy, RejectedName, ScoredHost,
    SearchRecord, WeigherScore,
};
pub use verdicts::{HostVerdict, HostVerdicts, verdicts};

/// The number of instances of a request whose search is recorded. For the others only the chosen host is recorded. The
/// instance that could not be placed is always recorded.
const SEARCHES: usize = 10;

/// Why a request has its hosts, or none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    pub asked: RequestSummary,
    /// Placement's answer; `None` if the caller did not provide it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementStage>,
    /// The search for each instance: the first ten, and the one without a host.
    pub searches: Vec<SearchRecord>,
    /// The number of instances whose search is not recorded.
    pub more_searches: usize,
    /// The obstacles; `None` if every instance has a host, or filters are not the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<Diagnosis>,
    pub outcome: RequestOutcome,
}

impl Explanation {
    /// Each instance has a host.
    #[must_use]
    pub fn of_selected(selected: &SelectionResult) -> Self {
        let turns = &selected.record.turns;
        let searches: Vec<SearchRecord> =
            turns.iter().take(SEARCHES).map(SearchRecord::of).collect();
        Self {
            asked: selected.record.asked.clone(),
            placement: None,
            more_searches: turns.len() - searches.len(),
            searches,
            diagnosis: None,
            outcome: RequestOutcome::of_selected(selected),
        }
    }

    /// Not each instance has a host. The diagnosis is [`diagnose`]'s.
    #[must_use]
    pub fn of_no_valid_host(none: &NoValidHost, diagnosis: Option<Diagnosis>) -> Self {
        let turns = &none.record.turns;
        let reported = turns.iter().enumerate();
        let reported = reported.filter(|(place, _)| *place < SEARCHES || *place == none.at);
        let searches: Vec<SearchRecord> =
            reported.map(|(_, turn)| SearchRecord::of(turn)).collect();
        Self {
            asked: none.record.asked.clone(),
            placement: None,
            more_searches: turns.len() - searches.len(),
            searches,
            diagnosis,
            outcome: RequestOutcome::of_no_valid_host(none),
        }
    }

    /// Placement had no candidate, so no filter ran.
    #[must_use]
    pub fn of_no_candidates(asked: RequestSummary, placement: PlacementStage) -> Self {
        Self {
            asked,
            outcome: RequestOutcome::of_no_candidates(&placement),
            placement: Some(placement),
            searches: Vec::new(),
            more_searches: 0,
            diagnosis: None,
        }
    }

    /// The search failed before any host was considered.
    #[must_use]
    pub fn of_failure(asked: RequestSummary, why: &str) -> Self {
        Self {
            asked,
            outcome: RequestOutcome::of_failure(why),
            placement: None,
            searches: Vec::new(),
            more_searches: 0,
            diagnosis: None,
        }
    }

    /// The search so far, which then failed for this reason.
    #[must_use]
    pub fn failed(self, why: &str) -> Self {
        Self {
            outcome: RequestOutcome::of_failure(why),
            ..self
        }
    }

    /// Adds Placement's answer. If it was truncated and there is no host, the outcome says so.
    #[must_use]
    pub fn with_placement(self, placement: PlacementStage) -> Self {
        Self {
            outcome: self.outcome.after(&placement),
            placement: Some(placement),
            ..self
        }
    }
}

#[cfg(test)]
mod tests;
