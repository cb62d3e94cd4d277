//! What devices' providers are, by the trees that the service shows: those that Cyborg made keep what its device profiles ask
//! for.

use std::sync::Arc;

use berth_model::{NodeName, ProviderTree};
use berth_virt::{HostView, VirtDriver};

use crate::devices::Devices;

/// A node's tree, for what is told of its devices.
pub(super) enum NodeTree {
    /// Nobody shows trees here.
    Unshown,
    /// Shown before long: nothing is told without it.
    Awaited,
    /// As it was known last.
    Known(Arc<ProviderTree>),
}

impl NodeTree {
    /// The tree, where it is known.
    pub(super) fn known(&self) -> Option<&ProviderTree> {
        match self {
            Self::Known(tree) => Some(tree),
            Self::Unshown | Self::Awaited => None,
        }
    }
}

impl<D: VirtDriver> Devices<D> {
    /// The tree of a node.
    pub(super) fn tree_of(&self, node: &NodeName) -> NodeTree {
        let Some(trees) = self.inner.trees.get() else {
            return NodeTree::Unshown;
        };
        trees.of(node).map_or(NodeTree::Awaited, NodeTree::Known)
    }

    /// Waits until a node has a tree for the first time; for ever where nobody shows trees.
    pub(super) async fn a_tree_came(&self) {
        match self.inner.trees.get() {
            Some(trees) => trees.came().await,
            None => std::future::pending().await,
        }
    }

    /// Lets the devices of a view keep what their providers have of Cyborg's, and says so once of each.
    pub(super) fn keep_cyborgs(&self, view: &mut HostView) {
        for (node, seen) in &mut view.nodes {
            let tree = self.tree_of(node);
            let Some(tree) = tree.known() else { continue };
            for device in &mut seen.devices {
                let usual = device.class.clone();
                if !device.keep_cyborgs(node, tree) {
                    continue;
                }
                let (address, class) = (device.address, &device.class);
                if self.is_news(&format!("class of {address}"), class.as_str()) {
                    tracing::info!(
                        %node, device = %address, %class, %usual,
                        "a device keeps the class that Cyborg's PCI driver gave it, by which device profiles ask for it; \
                         resource_class in [accelerators] device_spec gives it another"
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
