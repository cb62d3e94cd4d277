//! Preserves the resource classes that Cyborg's PCI driver gave to devices, for hosts that used Cyborg before.
//!
//! Device profiles of the cloud name these classes, so a device with a new class would no longer match them. For example,
//! Cyborg's PCI driver reported a card as one unit of `CUSTOM_PCI`, and profiles contain `resources:CUSTOM_PCI`. The driver of this
//! agent would report the same card as `PGPU`. If Placement still has the card's provider with only the class `CUSTOM_PCI`,
//! then [`preserve_cyborg_classes`](DeviceManager::preserve_cyborg_classes) gives the card this class. It runs after
//! each observation of the host. A `resource_class` in the configuration takes precedence.

use std::sync::Arc;

use berth_model::{NodeName, ProviderTree};
use berth_virt::{HostView, VirtDriver};

use crate::devices::DeviceManager;

/// The provider tree of a node, with which its devices are reported to the accelerator service.
pub(super) enum NodeTree {
    /// The device manager runs without provider trees.
    NotUsed,
    /// The tree has not been read from Placement yet. Until then, the node's devices are not reported.
    Awaited,
    /// The tree that was read last.
    Known(Arc<ProviderTree>),
}

impl NodeTree {
    pub(super) fn known(&self) -> Option<&ProviderTree> {
        match self {
            Self::Known(tree) => Some(tree),
            Self::NotUsed | Self::Awaited => None,
        }
    }
}

impl<D: VirtDriver> DeviceManager<D> {
    pub(super) fn tree_of(&self, node: &NodeName) -> NodeTree {
        let Some(trees) = self.inner.trees.get() else {
            return NodeTree::NotUsed;
        };
        trees.of(node).map_or(NodeTree::Awaited, NodeTree::Known)
    }

    /// Waits until a node gets its first tree. Never returns without provider trees.
    pub(super) async fn wait_for_tree(&self) {
        match self.inner.trees.get() {
            Some(trees) => trees.wait_for_new_node().await,
            None => std::future::pending().await,
        }
    }

    /// Gives the observed devices the resource classes of Cyborg's providers, and logs each change once.
    pub(super) fn preserve_cyborg_classes(&self, view: &mut HostView) {
        for (node, observation) in &mut view.nodes {
            let tree = self.tree_of(node);
            let Some(tree) = tree.known() else { continue };
            for device in &mut observation.devices {
                let usual = device.class.clone();
                if !device.retain_cyborg_providers(node, tree) {
                    continue;
                }
                let (address, class) = (device.address, &device.class);
                if self.is_new_message(&format!("class of {address}"), class.as_str()) {
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
