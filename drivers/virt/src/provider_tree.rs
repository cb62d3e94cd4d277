//! Computes the desired provider tree of a node from its view. Pure.
//!
//! [`wanted`] computes the amounts per provider and class under the node's model; [`moves`] finds the inventories that
//! Placement has elsewhere; [`names`] recognises the children that this driver names; [`devices`] handles the children
//! of offered devices, and [`link_groups`] the level above those that a fast link connects. This module writes the
//! desired amounts into Placement's tree and leaves everything foreign unchanged.

mod desired_providers;
mod devices;
mod link_groups;
mod moves;
mod names;

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    AllocationRatio, DesiredTree, Disposition, Inventory, InventoryError, LinkGroupName, Move,
    NodeName, Provider, ProviderName, ProviderNameError, ProviderTree, ProviderUuid, ResourceClass,
    Trait, TreeError,
};

use desired_providers::{DesiredProviders, InventoryAmounts};
pub(crate) use desired_providers::{card_cell, cells_are_modelled, dedicated_are_pcpu};
pub(crate) use devices::{desired_devices as wanted_devices, device_of};
pub(crate) use link_groups::device_children;
pub(crate) use names::PCI_TRACKER_TRAIT;
use names::{ChildKind, child_kind};
pub(crate) use names::{cell_name, child_name, encryption_name};

use crate::{HostView, NodeView, OfferedDevice, UnfitReason, resource_kind::offered};

/// Why a view does not give a valid tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderTreeError {
    /// The driver does not have this node, or no longer.
    #[error("the hypervisor has no node {node}")]
    UnknownNode {
        /// The node of the tree that was computed.
        node: NodeName,
    },
    /// A child's name is too long.
    #[error("a child provider of {node} cannot get a name")]
    Name {
        /// The node of the tree that was computed.
        node: NodeName,
        /// The rule for provider names that is violated.
        #[source]
        source: ProviderNameError,
    },
    /// An amount is no inventory.
    #[error("{class} on {provider}")]
    Amount {
        /// The name of the provider with the amount.
        provider: ProviderName,
        /// The resource class of the amount.
        class: ResourceClass,
        /// The limit of an inventory that the amount violates.
        #[source]
        source: InventoryError,
    },
    /// Two children of the root represent the same device or cell.
    #[error(
        "children {other} and {uuid} (named {present_name}) of the root of {node} both stand for {name}; delete the one that no \
         consumer holds anything of (openstack resource provider show --allocations UUID, openstack resource provider \
         delete UUID)"
    )]
    DuplicateChild {
        /// The node of the tree that was computed.
        node: NodeName,
        /// The correct name of both.
        name: ProviderName,
        /// The UUID of the child with a wrong name.
        uuid: ProviderUuid,
        /// The wrong name of this child.
        present_name: ProviderName,
        /// The UUID of the other child, which has or gets the correct name.
        other: ProviderUuid,
    },
    /// A device of the compute service has a provider that Cyborg writes.
    #[error(
        "{name} ({uuid}) in the tree of {node} is Cyborg's, and [pci] device_spec names the device too: it has one owner; take it \
         out of Cyborg's configuration and delete the provider, or out of [pci] device_spec"
    )]
    OwnedByCyborg {
        /// The node of the tree that was computed.
        node: NodeName,
        /// The name of the provider that Cyborg writes.
        name: ProviderName,
        /// The UUID of the provider that Cyborg writes.
        uuid: ProviderUuid,
    },
    /// A child cannot be added, because a foreign provider in the tree has its name.
    #[error("a child provider cannot be added to the tree of {node}")]
    Tree {
        /// The node of the tree that was computed.
        node: NodeName,
        /// The rule of a provider tree that is violated.
        #[source]
        source: TreeError,
    },
}

impl ProviderTreeError {
    /// An unknown node may be back at the next observation; the other errors need an operator.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            ProviderTreeError::UnknownNode { .. } => Disposition::Retry,
            ProviderTreeError::Name { .. }
            | ProviderTreeError::Amount { .. }
            | ProviderTreeError::DuplicateChild { .. }
            | ProviderTreeError::OwnedByCyborg { .. }
            | ProviderTreeError::Tree { .. } => Disposition::Fatal,
        }
    }
}

/// The desired tree of a node, based on Placement's tree: the root and the children that the view requires, with all
/// other children and the sharing providers unchanged; and the moves by which allocations follow their inventory. Fails
/// if the view does not give a valid tree.
pub fn provider_tree(
    view: &HostView,
    current: &ProviderTree,
    node: &NodeName,
) -> Result<DesiredTree, ProviderTreeError> {
    let seen = view
        .nodes
        .get(node)
        .ok_or_else(|| ProviderTreeError::UnknownNode { node: node.clone() })?;
    let kept = seen.with_cyborg_providers(node, current);
    let seen = kept.as_ref().unwrap_or(seen);
    let wanted = desired_providers::desired_providers(seen, node)?;
    let devices = devices::desired_devices(seen, node);
    let mut renames = names::children_to_rename(current, node, wanted.children.keys())?;
    renames.extend(devices::children_to_rename(current, node, &devices)?);
    let groups = link_groups::wanted(node, devices.values().copied());
    renames.extend(link_groups::children_to_rename(current, node, &groups)?);
    if !renames.is_empty() {
        // The children are renamed first, so that no duplicates are created; the rest follows in the next tick.
        return Ok(DesiredTree {
            tree: with_names(current, renames),
            moves: Vec::new(),
            held_traits: BTreeMap::new(),
        });
    }
    let mut missing_traits = names::missing_owner_traits(current, node);
    missing_traits.extend(devices::missing_owner_traits(current, node, &devices)?);
    let with_owners = with_traits(current, &missing_traits);
    let mut moves = moves::moves(seen, &with_owners, node, &wanted);
    moves.extend(devices::moves(&with_owners, &devices));
    let goes = |child: &ProviderUuid| {
        let name = current.get(*child).map(|child| &child.name);
        name.is_some_and(|name| !wanted.children.contains_key(name) && !devices.contains_key(name))
    };
    if !missing_traits.is_empty() && (!moves.is_empty() || missing_traits.keys().any(goes)) {
        // Owner traits are set before inventory moves; the rest follows in the next tick.
        return Ok(DesiredTree {
            tree: with_owners,
            moves: Vec::new(),
            held_traits: BTreeMap::new(),
        });
    }
    let current = &with_owners;
    let writer = TreeWriter {
        seen,
        current,
        node,
        known: reported_classes(seen),
        moves: &moves,
        devices: &devices,
    };
    let mut tree = current.clone();
    writer.root(&mut tree, &wanted)?;
    writer.remove_children(&mut tree, &wanted);
    let held_traits = writer.remove_devices(&mut tree);
    writer.write_children(&mut tree, &wanted)?;
    writer.write_devices(&mut tree)?;
    writer.remove_link_groups(&mut tree, &groups);
    if has_accelerators(&tree) {
        tree.root_mut().traits.insert(COMPUTE_ACCELERATORS);
    }
    Ok(DesiredTree {
        tree,
        moves,
        held_traits,
    })
}

/// The tree with new names of children.
fn with_names(current: &ProviderTree, names: BTreeMap<ProviderUuid, ProviderName>) -> ProviderTree {
    let mut tree = current.clone();
    for (uuid, name) in names {
        if let Some(child) = tree.get_mut(uuid) {
            child.name = name;
        }
    }
    tree
}

/// The tree with additional traits of children.
fn with_traits(
    current: &ProviderTree,
    missing: &BTreeMap<ProviderUuid, BTreeSet<Trait>>,
) -> ProviderTree {
    let mut tree = current.clone();
    for (child, traits) in missing {
        if let Some(child) = tree.get_mut(*child) {
            child.traits.extend(traits.iter().cloned());
        }
    }
    tree
}

/// The classes that this node may report under any model. Their inventory is removed if it is not wanted; inventory of
/// other classes is foreign and stays.
fn reported_classes(seen: &NodeView) -> BTreeSet<ResourceClass> {
    let mut classes = BTreeSet::from([
        ResourceClass::VCPU,
        ResourceClass::PCPU,
        ResourceClass::MEMORY_MB,
        ResourceClass::DISK_GB,
        ResourceClass::VGPU,
        ResourceClass::SRIOV_NET_VF,
        ResourceClass::MEM_ENCRYPTION_CONTEXT,
    ]);
    classes.extend(offered(seen).map(|offered| offered.class.clone()));
    classes.extend(seen.functions.iter().map(|card| card.class.clone()));
    for custom in &seen.customs {
        classes.insert(custom.class.clone());
        classes.extend(custom.formerly.iter().cloned());
    }
    classes
}

/// Whether a driver manages this trait: processor features and the hypervisor's capabilities. The agent's own traits
/// (COMPUTE_NODE, COMPUTE_STATUS_DISABLED) and foreign ones stay.
fn is_managed_by_driver(held: &Trait) -> bool {
    let name = held.as_str();
    (name.starts_with("HW_CPU_") || name.starts_with("COMPUTE_"))
        && ![Trait::COMPUTE_NODE, Trait::COMPUTE_STATUS_DISABLED].contains(held)
}

/// Whether the tree offers accelerators, Berth's or Cyborg's, so that guests with a device profile can be placed here.
fn has_accelerators(tree: &ProviderTree) -> bool {
    let own = tree.own();
    own.iter()
        .any(|provider| provider.traits.contains(&Trait::OWNER_CYBORG))
}

/// The trait that conductors require for a guest with a device profile.
const COMPUTE_ACCELERATORS: Trait = Trait::known("COMPUTE_ACCELERATORS");

/// The context for writing the desired amounts into the current tree.
struct TreeWriter<'a> {
    seen: &'a NodeView,
    current: &'a ProviderTree,
    node: &'a NodeName,
    known: BTreeSet<ResourceClass>,
    moves: &'a [Move],
    devices: &'a BTreeMap<ProviderName, &'a OfferedDevice>,
}

impl TreeWriter<'_> {
    fn root(
        &self,
        tree: &mut ProviderTree,
        wanted: &DesiredProviders,
    ) -> Result<(), ProviderTreeError> {
        let root = tree.root_mut();
        root.traits.retain(|held| !is_managed_by_driver(held));
        root.traits.extend(self.seen.traits.iter().cloned());
        root.inventories
            .retain(|class, _| !self.known.contains(class));
        self.inventories(root, &wanted.root)
    }

    /// Handles children of the driver that the model does not need: they are removed with their subtree, or
    /// emptied if a foreign child is below them.
    fn remove_children(&self, tree: &mut ProviderTree, wanted: &DesiredProviders) {
        let goes = |provider: &Provider| {
            names::is_driver_child(self.current, self.node, provider)
                && !wanted.children.contains_key(&provider.name)
        };
        for provider in self.current.own().into_iter().filter(|p| goes(p)) {
            let below = self.current.subtree(provider.uuid());
            if below.into_iter().all(goes) {
                tree.remove(provider.uuid());
            } else if let Some(emptied) = tree.get_mut(provider.uuid()) {
                self.drop_reported(emptied);
            }
        }
    }

    /// Handles children of missing devices: they are removed, or emptied if a foreign child is below them. Those in use
    /// are reserved and marked with the reason.
    fn remove_devices(&self, tree: &mut ProviderTree) -> BTreeMap<ProviderUuid, BTreeSet<Trait>> {
        let gone = BTreeSet::from([UnfitReason::Vanished.as_trait()]);
        let goes = |provider: &&Provider| {
            devices::is_obsolete(self.seen, self.current, self.devices, provider)
        };
        let mut held_traits = BTreeMap::new();
        for provider in device_children(self.current).into_iter().filter(goes) {
            let uuid = provider.uuid();
            if self.current.children(uuid).is_empty() {
                tree.remove(uuid);
                held_traits.insert(uuid, gone.clone());
            } else if let Some(emptied) = tree.get_mut(uuid) {
                emptied.inventories.clear();
                emptied.traits.extend(gone.iter().cloned());
            }
        }
        held_traits
    }

    fn write_devices(&self, tree: &mut ProviderTree) -> Result<(), ProviderTreeError> {
        let root = tree.root().uuid();
        let refuse = |source| ProviderTreeError::Tree {
            node: self.node.clone(),
            source,
        };
        for (name, device) in self.devices {
            let parent = match &device.link_group {
                Some(group) => self.link_group(tree, group)?,
                None => root,
            };
            let there = tree.by_name(name);
            let there = there.map(|there| (there.uuid(), there.parent()));
            let uuid = match there.filter(|(uuid, _)| tree.is_own(*uuid)) {
                Some((uuid, present)) => {
                    if present != Some(parent) {
                        tree.place_under(uuid, parent).map_err(refuse)?;
                    }
                    uuid
                }
                None => {
                    let uuid = device.provider_uuid(self.node, root);
                    let child = Provider::child(uuid, name.clone(), parent);
                    tree.insert(child).map_err(refuse)?;
                    uuid
                }
            };
            if let Some(child) = tree.get_mut(uuid) {
                devices::write(child, self.current.get(uuid), self.seen, device)?;
            }
        }
        Ok(())
    }

    /// The provider of a link group, as the parent of its devices.
    fn link_group(
        &self,
        tree: &mut ProviderTree,
        group: &LinkGroupName,
    ) -> Result<ProviderUuid, ProviderTreeError> {
        let uuid = self.child(tree, &self.node.link_group_name(group))?;
        if let Some(group) = tree.get_mut(uuid) {
            group.traits.insert(Trait::CUSTOM_LINK_GROUP);
        }
        Ok(uuid)
    }

    /// Removes the providers of link groups that no device has, unless something is below them.
    fn remove_link_groups(&self, tree: &mut ProviderTree, wanted: &BTreeSet<ProviderName>) {
        for group in link_groups::link_groups(self.current) {
            if !wanted.contains(&group.name) && tree.children(group.uuid()).is_empty() {
                tree.remove(group.uuid());
            }
        }
    }

    fn write_children(
        &self,
        tree: &mut ProviderTree,
        wanted: &DesiredProviders,
    ) -> Result<(), ProviderTreeError> {
        for (name, (amounts, traits)) in &wanted.children {
            let uuid = self.child(tree, name)?;
            if let Some(child) = tree.get_mut(uuid) {
                child.traits.extend(traits.iter().cloned());
                self.drop_reported(child);
                self.inventories(child, amounts)?;
            }
        }
        Ok(())
    }

    /// The child with this name: the existing one of any creator, or a new one. Cyborg's children are not writable.
    fn child(
        &self,
        tree: &mut ProviderTree,
        name: &ProviderName,
    ) -> Result<ProviderUuid, ProviderTreeError> {
        let refuse = |source| ProviderTreeError::Tree {
            node: self.node.clone(),
            source,
        };
        let there = tree.by_name(name).filter(|provider| {
            tree.is_own(provider.uuid()) && !provider.traits.contains(&Trait::OWNER_CYBORG)
        });
        if let Some(there) = there {
            return Ok(there.uuid());
        }
        let root = tree.root().uuid();
        let uuid = root.child(name);
        tree.insert(Provider::child(uuid, name.clone(), root))
            .map_err(refuse)?;
        Ok(uuid)
    }

    /// Removes the inventories that the driver manages. On a GPU's provider these are all, because a GPU has only one
    /// class and its former class may be unknown.
    fn drop_reported(&self, child: &mut Provider) {
        let all = child_kind(self.node, &child.name) == Some(ChildKind::Gpu);
        child
            .inventories
            .retain(|class, _| !all && !self.known.contains(class));
    }

    fn inventories(
        &self,
        provider: &mut Provider,
        amounts: &InventoryAmounts,
    ) -> Result<(), ProviderTreeError> {
        for (class, amount) in amounts {
            let inventory = Inventory::of(*amount).map_err(|source| ProviderTreeError::Amount {
                provider: provider.name.clone(),
                class: class.clone(),
                source,
            })?;
            let inventory = self.with_operator_settings(provider.uuid(), class, inventory);
            provider.inventories.insert(class.clone(), inventory);
        }
        Ok(())
    }

    /// Keeps what an operator set: reserved and ratio of the same inventory or of the one it was renamed from, and the
    /// ratio of the inventory it moves from.
    fn with_operator_settings(
        &self,
        provider: ProviderUuid,
        class: &ResourceClass,
        inventory: Inventory,
    ) -> Inventory {
        let here = self.current.inventory(provider, class);
        if let Some(before) = here.or_else(|| self.renamed(provider, class)) {
            return inventory.with_operator_settings(Some(before));
        }
        match self.ratio_left(class) {
            Some(ratio) => inventory.with_ratio(ratio),
            None => inventory,
        }
    }

    fn renamed(&self, provider: ProviderUuid, class: &ResourceClass) -> Option<&Inventory> {
        let mut moves = self.moves.iter().filter(|m| m.provider == provider);
        let renamed = moves.find(|m| m.to.len() == 1 && m.to.contains(class))?;
        self.current.inventory(provider, &renamed.class)
    }

    fn ratio_left(&self, class: &ResourceClass) -> Option<AllocationRatio> {
        let mut left = self.moves.iter().filter(|m| m.class == *class);
        let inventory = left.find_map(|m| self.current.inventory(m.provider, class))?;
        Some(inventory.allocation_ratio)
    }
}
