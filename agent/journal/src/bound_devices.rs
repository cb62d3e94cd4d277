//! [`BoundDevices`]: the devices that a guest's accelerator requests are bound to.

use std::collections::BTreeSet;
use std::fmt;

use berth_agent_images::serde_text;
use berth_model::{ArqUuid, AttachHandle, AttachHandleInfo, PciAddress};
use berth_virt::guest_spec::{
    AttachedDevice, DeviceOrigin, GuestDevice, GuestDevices, GuestSpec, GuestSpecError,
    HostPciPlaces, PciManagement,
};
use serde::{Deserialize, Serialize};

use crate::device_name::NamedDevice as _;

/// The parent function and the type of a mediated device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoundMdevParent {
    #[serde(with = "serde_text")]
    pub address: PciAddress,
    /// The type, for example `nvidia-35`.
    pub asked_type: String,
}

/// A device that an accelerator request is bound to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoundDevice {
    #[serde(with = "serde_text")]
    pub arq: ArqUuid,
    pub device: GuestDevice,
    /// `None` if the device is not a mediated device.
    pub mdev: Option<BoundMdevParent>,
}

/// The handle is not a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "accelerator request {arq} is bound to {handle}, behind which there is no device: Cyborg's fake driver makes such \
     handles ([agent] enabled_drivers)"
)]
pub struct NoDevice {
    arq: ArqUuid,
    handle: String,
}

impl BoundDevice {
    /// The device of a handle.
    pub fn of(arq: ArqUuid, handle: &AttachHandle) -> Result<Self, NoDevice> {
        let (device, mdev) = match &handle.info {
            AttachHandleInfo::Pci { address, .. } => {
                let managed = PciManagement::Hypervisor;
                let address = *address;
                (GuestDevice::Pci { address, managed }, None)
            }
            AttachHandleInfo::Mdev {
                parent, asked_type, ..
            } => {
                let uuid = *handle.uuid.as_uuid();
                let parent = BoundMdevParent {
                    address: *parent,
                    asked_type: asked_type.clone(),
                };
                (GuestDevice::Mdev { uuid }, Some(parent))
            }
            AttachHandleInfo::TestPci { .. } => {
                let handle = handle.info.to_string();
                return Err(NoDevice { arq, handle });
            }
        };
        Ok(Self { arq, device, mdev })
    }

    /// The name of the device in the journal: its PCI address, or the UUID of a mediated device.
    #[must_use]
    pub fn name(&self) -> String {
        self.device.name()
    }
}

/// All devices of a guest's accelerator requests: one for each request, none twice. A guest that requests the host's PCI topology
/// also has the places of all its devices here, because they are determined when its devices are bound.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "BindingRecord", into = "BindingRecord")]
pub struct BoundDevices {
    devices: BTreeSet<BoundDevice>,
    places: HostPciPlaces,
}

/// The devices in the journal.
#[derive(Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum BindingRecord {
    /// Also in journals of earlier releases.
    Plain(Vec<BoundDevice>),
    Placed {
        devices: Vec<BoundDevice>,
        places: HostPciPlaces,
    },
}

/// A device or a request occurs twice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is there twice")]
pub struct DuplicateBinding {
    what: String,
}

impl BoundDevices {
    /// Errors: A device or a request occurs twice.
    pub fn new(devices: impl IntoIterator<Item = BoundDevice>) -> Result<Self, DuplicateBinding> {
        let (mut requests, mut names) = (BTreeSet::new(), BTreeSet::new());
        let mut bound = BTreeSet::new();
        for device in devices {
            if !requests.insert(device.arq) {
                let what = format!("accelerator request {}", device.arq);
                return Err(DuplicateBinding { what });
            }
            if !names.insert(device.name()) {
                let what = device.device.to_string();
                return Err(DuplicateBinding { what });
            }
            bound.insert(device);
        }
        Ok(Self {
            devices: bound,
            places: HostPciPlaces::default(),
        })
    }

    /// The same with the places of the guest's devices in the host's PCI tree.
    #[must_use]
    pub fn with_places(self, places: HostPciPlaces) -> Self {
        Self { places, ..self }
    }

    #[must_use]
    pub fn places(&self) -> &HostPciPlaces {
        &self.places
    }

    pub fn iter(&self) -> impl Iterator<Item = &BoundDevice> {
        self.devices.iter()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// Whether the requests are bound to the same devices. The accelerator service does not know places.
    #[must_use]
    pub fn has_same_bindings(&self, other: &Self) -> bool {
        self.devices == other.devices
    }

    /// The guest with these devices in addition to those of its flavor.
    pub fn attached_to(&self, spec: &GuestSpec) -> Result<GuestSpec, GuestSpecError> {
        let mut devices = spec.devices.as_slice().to_vec();
        devices.extend(self.devices.iter().map(|bound| AttachedDevice {
            device: bound.device,
            origin: DeviceOrigin::Arq(bound.arq),
        }));
        Ok(GuestSpec {
            devices: GuestDevices::new(devices)?.with_places(&self.places),
            ..spec.clone()
        })
    }
}

impl fmt::Display for BoundDevices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let devices: Vec<_> = self
            .devices
            .iter()
            .map(|bound| bound.device.to_string())
            .collect();
        if devices.is_empty() {
            return f.write_str("no device");
        }
        f.write_str(&devices.join(", "))
    }
}

impl TryFrom<BindingRecord> for BoundDevices {
    type Error = DuplicateBinding;

    fn try_from(record: BindingRecord) -> Result<Self, DuplicateBinding> {
        match record {
            BindingRecord::Plain(devices) => Self::new(devices),
            BindingRecord::Placed { devices, places } => {
                Ok(Self::new(devices)?.with_places(places))
            }
        }
    }
}

impl From<BoundDevices> for BindingRecord {
    fn from(bound: BoundDevices) -> Self {
        let devices = bound.devices.into_iter().collect();
        match bound.places {
            places if places.is_empty() => Self::Plain(devices),
            places => Self::Placed { devices, places },
        }
    }
}
