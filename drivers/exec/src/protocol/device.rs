//! An offered device, as a driver reports it.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{LinkGroupName, PciAddress, ResourceClass, Trait};
use berth_virt::{
    ClassOrigin, DeviceCondition, DeviceOwner, DeviceType, DeviceUnit, OfferedDevice,
    OfferedHandle, UnfitReason,
};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use super::value::{AsText, Text, list};

/// A device for guests, or a card whose parts are for guests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceFacts {
    /// The function, or the physical function whose parts are offered. Unique.
    pub address: AsText<PciAddress>,
    /// The vendor's id as a number (0x10de is 4318).
    pub vendor_id: u16,
    /// The product's id as a number.
    pub product_id: u16,
    /// The service that it belongs to: `"compute"` (flavors request it) or `"accelerator"` (device profiles request it).
    pub owner: DeviceOwner,
    /// The device type, in Cyborg's terms: `GPU`, `FPGA`, `AICHIP`, `NIC`, `QAT`, `SSD`, `PCI`.
    #[serde(with = "device_type")]
    pub device_type: DeviceType,
    /// The model name. Optional.
    #[serde(default)]
    pub model: Option<Text<255>>,
    /// The NUMA cell it is attached to. Optional.
    #[serde(default)]
    pub numa_node: Option<u32>,
    /// The link group that it belongs to: 1 to 32 of a-z, 0-9 and `-`. Optional.
    #[serde(default)]
    pub link_group: Option<AsText<LinkGroupName>>,
    /// The physical network it is attached to; requests of Neutron ports name it. Optional.
    #[serde(default)]
    pub physical_network: Option<Text<255>>,
    /// The class of its inventory. Optional: Cyborg's for the type (`PGPU`, `CUSTOM_NIC`, ...), and for a device of the compute
    /// service Nova's (`CUSTOM_PCI_10DE_1EB8`).
    #[serde(default)]
    pub class: Option<AsText<ResourceClass>>,
    /// The traits, at most 256. Berth adds those of the owner and the condition. Optional.
    #[serde(default, deserialize_with = "list::<_, _, 256>")]
    pub traits: Vec<AsText<Trait>>,
    /// What guests get of it, each once, at most 4096. Their number is the inventory's total.
    #[serde(deserialize_with = "list::<_, _, 4096>")]
    pub handles: Vec<HandleFacts>,
    /// Whether one guest gets all of them together; then the inventory's total is 1. Optional: false.
    #[serde(default)]
    pub together: bool,
    /// Whether it is given out once and then reserved until it was cleaned externally. Optional: false.
    #[serde(default)]
    pub one_time_use: bool,
    /// Whether it may be given out. Optional: `"fit"`.
    #[serde(default)]
    pub condition: ConditionFacts,
}

/// The part of a device that one guest gets: `{"function": "0000:81:00.0"}` or
/// `{"mdev": {"uuid": ..., "parent": ..., "mdev_type": ...}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum HandleFacts {
    /// A function: the device itself or a virtual function.
    Function(AsText<PciAddress>),
    /// A mediated device that exists or can be created.
    Mdev {
        /// Its UUID, the same in every observation.
        uuid: AsText<Uuid>,
        /// The address of its parent function.
        parent: AsText<PciAddress>,
        /// Its type, by the kernel's name.
        mdev_type: Text<255>,
    },
}

/// Whether a device may be given out: `"fit"` or `{"unfit": "aer"}`. A copy of [`DeviceCondition`], because the error for
/// another reason names those that exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConditionFacts {
    #[default]
    Fit,
    /// It may not be given out, with the reason: `aer`, `link`, `driver`, `iommu-group`, `config-space`, `vendor`,
    /// `quarantined`, `disabled`, `reset-failed`, `vanished`.
    Unfit(#[serde(with = "unfit_reason")] UnfitReason),
}

/// A set of values that are serialised as words.
macro_rules! word {
    ($name:ident, $type:ty, $what:literal) => {
        pub(super) mod $name {
            use super::*;

            #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
            pub(in super::super) fn serialize<S: Serializer>(
                word: &$type,
                to: S,
            ) -> Result<S::Ok, S::Error> {
                to.serialize_str(word.as_str())
            }

            pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
                from: D,
            ) -> Result<$type, D::Error> {
                let text = Text::<64>::deserialize(from)?;
                let mut all = <$type>::ALL.into_iter();
                all.find(|word| word.as_str() == text.as_str())
                    .ok_or_else(|| {
                        let known = <$type>::ALL.map(|word| word.as_str()).join(", ");
                        D::Error::custom(format_args!(
                            "{:?} is no {}; one of {known} is",
                            text.as_str(),
                            $what
                        ))
                    })
            }
        }
    };
}

word!(device_type, DeviceType, "type of a device");
word!(unfit_reason, UnfitReason, "reason why a device is unfit");

impl From<DeviceFacts> for OfferedDevice {
    fn from(device: DeviceFacts) -> Self {
        let class = device.class.map(|class| class.0);
        let usual = || match device.owner {
            DeviceOwner::Accelerator => device.device_type.resource_class(),
            DeviceOwner::Compute => {
                let (vendor, product) = (device.vendor_id, device.product_id);
                ResourceClass::new(&format!("CUSTOM_PCI_{vendor:04X}_{product:04X}"))
                    .unwrap_or_else(|_| device.device_type.resource_class())
            }
        };
        OfferedDevice {
            address: device.address.0,
            vendor_id: device.vendor_id,
            product_id: device.product_id,
            owner: device.owner,
            device_type: device.device_type,
            model: device.model.map(Into::into),
            numa_node: device.numa_node,
            link_group: device.link_group.map(|group| group.0),
            physical_network: device.physical_network.map(Into::into),
            network_functions: BTreeMap::new(),
            class: class.unwrap_or_else(usual),
            class_origin: ClassOrigin::Configured,
            traits: device.traits.into_iter().map(|one| one.0).collect(),
            handles: device.handles.into_iter().map(Into::into).collect(),
            unit: match device.together {
                true => DeviceUnit::Device,
                false => DeviceUnit::Handle,
            },
            unfit_handles: BTreeSet::new(),
            one_time_use: device.one_time_use,
            condition: match device.condition {
                ConditionFacts::Fit => DeviceCondition::Fit,
                ConditionFacts::Unfit(reason) => DeviceCondition::Unfit { reason },
            },
        }
    }
}

impl From<HandleFacts> for OfferedHandle {
    fn from(handle: HandleFacts) -> Self {
        match handle {
            HandleFacts::Function(address) => OfferedHandle::Function(address.0),
            HandleFacts::Mdev {
                uuid,
                parent,
                mdev_type,
            } => OfferedHandle::Mdev {
                uuid: uuid.0,
                parent: parent.0,
                mdev_type: mdev_type.into(),
            },
        }
    }
}
