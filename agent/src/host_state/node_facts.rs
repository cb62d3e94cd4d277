//! The input of a node's state.

use std::collections::BTreeMap;
use std::net::IpAddr;

use berth_agent_journal::GuestRecord;
use berth_model::{NodeName, ProviderTree};
use berth_virt::{HypervisorInfo, NodeView};

/// The input of a node's state.
#[derive(Debug, Clone, Copy)]
pub struct NodeFacts<'a> {
    pub node: &'a NodeName,
    /// The hypervisor of the node.
    pub hypervisor: &'a HypervisorInfo,
    /// The node's last observation, with the agent's knowledge of its devices.
    pub seen: &'a NodeView,
    /// The node's provider tree in Placement: allocation ratios and reserved amounts.
    pub tree: &'a ProviderTree,
    /// The guests of the journal; those of other nodes are ignored.
    pub records: &'a [&'a GuestRecord],
    /// `my_ip`.
    pub host_ip: Option<IpAddr>,
    /// Failed builds since the last successful one.
    pub failed_builds: u32,
    /// The measurements of `compute_monitors` by name; `None` if no monitor is enabled.
    pub metrics: Option<&'a BTreeMap<String, f64>>,
}

/// Converts a number; larger ones are capped.
pub(super) fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
