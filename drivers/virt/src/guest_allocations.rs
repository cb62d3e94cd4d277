//! The allocations that a node's guests should have in Placement, computed from the observed guests. Pure. Used by the
//! fake driver (to fill Placement with the state before an upgrade) and the conformance suite.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    ConsumerUuid, NodeName, PciAddress, ProviderTree, ProviderUuid, ResourceClass, Usages,
};

use crate::provider_tree::{
    card_cell, cell_name, cells_are_modelled, child_name, dedicated_are_pcpu, device_of,
};
use crate::{DeviceUnit, GuestCell, GuestCpuPolicy, GuestView, HostDeviceId, NodeView, VgpuModel};

/// Amounts by provider and class, in the classes' units.
pub type Resources = BTreeMap<(ProviderUuid, ResourceClass), u64>;

/// Allocates each guest's CPUs, memory, mediated devices and functions under the node's model. `tree` is the node's
/// tree under that model. Devices missing in the tree are omitted. A guest without NUMA placement goes to the first
/// cell with enough room.
#[must_use]
pub fn guest_allocations(
    seen: &NodeView,
    node: &NodeName,
    tree: &ProviderTree,
) -> BTreeMap<ConsumerUuid, Resources> {
    let mut builder = AllocationBuilder {
        seen,
        node,
        tree,
        used: Usages::new(),
    };
    let mut held = BTreeMap::new();
    // Guests with NUMA placement first, so that the remaining room is known for the others.
    let (placed, free): (Vec<_>, Vec<_>) = seen
        .guests
        .iter()
        .partition(|(_, guest)| !guest.cells.is_empty());
    for (uuid, guest) in placed.into_iter().chain(free) {
        held.insert(*uuid, builder.claim(guest));
    }
    held
}

/// The pairs of provider and class that stand for the node's devices: GPUs, cards and offered devices. Allocations of
/// other pairs may be for something that was not observed.
#[must_use]
pub fn device_places(
    seen: &NodeView,
    node: &NodeName,
    tree: &ProviderTree,
) -> BTreeSet<(ProviderUuid, ResourceClass)> {
    let builder = AllocationBuilder {
        seen,
        node,
        tree,
        used: Usages::new(),
    };
    let gpus = seen.gpus.iter().filter_map(|gpu| builder.gpu(gpu.address));
    let functions = seen.functions.iter().flat_map(|card| &card.addresses);
    let functions = functions.filter_map(|address| builder.function(*address));
    let devices = seen.devices.iter().filter_map(|device| {
        let provider = device.provider_in(node, tree)?;
        Some((provider.uuid(), device.class_on(provider)))
    });
    gpus.chain(functions).chain(devices).collect()
}

struct AllocationBuilder<'a> {
    seen: &'a NodeView,
    node: &'a NodeName,
    tree: &'a ProviderTree,
    used: Usages,
}

impl AllocationBuilder<'_> {
    fn claim(&mut self, guest: &GuestView) -> Resources {
        let mut claimed = Resources::new();
        if cells_are_modelled(self.seen) {
            self.claim_on_cells(guest, &mut claimed);
        } else {
            let root = self.tree.root().uuid();
            let (pinned, shared) = self.cpus(guest);
            put(&mut claimed, root, &ResourceClass::PCPU, pinned);
            put(&mut claimed, root, &ResourceClass::VCPU, shared);
            let memory = guest.memory_mib;
            put(&mut claimed, root, &ResourceClass::MEMORY_MB, memory);
        }
        for mdev in &guest.mdevs {
            match mdev.parent.and_then(|parent| self.gpu(parent)) {
                Some((provider, class)) => put(&mut claimed, provider, &class, 1),
                None => {
                    let part = HostDeviceId::Mdev(mdev.uuid);
                    self.claim_of_device(guest, part, mdev.parent, &mut claimed);
                }
            }
        }
        for function in &guest.functions {
            match self.function(*function) {
                Some((provider, class)) => put(&mut claimed, provider, &class, 1),
                None => {
                    let part = HostDeviceId::Function(*function);
                    self.claim_of_device(guest, part, None, &mut claimed);
                }
            }
        }
        for (place, amount) in &claimed {
            *self.used.entry(place.clone()).or_insert(0) += amount;
        }
        claimed
    }

    /// A guest's pinned and shared CPUs, as they are reported.
    fn cpus(&self, guest: &GuestView) -> (u64, u64) {
        let pinned = match guest.cpu_policy {
            _ if !dedicated_are_pcpu(self.seen) => 0,
            GuestCpuPolicy::Shared => 0,
            GuestCpuPolicy::Dedicated => guest.vcpus,
            GuestCpuPolicy::Mixed { dedicated } => dedicated.min(guest.vcpus),
        };
        (pinned, guest.vcpus - pinned)
    }

    fn claim_on_cells(&self, guest: &GuestView, claimed: &mut Resources) {
        let cells = if guest.cells.is_empty() {
            self.any_cell(guest).into_iter().collect()
        } else {
            guest.cells.clone()
        };
        let (mut pinned, _) = self.cpus(guest);
        for cell in cells {
            let Some(provider) = self.cell(cell.host_cell) else {
                continue;
            };
            let here = pinned.min(cell.vcpus);
            pinned -= here;
            put(claimed, provider, &ResourceClass::PCPU, here);
            put(claimed, provider, &ResourceClass::VCPU, cell.vcpus - here);
            put(
                claimed,
                provider,
                &ResourceClass::MEMORY_MB,
                cell.memory_mib,
            );
        }
    }

    fn any_cell(&self, guest: &GuestView) -> Option<GuestCell> {
        let (pinned, shared) = self.cpus(guest);
        let needs = [
            (ResourceClass::PCPU, pinned),
            (ResourceClass::VCPU, shared),
            (ResourceClass::MEMORY_MB, guest.memory_mib),
        ];
        let has_room = |id: u32| {
            self.cell(id).is_some_and(|provider| {
                needs
                    .iter()
                    .all(|(class, amount)| self.room(provider, class) >= *amount)
            })
        };
        let roomy = self.seen.cells.iter().find(|cell| has_room(cell.id));
        roomy.map(|cell| GuestCell {
            host_cell: cell.id,
            vcpus: guest.vcpus,
            memory_mib: guest.memory_mib,
        })
    }

    fn room(&self, provider: ProviderUuid, class: &ResourceClass) -> u64 {
        let inventory = self.tree.inventory(provider, class);
        let capacity = inventory.map_or(0, berth_model::Inventory::capacity);
        let used = self.used.get(&(provider, class.clone()));
        capacity.saturating_sub(used.copied().unwrap_or(0))
    }

    fn cell(&self, id: u32) -> Option<ProviderUuid> {
        let name = cell_name(self.node, id).ok()?;
        Some(self.tree.by_name(&name)?.uuid())
    }

    fn gpu(&self, address: PciAddress) -> Option<(ProviderUuid, ResourceClass)> {
        let gpu = self.seen.gpus.iter().find(|gpu| gpu.address == address)?;
        let class = gpu.offered.as_ref()?.class.clone();
        let provider = match self.seen.model.vgpu {
            VgpuModel::Root => self.tree.root(),
            VgpuModel::PerGpu => {
                let name = child_name(self.node, &address.nodedev_name()).ok()?;
                self.tree.by_name(&name)?
            }
        };
        Some((provider.uuid(), class))
    }

    /// The provider and class of a part of an offered device; all parts of a device offered as a whole are one unit.
    fn claim_of_device(
        &self,
        guest: &GuestView,
        part: HostDeviceId,
        parent: Option<PciAddress>,
        claimed: &mut Resources,
    ) {
        let Some(device) = device_of(self.seen, guest, part, parent) else {
            return;
        };
        let Some(provider) = device.provider_in(self.node, self.tree) else {
            return;
        };
        let class = device.class_on(provider);
        match device.unit {
            DeviceUnit::Handle => put(claimed, provider.uuid(), &class, 1),
            DeviceUnit::Device | DeviceUnit::Partition(_) => {
                claimed.insert((provider.uuid(), class), 1);
            }
        }
    }

    fn function(&self, address: PciAddress) -> Option<(ProviderUuid, ResourceClass)> {
        let mut cards = self.seen.functions.iter();
        let card = cards.find(|card| card.addresses.contains(&address))?;
        let provider = if cells_are_modelled(self.seen) {
            self.cell(card_cell(self.seen, card)?)?
        } else {
            self.tree.root().uuid()
        };
        Some((provider, card.class.clone()))
    }
}

fn put(claimed: &mut Resources, provider: ProviderUuid, class: &ResourceClass, amount: u64) {
    if amount > 0 {
        *claimed.entry((provider, class.clone())).or_insert(0) += amount;
    }
}
