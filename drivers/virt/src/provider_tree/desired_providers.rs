//! Computes the amounts per provider and class under the node's model.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{NodeName, ProviderName, ResourceClass, Trait};

use super::{ProviderTreeError, cell_name, child_name, encryption_name};
use crate::{
    CpuSet, HostNumaCell, NodeDisk, NodeView, NumaModel, PcpuModel, VgpuModel, VirtualFunctions,
};

/// Inventory wanted on one provider, in the classes' units.
pub(super) type InventoryAmounts = BTreeMap<ResourceClass, u64>;

/// The desired providers: the root's amounts, and amounts and traits of each child by name.
pub(super) struct DesiredProviders {
    pub(super) root: InventoryAmounts,
    pub(super) children: BTreeMap<ProviderName, (InventoryAmounts, BTreeSet<Trait>)>,
}

pub(super) fn desired_providers(
    seen: &NodeView,
    node: &NodeName,
) -> Result<DesiredProviders, ProviderTreeError> {
    let mut wanted = DesiredProviders {
        root: InventoryAmounts::new(),
        children: BTreeMap::new(),
    };
    match seen.disk {
        NodeDisk::Local { gib } => add(&mut wanted.root, &ResourceClass::DISK_GB, gib),
        NodeDisk::Shared | NodeDisk::None => {}
    }
    for custom in &seen.customs {
        add(&mut wanted.root, &custom.class, custom.total);
    }
    if cells_are_modelled(seen) {
        add_cells(&mut wanted, seen, node)?;
    } else {
        add_flat(&mut wanted.root, seen);
    }
    add_gpus(&mut wanted, seen, node)?;
    for (model, total) in &seen.encryption_contexts {
        let amounts = InventoryAmounts::from([(ResourceClass::MEM_ENCRYPTION_CONTEXT, *total)]);
        let traits = BTreeSet::from([model.required_trait()]);
        let name = encryption_name(node, *model)?;
        wanted.children.insert(name, (amounts, traits));
    }
    Ok(wanted)
}

fn add(amounts: &mut InventoryAmounts, class: &ResourceClass, amount: u64) {
    if amount > 0 {
        let sum = amounts.entry(class.clone()).or_insert(0);
        *sum = sum.saturating_add(amount);
    }
}

/// Whether CPUs, memory and functions are reported per NUMA cell: the model requires it and the host has cells.
pub(crate) fn cells_are_modelled(seen: &NodeView) -> bool {
    seen.model.numa == NumaModel::Cells && !seen.cells.is_empty()
}

/// Whether dedicated CPUs are reported as PCPU: the model requires it and there are some.
pub(crate) fn dedicated_are_pcpu(seen: &NodeView) -> bool {
    seen.model.pcpu == PcpuModel::Pcpu && !seen.cpus.dedicated_online().is_empty()
}

fn add_flat(root: &mut InventoryAmounts, seen: &NodeView) {
    add_cpus(root, seen, None);
    add(root, &ResourceClass::MEMORY_MB, seen.memory_mib);
    for card in &seen.functions {
        add(root, &card.class, card.addresses.len() as u64);
    }
}

/// CPUs of the node, or of one of its cells.
fn add_cpus(amounts: &mut InventoryAmounts, seen: &NodeView, cell: Option<&HostNumaCell>) {
    let count = |set: CpuSet| match cell {
        Some(cell) => set.intersection(&cell.cpus).len() as u64,
        None => set.len() as u64,
    };
    let shared = count(seen.cpus.shared_online());
    let dedicated = count(seen.cpus.dedicated_online());
    match seen.model.pcpu {
        PcpuModel::Pcpu => {
            add(amounts, &ResourceClass::VCPU, shared);
            add(amounts, &ResourceClass::PCPU, dedicated);
        }
        PcpuModel::Vcpu => add(amounts, &ResourceClass::VCPU, shared + dedicated),
    }
}

fn add_cells(
    wanted: &mut DesiredProviders,
    seen: &NodeView,
    node: &NodeName,
) -> Result<(), ProviderTreeError> {
    for cell in &seen.cells {
        let mut amounts = InventoryAmounts::new();
        add_cpus(&mut amounts, seen, Some(cell));
        add(&mut amounts, &ResourceClass::MEMORY_MB, cell.memory_mib);
        for card in &seen.functions {
            if card_cell(seen, card) == Some(cell.id) {
                add(&mut amounts, &card.class, card.addresses.len() as u64);
            }
        }
        let traits = BTreeSet::from([Trait::HW_NUMA_ROOT]);
        let name = cell_name(node, cell.id)?;
        wanted.children.insert(name, (amounts, traits));
    }
    Ok(())
}

/// The cell that a card's functions are reported on: its own, or the first one if unknown (like in the kernel).
pub(crate) fn card_cell(seen: &NodeView, card: &VirtualFunctions) -> Option<u32> {
    let own = card
        .numa_node
        .filter(|id| seen.cells.iter().any(|cell| cell.id == *id));
    own.or_else(|| seen.cells.first().map(|cell| cell.id))
}

fn add_gpus(
    wanted: &mut DesiredProviders,
    seen: &NodeView,
    node: &NodeName,
) -> Result<(), ProviderTreeError> {
    for gpu in &seen.gpus {
        let Some(offered) = gpu.offered.as_ref().filter(|offered| offered.total > 0) else {
            continue;
        };
        match seen.model.vgpu {
            VgpuModel::Root => add(&mut wanted.root, &offered.class, offered.total),
            VgpuModel::PerGpu => {
                let amounts = InventoryAmounts::from([(offered.class.clone(), offered.total)]);
                let name = child_name(node, &gpu.address.nodedev_name())?;
                wanted.children.insert(name, (amounts, BTreeSet::new()));
            }
        }
    }
    Ok(())
}
