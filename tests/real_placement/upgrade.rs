//! The four upgrades, each with the machine before and after it, and guests of every kind by their number.

use std::collections::{BTreeMap, BTreeSet};

use berth_fake::{Gpu, Machine, MachineGuest, MachineNode, Migration, MigrationSight};
use berth_model::{ConsumerUuid, NodeName, PciAddress, ResourceClass};
use berth_virt::{
    CpuSet, CustomResource, GuestCell, GuestCpuPolicy, GuestMdev, GuestView, HypervisorInfo,
    NodeCpus, NodeDisk, NumaModel, PcpuModel, PowerState, ResourceModel, VgpuModel,
    VirtualFunctions,
};
use uuid::Uuid;

use crate::real_placement::guest_demand::GuestDemand;

/// What the new version models differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Upgrade {
    /// VGPU goes from the root to a child for each of eight GPUs.
    VgpuPerGpu,
    /// CPUs, memory and virtual functions go from the root to a child for each of two NUMA cells.
    NumaCells,
    /// A class of the operator's own has a standard name.
    ClassRenamed,
    /// Dedicated CPUs are PCPU.
    Pcpu,
}

/// Which of the two machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    Old,
    New,
}

const GPUS: u32 = 8;
/// Virtual functions of each card; as many guests have one.
const FUNCTIONS: u32 = 32;
const MDEV_TYPE: &str = "nvidia-558";

impl Upgrade {
    pub(crate) const ALL: [Upgrade; 4] = [
        Upgrade::VgpuPerGpu,
        Upgrade::NumaCells,
        Upgrade::ClassRenamed,
        Upgrade::Pcpu,
    ];

    /// The node that is upgraded.
    pub(crate) fn node(self) -> NodeName {
        NodeName::new(match self {
            Upgrade::VgpuPerGpu => "gpu-01",
            Upgrade::NumaCells => "numa-01",
            Upgrade::ClassRenamed => "fpga-01",
            Upgrade::Pcpu => "cpu-01",
        })
        .expect("a node's name")
    }

    /// The machine with so many guests, in this version of its model.
    pub(crate) fn machine(self, guests: u32, version: Version) -> Machine {
        let old = version == Version::Old;
        let guests: Vec<MachineGuest> = (0..guests).map(|n| self.guest(n, version)).collect();
        let demand = GuestDemand::of(&guests);
        let node = MachineNode {
            name: self.node(),
            uuid: None,
            model: ResourceModel {
                vgpu: pick(
                    old && self == Upgrade::VgpuPerGpu,
                    VgpuModel::Root,
                    VgpuModel::PerGpu,
                ),
                numa: pick(
                    !old && self == Upgrade::NumaCells,
                    NumaModel::Cells,
                    NumaModel::Flat,
                ),
                pcpu: pick(
                    old && self == Upgrade::Pcpu,
                    PcpuModel::Vcpu,
                    PcpuModel::Pcpu,
                ),
            },
            cpus: self.cpus(&demand),
            memory_mib: demand.memory_mib(),
            disk: NodeDisk::Shared,
            cells: pick(self == Upgrade::NumaCells, demand.cells(), Vec::new()),
            gpus: pick(self == Upgrade::VgpuPerGpu, gpus(guests.len()), Vec::new()),
            nics: pick(self == Upgrade::NumaCells, nics(), Vec::new()),
            customs: pick(
                self == Upgrade::ClassRenamed,
                vec![card(version)],
                Vec::new(),
            ),
            traits: Vec::new(),
            faults: berth_fake::Faults::new(),
            devices: Vec::new(),
            pci: berth_virt::PciInPlacement::default(),
            guests,
        };
        Machine {
            hypervisor: HypervisorInfo {
                kind: "fake".to_owned(),
                version: "1.0".to_owned(),
                hostname: node.name.to_string(),
            },
            nodes: vec![node],
        }
    }

    /// The n-th guest's own consumer.
    fn instance(self, n: u32) -> ConsumerUuid {
        Uuid::from_u128(1 << 64 | (self as u128) << 32 | u128::from(n)).into()
    }

    /// The migration that holds the n-th guest's resources, where one does.
    pub(crate) fn migration(self, n: u32) -> ConsumerUuid {
        Uuid::from_u128(1 << 65 | (self as u128) << 32 | u128::from(n)).into()
    }

    fn cpus(self, demand: &GuestDemand) -> NodeCpus {
        let set = |from: u32| {
            let text = format!("{from}-{}", from + demand.vcpus - 1);
            (self == Upgrade::Pcpu).then(|| text.parse().expect("a CPU set"))
        };
        NodeCpus {
            online: CpuSet::first(2 * demand.vcpus),
            shared: set(0),
            dedicated: set(demand.vcpus),
        }
    }

    /// The n-th guest. All have different amounts of memory, so that a migration can be identified by its allocations.
    fn guest(self, n: u32, version: Version) -> MachineGuest {
        let vcpus = 2 + u64::from(n % 3);
        let memory_mib = 512 + u64::from(n);
        let seen = GuestView {
            name: format!("instance-{n:08x}"),
            power: pick(n % 11 == 10, PowerState::ShutOff, PowerState::Running),
            also: BTreeSet::new(),
            cpu_policy: pick(self == Upgrade::Pcpu, policy(n), GuestCpuPolicy::Shared),
            vcpus,
            memory_mib,
            cells: pick(
                self == Upgrade::NumaCells,
                cells(n, vcpus, memory_mib),
                Vec::new(),
            ),
            mdevs: pick(self == Upgrade::VgpuPerGpu, mdevs(n), Vec::new()),
            functions: pick(self == Upgrade::NumaCells, functions(n), BTreeSet::new()),
        };
        let cards = (self == Upgrade::ClassRenamed && n.is_multiple_of(2))
            .then(|| (card(version).class, 1 + u64::from(n % 3)));
        MachineGuest {
            uuid: self.instance(n),
            seen,
            disk_gib: pick(n.is_multiple_of(3), 10, 0),
            customs: cards.into_iter().collect(),
            migration: match n % 7 {
                3 => Some(MigrationSight::Known),
                5 => Some(MigrationSight::Unknown),
                _ => None,
            }
            .map(|sight| Migration {
                consumer: self.migration(n),
                sight,
            }),
        }
    }
}

/// The class's name in this version.
pub(crate) fn card(version: Version) -> CustomResource {
    let class = |name: &str| -> ResourceClass { name.parse().expect("a resource class") };
    let names = ["CUSTOM_FPGA_CARD", "FPGA"];
    CustomResource {
        class: class(names[usize::from(version == Version::New)]),
        formerly: names.map(class).into(),
        total: 4000,
    }
}

fn pick<T>(first: bool, one: T, other: T) -> T {
    if first { one } else { other }
}

fn policy(n: u32) -> GuestCpuPolicy {
    match n % 3 {
        0 => GuestCpuPolicy::Dedicated,
        1 => GuestCpuPolicy::Shared,
        _ => GuestCpuPolicy::Mixed { dedicated: 1 },
    }
}

/// On the first cell, on the second, on both, or where there is room: then who comes first has the choice, so none of these
/// goes by a migration's UUID.
fn cells(n: u32, vcpus: u64, memory_mib: u64) -> Vec<GuestCell> {
    let share = |host_cell, vcpus, memory_mib| GuestCell {
        host_cell,
        vcpus,
        memory_mib,
    };
    match (n % 7, n % 3) {
        (1 | 6, _) => Vec::new(),
        (_, 0) => vec![share(0, vcpus, memory_mib)],
        (_, 1) => vec![share(1, vcpus, memory_mib)],
        _ => {
            let half = memory_mib / 2;
            vec![share(1, 1, half), share(0, vcpus - 1, memory_mib - half)]
        }
    }
}

fn address(text: &str) -> PciAddress {
    text.parse().expect("a PCI address")
}

fn gpu(number: u32) -> PciAddress {
    address(&format!("0000:{:02x}:00.0", 0x40 + number % GPUS))
}

/// One unit, and for each fifth guest a second one on the next GPU.
fn mdevs(n: u32) -> Vec<GuestMdev> {
    let units = pick(n.is_multiple_of(5), 2, 1);
    (0..units)
        .map(|unit| GuestMdev {
            uuid: Uuid::from_u128(1 << (66 + unit) | u128::from(n)),
            parent: Some(gpu(n + unit)),
        })
        .collect()
}

fn gpus(guests: usize) -> Vec<Gpu> {
    let units = 2 * guests.div_ceil(GPUS as usize) as u64 + 2;
    (0..GPUS)
        .map(|number| Gpu {
            address: gpu(number),
            numa_node: None,
            types: BTreeMap::from([(MDEV_TYPE.to_owned(), units)]),
            enabled: Some(MDEV_TYPE.to_owned()),
            class: ResourceClass::VGPU,
        })
        .collect()
}

fn function(n: u32) -> PciAddress {
    let (card, number) = (n % 2, n / 2);
    address(&format!(
        "0000:{:02x}:{:02x}.{}",
        0xa0 + card,
        1 + number / 8,
        number % 8
    ))
}

/// Each third of the first guests has one.
fn functions(n: u32) -> BTreeSet<PciAddress> {
    (n.is_multiple_of(3) && n / 3 < 2 * FUNCTIONS)
        .then(|| function(n / 3))
        .into_iter()
        .collect()
}

fn nics() -> Vec<VirtualFunctions> {
    (0..2)
        .map(|card| VirtualFunctions {
            physical: address(&format!("0000:{:02x}:00.0", 0xa0 + card)),
            addresses: (0..FUNCTIONS).map(|n| function(2 * n + card)).collect(),
            numa_node: Some(card),
            class: "SRIOV_NET_VF".parse().expect("a resource class"),
        })
        .collect()
}
