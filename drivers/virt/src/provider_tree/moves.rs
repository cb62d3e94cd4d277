//! Finds moved inventories: Placement has a class where this model does not report it, and this model reports it
//! elsewhere or under another name. A move must not be found again after its reshape, so its source must no longer be
//! reported, or (dedicated CPUs) its new class must not exist yet.

use std::collections::BTreeSet;

use berth_model::{Inventory, Move, NodeName, Provider, ProviderName, ProviderTree, ResourceClass};

use super::desired_providers::{
    DesiredProviders, InventoryAmounts, cells_are_modelled, dedicated_are_pcpu,
};
use super::names::{ChildKind, child_kind, is_driver_child};
use crate::resource_kind::{ResourceKind, offered};
use crate::{NodeView, PcpuModel, VgpuModel};

pub(super) fn moves(
    seen: &NodeView,
    current: &ProviderTree,
    node: &NodeName,
    wanted: &DesiredProviders,
) -> Vec<Move> {
    let finder = MoveFinder {
        seen,
        current,
        node,
        wanted,
    };
    let mut moves = Vec::new();
    for provider in current.own() {
        for (class, inventory) in &provider.inventories {
            moves.extend(finder.at(provider, class, inventory));
        }
    }
    moves
}

struct MoveFinder<'a> {
    seen: &'a NodeView,
    current: &'a ProviderTree,
    node: &'a NodeName,
    wanted: &'a DesiredProviders,
}

impl MoveFinder<'_> {
    fn at(
        &self,
        provider: &Provider,
        class: &ResourceClass,
        inventory: &Inventory,
    ) -> Option<Move> {
        let is_root = provider.uuid() == self.current.root().uuid();
        let name = (!is_root).then_some(&provider.name);
        if !is_root && !is_driver_child(self.current, self.node, provider) {
            return None;
        }
        let stays = self.is_wanted(name, class);
        let (reason, to) = match self.new_name(name, class) {
            Some(new) => ("the class has a new name", BTreeSet::from([new])),
            None => (
                self.reason(name, class, inventory, stays)?,
                self.new_classes(name, class),
            ),
        };
        self.is_wanted_elsewhere(name, class, &to).then(|| Move {
            provider: provider.uuid(),
            class: class.clone(),
            to,
            reason,
        })
    }

    /// The amounts wanted on the root (no name) or on a child.
    fn amounts(&self, name: Option<&ProviderName>) -> Option<&InventoryAmounts> {
        match name {
            None => Some(&self.wanted.root),
            Some(name) => self.wanted.children.get(name).map(|(amounts, _)| amounts),
        }
    }

    fn is_wanted(&self, name: Option<&ProviderName>, class: &ResourceClass) -> bool {
        self.amounts(name)
            .is_some_and(|amounts| amounts.contains_key(class))
    }

    fn new_name(
        &self,
        name: Option<&ProviderName>,
        class: &ResourceClass,
    ) -> Option<ResourceClass> {
        if name.is_some() || self.is_wanted(name, class) {
            return None;
        }
        self.seen
            .customs
            .iter()
            .find(|custom| custom.formerly.contains(class) && self.is_wanted(None, &custom.class))
            .map(|custom| custom.class.clone())
    }

    /// The possible new classes of units of a class.
    fn new_classes(
        &self,
        name: Option<&ProviderName>,
        class: &ResourceClass,
    ) -> BTreeSet<ResourceClass> {
        let is_gpus = name.and_then(|name| child_kind(self.node, name)) == Some(ChildKind::Gpu);
        let mut to = BTreeSet::from([class.clone()]);
        if *class == ResourceClass::VCPU && dedicated_are_pcpu(self.seen) {
            to.insert(ResourceClass::PCPU);
        } else if *class == ResourceClass::PCPU && self.seen.model.pcpu == PcpuModel::Vcpu {
            to = BTreeSet::from([ResourceClass::VCPU]);
        } else if is_gpus || ResourceKind::of(self.seen, class) == Some(ResourceKind::Mdev) {
            to.extend(offered(self.seen).map(|offered| offered.class.clone()));
        }
        to
    }

    fn is_wanted_elsewhere(
        &self,
        here: Option<&ProviderName>,
        class: &ResourceClass,
        to: &BTreeSet<ResourceClass>,
    ) -> bool {
        let names = std::iter::once(None).chain(self.wanted.children.keys().map(Some));
        names.into_iter().any(|name| {
            to.iter()
                .any(|new| (name, new) != (here, class) && self.is_wanted(name, new))
        })
    }

    fn reason(
        &self,
        name: Option<&ProviderName>,
        class: &ResourceClass,
        inventory: &Inventory,
        stays: bool,
    ) -> Option<&'static str> {
        if *class == ResourceClass::VCPU && self.parts_into_pcpu(inventory, stays) {
            return Some("dedicated CPUs are PCPU");
        }
        if stays {
            return None;
        }
        if *class == ResourceClass::PCPU && self.seen.model.pcpu == PcpuModel::Vcpu {
            return Some("dedicated CPUs are VCPU again");
        }
        match name {
            None => self.reason_to_leave_root(class),
            Some(name) => self.reason_to_leave_child(name),
        }
    }

    /// Whether units of pinned guests leave this VCPU inventory: they become PCPU and the tree has no PCPU yet (like in
    /// Nova), or units of unknown guests are still allocated as VCPU and their guests may be known now.
    fn parts_into_pcpu(&self, inventory: &Inventory, stays: bool) -> bool {
        let is_wanted = std::iter::once(&self.wanted.root)
            .chain(self.wanted.children.values().map(|(amounts, _)| amounts))
            .any(|amounts| amounts.contains_key(&ResourceClass::PCPU));
        let is_there = self.current.own().iter().any(|provider| {
            let pcpu = provider.inventories.get(&ResourceClass::PCPU);
            pcpu.is_some_and(|inventory| !inventory.is_held())
        });
        is_wanted && (!is_there || inventory.is_held() || (!stays && self.is_desired_nowhere()))
    }

    /// Whether VCPU is reported nowhere: all CPUs are dedicated.
    fn is_desired_nowhere(&self) -> bool {
        let vcpu = ResourceClass::VCPU;
        !self.is_wanted(None, &vcpu)
            && !(self.wanted.children.values()).any(|(amounts, _)| amounts.contains_key(&vcpu))
    }

    fn reason_to_leave_root(&self, class: &ResourceClass) -> Option<&'static str> {
        // Nova before release 32 had them on the root.
        if *class == ResourceClass::MEM_ENCRYPTION_CONTEXT {
            return Some("each model of memory encryption has a provider of its own");
        }
        match ResourceKind::of(self.seen, class)? {
            ResourceKind::Mdev => Some(match self.seen.model.vgpu {
                VgpuModel::PerGpu => "each GPU has a provider of its own",
                VgpuModel::Root => "virtual GPUs have another class",
            }),
            ResourceKind::Cpu | ResourceKind::Memory | ResourceKind::Function => {
                cells_are_modelled(self.seen).then_some("each NUMA cell has a provider of its own")
            }
        }
    }

    /// The reason of a move away from a child: a wanted child changed its class; an unwanted one returns its units to
    /// the root, unless its device is only missing (the units are then reserved).
    fn reason_to_leave_child(&self, name: &ProviderName) -> Option<&'static str> {
        match child_kind(self.node, name)? {
            ChildKind::Gpu if self.seen.model.vgpu == VgpuModel::Root => {
                Some("GPUs are reported on the root again")
            }
            ChildKind::Gpu if self.wanted.children.contains_key(name) => {
                Some("virtual GPUs have another class")
            }
            ChildKind::NumaCell if !cells_are_modelled(self.seen) => {
                Some("NUMA cells are reported on the root again")
            }
            ChildKind::Gpu | ChildKind::NumaCell | ChildKind::Encryption => None,
        }
    }
}
