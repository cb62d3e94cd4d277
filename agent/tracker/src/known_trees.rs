//! Cache of the nodes' provider trees in Placement, for code that selects a guest's devices by its allocations.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use berth_model::{NodeName, ProviderTree};
use tokio::sync::Notify;

/// Provider trees by node, as last known. All clones share the same trees; the service loop updates them.
#[derive(Debug, Clone, Default)]
pub struct KnownTrees(Arc<TreeCache>);

#[derive(Debug, Default)]
struct TreeCache {
    known: Mutex<BTreeMap<NodeName, Arc<ProviderTree>>>,
    /// Notified when a node is reported for the first time.
    came: Notify,
}

impl KnownTrees {
    /// The tree of a node; `None` before the node is reported.
    #[must_use]
    pub fn of(&self, node: &NodeName) -> Option<Arc<ProviderTree>> {
        let known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(node).cloned()
    }

    /// Waits until a node is reported for the first time. Returns at once if that happened since the last call.
    /// Supports one waiting caller.
    pub async fn wait_for_new_node(&self) {
        self.0.came.notified().await;
    }

    pub fn set(&self, trees: impl Iterator<Item = (NodeName, Arc<ProviderTree>)>) {
        let trees: BTreeMap<_, _> = trees.collect();
        let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        let came = trees.keys().any(|node| !known.contains_key(node));
        *known = trees;
        drop(known);
        if came {
            self.0.came.notify_one();
        }
    }
}
