//! The contract itself.

use std::future::Future;
use std::pin::Pin;

use berth_model::{Allocation, Allocations, Desired, Homes, NodeName, ProviderTree};
use futures_core::Stream;

use crate::{HostView, ObserveError, ProviderTreeError, Trees};

/// Something changed on the host; the agent answers with a tick. What exactly is for the next `observe` to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostEvent {
    /// Devices came, went or changed.
    Devices,
    /// Guests were defined, started, stopped or removed.
    Guests,
    /// Events were lost, or the hypervisor's connection was: look at everything.
    Unknown,
}

/// A driver's events. The stream ends only with the driver.
pub type HostEvents = Pin<Box<dyn Stream<Item = HostEvent> + Send>>;

/// What a hypervisor's driver must be able to do. One driver per process; it may have several nodes, and every method
/// that takes a node is called for each on its own.
pub trait VirtDriver: Send + Sync + 'static {
    /// The driver's name, by `compute_driver`.
    fn name(&self) -> &'static str;

    /// Everything the driver can see, in one value. Changes nothing.
    fn observe(&self) -> impl Future<Output = Result<HostView, ObserveError>> + Send;

    /// A stream of "something changed".
    fn watch(&self) -> HostEvents;

    /// The tree the node should have, given the tree Placement has (in which foreign children and sharing providers stay
    /// as they are). Pure. The spec's method of the same name edits the tree in place; this one returns it.
    ///
    /// # Errors
    /// The view makes no tree: a name is too long, an amount out of range, the node unknown.
    fn update_provider_tree(
        &self,
        view: &HostView,
        current: &ProviderTree,
        node: &NodeName,
    ) -> Result<Desired, ProviderTreeError> {
        crate::provider_tree(view, current, node)
    }

    /// Where an allocation goes whose inventory moves. Pure, and asked only with all allocations of the tree in hand.
    fn homes(
        &self,
        view: &HostView,
        node: &NodeName,
        trees: Trees<'_>,
        allocation: &Allocation,
        all: &Allocations,
    ) -> Homes {
        crate::homes(view, node, trees, allocation, all)
    }
}
