//! Values of the metrics of devices, from an observation. Pure.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{PciAddress, ResourceClass};
use berth_virt::{HostView, NodeView, OfferedDevice, OfferedHandle};
use metrics::Label;
use uuid::Uuid;

/// The state of what one guest gets of a device.
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

/// The number of handles of each class in each state. A class without handles in a state has 0.
pub(super) fn counts(view: &HostView) -> BTreeMap<(ResourceClass, DeviceState), u64> {
    let mut counts = BTreeMap::new();
    for node in view.nodes.values() {
        let used = UsedHandles::of(node);
        for device in &node.devices {
            for state in DeviceState::ALL {
                counts.entry((device.class.clone(), state)).or_default();
            }
            for handle in &device.handles {
                let state = used.state(device, handle);
                *counts.entry((device.class.clone(), state)).or_default() += 1;
            }
        }
    }
    counts
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
    mdevs: BTreeSet<Uuid>,
}

impl UsedHandles {
    fn of(node: &NodeView) -> Self {
        let guests = || node.guests.values();
        Self {
            functions: guests()
                .flat_map(|guest| guest.functions.iter().copied())
                .collect(),
            mdevs: guests()
                .flat_map(|guest| guest.mdevs.iter().map(|mdev| mdev.uuid))
                .collect(),
        }
    }

    fn state(&self, device: &OfferedDevice, handle: &OfferedHandle) -> DeviceState {
        let is_used = match handle {
            OfferedHandle::Function(address) => self.functions.contains(address),
            OfferedHandle::Mdev { uuid, .. } => self.mdevs.contains(uuid),
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
        class: ResourceClass::PGPU,
        class_origin: berth_virt::ClassOrigin::Configured,
        traits: BTreeSet::new(),
        handles: functions.into_iter().map(OfferedHandle::Function).collect(),
        unit: berth_virt::DeviceUnit::Handle,
        unfit_handles: BTreeSet::new(),
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
