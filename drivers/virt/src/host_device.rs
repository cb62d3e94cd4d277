//! The devices that a node offers to guests as a whole, as virtual functions or as mediated devices: Nova's PCI devices
//! (`[pci] device_spec`) and those of the accelerator service (`[accelerators] device_spec`).
//!
//! A driver reports them in [`crate::NodeView::devices`]. The agent adds what only it knows (quarantined, disabled).
//! The driver's `update_provider_tree` creates a child provider for each, and the agent reports accelerators to the
//! accelerator service.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use berth_model::{
    LinkGroupName, MacAddress, NodeName, PciAddress, ProviderName, ProviderUuid, ResourceClass,
    Trait,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::guest_spec::text;

const INTEL: u16 = 0x8086;

/// Vendors by Cyborg's names, and others that make accelerators.
const VENDORS: [(u16, &str); 13] = [
    (0x10de, "NVIDIA"),
    (0x102b, "MATROX"),
    (0x1bd4, "INSPUR"),
    (INTEL, "INTEL"),
    (0x1099, "SAMSUNG"),
    (0x1cf2, "ZTE"),
    (0x10ee, "XILINX"),
    (0x1002, "AMD"),
    (0x19e5, "HUAWEI"),
    (0x1172, "ALTERA"),
    (0x1da3, "HABANA"),
    (0x17cb, "QUALCOMM"),
    (0x1e52, "TENSTORRENT"),
];

/// The name for a vendor (`NVIDIA`) in traits, by its PCI id; `None` if it has none.
#[must_use]
pub fn vendor_name(vendor_id: u16) -> Option<&'static str> {
    let known = VENDORS.iter().find(|(id, _)| *id == vendor_id);
    known.map(|(_, name)| *name)
}

/// A device offered to guests, or a card with offered parts. It is one child provider of the root or of its link group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedDevice {
    /// The offered function, or the physical function of the offered virtual functions or mediated devices.
    pub address: PciAddress,
    /// The vendor's id, 0x10de for instance.
    pub vendor_id: u16,
    /// The PCI device id, 0x20f1 for instance.
    pub product_id: u16,
    /// The service that it belongs to.
    pub owner: DeviceOwner,
    /// The device type, in Cyborg's terms.
    pub device_type: DeviceType,
    /// The model name, if known.
    pub model: Option<String>,
    /// The NUMA cell it is attached to, if the host reports it.
    pub numa_node: Option<u32>,
    /// The configured group of devices that a fast link connects. Its provider is the parent of the device's.
    pub link_group: Option<LinkGroupName>,
    /// The configured physical network; requests of Neutron ports need it with the device's address.
    pub physical_network: Option<String>,
    /// What Neutron's port bindings need to know about its virtual functions, or about the whole card. Only of a network card
    /// that is for ports ([`OfferedDevice::is_for_ports`]).
    pub network_functions: BTreeMap<PciAddress, NetworkFunctionFacts>,
    /// The class of its inventory.
    pub class: ResourceClass,
    /// The origin of the class.
    pub class_origin: ClassOrigin,
    /// The traits, without those of its owner and condition.
    pub traits: BTreeSet<Trait>,
    /// What guests get of it, each once. Empty: nothing is reported.
    pub handles: Vec<OfferedHandle>,
    /// What one unit of its inventory is.
    pub unit: DeviceUnit,
    /// Unused handles that may not be given out now although the device is fit. They are reserved in the inventory. Of a
    /// partition also the GPUs that a guest with another partition uses: each reserves the whole partition.
    pub unfit_handles: BTreeSet<OfferedHandle>,
    /// Whether it is given out once and then reserved until it was cleaned externally (Nova's `one_time_use`).
    pub one_time_use: bool,
    /// Whether it may be given out.
    pub condition: DeviceCondition,
}

/// What a port binding names about a function of a network card. The function's address, its ids and its physical
/// network belong to the binding, too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkFunctionFacts {
    /// Its number among the virtual functions of the card, from 0 (`virtfnN` of sysfs); `None` for the whole card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// The MAC address of the physical function; `None` without a network interface on the host.
    #[serde(default, with = "text::maybe", skip_serializing_if = "Option::is_none")]
    pub physical_mac: Option<MacAddress>,
}

/// The service that a device belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceOwner {
    /// The compute service: flavors request it (`[pci] device_spec`).
    Compute,
    /// The accelerator service: device profiles request it (`[accelerators] device_spec`).
    Accelerator,
}

/// The origin of a device's resource class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClassOrigin {
    /// Configured, or determined by a driver: binding.
    #[default]
    Configured,
    /// The default for this type. A provider that has Cyborg's CUSTOM_PCI keeps that.
    Default,
}

/// What one unit of a device's inventory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceUnit {
    /// One handle: the inventory's total is their number.
    #[default]
    Handle,
    /// All handles together, for one guest, which has an ARQ for each handle (like Cyborg with the two functions of a
    /// Xilinx card). The inventory's total is 1.
    Device,
    /// All GPUs of the Fabric Manager partition with this ID, for one guest. The inventory's total is 1. Other partitions
    /// can contain the same GPUs.
    Partition(u32),
}

/// The type of a device, in Cyborg's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceType {
    /// A graphics card or another accelerator that is programmed as one.
    Gpu,
    /// A programmable gate array.
    Fpga,
    /// A processor of neural networks (Huawei's Ascend, Gaudi, Cloud AI 100).
    AiChip,
    /// A network card offered as an accelerator.
    Nic,
    /// Intel's QuickAssist for cryptography and compression.
    Qat,
    /// A solid-state disk, passed through with its controller.
    Ssd,
    /// Any other PCI device that is offered.
    Pci,
}

impl DeviceType {
    /// All seven types, in the order of their declaration.
    pub const ALL: [DeviceType; 7] = [
        DeviceType::Gpu,
        DeviceType::Fpga,
        DeviceType::AiChip,
        DeviceType::Nic,
        DeviceType::Qat,
        DeviceType::Ssd,
        DeviceType::Pci,
    ];

    /// Cyborg's name: `GPU`, `FPGA`, `AICHIP`, `NIC`, `QAT`, `SSD`, `PCI`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            DeviceType::Gpu => "GPU",
            DeviceType::Fpga => "FPGA",
            DeviceType::AiChip => "AICHIP",
            DeviceType::Nic => "NIC",
            DeviceType::Qat => "QAT",
            DeviceType::Ssd => "SSD",
            DeviceType::Pci => "PCI",
        }
    }
}

impl DeviceType {
    /// Cyborg's resource class for a whole device of this type. Cyborg's driver for Ascend chips sets none; these are
    /// reported only by its PCI driver.
    #[must_use]
    pub fn resource_class(self) -> ResourceClass {
        match self {
            DeviceType::Gpu => ResourceClass::PGPU,
            DeviceType::Fpga => ResourceClass::FPGA,
            DeviceType::Nic => ResourceClass::known_custom("CUSTOM_NIC"),
            DeviceType::Qat => ResourceClass::known_custom("CUSTOM_QAT"),
            DeviceType::Ssd => ResourceClass::known_custom("CUSTOM_SSD"),
            DeviceType::AiChip | DeviceType::Pci => ResourceClass::known_custom("CUSTOM_PCI"),
        }
    }
}

impl fmt::Display for DeviceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What one guest gets of a device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfferedHandle {
    /// A function: the device itself or one of its virtual functions.
    Function(PciAddress),
    /// A mediated device that exists or can be created.
    Mdev {
        /// The UUID of the existing device, or one derived from its provider and number.
        uuid: Uuid,
        /// The PCI function that the mediated device belongs to.
        parent: PciAddress,
        /// Its type, by the kernel's name (`nvidia-558`).
        mdev_type: String,
    },
}

impl OfferedHandle {
    /// The UUID of a provider's mediated device that does not exist yet: version 5 of the provider's
    /// UUID and `mdev NUMBER`.
    #[must_use]
    pub fn mdev_uuid(provider: ProviderUuid, number: u64) -> Uuid {
        Uuid::new_v5(provider.as_uuid(), format!("mdev {number}").as_bytes())
    }
}

/// Whether a device may be given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceCondition {
    /// It may be given out.
    #[default]
    Fit,
    /// It may not: all of its inventory is reserved, and its provider has a trait for the reason.
    Unfit {
        /// The reason that the trait and the API show.
        reason: UnfitReason,
    },
}

impl DeviceCondition {
    /// Why it may not be given out; `None` if it may.
    #[must_use]
    pub const fn reason(self) -> Option<UnfitReason> {
        match self {
            DeviceCondition::Fit => None,
            DeviceCondition::Unfit { reason } => Some(reason),
        }
    }
}

/// Why a device may not be given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnfitReason {
    /// It is missing. Its provider stays while units are allocated, and is then deleted.
    Vanished,
    /// It reported errors with data loss.
    Aer,
    /// Its link is slower or narrower than before, or down.
    Link,
    /// It is on an unexpected driver.
    Driver,
    /// Its IOMMU group cannot be given to a guest as a whole, or has changed.
    IommuGroup,
    /// It does not respond on the bus, or another card responds.
    ConfigSpace,
    /// Its vendor's check reports a problem.
    Vendor,
    /// It could not be cleaned after a guest, or an operator quarantined it.
    Quarantined,
    /// An operator disabled it in the accelerator service.
    Disabled,
    /// Its last reset failed, or could not be verified.
    ResetFailed,
}

impl UnfitReason {
    /// All ten reasons, in the order of their declaration.
    pub const ALL: [UnfitReason; 10] = [
        UnfitReason::Vanished,
        UnfitReason::Aer,
        UnfitReason::Link,
        UnfitReason::Driver,
        UnfitReason::IommuGroup,
        UnfitReason::ConfigSpace,
        UnfitReason::Vendor,
        UnfitReason::Quarantined,
        UnfitReason::Disabled,
        UnfitReason::ResetFailed,
    ];

    /// The trait that the device's provider has: `CUSTOM_BERTH_DEVICE_` and the reason.
    #[must_use]
    pub const fn as_trait(self) -> Trait {
        Trait::known(match self {
            UnfitReason::Vanished => "CUSTOM_BERTH_DEVICE_VANISHED",
            UnfitReason::Aer => "CUSTOM_BERTH_DEVICE_AER",
            UnfitReason::Link => "CUSTOM_BERTH_DEVICE_LINK",
            UnfitReason::Driver => "CUSTOM_BERTH_DEVICE_DRIVER",
            UnfitReason::IommuGroup => "CUSTOM_BERTH_DEVICE_IOMMU_GROUP",
            UnfitReason::ConfigSpace => "CUSTOM_BERTH_DEVICE_CONFIG_SPACE",
            UnfitReason::Vendor => "CUSTOM_BERTH_DEVICE_VENDOR",
            UnfitReason::Quarantined => "CUSTOM_BERTH_DEVICE_QUARANTINED",
            UnfitReason::Disabled => "CUSTOM_BERTH_DEVICE_DISABLED",
            UnfitReason::ResetFailed => "CUSTOM_BERTH_DEVICE_RESET_FAILED",
        })
    }

    /// The value in machine files and the agent's API: `vanished`, `aer`, `link`, ...
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            UnfitReason::Vanished => "vanished",
            UnfitReason::Aer => "aer",
            UnfitReason::Link => "link",
            UnfitReason::Driver => "driver",
            UnfitReason::IommuGroup => "iommu-group",
            UnfitReason::ConfigSpace => "config-space",
            UnfitReason::Vendor => "vendor",
            UnfitReason::Quarantined => "quarantined",
            UnfitReason::Disabled => "disabled",
            UnfitReason::ResetFailed => "reset-failed",
        }
    }
}

impl fmt::Display for UnfitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            UnfitReason::Vanished => "it is gone",
            UnfitReason::Aer => "it reported errors that lost data",
            UnfitReason::Link => "its link is slower or narrower than it was, or down",
            UnfitReason::Driver => "another driver has it",
            UnfitReason::IommuGroup => "its IOMMU group cannot be given to a guest as a whole",
            UnfitReason::ConfigSpace => "it does not respond as the card that was listed",
            UnfitReason::Vendor => "its vendor's check reports a problem",
            UnfitReason::Quarantined => "it is quarantined",
            UnfitReason::Disabled => "it is disabled",
            UnfitReason::ResetFailed => "its reset failed",
        })
    }
}

impl OfferedDevice {
    /// Whether it, or its virtual functions, are given to Neutron ports (SR-IOV), and not to flavors.
    #[must_use]
    pub fn is_for_ports(&self) -> bool {
        self.owner == DeviceOwner::Compute && !self.network_functions.is_empty()
    }

    /// The name of its provider, in the pattern of the service: Nova's for PCI devices (`<node>_0000:AB:00.0`, upper
    /// case), or Cyborg's (`<node>_0000:ab:00.0`). A partition has its ID instead: `<node>_fabric_3`.
    #[must_use]
    pub fn provider_name(&self, node: &NodeName) -> ProviderName {
        match (self.unit, self.owner) {
            (DeviceUnit::Partition(id), _) => node.fabric_partition_name(id),
            (_, DeviceOwner::Compute) => node.pci_device_name(self.address),
            (_, DeviceOwner::Accelerator) => node.deployable_name(self.address),
        }
    }

    /// The UUID for a new provider of this device. If the tree already has a provider named
    /// [`OfferedDevice::provider_name`], its UUID counts, so search the tree first. `root` is the node's root provider.
    #[must_use]
    pub fn provider_uuid(&self, node: &NodeName, root: ProviderUuid) -> ProviderUuid {
        let name = self.provider_name(node);
        match self.owner {
            DeviceOwner::Compute => root.child(&name),
            DeviceOwner::Accelerator => ProviderUuid::of_deployable(&name),
        }
    }

    /// The number of units: the inventory's total.
    #[must_use]
    pub fn units(&self) -> u64 {
        let handles = self.handles.len() as u64;
        match self.unit {
            DeviceUnit::Handle => handles,
            DeviceUnit::Device | DeviceUnit::Partition(_) => handles.min(1),
        }
    }

    /// The number of handles that a guest with this number of units gets.
    #[must_use]
    pub fn handles_of(&self, units: u64) -> u64 {
        match self.unit {
            DeviceUnit::Handle => units,
            DeviceUnit::Device | DeviceUnit::Partition(_) => {
                units.saturating_mul(self.handles.len() as u64)
            }
        }
    }

    /// What messages call it: `device 0000:ab:00.0`, or `Fabric Manager partition 3`.
    #[must_use]
    pub fn label(&self) -> String {
        match self.unit {
            DeviceUnit::Partition(id) => format!("Fabric Manager partition {id}"),
            DeviceUnit::Handle | DeviceUnit::Device => format!("device {}", self.address),
        }
    }

    /// The name of the Cyborg driver that reports such a device: the vendor's name, its id if it has no name (`NVIDIA`,
    /// `15B3`), or `intel` for Intel's own driver. Independent of the host's driver, which changes with guests.
    #[must_use]
    pub fn cyborgs_driver(&self) -> String {
        match (self.vendor_id, self.device_type) {
            (INTEL, DeviceType::Fpga | DeviceType::Nic | DeviceType::Qat) => "intel".to_owned(),
            (vendor, _) => {
                vendor_name(vendor).map_or_else(|| format!("{vendor:04X}"), str::to_owned)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(owner: DeviceOwner) -> OfferedDevice {
        OfferedDevice {
            address: "0000:ab:00.0".parse().unwrap(),
            vendor_id: 0x10de,
            product_id: 0x1eb8,
            owner,
            device_type: DeviceType::Gpu,
            model: None,
            numa_node: None,
            link_group: None,
            physical_network: None,
            network_functions: BTreeMap::new(),
            class: ResourceClass::PGPU,
            class_origin: ClassOrigin::Configured,
            traits: BTreeSet::new(),
            handles: Vec::new(),
            unit: DeviceUnit::Handle,
            unfit_handles: BTreeSet::new(),
            one_time_use: false,
            condition: DeviceCondition::Fit,
        }
    }

    #[test]
    fn a_device_has_novas_or_cyborgs_name() {
        let node = NodeName::new("compute1").unwrap();
        let name = |owner| gpu(owner).provider_name(&node).to_string();
        assert_eq!(name(DeviceOwner::Compute), "compute1_0000:AB:00.0");
        assert_eq!(name(DeviceOwner::Accelerator), "compute1_0000:ab:00.0");
    }

    #[test]
    fn a_driver_is_called_by_the_vendor_as_cyborgs_drivers_are() {
        for (vendor_id, device_type, name) in [
            (0x10de, DeviceType::Gpu, "NVIDIA"),
            (0x1bd4, DeviceType::Ssd, "INSPUR"),
            (0x8086, DeviceType::Nic, "intel"),
            (0x8086, DeviceType::Fpga, "intel"),
            (0x8086, DeviceType::Qat, "intel"),
            (0x8086, DeviceType::Pci, "INTEL"),
            (0x15b3, DeviceType::Nic, "15B3"),
        ] {
            let device = OfferedDevice {
                vendor_id,
                device_type,
                ..gpu(DeviceOwner::Accelerator)
            };
            assert_eq!(device.cyborgs_driver(), name);
        }
    }

    #[test]
    fn an_accelerators_uuid_is_of_its_name_alone_and_a_compute_devices_of_its_root_too() {
        let node = NodeName::new("compute1").unwrap();
        let roots: [ProviderUuid; 2] = [Uuid::from_u128(1).into(), Uuid::from_u128(2).into()];
        let of = |owner| roots.map(|root| gpu(owner).provider_uuid(&node, root));
        let [one, other] = of(DeviceOwner::Accelerator);
        assert_eq!(one, other);
        let [one, other] = of(DeviceOwner::Compute);
        assert_ne!(one, other);
    }

    #[test]
    fn each_reason_has_a_trait_and_a_word_of_its_own() {
        let traits: BTreeSet<_> = UnfitReason::ALL.map(UnfitReason::as_trait).into();
        let words: BTreeSet<_> = UnfitReason::ALL.map(UnfitReason::as_str).into();
        assert_eq!(traits.len(), UnfitReason::ALL.len());
        assert_eq!(words.len(), UnfitReason::ALL.len());
        for held in traits {
            assert!(held.as_str().starts_with("CUSTOM_BERTH_DEVICE_"), "{held}");
        }
    }
}
