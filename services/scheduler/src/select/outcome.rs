//! How a request ended.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::record::Record;
use crate::host_state::{AllocationCandidate, ConsideredHost, HostState, SchedulerLimits};
use crate::request::RequestSpec;
use crate::select::PlacementStage;
use crate::text::shortened;

/// Each instance has a host.
#[derive(Debug)]
pub struct SelectionResult {
    /// For each instance, in their order: the selected host, then its alternates, which are in the same cell.
    pub selections: Vec<Vec<Selection>>,
    /// The selected hosts with what the request takes from them, once each, in the order in which they were first selected.
    pub after: Vec<Arc<HostState>>,
    pub record: Record,
}

/// A host for an instance.
#[derive(Debug, Clone)]
pub struct Selection {
    /// The host's state at selection.
    pub host: Arc<HostState>,
    /// The claimed candidate, or the candidate to claim on an alternate; `None` if nothing is claimed.
    pub candidate: Option<AllocationCandidate>,
    /// For the host's agent.
    pub limits: SchedulerLimits,
}

/// Not each instance has a host.
#[derive(Debug)]
pub struct NoValidHost {
    pub why: NoHost,
    /// The index of the instance that has no host.
    pub at: usize,
    /// Instances of this request whose claims must be deleted.
    pub claimed: Vec<String>,
    pub record: Record,
    /// The input of a diagnosis.
    pub unplaced: Box<UnplacedRequest>,
    /// Where Placement's answer was cut, that, in a sentence.
    pub cut: Option<String>,
}

impl NoValidHost {
    /// Adds whether Placement's answer was truncated.
    #[must_use]
    pub fn after(self, placement: &PlacementStage) -> Self {
        Self {
            cut: placement.cut(),
            ..self
        }
    }
}

/// The request and the hosts at the time of the failure.
#[derive(Debug)]
pub struct UnplacedRequest {
    /// The request for the instance without a host; its server group includes the hosts of the instances before it.
    pub request: RequestSpec,
    /// All hosts at its destination, with what the instances before it took.
    pub hosts: Vec<ConsideredHost>,
    pub is_filtered: bool,
}

/// Why there is no host for an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoHost {
    /// None came through: none was there, none is what the request is for, or filters rejected them all.
    NoneLeft,
    /// No claim was granted.
    NoneClaimed,
    /// The caller gave up.
    GivenUp,
}

/// A sentence with what each filter rejected, and a host of each: for operators.
impl fmt::Display for NoValidHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why(f)?;
        match &self.cut {
            None => Ok(()),
            Some(cut) => write!(f, "; {cut}"),
        }
    }
}

impl NoValidHost {
    fn why(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no valid host was found")?;
        let Some(turn) = self.record.turns.get(self.at) else {
            return Ok(());
        };
        let (hosts, left) = (turn.hosts, turn.at_destination);
        match self.why {
            NoHost::GivenUp => return write!(f, ": a claim could not be decided"),
            NoHost::NoneClaimed => {
                let many = turn.claims();
                return write!(f, ": none of {many} claims was granted by Placement");
            }
            NoHost::NoneLeft if hosts == 0 => return write!(f, ": there is no host to check"),
            NoHost::NoneLeft => write!(f, ": of {hosts} hosts")?,
        }
        if !turn.left_out.is_empty() {
            write!(f, ", {}", turn.left_out)?;
        }
        let others = hosts.saturating_sub(left + turn.left_out.hosts);
        if others > 0 {
            write!(f, ", {others} are not what the request is for")?;
        }
        let mut by_filter: BTreeMap<&str, (usize, String)> = BTreeMap::new();
        for kind in turn.rejected.kinds() {
            let (many, example) = by_filter.entry(kind.filter).or_default();
            *many += kind.hosts;
            if let (true, Some(first)) = (example.is_empty(), kind.named.first()) {
                let why = first.reason.to_string();
                *example = format!("{}: {}", first.host.host, shortened(&why));
            }
        }
        for (filter, (many, example)) in by_filter {
            write!(f, ", {filter} rejected {many} ({example})")?;
        }
        Ok(())
    }
}

impl std::error::Error for NoValidHost {}
