//! What the state of a node is composed of.

use std::collections::BTreeMap;
use std::net::IpAddr;

use berth_agent_journal::GuestRecord;
use berth_model::{NodeName, ProviderTree};
use berth_virt::{HypervisorInfo, NodeView};

/// What a node's state is made of.
#[derive(Debug, Clone, Copy)]
pub struct NodeFacts<'a> {
    pub node: &'a NodeName,
    /// The hypervisor that shows it.
    pub hypervisor: &'a HypervisorInfo,
    /// The node as it was seen last, with what is known of its devices beside.
    pub seen: &'a NodeView,
    /// Its tree as Placement has it: ratios, and what is reserved.
    pub tree: &'a ProviderTree,
    /// The guests of the journal; those of other nodes count for nothing.
    pub records: &'a [&'a GuestRecord],
    /// `my_ip`.
    pub host_ip: Option<IpAddr>,
    /// Builds that failed since the last one that did not.
    pub failed_builds: u32,
    /// What `compute_monitors` measured, by name; none where none is enabled.
    pub metrics: Option<&'a BTreeMap<String, f64>>,
}

/// A number that no host has so much of that it would not fit.
pub(super) fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
