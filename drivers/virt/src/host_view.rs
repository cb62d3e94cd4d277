//! The result of one observation of a host, as values.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    ConsumerUuid, MemoryEncryption, NodeName, PciAddress, PowerState, ProviderUuid, ResourceClass,
    Trait,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::guest_spec::text;
use crate::{CpuSet, NodeCapabilities, OfferedDevice, ResourceModel};

/// The result of one `observe`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostView {
    /// Kind, version and host name of the hypervisor.
    pub hypervisor: HypervisorInfo,
    /// The nodes: usually one, several for a cluster or bare-metal driver.
    pub nodes: BTreeMap<NodeName, NodeView>,
}

/// Kind, version and host name of a hypervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HypervisorInfo {
    /// The kind, in Nova's terms (`QEMU`, `fake`).
    pub kind: String,
    /// The version as displayed, for example `7.2.13`.
    pub version: String,
    /// The host's name according to the hypervisor.
    pub hostname: String,
}

/// The observed state of one node of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// The root provider's UUID, if the hypervisor determines it (clusters); if not, the agent
    /// stores one in `compute_id`.
    pub uuid: Option<ProviderUuid>,
    /// Its online CPUs, and the sets that guests may use.
    pub cpus: NodeCpus,
    /// Memory in MiB; 0 if the node itself has none.
    pub memory_mib: u64,
    /// Its disk for guests, local or shared.
    pub disk: NodeDisk,
    /// The NUMA cells; empty if the hypervisor reports none.
    pub cells: Vec<HostNumaCell>,
    /// Its physical GPUs that can be parted into mediated devices, configured or not.
    pub gpus: Vec<PhysicalGpu>,
    /// Its network cards' virtual functions that are offered.
    pub functions: Vec<VirtualFunctions>,
    /// The devices offered as a whole, as virtual functions or as mediated devices, each a child of the
    /// root; ordered by address.
    pub devices: Vec<OfferedDevice>,
    /// Whether the compute service's devices among them are reported to Placement.
    pub pci: PciInPlacement,
    /// Further resources on the root, one class each.
    pub customs: Vec<CustomResource>,
    /// The number of guests with encrypted memory that the processor can run at once, above 0, by model.
    pub encryption_contexts: BTreeMap<MemoryEncryption, u64>,
    /// Traits of the node: `HW_*` of its processor, `COMPUTE_*` of the hypervisor.
    pub traits: BTreeSet<Trait>,
    /// Capabilities in terms that schedulers request.
    pub capabilities: NodeCapabilities,
    /// Its guests, running or not, by the consumer UUID that Placement knows them by (the instance's UUID).
    pub guests: BTreeMap<ConsumerUuid, GuestView>,
    /// Guests that exist but cannot be read, by UUID. Their allocations stay unchanged.
    pub unreadable: BTreeMap<ConsumerUuid, UnreadableGuest>,
    /// How its resources are modelled.
    pub model: ResourceModel,
}

/// `[pci] report_in_placement`: whether the compute service's PCI devices are reported to Placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PciInPlacement {
    /// Not reported. Providers of another compute service stay unchanged.
    #[default]
    NotReported,
    /// Reported. Providers of another compute service are taken over.
    Reported,
}

/// The CPUs of a node, by Nova's `cpu_shared_set` and `cpu_dedicated_set`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeCpus {
    /// All CPUs that are online, in either set or none.
    pub online: CpuSet,
    /// `[compute] cpu_shared_set`: CPUs shared by guests. `None`: all that are not dedicated, or none if only a
    /// dedicated set is configured (like in Nova).
    pub shared: Option<CpuSet>,
    /// `[compute] cpu_dedicated_set`: CPUs that guests are pinned to.
    pub dedicated: Option<CpuSet>,
}

impl NodeCpus {
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NodeDisk {
    /// A local disk, in GiB.
    Local {
        /// Size of the file system in GiB.
        gib: u64,
    },
    /// On a sharing provider, which reports it; the node reports no DISK_GB.
    Shared,
    /// The node has no disk for guests.
    None,
}

/// A NUMA cell of the host, without its usage. With the usage of guests it is Nova's `NUMACell`, which only travels to
/// the scheduler (`host_state` of `core/wire`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostNumaCell {
    /// The kernel's number of the cell.
    pub id: u32,
    /// The online CPUs of the cell.
    pub cpus: CpuSet,
    /// Its memory in MiB.
    pub memory_mib: u64,
    /// Its CPUs grouped by core; empty: each CPU is a core.
    pub siblings: Vec<CpuSet>,
    /// The number of its huge pages, free or not, by size in KiB.
    pub huge_pages: BTreeMap<u64, u64>,
    /// The socket of its CPUs; `None` if unknown, or if they are in several.
    pub socket: Option<u32>,
    /// The size of its usual pages in KiB, above 0: 4 on most hosts, 64 or 16 on some of aarch64 and ppc64le.
    pub small_page_kib: u64,
}

impl HostNumaCell {
    /// A cell with pages of 4 KiB, without huge pages, in which each CPU is a core.
    #[must_use]
    pub fn new(id: u32, cpus: CpuSet, memory_mib: u64) -> Self {
        Self {
            id,
            cpus,
            memory_mib,
            siblings: Vec::new(),
            huge_pages: BTreeMap::new(),
            socket: None,
            small_page_kib: 4,
        }
    }
}

/// A physical GPU, or any card that provides mediated devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhysicalGpu {
    /// The PCI address of the card on the host.
    pub address: PciAddress,
    /// Its NUMA cell, if the host reports it.
    pub numa_node: Option<u32>,
    /// The offered mediated devices; `None` if no enabled type applies.
    pub offered: Option<OfferedMdevs>,
}

/// The mediated devices a GPU offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedMdevs {
    /// Their type, by the kernel's name (`nvidia-558`).
    pub mdev_type: String,
    /// Their resource class: VGPU, or the type's `mdev_class`.
    pub class: ResourceClass,
    /// The maximum number: existing ones and available ones.
    pub total: u64,
}

/// Virtual functions of one physical network function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VirtualFunctions {
    /// The PCI address of the physical function.
    pub physical: PciAddress,
    /// The virtual functions offered.
    pub addresses: BTreeSet<PciAddress>,
    /// The card's NUMA cell, if the host reports it.
    pub numa_node: Option<u32>,
    /// Their resource class, usually SRIOV_NET_VF.
    pub class: ResourceClass,
}

/// Some more of a resource on the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomResource {
    /// The resource class, standard or `CUSTOM_`.
    pub class: ResourceClass,
    /// Former names of the class: their inventories are renamed, together with allocations.
    pub formerly: BTreeSet<ResourceClass>,
    /// The amount, in the class's unit.
    pub total: u64,
}

/// How a guest's CPUs are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum GuestCpuPolicy {
    /// All CPUs float on the node's shared CPUs (VCPU).
    Shared,
    /// Pinned to dedicated CPUs.
    Dedicated,
    /// Some CPUs are pinned, the others shared.
    Mixed {
        /// The number of pinned CPUs (PCPU).
        dedicated: u64,
    },
}

/// A guest with the resources that it uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestView {
    /// Its name on the hypervisor.
    pub name: String,
    /// Its state at present. A driver may report a paused guest as running, because it uses its resources.
    pub power: PowerState,
    /// Further consumers that hold allocations for it here, as far as the hypervisor knows them (a migration).
    pub also: BTreeSet<ConsumerUuid>,
    /// How its CPUs are placed.
    pub cpu_policy: GuestCpuPolicy,
    /// The number of its virtual CPUs.
    pub vcpus: u64,
    /// Its memory in MiB.
    pub memory_mib: u64,
    /// The host's NUMA cells it is placed on; empty without NUMA placement.
    pub cells: Vec<GuestCell>,
    /// The mediated devices that it uses.
    pub mdevs: Vec<GuestMdev>,
    /// The PCI functions that it uses, by host address.
    pub functions: BTreeSet<PciAddress>,
}

/// A guest that exists but cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableGuest {
    /// Its name on the hypervisor.
    pub name: String,
    /// Why it cannot be read.
    pub reason: String,
}

/// A guest's share of a host's NUMA cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestCell {
    /// The number of the host's NUMA cell.
    pub host_cell: u32,
    /// Its virtual CPUs on the cell.
    pub vcpus: u64,
    /// Its memory on the cell, in MiB.
    pub memory_mib: u64,
}

/// A mediated device a guest uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestMdev {
    /// The UUID of the mediated device.
    #[serde(with = "text")]
    pub uuid: Uuid,
    /// The physical GPU; `None` if unknown (the mediated device does not exist at present).
    #[serde(default, with = "text::maybe")]
    pub parent: Option<PciAddress>,
}
