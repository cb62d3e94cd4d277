//! From what is seen to the tree that is wanted. Pure.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    Desired, Inventory, InventoryError, Move, NodeName, Provider, ProviderName, ProviderNameError,
    ProviderTree, ProviderUuid, ResourceClass, Trait, TreeError,
};

use crate::{Disk, HostView, NodeView, NumaModel, PcpuModel, VgpuModel};

/// A view that makes no tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderTreeError {
    /// The driver has no such node (any more).
    #[error("the hypervisor has no node {node}")]
    UnknownNode {
        /// The node.
        node: NodeName,
    },
    /// A child's name is too long.
    #[error("a child provider of {node} cannot be named")]
    Name {
        /// The node.
        node: NodeName,
        /// Why.
        #[source]
        source: ProviderNameError,
    },
    /// An amount is no inventory.
    #[error("{class} on {provider}")]
    Amount {
        /// The provider.
        provider: ProviderName,
        /// The class.
        class: ResourceClass,
        /// Why.
        #[source]
        source: InventoryError,
    },
    /// A child has no place: somebody else has a provider of its name in the tree.
    #[error("a child provider has no place in the tree of {node}")]
    Tree {
        /// The node.
        node: NodeName,
        /// Why.
        #[source]
        source: TreeError,
    },
}

/// Inventory wanted on one provider.
type Amounts = BTreeMap<ResourceClass, u64>;

/// The providers the node wants: the root's amounts, and each child's by name.
struct Wanted {
    root: Amounts,
    children: BTreeMap<ProviderName, (Amounts, BTreeSet<Trait>)>,
}

/// The tree a node should have, given the tree Placement has: the root and the children that the view calls for, all
/// other children and the sharing providers as they are; and the moves by which allocations follow their inventory.
///
/// # Errors
/// The view makes no tree.
pub fn provider_tree(
    view: &HostView,
    current: &ProviderTree,
    node: &NodeName,
) -> Result<Desired, ProviderTreeError> {
    let seen = view
        .nodes
        .get(node)
        .ok_or_else(|| ProviderTreeError::UnknownNode { node: node.clone() })?;
    let wanted = wanted(seen, current, node)?;
    let mut tree = current.clone();
    let known = reported_classes(seen);
    let moves = moves(seen, current, node, &wanted);
    write_root(&mut tree, current, seen, &wanted, &known)?;
    write_children(&mut tree, current, node, &wanted, &known)?;
    Ok(Desired { tree, moves })
}

fn wanted(
    seen: &NodeView,
    current: &ProviderTree,
    node: &NodeName,
) -> Result<Wanted, ProviderTreeError> {
    let mut wanted = Wanted {
        root: Amounts::new(),
        children: BTreeMap::new(),
    };
    match seen.disk {
        Disk::Local { gib } => add(&mut wanted.root, &ResourceClass::DISK_GB, gib),
        Disk::Shared | Disk::None => {}
    }
    for custom in &seen.customs {
        add(&mut wanted.root, &custom.class, custom.total);
    }
    if cells_are_modelled(seen) {
        want_cells(&mut wanted, seen, node)?;
    } else {
        want_cpus(&mut wanted.root, seen, None);
        add(&mut wanted.root, &ResourceClass::MEMORY_MB, seen.memory_mib);
        for functions in &seen.functions {
            add(
                &mut wanted.root,
                &functions.class,
                functions.addresses.len() as u64,
            );
        }
    }
    want_gpus(&mut wanted, seen, node)?;
    let _ = current;
    Ok(wanted)
}

fn add(amounts: &mut Amounts, class: &ResourceClass, amount: u64) {
    if amount > 0 {
        *amounts.entry(class.clone()).or_insert(0) += amount;
    }
}

pub(crate) fn cells_are_modelled(seen: &NodeView) -> bool {
    seen.model.numa == NumaModel::Cells && !seen.cells.is_empty()
}

/// The name of a cell's provider: `<node>_numa<id>`.
pub(crate) fn cell_name(node: &NodeName, cell: u32) -> Result<ProviderName, ProviderTreeError> {
    named(node, &format!("numa{cell}"))
}

pub(crate) fn named(node: &NodeName, suffix: &str) -> Result<ProviderName, ProviderTreeError> {
    node.child_name(suffix)
        .map_err(|source| ProviderTreeError::Name {
            node: node.clone(),
            source,
        })
}

/// CPUs of the node, or of one of its cells.
fn want_cpus(amounts: &mut Amounts, seen: &NodeView, cell: Option<&crate::NumaCell>) {
    let within = |set: crate::CpuSet| cell.map_or(set.clone(), |cell| set.intersection(&cell.cpus));
    let shared = within(seen.cpus.shared_online()).len() as u64;
    let dedicated = within(seen.cpus.dedicated_online()).len() as u64;
    match seen.model.pcpu {
        PcpuModel::Pcpu => {
            add(amounts, &ResourceClass::VCPU, shared);
            add(amounts, &ResourceClass::PCPU, dedicated);
        }
        PcpuModel::Vcpu => add(amounts, &ResourceClass::VCPU, shared + dedicated),
    }
}

fn want_cells(
    wanted: &mut Wanted,
    seen: &NodeView,
    node: &NodeName,
) -> Result<(), ProviderTreeError> {
    for cell in &seen.cells {
        let mut amounts = Amounts::new();
        want_cpus(&mut amounts, seen, Some(cell));
        add(&mut amounts, &ResourceClass::MEMORY_MB, cell.memory_mib);
        let traits = BTreeSet::from([Trait::HW_NUMA_ROOT]);
        wanted
            .children
            .insert(cell_name(node, cell.id)?, (amounts, traits));
    }
    for functions in &seen.functions {
        // A card that does not say where it sits is on the first cell, as the kernel treats it.
        let cell = functions
            .numa_node
            .filter(|id| seen.cells.iter().any(|cell| cell.id == *id));
        let cell = cell
            .or_else(|| seen.cells.first().map(|cell| cell.id))
            .unwrap_or(0);
        if let Some((amounts, _)) = wanted.children.get_mut(&cell_name(node, cell)?) {
            add(amounts, &functions.class, functions.addresses.len() as u64);
        }
    }
    Ok(())
}

fn want_gpus(
    wanted: &mut Wanted,
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
                let mut amounts = Amounts::new();
                add(&mut amounts, &offered.class, offered.total);
                let name = named(node, &gpu.address.nodedev_name())?;
                wanted.children.insert(name, (amounts, BTreeSet::new()));
            }
        }
    }
    Ok(())
}

/// The classes this node's reports may contain under any model: inventory of such a class that is not wanted goes;
/// inventory of other classes is somebody else's and stays.
fn reported_classes(seen: &NodeView) -> BTreeSet<ResourceClass> {
    let mut classes = BTreeSet::from([
        ResourceClass::VCPU,
        ResourceClass::PCPU,
        ResourceClass::MEMORY_MB,
        ResourceClass::DISK_GB,
        ResourceClass::VGPU,
        ResourceClass::SRIOV_NET_VF,
    ]);
    classes.extend(
        seen.gpus
            .iter()
            .filter_map(|gpu| gpu.offered.as_ref())
            .map(|o| o.class.clone()),
    );
    classes.extend(
        seen.functions
            .iter()
            .map(|functions| functions.class.clone()),
    );
    for custom in &seen.customs {
        classes.insert(custom.class.clone());
        classes.extend(custom.formerly.iter().cloned());
    }
    classes
}

fn write_inventories(
    provider: &mut Provider,
    current: Option<&Provider>,
    amounts: &Amounts,
    known: &BTreeSet<ResourceClass>,
) -> Result<(), ProviderTreeError> {
    provider
        .inventories
        .retain(|class, _| amounts.contains_key(class) || !known.contains(class));
    for (class, amount) in amounts {
        let before = current.and_then(|current| current.inventories.get(class));
        let inventory = Inventory::of(*amount).map_err(|source| ProviderTreeError::Amount {
            provider: provider.name.clone(),
            class: class.clone(),
            source,
        })?;
        provider
            .inventories
            .insert(class.clone(), inventory.keeping(before));
    }
    Ok(())
}

/// The root's traits: those seen, and those that are not for a driver to judge.
fn write_root(
    tree: &mut ProviderTree,
    current: &ProviderTree,
    seen: &NodeView,
    wanted: &Wanted,
    known: &BTreeSet<ResourceClass>,
) -> Result<(), ProviderTreeError> {
    let root = tree.root_mut();
    root.traits.retain(|held| !is_a_drivers_to_judge(held));
    root.traits.extend(seen.traits.iter().cloned());
    write_inventories(root, Some(current.root()), &wanted.root, known)
}

/// Traits a driver adds and takes away: what the processor has and what the hypervisor can do. The agent's own
/// (COMPUTE_NODE, COMPUTE_STATUS_DISABLED) and everybody else's stay.
fn is_a_drivers_to_judge(held: &Trait) -> bool {
    let name = held.as_str();
    (name.starts_with("HW_CPU_") || name.starts_with("COMPUTE_"))
        && ![Trait::COMPUTE_NODE, Trait::COMPUTE_STATUS_DISABLED].contains(held)
}

fn write_children(
    tree: &mut ProviderTree,
    current: &ProviderTree,
    node: &NodeName,
    wanted: &Wanted,
    known: &BTreeSet<ResourceClass>,
) -> Result<(), ProviderTreeError> {
    let root = current.root().uuid();
    let gone: Vec<ProviderUuid> = current
        .own()
        .into_iter()
        .filter(|provider| provider.uuid() != root && current.is_ours(provider.uuid()))
        .filter(|provider| !wanted.children.contains_key(&provider.name))
        .filter(|provider| {
            current
                .subtree(provider.uuid())
                .iter()
                .all(|p| current.is_ours(p.uuid()))
        })
        .map(Provider::uuid)
        .collect();
    for uuid in gone {
        tree.remove(uuid);
    }
    for (name, (amounts, traits)) in &wanted.children {
        let before = current
            .by_name(name)
            .filter(|provider| current.is_own(provider.uuid()));
        let uuid = before.map_or_else(|| root.child(name), Provider::uuid);
        if tree.get(uuid).is_none() {
            let mut child = Provider::child(uuid, name.clone(), root);
            child.generation = before.and_then(|before| before.generation);
            tree.insert(child)
                .map_err(|source| ProviderTreeError::Tree {
                    node: node.clone(),
                    source,
                })?;
        }
        if let Some(child) = tree.get_mut(uuid) {
            child.traits.extend(traits.iter().cloned());
            write_inventories(child, before, amounts, known)?;
        }
    }
    Ok(())
}

/// Which inventories of the current tree moved: a class that Placement has where this model does not report it, and that
/// this model reports elsewhere.
fn moves(seen: &NodeView, current: &ProviderTree, node: &NodeName, wanted: &Wanted) -> Vec<Move> {
    let mut moves = Vec::new();
    let root = current.root();
    for custom in &seen.customs {
        for old in custom.formerly.iter().filter(|old| **old != custom.class) {
            if root.inventories.contains_key(old) && !wanted.root.contains_key(old) {
                moves.push(Move {
                    provider: root.uuid(),
                    class: old.clone(),
                    to: BTreeSet::from([custom.class.clone()]),
                    reason: "the class has a new name",
                });
            }
        }
    }
    for provider in current
        .own()
        .into_iter()
        .filter(|p| current.is_ours(p.uuid()))
    {
        let here = if provider.uuid() == root.uuid() {
            Some(&wanted.root)
        } else {
            wanted
                .children
                .get(&provider.name)
                .map(|(amounts, _)| amounts)
        };
        for class in provider.inventories.keys() {
            let renamed = moves
                .iter()
                .any(|m| m.provider == provider.uuid() && m.class == *class);
            if renamed {
                continue;
            }
            let stays = here.is_some_and(|amounts| amounts.contains_key(class));
            let to = new_classes(seen, current, class);
            if let Some(reason) = why_it_moves(seen, current, node, provider, class, stays)
                && to
                    .iter()
                    .any(|class| is_wanted_elsewhere(wanted, current, provider, class))
            {
                moves.push(Move {
                    provider: provider.uuid(),
                    class: class.clone(),
                    to,
                    reason,
                });
            }
        }
    }
    moves
}

fn is_wanted_elsewhere(
    wanted: &Wanted,
    current: &ProviderTree,
    from: &Provider,
    class: &ResourceClass,
) -> bool {
    let on_root = wanted.root.contains_key(class)
        && (from.uuid() != current.root().uuid() || !from.inventories.contains_key(class));
    on_root
        || wanted
            .children
            .iter()
            .any(|(name, (amounts, _))| *name != from.name && amounts.contains_key(class))
}

/// The classes that units of a class may have under the wanted model.
fn new_classes(
    seen: &NodeView,
    current: &ProviderTree,
    class: &ResourceClass,
) -> BTreeSet<ResourceClass> {
    let mut to = BTreeSet::from([class.clone()]);
    if *class == ResourceClass::VCPU && pcpus_are_new(seen, current) {
        to.insert(ResourceClass::PCPU);
    }
    if *class == ResourceClass::PCPU && seen.model.pcpu == PcpuModel::Vcpu {
        to = BTreeSet::from([ResourceClass::VCPU]);
    }
    let is_gpu_class = *class == ResourceClass::VGPU
        || seen
            .gpus
            .iter()
            .filter_map(|gpu| gpu.offered.as_ref())
            .any(|o| o.class == *class);
    if is_gpu_class {
        to.extend(
            seen.gpus
                .iter()
                .filter_map(|gpu| gpu.offered.as_ref())
                .map(|o| o.class.clone()),
        );
    }
    to
}

/// Dedicated CPUs are to be reported as PCPU, and the current tree does not do so yet (Nova's rule for its reshape).
pub(crate) fn pcpus_are_new(seen: &NodeView, current: &ProviderTree) -> bool {
    seen.model.pcpu == PcpuModel::Pcpu
        && !seen.cpus.dedicated_online().is_empty()
        && !current
            .own()
            .iter()
            .any(|p| p.inventories.contains_key(&ResourceClass::PCPU))
}

fn why_it_moves(
    seen: &NodeView,
    current: &ProviderTree,
    node: &NodeName,
    provider: &Provider,
    class: &ResourceClass,
    stays: bool,
) -> Option<&'static str> {
    let on_root = provider.uuid() == current.root().uuid();
    let is_cell = seen
        .cells
        .iter()
        .any(|cell| cell_name(node, cell.id).is_ok_and(|name| name == provider.name));
    if *class == ResourceClass::VCPU && on_root && pcpus_are_new(seen, current) {
        return Some("dedicated CPUs are PCPU");
    }
    if stays {
        return None;
    }
    if *class == ResourceClass::PCPU && seen.model.pcpu == PcpuModel::Vcpu {
        return Some("dedicated CPUs are VCPU again");
    }
    match (on_root, seen.model.vgpu) {
        (true, VgpuModel::PerGpu) if is_mdev_class(seen, class) => {
            return Some("each GPU has a provider of its own");
        }
        (false, VgpuModel::Root) if is_mdev_class(seen, class) => {
            return Some("GPUs are reported on the root again");
        }
        _ => {}
    }
    match (on_root, cells_are_modelled(seen)) {
        (true, true) => Some("each NUMA cell has a provider of its own"),
        (false, false) if is_cell => Some("NUMA cells are reported on the root again"),
        _ => None,
    }
}

fn is_mdev_class(seen: &NodeView, class: &ResourceClass) -> bool {
    *class == ResourceClass::VGPU
        || seen
            .gpus
            .iter()
            .filter_map(|gpu| gpu.offered.as_ref())
            .any(|o| o.class == *class)
}
