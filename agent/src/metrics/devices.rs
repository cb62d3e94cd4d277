//! Values of the metrics of devices, from an observation. Pure.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{PciAddress, ResourceClass};
use berth_virt::{DeviceUnit, HostView, NodeView, OfferedDevice, OfferedHandle};
use metrics::Label;
use uuid::Uuid;

/// The state of a unit of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DeviceState {
    /// A guest may get it.
    Free,
    /// A guest has it.
    Used,
    /// No guest has it, and none may get it.
    Unfit,
}

impl DeviceState {
    pub(super) const ALL: [Self; 3] = [Self::Free, Self::Used, Self::Unfit];

    /// Value of the label.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Used => "used",
            Self::Unfit => "unfit",
        }
    }
}

/// The labels of an offered device, under the names that other exporters use for them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeviceInfo {
    pub(super) node: String,
    /// Its address as NVIDIA's tools and the DCGM exporter write it: `00000000:84:00.0`.
    pub(super) pci_bus_id: String,
    pub(super) device_type: &'static str,
    pub(super) resource_class: String,
    pub(super) vendor_id: String,
    pub(super) product_id: String,
    pub(super) model: String,
    pub(super) numa_node: String,
}

impl DeviceInfo {
    pub(super) fn labels(&self) -> Vec<Label> {
        let texts = [
            ("node", &self.node),
            ("pci_bus_id", &self.pci_bus_id),
            ("resource_class", &self.resource_class),
            ("vendor_id", &self.vendor_id),
            ("product_id", &self.product_id),
            ("model", &self.model),
            ("numa_node", &self.numa_node),
        ];
        let texts = texts.map(|(name, text)| Label::new(name, text.clone()));
        let device_type = Label::from_static_parts("device_type", self.device_type);
        texts.into_iter().chain([device_type]).collect()
    }
}

/// The number of units of each class in each state. A class without units in a state has 0.
pub(super) fn counts(view: &HostView) -> BTreeMap<(ResourceClass, DeviceState), u64> {
    let mut counts = UnitCounts::default();
    for node in view.nodes.values() {
        let used = UsedHandles::of(node);
        for device in &node.devices {
            let states = device
                .handles
                .iter()
                .map(|handle| used.state(device, handle));
            match device.unit {
                DeviceUnit::Handle => states.for_each(|state| counts.add(&device.class, state, 1)),
                // A guest gets all of it. The states are in the order of what keeps it from the next guest.
                DeviceUnit::Device | DeviceUnit::Partition(_) => states
                    .max_by_key(|state| (*state == DeviceState::Used, *state))
                    .into_iter()
                    .for_each(|state| counts.add(&device.class, state, 1)),
            }
        }
        for function in &node.functions {
            for address in &function.addresses {
                let state = match used.functions.contains(address) {
                    true => DeviceState::Used,
                    false => DeviceState::Free,
                };
                counts.add(&function.class, state, 1);
            }
        }
        for (gpu, offered) in node
            .gpus
            .iter()
            .filter_map(|gpu| Some((gpu, gpu.offered.as_ref()?)))
        {
            let in_use = used.mdevs_of(gpu.address).min(offered.total);
            counts.add(&offered.class, DeviceState::Used, in_use);
            counts.add(&offered.class, DeviceState::Free, offered.total - in_use);
        }
    }
    counts.0
}

#[derive(Default)]
struct UnitCounts(BTreeMap<(ResourceClass, DeviceState), u64>);

impl UnitCounts {
    fn add(&mut self, class: &ResourceClass, state: DeviceState, units: u64) {
        for state in DeviceState::ALL {
            self.0.entry((class.clone(), state)).or_default();
        }
        *self.0.entry((class.clone(), state)).or_default() += units;
    }
}

/// The devices that are offered.
pub(super) fn infos(view: &HostView) -> BTreeSet<DeviceInfo> {
    let devices = view
        .nodes
        .iter()
        .flat_map(|(name, node)| node.devices.iter().map(move |device| (name, device)));
    devices
        .map(|(node, device)| DeviceInfo {
            node: node.to_string(),
            pci_bus_id: pci_bus_id(device.address),
            device_type: device.device_type.as_str(),
            resource_class: device.class.to_string(),
            vendor_id: format!("{:04x}", device.vendor_id),
            product_id: format!("{:04x}", device.product_id),
            model: device.model.clone().unwrap_or_default(),
            numa_node: device
                .numa_node
                .map(|cell| cell.to_string())
                .unwrap_or_default(),
        })
        .collect()
}

fn pci_bus_id(address: PciAddress) -> String {
    let (domain, bus) = (address.domain(), address.bus());
    let (slot, function) = (address.slot(), address.function());
    format!("{domain:08X}:{bus:02X}:{slot:02X}.{function:X}")
}

/// What the guests of a node have.
struct UsedHandles {
    functions: BTreeSet<PciAddress>,
    mdevs: BTreeMap<Uuid, Option<PciAddress>>,
}

impl UsedHandles {
    fn of(node: &NodeView) -> Self {
        let guests = || node.guests.values();
        Self {
            functions: guests()
                .flat_map(|guest| guest.functions.iter().copied())
                .collect(),
            mdevs: guests()
                .flat_map(|guest| guest.mdevs.iter().map(|mdev| (mdev.uuid, mdev.parent)))
                .collect(),
        }
    }

    /// The number of mediated devices that guests have of a GPU.
    fn mdevs_of(&self, gpu: PciAddress) -> u64 {
        let parents = self.mdevs.values().flatten();
        parents.filter(|parent| **parent == gpu).count() as u64
    }

    fn state(&self, device: &OfferedDevice, handle: &OfferedHandle) -> DeviceState {
        let is_used = match handle {
            OfferedHandle::Function(address) => self.functions.contains(address),
            OfferedHandle::Mdev { uuid, .. } => self.mdevs.contains_key(uuid),
        };
        let is_unfit = device.condition.reason().is_some() || device.unfit_handles.contains(handle);
        match (is_used, is_unfit) {
            (true, _) => DeviceState::Used,
            (false, true) => DeviceState::Unfit,
            (false, false) => DeviceState::Free,
        }
    }
}

/// A device with these functions, of which each is a handle.
#[cfg(test)]
pub(super) fn test_device(functions: Vec<PciAddress>) -> OfferedDevice {
    OfferedDevice {
        address: functions[0],
        vendor_id: 0x10de,
        product_id: 0x1eb8,
        owner: berth_virt::DeviceOwner::Compute,
        device_type: berth_virt::DeviceType::Gpu,
        model: Some("T4".to_owned()),
        numa_node: Some(1),
        physical_network: None,
        network_functions: BTreeMap::new(),
        class: ResourceClass::PGPU,
        class_origin: berth_virt::ClassOrigin::Configured,
        traits: BTreeSet::new(),
        handles: functions.into_iter().map(OfferedHandle::Function).collect(),
        unit: berth_virt::DeviceUnit::Handle,
        unfit_handles: BTreeSet::new(),
        link_group: None,
        one_time_use: false,
        condition: berth_virt::DeviceCondition::Fit,
    }
}

/// A guest with this function.
#[cfg(test)]
pub(super) fn test_guest(
    function: PciAddress,
) -> (berth_model::ConsumerUuid, berth_virt::GuestView) {
    let guest = berth_virt::GuestView {
        name: "instance-00000001".to_owned(),
        power: berth_virt::PowerState::Running,
        also: BTreeSet::new(),
        cpu_policy: berth_virt::GuestCpuPolicy::Shared,
        vcpus: 1,
        memory_mib: 256,
        cells: Vec::new(),
        mdevs: Vec::new(),
        functions: [function].into(),
    };
    (Uuid::from_u128(1).into(), guest)
}
