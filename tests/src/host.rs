//! A builder of hosts as a driver observes them, for scenarios.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    ConsumerUuid, LinkGroupName, NodeName, PciAddress, ProviderName, ResourceClass, Trait,
};
use berth_virt::{
    ClassOrigin, CpuSet, CustomResource, DeviceCondition, DeviceOwner, DeviceType, DeviceUnit,
    GuestCell, GuestCpuPolicy, GuestMdev, GuestView, HostNumaCell, HostView, HypervisorInfo,
    NodeCpus, NodeDisk, NodeView, OfferedDevice, OfferedHandle, OfferedMdevs, PciInPlacement,
    PhysicalGpu, PowerState, ResourceModel,
};
use uuid::Uuid;

/// The n-th consumer: the same UUID in every run.
#[must_use]
pub fn consumer(n: u32) -> ConsumerUuid {
    Uuid::from_u128(0xc0_0000 + u128::from(n)).into()
}

/// The n-th GPU's address.
///
/// # Panics
/// Never: the text is an address for every `n`.
#[must_use]
pub fn gpu(n: u8) -> PciAddress {
    format!("0000:{:02x}:00.0", 0x40 + n)
        .parse()
        .expect("a PCI address")
}

/// A host under construction: 64 CPUs, 256 GiB, 2,000 GiB of disk of its own.
#[derive(Debug, Clone)]
pub struct Host {
    name: NodeName,
    node: NodeView,
}

impl Host {
    /// An empty host.
    ///
    /// # Panics
    /// The name is no node's.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let node = NodeView {
            uuid: None,
            cpus: NodeCpus {
                online: CpuSet::first(64),
                shared: None,
                dedicated: None,
            },
            memory_mib: 262_144,
            disk: NodeDisk::Local { gib: 2000 },
            cells: Vec::new(),
            gpus: Vec::new(),
            functions: Vec::new(),
            devices: Vec::new(),
            pci: berth_virt::PciInPlacement::default(),
            customs: Vec::new(),
            encryption_contexts: BTreeMap::new(),
            traits: BTreeSet::new(),
            capabilities: berth_virt::NodeCapabilities::default(),
            guests: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            model: ResourceModel::default(),
        };
        Self {
            name: NodeName::new(name).expect("a node's name"),
            node,
        }
    }

    #[must_use]
    pub fn name(&self) -> &NodeName {
        &self.name
    }

    /// The same machine under another name.
    ///
    /// # Panics
    /// The name is no node's.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = NodeName::new(name).expect("a node's name");
        self
    }

    /// With everything else that a driver may see.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut NodeView)) -> Self {
        change(&mut self.node);
        self
    }

    /// With this model of its resources.
    #[must_use]
    pub fn modelled(self, change: impl FnOnce(&mut ResourceModel)) -> Self {
        self.with(|node| change(&mut node.model))
    }

    /// With one more GPU of so many units: the next by number.
    ///
    /// # Panics
    /// It has more than 255 GPUs.
    #[must_use]
    pub fn gpu(self, units: u64) -> Self {
        let n = u8::try_from(self.node.gpus.len()).expect("at most 255 GPUs");
        self.gpu_number(n, units)
    }

    /// With the n-th GPU, of so many units.
    #[must_use]
    pub fn gpu_number(self, n: u8, units: u64) -> Self {
        self.with(|node| {
            node.gpus.push(PhysicalGpu {
                address: gpu(n),
                numa_node: None,
                offered: Some(OfferedMdevs {
                    mdev_type: "nvidia-558".to_owned(),
                    class: ResourceClass::VGPU,
                    total: units,
                }),
            });
        })
    }

    /// Without the n-th GPU.
    #[must_use]
    pub fn without_gpu(self, n: u8) -> Self {
        self.with(|node| node.gpus.retain(|there| there.address != gpu(n)))
    }

    /// With the n-th GPU there, but of no enabled type.
    #[must_use]
    pub fn unconfigured_gpu(self, n: u8) -> Self {
        self.with(|node| {
            for there in node.gpus.iter_mut().filter(|there| there.address == gpu(n)) {
                there.offered = None;
            }
        })
    }

    /// With the n-th whole GPU of this service, in this link group.
    ///
    /// # Panics
    /// The name is no link group's.
    #[must_use]
    pub fn whole_gpu(self, n: u8, owner: DeviceOwner, group: Option<&str>) -> Self {
        let group = group.map(|name| LinkGroupName::new(name).expect("a link group's name"));
        self.with(|node| {
            node.pci = PciInPlacement::Reported;
            node.devices.push(OfferedDevice {
                address: gpu(n),
                vendor_id: 0x10de,
                product_id: 0x20b7,
                owner,
                device_type: DeviceType::Gpu,
                model: None,
                numa_node: None,
                link_group: group,
                physical_network: None,
                network_functions: BTreeMap::new(),
                class: match owner {
                    DeviceOwner::Compute => ResourceClass::pci_device(0x10de, 0x20b7),
                    DeviceOwner::Accelerator => ResourceClass::PGPU,
                },
                class_origin: ClassOrigin::Configured,
                traits: BTreeSet::new(),
                handles: vec![OfferedHandle::Function(gpu(n))],
                unit: DeviceUnit::Handle,
                unfit_handles: BTreeSet::new(),
                one_time_use: false,
                condition: DeviceCondition::Fit,
            });
        })
    }

    /// With the n-th consumer's guest, one vCPU and 256 MiB, with a virtual GPU on each of these GPUs.
    #[must_use]
    pub fn guest(self, n: u32, on: &[u8]) -> Self {
        let guest = guest(n, on);
        self.with(|node| {
            node.guests.insert(consumer(n), guest);
        })
    }

    /// With a guest as it is given.
    #[must_use]
    pub fn guest_as(self, n: u32, change: impl FnOnce(&mut GuestView)) -> Self {
        let mut guest = guest(n, &[]);
        change(&mut guest);
        self.with(|node| {
            node.guests.insert(consumer(n), guest);
        })
    }

    /// Without the n-th consumer's guest.
    #[must_use]
    pub fn without_guest(self, n: u32) -> Self {
        self.with(|node| {
            node.guests.remove(&consumer(n));
        })
    }

    /// Its disk is on a sharing provider.
    #[must_use]
    pub fn on_shared_storage(self) -> Self {
        self.with(|node| node.disk = NodeDisk::Shared)
    }

    /// With so many NUMA cells, of equal shares.
    ///
    /// # Panics
    /// The shares are no CPU set.
    #[must_use]
    pub fn cells(self, cells: u32) -> Self {
        self.with(|node| {
            let each = 64 / cells;
            let memory = node.memory_mib / u64::from(cells);
            node.cells = (0..cells)
                .map(|id| {
                    let cpus = format!("{}-{}", id * each, (id + 1) * each - 1);
                    HostNumaCell::new(id, cpus.parse().expect("a CPU set"), memory)
                })
                .collect();
        })
    }

    /// With these CPUs shared and those dedicated.
    ///
    /// # Panics
    /// The texts are no CPU sets.
    #[must_use]
    pub fn cpus(self, shared: &str, dedicated: &str) -> Self {
        self.with(|node| {
            node.cpus.shared = Some(shared.parse().expect("a CPU set"));
            node.cpus.dedicated = Some(dedicated.parse().expect("a CPU set"));
        })
    }

    /// With a custom resource, formerly known by other names.
    ///
    /// # Panics
    /// A name is no resource class.
    #[must_use]
    pub fn custom(self, class: &str, formerly: &[&str], total: u64) -> Self {
        let class_of = |name: &str| -> ResourceClass { name.parse().expect("a resource class") };
        self.with(|node| {
            node.customs.push(CustomResource {
                class: class_of(class),
                formerly: formerly.iter().map(|name| class_of(name)).collect(),
                total,
            });
        })
    }

    /// With a trait.
    ///
    /// # Panics
    /// The name is no trait.
    #[must_use]
    pub fn quality(self, name: &str) -> Self {
        let quality: Trait = name.parse().expect("a trait");
        self.with(|node| {
            node.traits.insert(quality);
        })
    }

    /// What a driver sees of it.
    #[must_use]
    pub fn view(&self) -> HostView {
        HostView {
            hypervisor: HypervisorInfo {
                kind: "fake".to_owned(),
                version: "1".to_owned(),
                hostname: self.name.to_string(),
            },
            nodes: BTreeMap::from([(self.name.clone(), self.node.clone())]),
        }
    }

    /// The name of the n-th GPU's provider.
    ///
    /// # Panics
    /// The node's name leaves no room.
    #[must_use]
    pub fn gpu_provider(&self, n: u8) -> ProviderName {
        self.name
            .child_name(&gpu(n).nodedev_name())
            .expect("room for the address")
    }
}

/// A guest of one shared vCPU and 256 MiB with a virtual GPU on each of these GPUs.
#[must_use]
pub fn guest(n: u32, on: &[u8]) -> GuestView {
    GuestView {
        name: format!("instance-{n:08x}"),
        power: PowerState::Running,
        also: BTreeSet::new(),
        cpu_policy: GuestCpuPolicy::Shared,
        vcpus: 1,
        memory_mib: 256,
        cells: Vec::new(),
        mdevs: on
            .iter()
            .zip(0u128..)
            .map(|(parent, i)| GuestMdev {
                uuid: Uuid::from_u128((u128::from(n) << 8) + i),
                parent: Some(gpu(*parent)),
            })
            .collect(),
        functions: BTreeSet::new(),
    }
}

/// A guest's share of a host's cell.
#[must_use]
pub fn on_cell(host_cell: u32, vcpus: u64, memory_mib: u64) -> GuestCell {
    GuestCell {
        host_cell,
        vcpus,
        memory_mib,
    }
}
