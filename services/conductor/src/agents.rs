//! Lookup of the agent that manages a compute node.

use std::collections::BTreeMap;

use berth_client::GuestClient;
use berth_model::NodeName;

/// Finds the agent of a node.
pub trait Agents: Send + Sync {
    /// The agent of this node; `None` if no agent is known.
    fn agent(&self, node: &NodeName) -> Option<GuestClient>;
}

/// The same agent for every node, for a single machine.
#[derive(Clone)]
pub struct SingleAgent(pub GuestClient);

impl Agents for SingleAgent {
    fn agent(&self, _: &NodeName) -> Option<GuestClient> {
        Some(self.0.clone())
    }
}

impl Agents for BTreeMap<NodeName, GuestClient> {
    fn agent(&self, node: &NodeName) -> Option<GuestClient> {
        self.get(node).cloned()
    }
}
