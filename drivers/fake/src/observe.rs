//! Converts a machine to the driver's view of it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::ConsumerUuid;
use berth_virt::{
    GuestView, HostView, NodeCapabilities, NodeView, OfferedMdevs, PhysicalGpu, Processor,
    SupportedInstance,
};

use crate::machine::{Faults, Gpu, Machine, MachineGuest, MachineNode, Migration, MigrationSight};

/// A fake machine's architecture.
const ARCH: &str = "x86_64";

impl Machine {
    /// The faults of the devices of all nodes.
    #[must_use]
    pub fn faults(&self) -> Faults {
        let faults = self.nodes.iter().flat_map(|node| &node.faults);
        faults.map(|(address, fault)| (*address, *fault)).collect()
    }

    /// The machine as a hypervisor would show it.
    #[must_use]
    pub fn view(&self) -> HostView {
        let nodes = self.nodes.iter();
        HostView {
            hypervisor: self.hypervisor.clone(),
            nodes: nodes
                .map(|node| {
                    let capabilities = capabilities(&self.hypervisor.kind);
                    let view = NodeView {
                        capabilities,
                        ..node.view()
                    };
                    (node.name.clone(), view)
                })
                .collect(),
        }
    }
}

/// The capabilities of a simulated machine: one kind of guests, named after its hypervisor.
fn capabilities(hypervisor: &str) -> NodeCapabilities {
    NodeCapabilities {
        processor: Some(Processor {
            arch: ARCH.to_owned(),
            model: Some("fake".to_owned()),
            ..Processor::default()
        }),
        supported_instances: vec![SupportedInstance {
            arch: ARCH.to_owned(),
            hv_type: hypervisor.to_lowercase(),
            vm_mode: "hvm".to_owned(),
        }],
        ..NodeCapabilities::default()
    }
}

impl MachineNode {
    /// The node as a hypervisor would show it.
    #[must_use]
    pub fn view(&self) -> NodeView {
        NodeView {
            uuid: self.uuid,
            cpus: self.cpus.clone(),
            memory_mib: self.memory_mib,
            disk: self.disk,
            cells: self.cells.clone(),
            gpus: self.gpus.iter().map(physical_gpu).collect(),
            functions: self.nics.clone(),
            devices: self.devices.clone(),
            pci: self.pci,
            customs: self.customs.clone(),
            encryption_contexts: BTreeMap::new(),
            traits: self.traits.iter().cloned().collect(),
            capabilities: NodeCapabilities::default(),
            guests: self.guests.iter().map(MachineGuest::view).collect(),
            unreadable: BTreeMap::new(),
            model: self.model,
        }
    }
}

fn physical_gpu(gpu: &Gpu) -> PhysicalGpu {
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

impl MachineGuest {
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
