//! How a request ended, as it is kept.

use serde::{Deserialize, Serialize};

use super::PlacementStage;
use crate::select::{NoHost, NoValidHost, Selected};
use crate::text::shortened;

/// Of so many instances it is told where they are.
const INSTANCES: usize = 100;

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Outcome {
    /// Each instance has a host.
    Selected {
        /// In their order; a hundred at most.
        instances: Vec<Placed>,
        /// Other instances, which have a host too.
        more: usize,
    },
    /// Not each instance has a host, so none has.
    NoValidHost {
        why: WhyNone,
        /// The instance for which there is none, by its place, the first 0.
        instance: usize,
        /// A sentence for whoever asked.
        text: String,
    },
    /// Nothing was decided by filters and claims: the request cannot be asked as it is, or a service did not do its part.
    Failed {
        /// Why, in a sentence.
        text: String,
    },
}

/// Where an instance is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    pub instance_uuid: String,
    pub host: String,
    pub node: String,
    pub cell: String,
    /// Hosts for the case that the build fails.
    pub alternates: Vec<String>,
}

/// Why there is no host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhyNone {
    /// Placement has no candidate.
    NoCandidates,
    /// There was no host to look at.
    NoHosts,
    /// None is what the request is for: its destination, hosts that are forced, hosts to leave out.
    NoneAtDestination,
    /// Filters rejected them all, or weighers could not weigh them.
    AllRejected,
    /// None of those that were left could be claimed.
    NoneClaimed,
    /// The caller gave up.
    GivenUp,
}

impl Outcome {
    pub(super) fn of_selected(selected: &Selected) -> Self {
        let turns = selected.record.turns.iter();
        let all = turns.zip(&selected.selections).take(INSTANCES);
        let instances = all.filter_map(|(turn, selections)| {
            let (first, alternates) = selections.split_first()?;
            let alternates = alternates.iter().map(|one| one.host.host.clone());
            Some(Placed {
                instance_uuid: turn.instance_uuid.clone(),
                host: first.host.host.clone(),
                node: first.host.nodename.clone(),
                cell: first.host.cell.clone(),
                alternates: alternates.collect(),
            })
        });
        Self::Selected {
            instances: instances.collect(),
            more: selected.selections.len().saturating_sub(INSTANCES),
        }
    }

    pub(super) fn of_no_valid_host(none: &NoValidHost) -> Self {
        let turn = none.record.turns.get(none.at);
        let (hosts, left) = turn.map_or((0, 0), |turn| (turn.hosts, turn.at_destination));
        let why = match none.why {
            NoHost::GivenUp => WhyNone::GivenUp,
            NoHost::NoneClaimed => WhyNone::NoneClaimed,
            NoHost::NoneLeft if hosts == 0 => WhyNone::NoHosts,
            NoHost::NoneLeft if left == 0 => WhyNone::NoneAtDestination,
            NoHost::NoneLeft => WhyNone::AllRejected,
        };
        Self::NoValidHost {
            why,
            instance: none.at,
            text: none.to_string(),
        }
    }

    pub(super) fn of_failure(why: &str) -> Self {
        Self::Failed {
            text: shortened(why).into_owned(),
        }
    }

    /// After this answer of Placement.
    pub(super) fn after(mut self, placement: &PlacementStage) -> Self {
        if let (Self::NoValidHost { text, .. }, Some(cut)) = (&mut self, placement.cut())
            && !text.ends_with(&cut)
        {
            text.push_str("; ");
            text.push_str(&cut);
        }
        self
    }

    pub(super) fn of_no_candidates(placement: &PlacementStage) -> Self {
        let why = placement.why.as_deref();
        let why = shortened(why.unwrap_or("it has no allocation candidate"));
        Self::NoValidHost {
            why: WhyNone::NoCandidates,
            instance: 0,
            text: format!("no valid host was found: Placement: {why}"),
        }
    }
}
