//! The devices that were bound for a guest.

use std::collections::BTreeSet;
use std::fmt;

use berth_model::{ArqUuid, PciAddress};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::error::GuestSpecError;
use super::text;

/// Who takes a PCI function from its driver and gives it back: Nova's device_spec tag `managed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PciManagement {
    /// The hypervisor, at start and end (`managed='yes'`).
    Hypervisor,
    /// Whoever made the function ready: it is on a VFIO driver and stays there (`managed='no'`).
    Prepared,
}

/// A host's device, as it is given to a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuestDevice {
    /// A whole PCI function or a virtual function.
    Pci {
        /// Where it is on the host.
        #[serde(with = "text")]
        address: PciAddress,
        /// Who takes it from its driver.
        managed: PciManagement,
    },
    /// A mediated device.
    Mdev {
        /// Its UUID.
        #[serde(with = "text")]
        uuid: Uuid,
    },
    /// A virtual function whose vendor's own VFIO driver keeps it (vGPUs without mediated devices).
    VendorVfio {
        /// Where it is on the host.
        #[serde(with = "text")]
        address: PciAddress,
    },
}

/// What a device was given for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceOrigin {
    /// The accelerator request (ARQ) of this UUID, which is bound to it.
    Arq(#[serde(with = "text")] ArqUuid),
    /// A resource of the flavor itself (`resources:VGPU`), which has no request.
    Flavor,
}

/// A device and what it was given for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttachedDevice {
    /// The device.
    pub device: GuestDevice,
    /// What for.
    pub origin: DeviceOrigin,
}

/// What every alias of ours starts with. libvirt keeps aliases that start with `ua-` as they are given.
const ALIAS: &str = "ua-berth-";

impl AttachedDevice {
    /// The device's alias in the hypervisor's document: its ARQ's UUID (`ua-berth-arq-…`), or the device itself.
    #[must_use]
    pub fn alias(&self) -> String {
        match (self.origin, self.device) {
            (DeviceOrigin::Arq(uuid), _) => format!("{ALIAS}arq-{uuid}"),
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

/// A guest's devices; none is there twice, and no ARQ has two.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<AttachedDevice>", into = "Vec<AttachedDevice>")]
pub struct GuestDevices(Vec<AttachedDevice>);

impl GuestDevices {
    /// The devices in their order.
    ///
    /// # Errors
    /// A PCI function, a mediated device or an ARQ is there twice.
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
            if let DeviceOrigin::Arq(uuid) = attached.origin
                && !requests.insert(uuid)
            {
                return Err(GuestSpecError::Twice {
                    field: "devices.origin",
                    what: format!("accelerator request {uuid}"),
                });
            }
        }
        Ok(Self(devices))
    }

    /// The devices in their order.
    #[must_use]
    pub fn as_slice(&self) -> &[AttachedDevice] {
        &self.0
    }
}

impl TryFrom<Vec<AttachedDevice>> for GuestDevices {
    type Error = GuestSpecError;

    fn try_from(devices: Vec<AttachedDevice>) -> Result<Self, GuestSpecError> {
        Self::new(devices)
    }
}

impl From<GuestDevices> for Vec<AttachedDevice> {
    fn from(devices: GuestDevices) -> Self {
        devices.0
    }
}
