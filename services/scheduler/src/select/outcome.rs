//! How a request ended.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::record::Record;
use crate::host_state::{AllocationCandidate, HostState, Limits};
use crate::text::shortened;

/// Each instance has a host.
#[derive(Debug)]
pub struct Selected {
    /// For each instance, in their order: the selected host, then its alternates, which are in the same cell.
    pub selections: Vec<Vec<Selection>>,
    /// The selected hosts with what the request takes from them, once each, in the order in which they were first selected.
    pub after: Vec<Arc<HostState>>,
    /// The way.
    pub record: Record,
}

/// A host for an instance.
#[derive(Debug, Clone)]
pub struct Selection {
    /// The host as it was when it was looked at.
    pub host: Arc<HostState>,
    /// What is claimed there, or for an alternate what would be; none where nothing is.
    pub candidate: Option<AllocationCandidate>,
    /// For the host's agent.
    pub limits: Limits,
}

/// Not each instance has a host.
#[derive(Debug)]
pub struct NoValidHost {
    /// Why not.
    pub why: NoHost,
    /// The instance for which there is none, by its place.
    pub at: usize,
    /// Instances of this request whose claims must be deleted.
    pub claimed: Vec<String>,
    /// The way.
    pub record: Record,
}

/// Why there is no host for an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoHost {
    /// None came through: none was there, none is what the request is for, or filters rejected them all.
    NoneLeft,
    /// None of those that were left could be claimed.
    NoneClaimed,
    /// The caller gave up.
    GivenUp,
}

/// A sentence with what each filter rejected, for whoever asked.
impl fmt::Display for NoValidHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no valid host was found")?;
        let Some(turn) = self.record.turns.get(self.at) else {
            return Ok(());
        };
        let (hosts, left) = (turn.hosts, turn.at_destination);
        match self.why {
            NoHost::GivenUp => return write!(f, ": a claim could not be decided"),
            NoHost::NoneClaimed => {
                let many = turn.tried.len();
                return write!(f, ": none of {many} claims was granted by Placement");
            }
            NoHost::NoneLeft if hosts == 0 => return write!(f, ": there is no host to look at"),
            NoHost::NoneLeft => write!(f, ": of {hosts} hosts")?,
        }
        if left < hosts {
            write!(f, ", {} are not what the request is for", hosts - left)?;
        }
        let mut by_filter: BTreeMap<&str, (usize, String)> = BTreeMap::new();
        for one in &turn.rejected {
            let first = || {
                let why = one.reason.to_string();
                (0, format!("{}: {}", one.host.state.host, shortened(&why)))
            };
            by_filter.entry(&one.filter).or_insert_with(first).0 += 1;
        }
        for (filter, (many, example)) in by_filter {
            write!(f, ", {filter} rejected {many} ({example})")?;
        }
        Ok(())
    }
}

impl std::error::Error for NoValidHost {}
