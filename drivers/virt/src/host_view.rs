//! Everything a driver sees of its host in one pass, as a value.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{ConsumerUuid, NodeName, PciAddress, ProviderUuid, ResourceClass, Trait};
use uuid::Uuid;

use crate::{CpuSet, NodeCapabilities, OfferedDevice, ResourceModel};

/// What one `observe` saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostView {
    /// The hypervisor.
    pub hypervisor: Hypervisor,
    /// The nodes it has: usually one, several for a cluster or bare-metal driver.
    pub nodes: BTreeMap<NodeName, NodeView>,
}

/// The hypervisor itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hypervisor {
    /// Its kind, by Nova's word (`QEMU`, `fake`).
    pub kind: String,
    /// Its version as it shows it, for example `7.2.13`.
    pub version: String,
    /// The host's name as the hypervisor knows it.
    pub hostname: String,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// Its root provider's UUID where the hypervisor itself knows one (clusters); else the agent keeps one in `compute_id`.
    pub uuid: Option<ProviderUuid>,
    /// Its CPUs.
    pub cpus: Cpus,
    /// Its memory in MiB, 0 where it has none of its own.
    pub memory_mib: u64,
    /// Its disk.
    pub disk: Disk,
    /// Its NUMA cells; none where the hypervisor shows none.
    pub cells: Vec<NumaCell>,
    /// Its physical GPUs that can be parted into mediated devices, configured or not.
    pub gpus: Vec<PhysicalGpu>,
    /// Its network cards' virtual functions that are offered.
    pub functions: Vec<VirtualFunctions>,
    /// Devices that are offered whole, as virtual functions or as mediated devices, each a child of the root; by address.
    pub devices: Vec<OfferedDevice>,
    /// Whether the compute service's devices among them are reported to Placement.
    pub pci: PciInPlacement,
    /// Further resources on the root, one class each.
    pub customs: Vec<CustomResource>,
    /// Qualities of the node: `HW_*` of its processor, `COMPUTE_*` of what the hypervisor can do.
    pub traits: BTreeSet<Trait>,
    /// What it is and can run, in words that schedulers ask for.
    pub capabilities: NodeCapabilities,
    /// Its guests, running or not, by the consumer UUID that Placement knows them by (the instance's UUID).
    pub guests: BTreeMap<ConsumerUuid, GuestView>,
    /// Guests that are there and cannot be read, by the same UUID. What they hold stays where it is.
    pub unreadable: BTreeMap<ConsumerUuid, UnreadableGuest>,
    /// How its resources are modelled.
    pub model: ResourceModel,
}

/// `[pci] report_in_placement`: whether Placement is told of the compute service's PCI devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PciInPlacement {
    /// It is not, and what another compute service told it stays as it is.
    #[default]
    NotReported,
    /// It is, and what another compute service told it is taken over.
    Reported,
}

/// A node's CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cpus {
    /// Online CPUs.
    pub online: CpuSet,
    /// `[compute] cpu_shared_set`: CPUs that guests share. None: all that are not dedicated, or none if only a dedicated set
    /// is given (Nova's rule).
    pub shared: Option<CpuSet>,
    /// `[compute] cpu_dedicated_set`: CPUs that guests are pinned to.
    pub dedicated: Option<CpuSet>,
}

impl Cpus {
    /// The online CPUs that guests share.
    #[must_use]
    pub fn shared_online(&self) -> CpuSet {
        match (&self.shared, &self.dedicated) {
            (Some(shared), _) => shared.intersection(&self.online),
            (None, Some(_)) => CpuSet::default(),
            (None, None) => self.online.clone(),
        }
    }

    /// The online CPUs that guests are pinned to.
    #[must_use]
    pub fn dedicated_online(&self) -> CpuSet {
        self.dedicated
            .as_ref()
            .map_or_else(CpuSet::default, |set| set.intersection(&self.online))
    }
}

/// A node's disk for guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    /// Its own, in GiB.
    Local {
        /// Size in GiB.
        gib: u64,
    },
    /// On a sharing provider, which reports it: the node itself reports no DISK_GB.
    Shared,
    /// None.
    None,
}

/// A NUMA cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumaCell {
    /// Its number.
    pub id: u32,
    /// Its CPUs.
    pub cpus: CpuSet,
    /// Its memory in MiB.
    pub memory_mib: u64,
    /// Its CPUs that share a core, by core; none listed: each CPU is a core of its own.
    pub siblings: Vec<CpuSet>,
    /// Its huge pages, by size in KiB: how many there are, free or not.
    pub huge_pages: BTreeMap<u64, u64>,
    /// The socket that its CPUs are in; none where the host does not say, or they are in several.
    pub socket: Option<u32>,
    /// The size of its usual pages in KiB, above 0: 4 on most hosts, 64 or 16 on some of aarch64 and ppc64le.
    pub small_page_kib: u64,
}

impl NumaCell {
    /// The usual page of a host that does not say, in KiB.
    pub const SMALL_PAGE_KIB: u64 = 4;

    /// A cell of pages of 4 KiB, without huge ones, each of whose CPUs is a core of its own.
    #[must_use]
    pub fn new(id: u32, cpus: CpuSet, memory_mib: u64) -> Self {
        Self {
            id,
            cpus,
            memory_mib,
            siblings: Vec::new(),
            huge_pages: BTreeMap::new(),
            socket: None,
            small_page_kib: Self::SMALL_PAGE_KIB,
        }
    }
}

/// A physical GPU (or any card whose driver parts it into mediated devices).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhysicalGpu {
    /// Its PCI address.
    pub address: PciAddress,
    /// Its NUMA cell, where the host says.
    pub numa_node: Option<u32>,
    /// What it offers; none where no enabled type applies to it.
    pub offered: Option<OfferedMdevs>,
}

/// The mediated devices a GPU offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedMdevs {
    /// Their type, by the kernel's name (`nvidia-558`).
    pub mdev_type: String,
    /// Their resource class: VGPU, or the type's `mdev_class`.
    pub class: ResourceClass,
    /// How many there can be in all: existing ones and those still available.
    pub total: u64,
}

/// Virtual functions of one physical network function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VirtualFunctions {
    /// The physical function.
    pub physical: PciAddress,
    /// The virtual functions offered.
    pub addresses: BTreeSet<PciAddress>,
    /// The card's NUMA cell, where the host says.
    pub numa_node: Option<u32>,
    /// Their resource class, usually SRIOV_NET_VF.
    pub class: ResourceClass,
}

/// Some more of a resource on the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomResource {
    /// Its class.
    pub class: ResourceClass,
    /// Names the class had before: inventory under such a name is renamed, allocations with it.
    pub formerly: BTreeSet<ResourceClass>,
    /// How much there is, in the class's unit.
    pub total: u64,
}

/// Whether a guest runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerState {
    /// It runs (or is paused: it holds what it holds).
    Running,
    /// It is defined and off.
    ShutOff,
}

/// How a guest's CPUs are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuPolicy {
    /// On shared CPUs.
    Shared,
    /// Pinned to dedicated CPUs.
    Dedicated,
    /// So many pinned, the others shared.
    Mixed {
        /// Pinned CPUs.
        dedicated: u64,
    },
}

/// A guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestView {
    /// Its name on the hypervisor.
    pub name: String,
    /// Whether it runs.
    pub power: PowerState,
    /// Other consumers that hold allocations for it here, as far as the hypervisor knows them (a migration's).
    pub also: BTreeSet<ConsumerUuid>,
    /// How its CPUs are placed.
    pub cpu_policy: CpuPolicy,
    /// Its virtual CPUs.
    pub vcpus: u64,
    /// Its memory in MiB.
    pub memory_mib: u64,
    /// The host's NUMA cells it is placed on; none for a guest without NUMA placement.
    pub cells: Vec<GuestCell>,
    /// The mediated devices it uses.
    pub mdevs: Vec<GuestMdev>,
    /// The PCI functions it was given.
    pub functions: BTreeSet<PciAddress>,
}

/// A guest of which nothing is known but that it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableGuest {
    /// Its name on the hypervisor.
    pub name: String,
    /// Why it cannot be read.
    pub reason: String,
}

/// A guest's share of a host's NUMA cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuestCell {
    /// The host's cell.
    pub host_cell: u32,
    /// Virtual CPUs on it.
    pub vcpus: u64,
    /// Memory on it, in MiB.
    pub memory_mib: u64,
}

/// A mediated device a guest uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestMdev {
    /// Its UUID.
    pub uuid: Uuid,
    /// The physical GPU it is part of; none where that is not known (the device does not exist at present).
    pub parent: Option<PciAddress>,
}
