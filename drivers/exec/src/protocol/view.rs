//! The result of `observe`.

use std::collections::BTreeMap;

use berth_virt::{HostView, HypervisorInfo};
use serde::{Deserialize, Serialize};

use super::node::NodeFacts;
use super::value::{Text, list, twice};
use crate::options::ExecOptions;

/// Everything a driver sees of its host in one pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViewResult {
    pub hypervisor: HypervisorFacts,
    /// The nodes, at most 1024: usually one; several for a cluster or bare metal.
    #[serde(deserialize_with = "list::<_, _, 1024>")]
    pub nodes: Vec<NodeFacts>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HypervisorFacts {
    /// The kind, in Nova's terms (`QEMU`, `ironic`).
    pub kind: Text<64>,
    /// The version as displayed.
    pub version: Text<64>,
    /// The host's name according to the hypervisor.
    pub hostname: Text<255>,
}

impl ViewResult {
    /// Converts to the contract's view, completed with configured values.
    pub fn view(self, options: &ExecOptions) -> Result<HostView, String> {
        if let Some((place, name)) = twice(self.nodes.iter().map(|node| &node.name)) {
            return Err(format!("nodes[{place}].name: {} is there twice", name.0));
        }
        let mut nodes = BTreeMap::new();
        for (place, node) in self.nodes.into_iter().enumerate() {
            let name = node.name.0.clone();
            let node = node
                .view(options)
                .map_err(|wrong| format!("nodes[{place}].{wrong}"))?;
            nodes.insert(name, node);
        }
        Ok(HostView {
            hypervisor: HypervisorInfo {
                kind: self.hypervisor.kind.into(),
                version: self.hypervisor.version.into(),
                hostname: self.hypervisor.hostname.into(),
            },
            nodes,
        })
    }
}
