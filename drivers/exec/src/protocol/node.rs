//! A node, as a driver reports it: [`berth_virt::NodeView`] with lists instead of maps, and texts for its value types.
//! The types are copies of `drivers/virt`'s where a driver's list or text has a limit.

use std::collections::BTreeMap;

use berth_model::{NodeName, PciAddress, ProviderUuid, ResourceClass, Trait};
use berth_virt::{
    CpuSet, CustomResource, HostNumaCell, NodeCpus, NodeDisk, NodeView, OfferedMdevs, PhysicalGpu,
    VirtualFunctions,
};
use serde::{Deserialize, Serialize};

use super::device::DeviceFacts;
use super::guest::{GuestFacts, UnreadableFacts};
use super::value::{AsText, Text, list, twice};
use crate::options::ExecOptions;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeFacts {
    /// The node's name. It is the name of its root provider and the host's name in Nova and Cyborg.
    pub name: AsText<NodeName>,
    /// The root provider's UUID, if the hypervisor determines it. Optional: the agent stores one.
    #[serde(default)]
    pub uuid: Option<AsText<ProviderUuid>>,
    pub cpus: CpuFacts,
    /// Memory in MiB; 0 if the node itself has none.
    pub memory_mib: u64,
    /// The disk for guests: `{"local": {"gib": 100}}`, `"shared"` (on a sharing provider, which is reported elsewhere) or `"none"`.
    pub disk: NodeDisk,
    /// Its NUMA cells, at most 1024. Optional: none are shown.
    #[serde(default, deserialize_with = "list::<_, _, 1024>")]
    pub cells: Vec<CellFacts>,
    /// Its physical GPUs that can be parted into mediated devices for flavors (`resources:VGPU`), at most 1024. Optional.
    #[serde(default, deserialize_with = "list::<_, _, 1024>")]
    pub gpus: Vec<GpuFacts>,
    /// Its network cards' virtual functions, at most 1024 cards. Optional.
    #[serde(default, deserialize_with = "list::<_, _, 1024>")]
    pub functions: Vec<FunctionsFacts>,
    /// Devices offered as a whole, as virtual functions or as mediated devices, at most 4096. Optional.
    #[serde(default, deserialize_with = "list::<_, _, 4096>")]
    pub devices: Vec<DeviceFacts>,
    /// Further resources on the root, at most 256. Optional.
    #[serde(default, deserialize_with = "list::<_, _, 256>")]
    pub customs: Vec<CustomFacts>,
    /// Traits of the node, at most 1024. Optional.
    #[serde(default, deserialize_with = "list::<_, _, 1024>")]
    pub traits: Vec<AsText<Trait>>,
    /// Its guests, running or not, at most 16384. Optional.
    #[serde(default, deserialize_with = "list::<_, _, 16384>")]
    pub guests: Vec<GuestFacts>,
    /// Guests that exist but cannot be read, at most 16384. Their allocations stay unchanged. Optional.
    #[serde(default, deserialize_with = "list::<_, _, 16384>")]
    pub unreadable: Vec<UnreadableFacts>,
}

/// A node's CPUs, as CPU sets in Nova's grammar (`0-3,^2,8`; an empty text is no CPU).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuFacts {
    pub online: AsText<CpuSet>,
    /// CPUs shared by guests. Optional: `[compute] cpu_shared_set`.
    #[serde(default)]
    pub shared: Option<AsText<CpuSet>>,
    /// CPUs for pinned guests. Optional: `[compute] cpu_dedicated_set`.
    #[serde(default)]
    pub dedicated: Option<AsText<CpuSet>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellFacts {
    /// Its number, each once.
    pub id: u32,
    pub cpus: AsText<CpuSet>,
    /// Its memory in MiB.
    pub memory_mib: u64,
    /// Its CPUs grouped by core, at most 65536 sets. Optional: each CPU is a core.
    #[serde(default, deserialize_with = "list::<_, _, 65536>")]
    pub siblings: Vec<AsText<CpuSet>>,
    /// Its huge pages, an entry for each size, at most 16. Optional.
    #[serde(default, deserialize_with = "list::<_, _, 16>")]
    pub huge_pages: Vec<HugePages>,
    /// The socket of its CPUs, 0 to 65535. Optional: unknown, or several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<u16>,
}

/// Huge pages of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HugePages {
    /// The size of one in KiB.
    pub size_kib: u64,
    /// Their number, free or not.
    pub count: u64,
}

/// A physical GPU, or any card that provides mediated devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuFacts {
    pub address: AsText<PciAddress>,
    /// Its NUMA cell. Optional.
    #[serde(default)]
    pub numa_node: Option<u32>,
    /// The offered mediated devices. Optional: none enabled.
    #[serde(default)]
    pub offered: Option<OfferedFacts>,
}

/// The mediated devices a GPU offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfferedFacts {
    /// Their type, by the kernel's name (`nvidia-558`).
    pub mdev_type: Text<255>,
    /// Their resource class: `VGPU`, or a custom one.
    pub class: AsText<ResourceClass>,
    /// The maximum number: existing ones and available ones.
    pub total: u64,
}

/// Virtual functions of one network card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionsFacts {
    pub physical: AsText<PciAddress>,
    /// The virtual functions offered, at most 4096.
    #[serde(deserialize_with = "list::<_, _, 4096>")]
    pub addresses: Vec<AsText<PciAddress>>,
    /// The card's NUMA cell. Optional.
    #[serde(default)]
    pub numa_node: Option<u32>,
    /// Their resource class, usually `SRIOV_NET_VF`.
    pub class: AsText<ResourceClass>,
}

/// Some more of a resource on the root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomFacts {
    /// Its class, each once.
    pub class: AsText<ResourceClass>,
    /// Former names of the class, at most 16: their inventories are renamed, together with allocations. Optional.
    #[serde(default, deserialize_with = "list::<_, _, 16>")]
    pub formerly: Vec<AsText<ResourceClass>>,
    /// The amount, in the class's unit.
    pub total: u64,
}

impl NodeFacts {
    pub(super) fn view(self, options: &ExecOptions) -> Result<NodeView, String> {
        self.has_each_once()?;
        let configured = |reported: Option<AsText<CpuSet>>, set: &Option<CpuSet>| {
            reported.map(|set| set.0).or_else(|| set.clone())
        };
        Ok(NodeView {
            uuid: self.uuid.map(|uuid| uuid.0),
            cpus: NodeCpus {
                online: self.cpus.online.0,
                shared: configured(self.cpus.shared, &options.cpu_shared_set),
                dedicated: configured(self.cpus.dedicated, &options.cpu_dedicated_set),
            },
            memory_mib: self.memory_mib,
            disk: self.disk,
            cells: self.cells.into_iter().map(Into::into).collect(),
            gpus: self.gpus.into_iter().map(Into::into).collect(),
            functions: self.functions.into_iter().map(Into::into).collect(),
            devices: self.devices.into_iter().map(Into::into).collect(),
            pci: options.pci,
            customs: self.customs.into_iter().map(Into::into).collect(),
            encryption_contexts: BTreeMap::new(),
            traits: self.traits.into_iter().map(|one| one.0).collect(),
            capabilities: berth_virt::NodeCapabilities::default(),
            guests: self.guests.into_iter().map(Into::into).collect(),
            unreadable: self.unreadable.into_iter().map(Into::into).collect(),
            model: options.model,
        })
    }

    fn has_each_once(&self) -> Result<(), String> {
        fn once<K: Ord + std::fmt::Display>(
            field: &str,
            key: &str,
            keys: impl Iterator<Item = K>,
        ) -> Result<(), String> {
            match twice(keys) {
                Some((place, seen)) => {
                    Err(format!("{field}[{place}].{key}: {seen} is there twice"))
                }
                None => Ok(()),
            }
        }
        once("cells", "id", self.cells.iter().map(|it| it.id))?;
        once("gpus", "address", self.gpus.iter().map(|it| it.address.0))?;
        once(
            "functions",
            "physical",
            self.functions.iter().map(|it| it.physical.0),
        )?;
        once(
            "devices",
            "address",
            self.devices.iter().map(|it| it.address.0),
        )?;
        once(
            "customs",
            "class",
            self.customs.iter().map(|it| &it.class.0),
        )?;
        once("guests", "uuid", self.guests.iter().map(|it| it.uuid.0))?;
        let known = self.guests.iter().map(|it| it.uuid.0);
        let unknown = self.unreadable.iter().map(|it| it.uuid.0);
        let place = known.clone().count();
        match twice(known.chain(unknown)) {
            Some((seen, uuid)) => Err(format!(
                "unreadable[{}].uuid: {uuid} is there twice",
                seen - place
            )),
            None => Ok(()),
        }
    }
}

impl From<CellFacts> for HostNumaCell {
    fn from(cell: CellFacts) -> Self {
        let pages = cell.huge_pages.into_iter();
        HostNumaCell {
            siblings: cell.siblings.into_iter().map(|set| set.0).collect(),
            huge_pages: pages
                .map(|pages| (pages.size_kib, pages.count))
                .collect::<BTreeMap<_, _>>(),
            socket: cell.socket.map(u32::from),
            ..HostNumaCell::new(cell.id, cell.cpus.0, cell.memory_mib)
        }
    }
}

impl From<GpuFacts> for PhysicalGpu {
    fn from(gpu: GpuFacts) -> Self {
        PhysicalGpu {
            address: gpu.address.0,
            numa_node: gpu.numa_node,
            offered: gpu.offered.map(|offered| OfferedMdevs {
                mdev_type: offered.mdev_type.into(),
                class: offered.class.0,
                total: offered.total,
            }),
        }
    }
}

impl From<FunctionsFacts> for VirtualFunctions {
    fn from(card: FunctionsFacts) -> Self {
        VirtualFunctions {
            physical: card.physical.0,
            addresses: card.addresses.into_iter().map(|it| it.0).collect(),
            numa_node: card.numa_node,
            class: card.class.0,
        }
    }
}

impl From<CustomFacts> for CustomResource {
    fn from(custom: CustomFacts) -> Self {
        CustomResource {
            class: custom.class.0,
            formerly: custom.formerly.into_iter().map(|it| it.0).collect(),
            total: custom.total,
        }
    }
}
