//! Placement's trees of this agent's nodes as they were known last, for whoever picks a guest's devices by its allocations.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use berth_model::{NodeName, ProviderTree};
use tokio::sync::Notify;

/// The trees by node. Clones are one; the service's loop writes it.
#[derive(Debug, Clone, Default)]
pub struct KnownTrees(Arc<Trees>);

#[derive(Debug, Default)]
struct Trees {
    known: Mutex<BTreeMap<NodeName, Arc<ProviderTree>>>,
    /// A node was reported for the first time.
    came: Notify,
}

impl KnownTrees {
    /// The tree of a node; none before it was reported.
    #[must_use]
    pub fn of(&self, node: &NodeName) -> Option<Arc<ProviderTree>> {
        let known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(node).cloned()
    }

    /// Waits until a node is reported for the first time, or returns at once where one was since this was called last. For one
    /// caller.
    pub async fn came(&self) {
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
