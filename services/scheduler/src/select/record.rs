//! What happened on the way, for whoever asks why.

use crate::filters::{Passed, Rejected};
use crate::reason::Reason;
use crate::weighers::Card;

/// So many of the best hosts have their score cards kept.
pub(super) const CARDS: usize = 10;

/// The way of a request.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// Each instance's, in their order, as far as it came.
    pub turns: Vec<Turnout>,
    /// Of the search for alternates, where hosts were looked at once more.
    pub alternates: Option<Turnout>,
}

/// How hosts fared for one instance.
#[derive(Debug, Clone)]
pub struct Turnout {
    /// The instance.
    pub instance_uuid: String,
    /// Hosts that there were.
    pub hosts: usize,
    /// Those of them that the request's destination left.
    pub at_destination: usize,
    /// What each filter that was asked let pass.
    pub passed: Vec<Passed>,
    /// Those that are out. One that is out for an instance is out for all that come after it.
    pub rejected: Vec<Rejected>,
    /// The best hosts and their score cards, the best first; ten at most.
    pub cards: Vec<(String, Card)>,
    /// What was claimed, in its order.
    pub tried: Vec<Tried>,
    /// NUMA cells or devices that the chosen host has not, where no filter was asked for them; they are not counted on it.
    pub not_counted: Option<Reason>,
}

/// A claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// The host.
    pub host: String,
    /// The candidate, by its place among the host's.
    pub candidate: usize,
    /// Whether it was granted.
    pub is_granted: bool,
}

impl Turnout {
    /// Of an instance that no host was looked at for yet.
    pub(super) fn new(instance_uuid: String) -> Self {
        Self {
            instance_uuid,
            hosts: 0,
            at_destination: 0,
            passed: Vec::new(),
            rejected: Vec::new(),
            cards: Vec::new(),
            tried: Vec::new(),
            not_counted: None,
        }
    }
}
