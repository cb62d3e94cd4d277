//! The record of a request: hosts, filter counts, rejections, score cards, claims. It is filled during sorting and
//! claiming and contains no text; `explain` converts it into an explanation.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::rejections::Rejections;
use crate::filters::FilterCounts;
use crate::host_state::HostState;
use crate::plugin::FailedPlugin;
use crate::reason::Reason;
use crate::weighers::ScoreCard;

/// The number of best hosts whose score cards are recorded.
pub(super) const CARDS: usize = 10;

/// The number of instances of a request whose score cards are recorded: creating them takes longer than sorting the
/// hosts again.
pub(super) const INSTANCES: usize = 3;

/// The maximum number of recorded claims of an instance; further claims are only counted.
pub(super) const CLAIMS: usize = 20;

/// The record of a request.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// A summary of the request.
    pub asked: RequestSummary,
    /// Each instance's, in their order, as far as it came.
    pub turns: Vec<Turnout>,
    /// The search for alternates, if hosts were filtered again for it.
    pub alternates: Option<Turnout>,
}

/// A summary of the request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RequestSummary {
    pub flavor: String,
    pub vcpus: i64,
    pub memory_mb: i64,
    /// Root and ephemeral disk in GiB.
    pub disk_gb: i64,
    pub project_id: Option<String>,
    pub availability_zone: Option<String>,
    pub instances: usize,
    /// The seed of random choices, see [`SelectionRequest::seed`](super::SelectionRequest::seed).
    pub seed: u64,
    /// Whether options leave something to chance.
    pub by_chance: bool,
    /// Hints that the user gave and no enabled filter reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread_hints: Vec<String>,
    /// Plugins that failed to answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_plugins: Vec<FailedPlugin>,
}

/// How hosts fared for one instance.
#[derive(Debug, Clone)]
pub struct Turnout {
    pub instance_uuid: String,
    /// Hosts that there were.
    pub hosts: usize,
    /// Those of them that the request's destination left.
    pub at_destination: usize,
    /// Hosts that the request excludes by name.
    pub left_out: LeftOut,
    /// The number of hosts that each filter let pass.
    pub passed: Vec<FilterCounts>,
    /// Rejected hosts. A host that is rejected for an instance is rejected for all later ones.
    pub rejected: Rejections,
    /// Hosts that are left.
    pub left: usize,
    /// The ten best hosts with their score cards, best first; empty from the fourth instance of a request on.
    pub cards: Vec<(Arc<HostState>, ScoreCard)>,
    /// Weighers without which another host would be the best, and that host; kept where score cards are.
    pub pivotal: Vec<(&'static str, Arc<HostState>)>,
    /// Claims in order: the first twenty, and the granted one.
    pub tried: Vec<CandidateClaim>,
    /// The number of refused claims that are not recorded.
    pub more_tried: usize,
    /// NUMA cells or devices that the selected host lacks, because their filter was not enabled; they are not charged
    /// to it.
    pub not_counted: Option<Reason>,
    detail: Detail,
}

/// Hosts that the request leaves out by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LeftOut {
    /// The number of hosts.
    pub hosts: usize,
    /// The first of them; five at most.
    pub named: Vec<String>,
}

impl LeftOut {
    /// The number of hosts that are listed by name.
    const NAMED: usize = 5;

    pub(super) fn count(&mut self, host: &str) {
        self.hosts += 1;
        if self.named.len() < Self::NAMED {
            self.named.push(host.to_owned());
        }
    }

    /// Whether no host was rejected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hosts == 0
    }
}

/// `left out by the request: a, b`
impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "left out by the request: {}", self.named.join(", "))?;
        match self.hosts - self.named.len().min(self.hosts) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// How much is kept of a turnout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Score cards and pivotal weighers too.
    Cards,
    Counts,
    /// Only the number of hosts that each filter let pass.
    Nothing,
}

#[derive(Debug, Clone)]
pub struct CandidateClaim {
    pub host: Arc<HostState>,
    /// The candidate, by its place among the host's.
    pub candidate: usize,
    /// Whether it was granted.
    pub is_granted: bool,
}

impl Turnout {
    /// An empty record of an instance.
    pub(super) fn new(instance_uuid: String, detail: Detail) -> Self {
        Self {
            instance_uuid,
            hosts: 0,
            at_destination: 0,
            left_out: LeftOut::default(),
            passed: Vec::new(),
            rejected: Rejections::default(),
            left: 0,
            cards: Vec::new(),
            pivotal: Vec::new(),
            tried: Vec::new(),
            more_tried: 0,
            not_counted: None,
            detail,
        }
    }

    pub(super) fn detail(&self) -> Detail {
        self.detail
    }

    /// Counts a host that is out.
    pub(super) fn reject(&mut self, filter: &'static str, host: &Arc<HostState>, reason: Reason) {
        if self.detail != Detail::Nothing {
            self.rejected.count(filter, host, reason);
        }
    }

    /// Claims that were made.
    #[must_use]
    pub fn claims(&self) -> usize {
        self.tried.len() + self.more_tried
    }

    pub(super) fn note(&mut self, claim: CandidateClaim) {
        match claim.is_granted || self.tried.len() < CLAIMS {
            true => self.tried.push(claim),
            false => self.more_tried += 1,
        }
    }
}

impl Detail {
    /// The detail for the instance at this index.
    pub(super) fn of(place: usize, is_kept: bool) -> Self {
        match place < INSTANCES {
            _ if !is_kept => Self::Nothing,
            true => Self::Cards,
            false => Self::Counts,
        }
    }
}
