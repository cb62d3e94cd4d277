//! The host devices that are bound for a guest.

use std::collections::BTreeSet;
use std::fmt;

use berth_model::{ArqUuid, PciAddress};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::error::GuestSpecError;
use super::pci_place::{HostPciPlace, HostPciPlaces};
use super::text;
use crate::HostDeviceId;

/// Who unbinds a PCI function from its driver and returns it: Nova's device_spec tag `managed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PciManagement {
    /// The hypervisor, at start and end (`managed='yes'`).
    Hypervisor,
    /// The operator or another tool: the function is on a VFIO driver and stays there (`managed='no'`).
    Prepared,
    /// The function stays on the host's network driver, and the guest has a macvtap of it.
    HostDriver,
}

/// A device of the host, as given to a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuestDevice {
    /// A PCI function, physical or virtual.
    Pci {
        /// Its address on the host.
        #[serde(with = "text")]
        address: PciAddress,
        /// Who unbinds it from its driver.
        managed: PciManagement,
    },
    /// A mediated device, for example a vGPU.
    Mdev {
        /// The UUID of the device in sysfs.
        #[serde(with = "text")]
        uuid: Uuid,
    },
    /// A virtual function that stays on its vendor's own VFIO driver (vGPUs without mediated devices).
    VendorVfio {
        /// Its address on the host.
        #[serde(with = "text")]
        address: PciAddress,
    },
}

/// The request that a device was given for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceOrigin {
    /// The accelerator request (ARQ) with this UUID.
    Arq(#[serde(with = "text")] ArqUuid),
    /// The flavor itself (`resources:VGPU`), which has no ARQ.
    Flavor,
    /// The Neutron port with this UUID, whose interface the device is (SR-IOV).
    Port(#[serde(with = "text")] Uuid),
}

impl DeviceOrigin {
    /// The accelerator request that the device was given for; `None` for another origin.
    #[must_use]
    pub fn arq(self) -> Option<ArqUuid> {
        match self {
            Self::Arq(uuid) => Some(uuid),
            Self::Flavor | Self::Port(_) => None,
        }
    }
}

/// A device and the request it was given for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttachedDevice {
    /// The host device that is attached.
    pub device: GuestDevice,
    /// The request that the device was given for.
    pub origin: DeviceOrigin,
}

/// The prefix of Berth's device aliases. libvirt keeps only aliases that start with `ua-`.
const ALIAS: &str = "ua-berth-";

impl AttachedDevice {
    /// The device's alias in the hypervisor's document: its ARQ's UUID (`ua-berth-arq-…`), its port's, or the device itself.
    #[must_use]
    pub fn alias(&self) -> String {
        match (self.origin, self.device) {
            (DeviceOrigin::Arq(uuid), _) => format!("{ALIAS}arq-{uuid}"),
            (DeviceOrigin::Port(port), _) => format!("{ALIAS}port-{}", port.hyphenated()),
            (DeviceOrigin::Flavor, GuestDevice::Mdev { uuid }) => {
                format!("{ALIAS}mdev-{}", uuid.hyphenated())
            }
            (
                DeviceOrigin::Flavor,
                GuestDevice::Pci { address, .. } | GuestDevice::VendorVfio { address },
            ) => format!("{ALIAS}{}", address.nodedev_name().replace('_', "-")),
        }
    }

    /// The ARQ that an alias names; none for another's alias and for a device without a request.
    #[must_use]
    pub fn arq_of_alias(alias: &str) -> Option<ArqUuid> {
        let uuid = alias.strip_prefix(ALIAS)?.strip_prefix("arq-")?;
        uuid.parse().ok()
    }
}

impl fmt::Display for GuestDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GuestDevice::Pci { address, .. } => write!(f, "PCI function {address}"),
            GuestDevice::Mdev { uuid } => write!(f, "mediated device {uuid}"),
            GuestDevice::VendorVfio { address } => write!(f, "vendor VFIO function {address}"),
        }
    }
}

/// A guest's devices; none is there twice, and no ARQ has two. A device can have its place in the host's PCI tree.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<DeviceRecord>", into = "Vec<DeviceRecord>")]
pub struct GuestDevices {
    devices: Vec<AttachedDevice>,
    places: HostPciPlaces,
}

/// A device in a journal.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceRecord {
    device: GuestDevice,
    origin: DeviceOrigin,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    place: Option<HostPciPlace>,
}

impl GuestDevices {
    /// The devices in their order. Fails if a PCI function, a mediated device or an ARQ is there twice.
    pub fn new(devices: Vec<AttachedDevice>) -> Result<Self, GuestSpecError> {
        let (mut functions, mut mdevs, mut requests) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for attached in &devices {
            let device_is_new = match attached.device {
                GuestDevice::Pci { address, .. } | GuestDevice::VendorVfio { address } => {
                    functions.insert(address)
                }
                GuestDevice::Mdev { uuid } => mdevs.insert(uuid),
            };
            if !device_is_new {
                return Err(GuestSpecError::Twice {
                    field: "devices",
                    what: attached.device.to_string(),
                });
            }
            if let Some(uuid) = attached.origin.arq()
                && !requests.insert(uuid)
            {
                return Err(GuestSpecError::Twice {
                    field: "devices.origin",
                    what: format!("accelerator request {uuid}"),
                });
            }
        }
        Ok(Self {
            devices,
            places: HostPciPlaces::default(),
        })
    }

    /// The same with the places of these devices in the host's PCI tree. Places of other devices are left out.
    #[must_use]
    pub fn with_places(mut self, places: &HostPciPlaces) -> Self {
        let devices = self.devices.iter();
        let devices = devices.map(|attached| HostDeviceId::of(attached.device));
        self.places = devices
            .filter_map(|device| Some((device, places.get(device)?)))
            .collect();
        self
    }

    /// The devices in their order.
    #[must_use]
    pub fn as_slice(&self) -> &[AttachedDevice] {
        &self.devices
    }

    /// The known places of the devices in the host's PCI tree.
    #[must_use]
    pub fn places(&self) -> &HostPciPlaces {
        &self.places
    }
}

impl TryFrom<Vec<DeviceRecord>> for GuestDevices {
    type Error = GuestSpecError;

    fn try_from(records: Vec<DeviceRecord>) -> Result<Self, GuestSpecError> {
        let places = records
            .iter()
            .filter_map(|record| Some((HostDeviceId::of(record.device), record.place?)));
        let places = places.collect();
        let devices = records.into_iter().map(|record| AttachedDevice {
            device: record.device,
            origin: record.origin,
        });
        Ok(Self::new(devices.collect())?.with_places(&places))
    }
}

impl From<GuestDevices> for Vec<DeviceRecord> {
    fn from(devices: GuestDevices) -> Self {
        let attached = devices.devices.into_iter();
        let records = attached.map(|attached| DeviceRecord {
            device: attached.device,
            origin: attached.origin,
            place: devices.places.get(HostDeviceId::of(attached.device)),
        });
        records.collect()
    }
}
