//! Lookup of the agent that manages a compute node.

use std::collections::BTreeMap;

use berth_client::GuestClient;
use berth_model::NodeName;

/// A compute node, and the host that reported it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostNode {
    /// The name of the host. A host reports under its own name only.
    pub host: String,
    /// The name of the node, which the host chooses.
    pub node: NodeName,
}

/// Finds the agent of a node by the host that reported the node. The name of a node finds no agent: a host could report
/// a node with the name of another host's node, and would get a client of that host's agent.
pub trait Agents: Send + Sync {
    /// The agent of the host that reported this node; `None` if no agent is known.
    fn agent(&self, node: &HostNode) -> Option<GuestClient>;
}

/// The same agent for every host, for a single machine.
#[derive(Clone)]
pub struct SingleAgent(pub GuestClient);

impl Agents for SingleAgent {
    fn agent(&self, _: &HostNode) -> Option<GuestClient> {
        Some(self.0.clone())
    }
}

/// Agents by the names of their hosts.
impl Agents for BTreeMap<String, GuestClient> {
    fn agent(&self, node: &HostNode) -> Option<GuestClient> {
        self.get(&node.host).cloned()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use berth_client::{AdapterOptions, Auth, HttpService, TransportOptions};

    use super::*;

    #[test]
    fn a_node_with_the_name_of_another_host_is_built_by_the_agent_of_the_host_that_reported_it() {
        let socket = Path::new("/run/compute3.sock");
        let http = HttpService::unix(socket, &TransportOptions::default()).unwrap();
        let auth = Auth::none("http://agent").unwrap();
        let client = GuestClient::new(http, auth, &AdapterOptions::default());
        let place = |host: &str, node: &str| HostNode {
            host: host.to_owned(),
            node: NodeName::new(node).unwrap(),
        };
        let agents = BTreeMap::from([("compute3".to_owned(), client)]);
        assert!(agents.agent(&place("compute3", "compute3")).is_some());
        assert!(agents.agent(&place("compute3", "other")).is_some());
        assert!(agents.agent(&place("compute1", "compute3")).is_none());
    }
}
