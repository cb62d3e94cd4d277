//! Why a request has its hosts, or none: a value that is made when the request is done, and can be kept.
//!
//! The loop leaves a [`Record`](crate::select::Record) of what was at hand on its way. An [`Explanation`] is made of that: the hosts
//! that each filter let pass, those that are out with the values that were compared, the score cards of the best, the weighers that
//! decided, the claims. Where no host is left, a [`Diagnosis`] asks every filter about every host and says which filters stand in
//! the way. What is kept is bounded, whatever the number of hosts and instances, and whatever users wrote; it goes into JSON and
//! comes back, and as a text it is for people. Callers: `cli`, and who keeps decisions.

mod diagnosis;
mod masks;
mod nearness;
mod number;
mod outcome;
mod search;
mod stage;
mod text;
mod told;
mod verdicts;

use serde::{Deserialize, Serialize};

use crate::select::{Asked, NoValidHost, Selected};

pub use diagnosis::{Diagnosis, FilterVerdicts, Nearest, NearestVerdict, Relaxation};
pub use outcome::{Outcome, Placed, WhyNone};
pub use search::{
    Claim, Claims, FilterPassed, Pivotal, RejectedBy, RejectedName, Scored, Search, WeigherScore,
};
pub use stage::PlacementStage;
pub use told::Told;
pub use verdicts::{HostVerdict, HostVerdicts};

/// Of so many instances of a request the search is told; of the others only where they were placed. The one that was not placed is
/// always told.
const SEARCHES: usize = 10;

/// Why a request has its hosts, or none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// What was asked for.
    pub asked: Asked,
    /// What Placement said; none where the caller did not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementStage>,
    /// How hosts fared, for each instance; the first ten, and the one that has no host.
    pub searches: Vec<Search>,
    /// Instances whose search is not told.
    pub more_searches: usize,
    /// What stands in the way; none where each instance has a host, and where it is no matter of filters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<Diagnosis>,
    pub outcome: Outcome,
}

impl Explanation {
    /// Each instance has a host.
    #[must_use]
    pub fn of_selected(selected: &Selected) -> Self {
        let turns = &selected.record.turns;
        let searches: Vec<Search> = turns.iter().take(SEARCHES).map(Search::of).collect();
        Self {
            asked: selected.record.asked.clone(),
            placement: None,
            more_searches: turns.len() - searches.len(),
            searches,
            diagnosis: None,
            outcome: Outcome::of_selected(selected),
        }
    }

    /// Not each instance has a host. The diagnosis is [`Scheduler::diagnose`](crate::select::Scheduler::diagnose)'s.
    #[must_use]
    pub fn of_no_valid_host(none: &NoValidHost, diagnosis: Option<Diagnosis>) -> Self {
        let turns = &none.record.turns;
        let told = turns.iter().enumerate();
        let told = told.filter(|(place, _)| *place < SEARCHES || *place == none.at);
        let searches: Vec<Search> = told.map(|(_, turn)| Search::of(turn)).collect();
        Self {
            asked: none.record.asked.clone(),
            placement: None,
            more_searches: turns.len() - searches.len(),
            searches,
            diagnosis,
            outcome: Outcome::of_no_valid_host(none),
        }
    }

    /// Placement had no candidate, so no filter was asked.
    #[must_use]
    pub fn of_no_candidates(asked: Asked, placement: PlacementStage) -> Self {
        Self {
            asked,
            outcome: Outcome::of_no_candidates(&placement),
            placement: Some(placement),
            searches: Vec::new(),
            more_searches: 0,
            diagnosis: None,
        }
    }

    /// The search failed before there was a host to look at, for this reason.
    #[must_use]
    pub fn of_failure(asked: Asked, why: &str) -> Self {
        Self {
            asked,
            outcome: Outcome::of_failure(why),
            placement: None,
            searches: Vec::new(),
            more_searches: 0,
            diagnosis: None,
        }
    }

    /// As far as it came: then it failed, for this reason.
    #[must_use]
    pub fn failed(self, why: &str) -> Self {
        Self {
            outcome: Outcome::of_failure(why),
            ..self
        }
    }

    /// With what Placement said before. Where its answer was cut and there is no host, the outcome's sentence tells that too.
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
