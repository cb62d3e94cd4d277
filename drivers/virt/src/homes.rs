//! Computes where an allocation moves when its inventory moves, from the guest that holds it. Pure.
//!
//! [`berth_model::PendingReshape::resolve`] calls it for each allocation of a moved inventory, with all allocations of
//! the tree. There is one module per kind of resource: [`mdevs`] (virtual GPUs), [`cpus`] (VCPU and PCPU), [`memory`],
//! [`functions`] (SR-IOV); [`cells`] distributes over NUMA cells, and [`consumer`] finds the guest of a consumer.

mod cells;
mod consumer;
mod cpus;
mod functions;
mod mdevs;
mod memory;

use berth_model::{
    Allocation, Allocations, Home, HomelessReason, Homes, MemoryEncryption, NodeName, ProviderTree,
    ProviderUuid, ResourceClass,
};

use crate::provider_tree::{encryption_name, wanted_devices};
use crate::resource_kind::ResourceKind;
use crate::{GuestView, HostView, NodeView, TreePair};

/// The homes of one allocation under the node's model. `all` are the allocations of every consumer of the current tree.
#[must_use]
pub fn homes(
    view: &HostView,
    node: &NodeName,
    trees: TreePair<'_>,
    allocation: &Allocation,
    all: &Allocations,
) -> Homes {
    let Some(seen) = view.nodes.get(node) else {
        return Homes::Nowhere(HomelessReason::NoGuest);
    };
    let query = HomeQuery {
        seen,
        node,
        trees,
        tree: trees.desired,
        allocation,
        all,
    };
    if let Some(class) = query.new_name() {
        return query.single_home(query.root(), class);
    }
    if let Some(class) = query.devices_class() {
        return query.single_home(allocation.provider, class);
    }
    if allocation.class == ResourceClass::MEM_ENCRYPTION_CONTEXT {
        return query.encryption_home();
    }
    match ResourceKind::of(seen, &allocation.class) {
        Some(ResourceKind::Mdev) => mdevs::homes(&query),
        Some(ResourceKind::Cpu) => cpus::homes(&query),
        Some(ResourceKind::Memory) => memory::homes(&query),
        Some(ResourceKind::Function) => functions::homes(&query),
        // A GPU's provider has mediated devices only, whatever they were called when they were offered.
        None if mdevs::gpu_of(&query, allocation.provider).is_some() => mdevs::homes(&query),
        None => Homes::Nowhere(HomelessReason::Unknown),
    }
}

/// The guest of an allocation's consumer: the guest with its UUID, the guest known to have this further
/// consumer, or the only guest that uses exactly what the consumer holds. `None` if there is no such guest, or
/// more than one candidate.
#[must_use]
pub fn guest_behind<'a>(
    seen: &'a NodeView,
    node: &'a NodeName,
    trees: TreePair<'a>,
    allocation: &'a Allocation,
    all: &'a Allocations,
) -> Option<&'a GuestView> {
    let query = HomeQuery {
        seen,
        node,
        trees,
        tree: trees.desired,
        allocation,
        all,
    };
    query.guest()
}

/// The input: one allocation and its context.
struct HomeQuery<'a> {
    seen: &'a NodeView,
    node: &'a NodeName,
    trees: TreePair<'a>,
    /// The desired tree, as in `trees`.
    tree: &'a ProviderTree,
    allocation: &'a Allocation,
    all: &'a Allocations,
}

impl<'a> HomeQuery<'a> {
    fn root(&self) -> ProviderUuid {
        self.tree.root().uuid()
    }

    fn is_on_root(&self) -> bool {
        self.allocation.provider == self.root()
    }

    /// The guest behind the allocation's consumer.
    fn guest(&self) -> Option<&'a GuestView> {
        consumer::guest_of(self)
    }

    /// Why an allocation without a guest has no home.
    fn without_guest(&self) -> HomelessReason {
        let unreadable = &self.seen.unreadable;
        match unreadable.contains_key(&self.allocation.consumer) {
            true => HomelessReason::UnreadableGuest,
            false => HomelessReason::NoGuest,
        }
    }

    /// The consumer's allocations of a class on this node, by provider.
    fn allocated(&self, class: &ResourceClass) -> impl Iterator<Item = (ProviderUuid, u64)> {
        let held = self.all.of(&self.allocation.consumer).into_iter();
        held.flat_map(|held| &held.resources)
            .filter(move |((provider, held), _)| held == class && self.is_on_tree(*provider))
            .map(|((provider, _), amount)| (*provider, *amount))
    }

    /// The result for an allocation that moves to one provider as a whole.
    fn single_home(&self, provider: ProviderUuid, class: ResourceClass) -> Homes {
        at(
            vec![Home {
                provider,
                class,
                amount: self.allocation.amount,
            }],
            HomelessReason::Unknown,
        )
    }

    /// Contexts on the root are those of AMD SEV: Nova knew no other model then.
    fn encryption_home(&self) -> Homes {
        let name = encryption_name(self.node, MemoryEncryption::AmdSev).ok();
        match name.and_then(|name| self.tree.by_name(&name)) {
            Some(child) => self.single_home(child.uuid(), self.allocation.class.clone()),
            None => Homes::Nowhere(HomelessReason::Unknown),
        }
    }

    /// The new name of the class, if the root reports the class under another name now.
    fn new_name(&self) -> Option<ResourceClass> {
        let class = &self.allocation.class;
        let root = self.tree.root();
        if !self.is_on_root() || root.inventories.contains_key(class) {
            return None;
        }
        self.seen
            .customs
            .iter()
            .find(|custom| {
                custom.formerly.contains(class) && root.inventories.contains_key(&custom.class)
            })
            .map(|custom| custom.class.clone())
    }

    /// The class of the offered device that the allocation's provider stands for. All units of such a provider are of
    /// that device, whatever their class was.
    fn devices_class(&self) -> Option<ResourceClass> {
        let name = &self.trees.get(self.allocation.provider)?.name;
        let devices = wanted_devices(self.seen, self.node);
        let device = devices.get(name)?;
        self.tree.by_name(name)?;
        Some(device.class.clone())
    }

    /// Whether a provider belongs to this node: the source of the move, or a provider of either tree.
    fn is_on_tree(&self, provider: ProviderUuid) -> bool {
        provider == self.allocation.provider || self.trees.is_own(provider)
    }
}

fn at(homes: Vec<Home>, rest: HomelessReason) -> Homes {
    if homes.is_empty() {
        Homes::Nowhere(rest)
    } else {
        Homes::At { homes, rest }
    }
}
