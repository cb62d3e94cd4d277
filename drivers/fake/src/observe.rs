//! From a machine to what a driver sees of it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::ConsumerUuid;
use berth_virt::{GuestView, HostView, NodeView, OfferedMdevs, PhysicalGpu};

use crate::machine::{Faults, Gpu, Guest, Machine, Migration, MigrationSight, Node};

impl Machine {
    /// What goes wrong with the devices of all nodes.
    #[must_use]
    pub fn faults(&self) -> Faults {
        let faults = self.nodes.iter().flat_map(|node| &node.faults);
        faults.map(|(address, fault)| (*address, *fault)).collect()
    }

    /// What a hypervisor shows of this machine.
    #[must_use]
    pub fn view(&self) -> HostView {
        let nodes = self.nodes.iter();
        HostView {
            hypervisor: self.hypervisor.clone(),
            nodes: nodes.map(|node| (node.name.clone(), node.view())).collect(),
        }
    }
}

impl Node {
    /// What a hypervisor shows of this node.
    #[must_use]
    pub fn view(&self) -> NodeView {
        NodeView {
            uuid: self.uuid,
            cpus: self.cpus.clone(),
            memory_mib: self.memory_mib,
            disk: self.disk,
            cells: self.cells.clone(),
            gpus: self.gpus.iter().map(seen).collect(),
            functions: self.nics.clone(),
            devices: self.devices.clone(),
            pci: self.pci,
            customs: self.customs.clone(),
            traits: self.traits.iter().cloned().collect(),
            guests: self.guests.iter().map(Guest::view).collect(),
            unreadable: BTreeMap::new(),
            model: self.model,
        }
    }
}

fn seen(gpu: &Gpu) -> PhysicalGpu {
    let offered = gpu.enabled.as_ref().map(|mdev_type| OfferedMdevs {
        mdev_type: mdev_type.clone(),
        class: gpu.class.clone(),
        total: gpu.types.get(mdev_type).copied().unwrap_or(0),
    });
    PhysicalGpu {
        address: gpu.address,
        numa_node: gpu.numa_node,
        offered,
    }
}

impl Guest {
    fn view(&self) -> (ConsumerUuid, GuestView) {
        let also: BTreeSet<_> = self
            .migration
            .into_iter()
            .filter(|migration| migration.sight == MigrationSight::Known)
            .map(|migration: Migration| migration.consumer)
            .collect();
        let view = GuestView {
            also,
            ..self.seen.clone()
        };
        (self.uuid, view)
    }
}
