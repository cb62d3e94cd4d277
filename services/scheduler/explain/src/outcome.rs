//! The recorded outcome of a request.

use serde::{Deserialize, Serialize};

use berth_scheduler::select::PlacementStage;
use berth_scheduler::select::{NoHost, NoValidHost, SelectionResult};
use berth_scheduler_objects::text::shortened;

/// The maximum number of recorded placements.
const INSTANCES: usize = 100;

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum RequestOutcome {
    /// Each instance has a host.
    Selected {
        /// In their order; a hundred at most.
        instances: Vec<PlacedInstance>,
        /// The number of further placed instances.
        more: usize,
    },
    /// Not each instance has a host, so none has.
    NoValidHost {
        why: WhyNone,
        /// The index of the instance without a host.
        instance: usize,
        /// A sentence for the user.
        text: String,
    },
    /// The request is invalid or a service failed, so filters and claims decided nothing.
    Failed {
        /// Why, in a sentence.
        text: String,
    },
}

/// The host of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedInstance {
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
    /// There were no hosts.
    NoHosts,
    /// No host matches the request's destination, forced hosts and excluded hosts.
    NoneAtDestination,
    /// Filters rejected them all, or weighers could not weigh them.
    AllRejected,
    /// No remaining host could be claimed.
    NoneClaimed,
    /// The caller gave up.
    GivenUp,
}

impl RequestOutcome {
    pub(super) fn of_selected(selected: &SelectionResult) -> Self {
        let turns = selected.record.turns.iter();
        let all = turns.zip(&selected.selections).take(INSTANCES);
        let instances = all.filter_map(|(turn, selections)| {
            let (first, alternates) = selections.split_first()?;
            let alternates = alternates.iter().map(|one| one.host.host.clone());
            Some(PlacedInstance {
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
