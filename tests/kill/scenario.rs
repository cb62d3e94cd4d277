//! The starts that are killed, with their machines and claims.

use std::collections::{BTreeMap, BTreeSet};

use berth_fake::{Gpu, Machine, MachineNode};
use berth_model::{NodeName, PciAddress, ProviderUuid, ResourceClass};
use berth_tests::claims::{Claim, Neighbours};
use berth_virt::{
    ClassOrigin, CpuSet, CustomResource, DeviceCondition, DeviceOwner, DeviceType, DeviceUnit,
    HypervisorInfo, NodeCpus, NodeDisk, OfferedDevice, OfferedHandle, PciInPlacement,
    ResourceModel, UnfitReason, VgpuModel,
};

use crate::kill::tenant::Tenant;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KillScenario {
    /// The upgrade: virtual GPUs of so many consumers go from the root to so many GPUs.
    Reshape { consumers: u32, gpus: u8 },
    /// A host that was never reported.
    Greenfield,
    /// The host has a new name, and the operator accepts it.
    Rename,
    /// The last GPU has another MIG geometry, so another type, and the type of the others has a class of its own from now on,
    /// while guests have units of it.
    Geometry,
    /// One device has become unfit, and another one fit: reservations come and go, with the traits that explain them.
    Condition,
}

/// Virtual GPUs that one GPU offers.
const UNITS: u64 = 40;

impl KillScenario {
    pub(crate) const ALL: [KillScenario; 7] = [
        KillScenario::Reshape {
            consumers: 6,
            gpus: 2,
        },
        KillScenario::Greenfield,
        KillScenario::Rename,
        KillScenario::Geometry,
        KillScenario::Condition,
        KillScenario::Reshape {
            consumers: 9,
            gpus: 3,
        },
        KillScenario::Reshape {
            consumers: 12,
            gpus: 3,
        },
    ];

    /// Its name in the table of crossings.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            KillScenario::Reshape { .. } => "reshape",
            KillScenario::Greenfield => "greenfield",
            KillScenario::Rename => "rename",
            KillScenario::Geometry => "geometry",
            KillScenario::Condition => "condition",
        }
    }

    /// The agent's arguments in addition to the common ones.
    pub(crate) const fn arguments(self) -> &'static [&'static str] {
        match self {
            KillScenario::Rename => &["--accept-risk", "rename-host"],
            KillScenario::Reshape { .. }
            | KillScenario::Greenfield
            | KillScenario::Geometry
            | KillScenario::Condition => &[],
        }
    }

    /// The machine as Placement knows it already; none that was never reported.
    pub(crate) fn machine_before(self) -> Option<Machine> {
        match self {
            KillScenario::Reshape { .. } => Some(self.machine_of("gpu-01", VgpuModel::Root)),
            KillScenario::Greenfield => None,
            KillScenario::Condition => Some(with_devices(
                self.machine_of("gpu-01", VgpuModel::PerGpu),
                [DeviceCondition::Fit, UNFIT],
            )),
            KillScenario::Rename | KillScenario::Geometry => {
                Some(self.machine_of("gpu-01", VgpuModel::PerGpu))
            }
        }
    }

    /// The machine that the start finds.
    pub(crate) fn machine(self) -> Machine {
        match self {
            KillScenario::Reshape { .. } => self.machine_of("gpu-01", VgpuModel::PerGpu),
            KillScenario::Greenfield => unreported(self.machine_of("gpu-01", VgpuModel::PerGpu)),
            KillScenario::Rename => self.machine_of("gpu-02", VgpuModel::PerGpu),
            KillScenario::Condition => with_devices(
                self.machine_of("gpu-01", VgpuModel::PerGpu),
                [UNFIT, DeviceCondition::Fit],
            ),
            KillScenario::Geometry => regrouped(self.machine_of("gpu-01", VgpuModel::PerGpu)),
        }
    }

    fn gpus(self) -> u8 {
        match self {
            KillScenario::Reshape { gpus, .. } => gpus,
            KillScenario::Greenfield | KillScenario::Rename | KillScenario::Condition => 2,
            KillScenario::Geometry => 3,
        }
    }

    fn machine_of(self, name: &str, vgpu: VgpuModel) -> Machine {
        let guests = self.tenants().iter().filter_map(Tenant::guest).collect();
        let node = MachineNode {
            name: NodeName::new(name).expect("a node's name"),
            uuid: None,
            model: ResourceModel {
                vgpu,
                ..ResourceModel::default()
            },
            cpus: NodeCpus {
                online: CpuSet::first(64),
                shared: None,
                dedicated: None,
            },
            memory_mib: 65_536,
            disk: NodeDisk::Shared,
            cells: Vec::new(),
            gpus: (0..self.gpus()).map(gpu).collect(),
            nics: Vec::new(),
            faults: berth_fake::Faults::new(),
            devices: Vec::new(),
            pci: berth_virt::PciInPlacement::default(),
            customs: Vec::new(),
            traits: vec!["HW_CPU_X86_AVX2".parse().expect("a trait")],
            guests,
        };
        Machine {
            hypervisor: HypervisorInfo {
                kind: "fake".to_owned(),
                version: "1.0".to_owned(),
                hostname: name.to_owned(),
            },
            nodes: vec![node],
        }
    }

    /// The guests of the host.
    fn tenants(self) -> Vec<Tenant> {
        match self {
            KillScenario::Reshape { consumers, gpus } => (0..consumers)
                .map(|n| Tenant::of_reshape(n, consumers, gpus))
                .collect(),
            KillScenario::Rename | KillScenario::Geometry => (0..3)
                .map(|n| Tenant::plain(n, vec![(n % 2) as u8]))
                .collect(),
            KillScenario::Greenfield | KillScenario::Condition => Vec::new(),
        }
    }

    /// What its consumers hold before.
    pub(crate) fn claims(self, root: ProviderUuid, neighbours: &Neighbours) -> Vec<Claim> {
        let before = self.machine_before();
        let node = before.as_ref().and_then(|machine| machine.nodes.first());
        let place = |gpu: u8| match node {
            Some(node) if node.model.vgpu == VgpuModel::PerGpu => {
                let name = node.name.child_name(&address(gpu).nodedev_name());
                root.child(&name.expect("room for the address"))
            }
            _ => root,
        };
        let tenants = self.tenants();
        tenants
            .iter()
            .map(|tenant| tenant.claim(root, neighbours, place))
            .collect()
    }

    /// The class of the consumers' virtual GPUs afterwards.
    fn units_class(self) -> ResourceClass {
        match self {
            KillScenario::Geometry => "CUSTOM_MIG_1G".parse().expect("a class"),
            _ => ResourceClass::VGPU,
        }
    }

    /// What its consumers hold afterwards, by hand: lines as [`crate::kill::contents::held`] gives them.
    pub(crate) fn holdings(self) -> BTreeSet<String> {
        let machine = self.machine();
        let node = &machine.nodes[0].name;
        let tenants = self.tenants();
        tenants
            .iter()
            .flat_map(|tenant| tenant.holdings(node, self.units_class().as_str()))
            .collect()
    }
}

/// With things that Placement does not know yet.
fn unreported(mut machine: Machine) -> Machine {
    for node in &mut machine.nodes {
        node.traits.push("CUSTOM_RACK_7".parse().expect("a trait"));
        node.customs.push(CustomResource {
            class: "CUSTOM_TPM".parse().expect("a class"),
            formerly: BTreeSet::new(),
            total: 4,
        });
    }
    with_devices(machine, [UNFIT])
}

const UNFIT: DeviceCondition = DeviceCondition::Unfit {
    reason: UnfitReason::Aer,
};

/// With devices in these conditions.
fn with_devices<const N: usize>(mut machine: Machine, conditions: [DeviceCondition; N]) -> Machine {
    for node in &mut machine.nodes {
        node.pci = PciInPlacement::Reported;
        let conditions = (0u8..).zip(conditions);
        node.devices = conditions.map(|(n, it)| device(0x80 + n, it)).collect();
    }
    machine
}

fn device(bus: u8, condition: DeviceCondition) -> OfferedDevice {
    let address: PciAddress = format!("0000:{bus:02x}:00.0").parse().expect("an address");
    OfferedDevice {
        address,
        vendor_id: 0x10de,
        product_id: 0x1eb8,
        owner: DeviceOwner::Compute,
        device_type: DeviceType::Gpu,
        model: None,
        numa_node: None,
        link_group: None,
        physical_network: None,
        network_functions: BTreeMap::new(),
        class: ResourceClass::pci_device(0x10de, 0x1eb8),
        class_origin: ClassOrigin::Configured,
        traits: BTreeSet::new(),
        handles: vec![OfferedHandle::Function(address)],
        unit: DeviceUnit::Handle,
        unfit_handles: BTreeSet::new(),
        one_time_use: false,
        condition,
    }
}

/// With another type on its last GPU, and a class for each type.
fn regrouped(mut machine: Machine) -> Machine {
    for node in &mut machine.nodes {
        for gpu in &mut node.gpus {
            gpu.class = KillScenario::Geometry.units_class();
        }
        if let Some(gpu) = node.gpus.last_mut() {
            gpu.types = BTreeMap::from([("nvidia-563".to_owned(), 3)]);
            gpu.enabled = Some("nvidia-563".to_owned());
            gpu.class = "CUSTOM_MIG_2G".parse().expect("a class");
        }
    }
    machine
}

/// The so manyth GPU's.
pub(crate) fn address(number: u8) -> PciAddress {
    format!("0000:{:02x}:00.0", 0x40 + number)
        .parse()
        .expect("a PCI address")
}

fn gpu(number: u8) -> Gpu {
    Gpu {
        address: address(number),
        numa_node: None,
        types: BTreeMap::from([("nvidia-558".to_owned(), UNITS)]),
        enabled: Some("nvidia-558".to_owned()),
        class: ResourceClass::VGPU,
    }
}
