//! The way to the agent of a node.

use std::collections::BTreeMap;

use berth_client::GuestClient;
use berth_model::NodeName;

/// Who knows the agents.
pub trait Agents: Send + Sync {
    /// The agent of this node; none where nobody knows one.
    fn agent(&self, node: &NodeName) -> Option<GuestClient>;
}

/// One agent for every node: on one machine there is no other.
#[derive(Clone)]
pub struct EveryNode(pub GuestClient);

impl Agents for EveryNode {
    fn agent(&self, _: &NodeName) -> Option<GuestClient> {
        Some(self.0.clone())
    }
}

impl Agents for BTreeMap<NodeName, GuestClient> {
    fn agent(&self, node: &NodeName) -> Option<GuestClient> {
        self.get(node).cloned()
    }
}
