//! Picks the devices of a flavor: each allocated unit on a provider of the compute service's devices becomes one free
//! device of that provider. Pure; called under the placement lock.
//!
//! A provider of the accelerator service yields no device here, because the accelerator requests are bound to its devices; but its
//! NUMA cell attracts the instance. A provider of a NUMA cell restricts the instance to that cell.

use std::collections::{BTreeMap, BTreeSet};

use berth_agent_devices::report;
use berth_agent_journal::{NamedDevice as _, NetworkFunction};
use berth_model::{
    Affinity, NodeName, PciAddress, ProviderTree, ProviderUuid, ResourceClass, Trait,
};
use berth_virt::guest_spec::{AttachedDevice, DeviceOrigin, GuestDevice, PciManagement};
use berth_virt::{
    DeviceOwner, DeviceUnit, MdevSource, NodeView, OfferedDevice, OfferedMdevs, PhysicalGpu,
    VgpuModel, WantedDevice,
};
use berth_wire::conductor::FunctionVnicType;
use uuid::Uuid;

use crate::create::error::BuildError;
use crate::create::parse::{DirectPort, ParsedBuild};
use crate::fit::NearDevice;

#[derive(Debug, Default)]
pub(super) struct DevicePicks {
    pub(super) devices: Vec<AttachedDevice>,
    /// The mediated devices among `devices`, with their parents and types.
    pub(super) mdevs: Vec<WantedDevice>,
    /// The network functions for ports. They are among `devices`, too.
    pub(super) network_functions: Vec<NetworkFunction>,
    /// The devices that the instance should be near to: all that its allocations show, including those of accelerator
    /// requests.
    pub(super) near_devices: Vec<NearDevice>,
    /// Allocated units of the accelerator service's devices, by class. Each needs a bound accelerator request.
    pub(super) accelerator_units: BTreeMap<ResourceClass, u64>,
    /// The cells on whose providers CPUs or memory are allocated; `None` if cells are not providers.
    pub(super) host_cells: Option<BTreeSet<u32>>,
}

impl DevicePicks {
    /// Checks that each allocated unit of the accelerator service's devices has a request. Otherwise the instance would
    /// run without the device, and no other instance could use it.
    pub(super) fn check_accelerator_requests(&self, asked: &ParsedBuild) -> Result<(), BuildError> {
        let held = self.accelerator_units.values().sum::<u64>();
        let requests = asked.arqs.len() as u64;
        match self.accelerator_units.keys().next() {
            Some(class) if held > requests => Err(BuildError::MissingRequests {
                class: class.clone(),
                held,
                requests,
            }),
            _ => Ok(()),
        }
    }
}

/// What a provider stands for.
enum AllocationSource<'a> {
    Device(&'a OfferedDevice),
    Gpus(Vec<&'a PhysicalGpu>),
    Cell(u32),
}

/// Classes for the flavor's CPUs, memory and disk. They need no device.
fn is_of_the_flavor(class: &ResourceClass) -> bool {
    [
        ResourceClass::VCPU,
        ResourceClass::PCPU,
        ResourceClass::MEMORY_MB,
        ResourceClass::DISK_GB,
    ]
    .contains(class)
}

/// Classes that Neutron's agents report for ports (QoS). They need no device either.
fn is_of_a_port(class: &ResourceClass) -> bool {
    let name = class.as_str();
    name.starts_with("NET_BW_") || name.starts_with("NET_PACKET_RATE_")
}

/// Picks devices that are not in `taken`, the names of devices in use.
pub(super) fn pick(
    asked: &ParsedBuild,
    seen: &NodeView,
    tree: Option<&ProviderTree>,
    taken: &BTreeSet<String>,
) -> Result<DevicePicks, BuildError> {
    let mut allocated: BTreeMap<&ResourceClass, u64> = BTreeMap::new();
    for (class, amount) in asked.allocations.values().flatten() {
        *allocated.entry(class).or_default() += amount;
    }
    for (class, wanted) in &asked.resources {
        let found = allocated.get(class).copied().unwrap_or(0);
        if found < *wanted {
            return Err(BuildError::NotAllocated {
                class: class.to_string(),
                asked: *wanted,
                found,
            });
        }
    }
    let mut picking = DevicePicker {
        asked,
        taken: taken.clone(),
        picks: DevicePicks::default(),
        direct_ports: asked.direct_ports.iter().collect(),
        aliased: 0,
    };
    let Some(tree) = tree else {
        // Without the tree, the providers are unknown. An instance without devices does not need them.
        let mut classes = allocated.keys();
        let has_devices = classes.any(|class| !is_of_the_flavor(class) && !is_of_a_port(class));
        return match has_devices || asked.aliased > 0 || !asked.direct_ports.is_empty() {
            true => Err(BuildError::Unreported {
                node: asked.node.clone(),
            }),
            false => Ok(picking.picks),
        };
    };
    for (provider, classes) in &asked.allocations {
        picking.provider(*provider, classes, seen, tree)?;
    }
    if let Some(port) = picking.direct_ports.first() {
        return Err(BuildError::NoFunction {
            physical_network: port.physical_network.clone(),
            asked: asked.direct_ports.len(),
            found: picking.picks.network_functions.len(),
        });
    }
    // Devices that are requested by class (`resources:`) do not satisfy aliases.
    let by_class = asked.resources.values().sum::<u64>();
    let of_flavor = picking.picks.devices.len() - picking.picks.network_functions.len();
    let others = (of_flavor as u64).min(picking.aliased);
    let found = others.min((of_flavor as u64).saturating_sub(by_class));
    if found < asked.aliased {
        return Err(BuildError::NotAllocated {
            class: "PCI devices".to_owned(),
            asked: asked.aliased,
            found,
        });
    }
    Ok(picking.picks)
}

struct DevicePicker<'a> {
    asked: &'a ParsedBuild,
    taken: BTreeSet<String>,
    picks: DevicePicks,
    /// The direct ports that have no function yet.
    direct_ports: Vec<&'a DirectPort>,
    /// The number of functions picked from the compute service's PCI devices.
    aliased: u64,
}

impl DevicePicker<'_> {
    fn provider(
        &mut self,
        provider: ProviderUuid,
        classes: &BTreeMap<ResourceClass, u64>,
        seen: &NodeView,
        tree: &ProviderTree,
    ) -> Result<(), BuildError> {
        match source(provider, &self.asked.node, seen, tree) {
            Some(AllocationSource::Device(device)) => self.device(provider, device, classes),
            Some(AllocationSource::Gpus(gpus)) => self.gpus(provider, &gpus, classes),
            Some(AllocationSource::Cell(cell)) => {
                if classes.keys().any(is_of_the_flavor) {
                    self.picks.host_cells.get_or_insert_default().insert(cell);
                }
                Ok(())
            }
            // Resources of the root provider, and of sharing providers.
            None if tree.get(provider).is_some() => Ok(()),
            None => match classes.keys().find(|class| is_a_device(class, seen)) {
                Some(class) => Err(BuildError::Allocation {
                    provider,
                    class: class.clone(),
                    reason: "this node has no such provider, and the class is a device class"
                        .to_owned(),
                }),
                None => Ok(()),
            },
        }
    }

    fn device(
        &mut self,
        provider: ProviderUuid,
        device: &OfferedDevice,
        classes: &BTreeMap<ResourceClass, u64>,
    ) -> Result<(), BuildError> {
        let Some(amount) = classes.get(&device.class).copied() else {
            return Ok(());
        };
        let otherwise = match device.owner {
            DeviceOwner::Compute => Affinity::Legacy,
            DeviceOwner::Accelerator => Affinity::Preferred,
        };
        self.add_near_device(device.address, device.numa_node, otherwise);
        if device.owner == DeviceOwner::Accelerator {
            let units = &mut self.picks.accelerator_units;
            *units.entry(device.class.clone()).or_default() += amount;
            return Ok(());
        }
        let refuse = |reason: String| BuildError::Allocation {
            provider,
            class: device.class.clone(),
            reason,
        };
        if let Some(reason) = device.condition.reason() {
            let label = device.label();
            return Err(refuse(format!("{label} cannot be assigned: {reason}")));
        }
        let is_partition = matches!(device.unit, DeviceUnit::Partition(_));
        let needed = device.handles_of(amount);
        for number in 0..needed {
            let free = free_handle(device, &self.taken);
            let wanted = free.ok_or_else(|| {
                let offered = device.handles.len();
                let label = device.label();
                refuse(format!(
                    "{needed} are allocated, and {number} of the {offered} of {label} are free"
                ))
            })?;
            if device.is_for_ports() {
                self.attach_to_port(device, &wanted).map_err(&refuse)?;
                continue;
            }
            // A partition is requested by its class alone.
            self.aliased += u64::from(!is_partition);
            self.attach(wanted);
        }
        Ok(())
    }

    fn gpus(
        &mut self,
        provider: ProviderUuid,
        gpus: &[&PhysicalGpu],
        classes: &BTreeMap<ResourceClass, u64>,
    ) -> Result<(), BuildError> {
        for (class, amount) in classes {
            let offering: Vec<(&PhysicalGpu, &OfferedMdevs)> = gpus
                .iter()
                .filter_map(|gpu| Some((*gpu, gpu.offered.as_ref()?)))
                .filter(|(_, offered)| offered.class == *class)
                .collect();
            if offering.is_empty() {
                continue;
            }
            for number in 0..*amount {
                let free = offering.iter().find_map(|(gpu, offered)| {
                    let mut slots =
                        (0..offered.total).map(|slot| mdev(provider, gpu.address, offered, slot));
                    let free = slots.find(|wanted| !self.taken.contains(&wanted.device.name()))?;
                    Some((*gpu, free))
                });
                let (gpu, wanted) = free.ok_or_else(|| BuildError::Allocation {
                    provider,
                    class: class.clone(),
                    reason: format!("{amount} are allocated, and {number} are free here"),
                })?;
                self.add_near_device(gpu.address, gpu.numa_node, Affinity::Preferred);
                self.attach(wanted);
            }
        }
        Ok(())
    }

    fn add_near_device(&mut self, address: PciAddress, cell: Option<u32>, otherwise: Affinity) {
        self.picks.near_devices.push(NearDevice {
            what: format!("device {address}"),
            cell,
            affinity: self.asked.placement.affinity().unwrap_or(otherwise),
        });
    }

    /// Gives a function to a port that waits for one on the card's physical network. Fails with the reason.
    fn attach_to_port(
        &mut self,
        device: &OfferedDevice,
        wanted: &WantedDevice,
    ) -> Result<(), String> {
        let network = device.physical_network.as_deref().unwrap_or_default();
        let mut ports = self.direct_ports.iter();
        // Only such a card serves a port that needs a trusted function.
        let at = ports
            .position(|port| port.trusted && serves(device, port))
            .or_else(|| {
                self.direct_ports
                    .iter()
                    .position(|port| serves(device, port))
            });
        let port = at.map(|at| self.direct_ports.remove(at));
        let function = port.and_then(|port| network_function(port, device, wanted));
        let Some(function) = function else {
            let label = device.label();
            return Err(format!(
                "no port of the guest needs another function of {label} (physical network {network})"
            ));
        };
        let kind = port.map_or(FunctionVnicType::Direct, |port| port.kind);
        self.taken.insert(wanted.device.name());
        self.picks.devices.push(AttachedDevice {
            device: managed_for(kind, wanted.device),
            origin: DeviceOrigin::Port(function.port),
        });
        self.picks.network_functions.push(function);
        Ok(())
    }

    fn attach(&mut self, wanted: WantedDevice) {
        self.taken.insert(wanted.device.name());
        self.picks.devices.push(AttachedDevice {
            device: wanted.device,
            origin: DeviceOrigin::Flavor,
        });
        if wanted.mdev.is_some() {
            self.picks.mdevs.push(wanted);
        }
    }
}

/// A handle of a device that is fit and not in `taken`.
fn free_handle(device: &OfferedDevice, taken: &BTreeSet<String>) -> Option<WantedDevice> {
    let offered = device.handles.iter();
    let offered = offered.filter(|handle| !device.unfit_handles.contains(*handle));
    let mut wanted = offered.map(report::wanted_device);
    wanted.find(|wanted| !taken.contains(&wanted.device.name()))
}

/// The function of a network card that a port gets with this handle; `None` if the handle is not one.
fn network_function(
    port: &DirectPort,
    device: &OfferedDevice,
    wanted: &WantedDevice,
) -> Option<NetworkFunction> {
    let GuestDevice::Pci { address, .. } = wanted.device else {
        return None;
    };
    Some(NetworkFunction {
        port: port.port,
        address,
        vendor_id: device.vendor_id,
        product_id: device.product_id,
        physical_network: device.physical_network.clone().unwrap_or_default(),
        facts: device.network_functions.get(&address)?.clone(),
    })
}

/// Whether a card has what a port needs.
fn serves(device: &OfferedDevice, port: &DirectPort) -> bool {
    let class = match port.kind {
        FunctionVnicType::Direct | FunctionVnicType::Macvtap => ResourceClass::SRIOV_NET_VF,
        FunctionVnicType::DirectPhysical => ResourceClass::CUSTOM_SRIOV_NET_PF,
    };
    device.class == class
        && device.physical_network.as_ref() == Some(&port.physical_network)
        && (!port.trusted || device.traits.contains(&Trait::HW_NIC_SRIOV_TRUSTED))
}

/// The device of a port of this kind: the function below a macvtap stays on its driver.
fn managed_for(kind: FunctionVnicType, device: GuestDevice) -> GuestDevice {
    match (kind, device) {
        (FunctionVnicType::Macvtap, GuestDevice::Pci { address, .. }) => GuestDevice::Pci {
            address,
            managed: PciManagement::HostDriver,
        },
        (_, device) => device,
    }
}

/// Picks a free function of the card that Placement allocated for a port that is attached to an existing guest.
pub(super) fn pick_function(
    port: &DirectPort,
    provider: ProviderUuid,
    (node, seen): (&NodeName, &NodeView),
    tree: Option<&ProviderTree>,
    taken: &BTreeSet<String>,
) -> Result<(NetworkFunction, GuestDevice), BuildError> {
    let tree = tree.ok_or_else(|| BuildError::Unreported { node: node.clone() })?;
    let physical_network = &port.physical_network;
    let card = match source(provider, node, seen, tree) {
        Some(AllocationSource::Device(device)) if device.is_for_ports() => Some(device),
        _ => None,
    };
    let card = card.filter(|card| serves(card, port));
    let card = card.filter(|card| card.condition.reason().is_none());
    let wanted = card.and_then(|card| free_handle(card, taken));
    let function = card.zip(wanted).and_then(|(card, wanted)| {
        let device = managed_for(port.kind, wanted.device);
        Some((network_function(port, card, &wanted)?, device))
    });
    function.ok_or_else(|| BuildError::NoFunction {
        physical_network: physical_network.clone(),
        asked: 1,
        found: 0,
    })
}

/// The mediated device of a GPU slot. Its UUID is the same each time.
fn mdev(
    provider: ProviderUuid,
    gpu: PciAddress,
    offered: &OfferedMdevs,
    slot: u64,
) -> WantedDevice {
    let name = format!("{gpu}/{}/{slot}", offered.mdev_type);
    WantedDevice {
        device: GuestDevice::Mdev {
            uuid: Uuid::new_v5(provider.as_uuid(), name.as_bytes()),
        },
        mdev: Some(MdevSource {
            parent: gpu,
            mdev_type: offered.mdev_type.clone(),
        }),
    }
}

fn is_a_device(class: &ResourceClass, seen: &NodeView) -> bool {
    let gpus = seen.gpus.iter().filter_map(|gpu| gpu.offered.as_ref());
    let mut classes = gpus
        .map(|offered| &offered.class)
        .chain(seen.devices.iter().map(|device| &device.class));
    [ResourceClass::VGPU, ResourceClass::PGPU].contains(class)
        || classes.any(|offered| offered == class)
}

/// The devices or cell behind a provider; `None` for other providers.
fn source<'a>(
    provider: ProviderUuid,
    node: &NodeName,
    seen: &'a NodeView,
    tree: &ProviderTree,
) -> Option<AllocationSource<'a>> {
    let name = &tree.get(provider)?.name;
    if provider == tree.root().uuid() {
        let on_root = seen.model.vgpu == VgpuModel::Root;
        return on_root.then(|| AllocationSource::Gpus(seen.gpus.iter().collect()));
    }
    if let Some(device) = seen
        .devices
        .iter()
        .find(|device| device.provider_name(node) == *name)
    {
        return Some(AllocationSource::Device(device));
    }
    let is_called = |suffix: &str| node.child_name(suffix).is_ok_and(|child| child == *name);
    if let Some(gpu) = seen
        .gpus
        .iter()
        .find(|gpu| is_called(&gpu.address.nodedev_name()))
    {
        return Some(AllocationSource::Gpus(vec![gpu]));
    }
    let cell = seen
        .cells
        .iter()
        .find(|cell| is_called(&format!("numa{}", cell.id)))?;
    Some(AllocationSource::Cell(cell.id))
}
