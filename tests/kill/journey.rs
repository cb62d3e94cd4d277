//! The starts that are killed, and the machines and claims they begin with.

use std::collections::{BTreeMap, BTreeSet};

use berth_fake::{Gpu, Machine, Node};
use berth_model::{NodeName, PciAddress, ProviderUuid, ResourceClass};
use berth_tests::claims::{Claim, Neighbours};
use berth_virt::{CpuSet, Cpus, CustomResource, Disk, Hypervisor, ResourceModel, VgpuModel};

use crate::kill::tenant::Tenant;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Journey {
    /// The upgrade: virtual GPUs of so many consumers go from the root to so many GPUs.
    Reshape { consumers: u32, gpus: u8 },
    /// A host that was never reported.
    Greenfield,
    /// The host has a new name, and the operator accepts it.
    Rename,
}

/// Virtual GPUs that one GPU offers.
const UNITS: u64 = 40;

impl Journey {
    pub(crate) const ALL: [Journey; 5] = [
        Journey::Reshape {
            consumers: 6,
            gpus: 2,
        },
        Journey::Greenfield,
        Journey::Rename,
        Journey::Reshape {
            consumers: 9,
            gpus: 3,
        },
        Journey::Reshape {
            consumers: 12,
            gpus: 3,
        },
    ];

    /// Its name in the table of crossings.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Journey::Reshape { .. } => "reshape",
            Journey::Greenfield => "greenfield",
            Journey::Rename => "rename",
        }
    }

    /// The agent's arguments beside those of every start.
    pub(crate) const fn arguments(self) -> &'static [&'static str] {
        match self {
            Journey::Rename => &["--accept-risk", "rename-host"],
            Journey::Reshape { .. } | Journey::Greenfield => &[],
        }
    }

    /// The machine as Placement knows it already; none that was never reported.
    pub(crate) fn machine_before(self) -> Option<Machine> {
        match self {
            Journey::Reshape { .. } => Some(self.machine_of("gpu-01", VgpuModel::Root)),
            Journey::Greenfield => None,
            Journey::Rename => Some(self.machine_of("gpu-01", VgpuModel::PerGpu)),
        }
    }

    /// The machine that the start finds.
    pub(crate) fn machine(self) -> Machine {
        match self {
            Journey::Reshape { .. } => self.machine_of("gpu-01", VgpuModel::PerGpu),
            Journey::Greenfield => unreported(self.machine_of("gpu-01", VgpuModel::PerGpu)),
            Journey::Rename => self.machine_of("gpu-02", VgpuModel::PerGpu),
        }
    }

    fn gpus(self) -> u8 {
        match self {
            Journey::Reshape { gpus, .. } => gpus,
            Journey::Greenfield | Journey::Rename => 2,
        }
    }

    fn machine_of(self, name: &str, vgpu: VgpuModel) -> Machine {
        let guests = self.tenants().iter().filter_map(Tenant::guest).collect();
        let node = Node {
            name: NodeName::new(name).expect("a node's name"),
            uuid: None,
            model: ResourceModel {
                vgpu,
                ..ResourceModel::default()
            },
            cpus: Cpus {
                online: CpuSet::first(64),
                shared: None,
                dedicated: None,
            },
            memory_mib: 65_536,
            disk: Disk::Shared,
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
            hypervisor: Hypervisor {
                kind: "fake".to_owned(),
                version: "1.0".to_owned(),
                hostname: name.to_owned(),
            },
            nodes: vec![node],
        }
    }

    /// Who is on the host.
    fn tenants(self) -> Vec<Tenant> {
        match self {
            Journey::Reshape { consumers, gpus } => (0..consumers)
                .map(|n| Tenant::of_reshape(n, consumers, gpus))
                .collect(),
            Journey::Rename => (0..3)
                .map(|n| Tenant::plain(n, vec![(n % 2) as u8]))
                .collect(),
            Journey::Greenfield => Vec::new(),
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

    /// What its consumers hold afterwards, by hand: lines as [`crate::kill::contents::held`] gives them.
    pub(crate) fn holdings(self) -> BTreeSet<String> {
        let machine = self.machine();
        let node = &machine.nodes[0].name;
        let tenants = self.tenants();
        tenants
            .iter()
            .flat_map(|tenant| tenant.holdings(node))
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
