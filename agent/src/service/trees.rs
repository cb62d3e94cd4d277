//! Placement's trees of this agent's nodes as they were known last, for whoever picks a guest's devices by its allocations.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use berth_model::{NodeName, ProviderTree};

/// The trees by node. Clones are one; the service's loop writes it.
#[derive(Debug, Clone, Default)]
pub struct KnownTrees(Arc<Mutex<BTreeMap<NodeName, Arc<ProviderTree>>>>);

impl KnownTrees {
    /// The tree of a node; none before it was reported.
    #[must_use]
    pub fn of(&self, node: &NodeName) -> Option<Arc<ProviderTree>> {
        let trees = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        trees.get(node).cloned()
    }

    pub(super) fn set(&self, trees: impl Iterator<Item = (NodeName, Arc<ProviderTree>)>) {
        let trees = trees.collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = trees;
    }
}
