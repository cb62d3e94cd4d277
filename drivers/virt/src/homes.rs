//! Where an allocation goes when its inventory moves: read from the guest that holds it. Pure.

use std::collections::BTreeMap;

use berth_model::{
    Allocation, Allocations, Home, HomelessReason, Homes, NodeName, ProviderTree, ProviderUuid,
    ResourceClass,
};

use crate::provider_tree::{cell_name, cells_are_modelled, named};
use crate::{CpuPolicy, GuestView, HostView, NodeView, PcpuModel, VgpuModel};

/// The homes of one allocation under the node's model. `tree` is the desired tree, `all` the allocations of every consumer
/// of the current one.
#[must_use]
pub fn homes(
    view: &HostView,
    node: &NodeName,
    tree: &ProviderTree,
    allocation: &Allocation,
    all: &Allocations,
) -> Homes {
    let Some(seen) = view.nodes.get(node) else {
        return Homes::Nowhere(HomelessReason::NoGuest);
    };
    let _ = (tree, all, allocation, seen);
    Homes::Nowhere(HomelessReason::Unknown)
}
