//! [`NamedDevice`]: the name of a device, which is its PCI address, or the UUID of a mediated device. Journal, register,
//! accelerator service and operators use the same name.

use berth_model::{AttachHandleInfo, AttachHandleType};
use berth_virt::guest_spec::GuestDevice;
use berth_virt::{HostDeviceId, OfferedDevice, OfferedHandle};
use berth_wire::accelerator::AttachHandleInfoBody;
use uuid::Uuid;

/// A device that has a name.
pub trait NamedDevice {
    fn name(&self) -> String;
}

impl NamedDevice for HostDeviceId {
    fn name(&self) -> String {
        match self {
            Self::Function(address) => address.to_string(),
            Self::Mdev(uuid) => uuid.hyphenated().to_string(),
        }
    }
}

impl NamedDevice for GuestDevice {
    fn name(&self) -> String {
        HostDeviceId::of(*self).name()
    }
}

impl NamedDevice for OfferedHandle {
    fn name(&self) -> String {
        let device = match self {
            Self::Function(address) => HostDeviceId::Function(*address),
            Self::Mdev { uuid, .. } => HostDeviceId::Mdev(*uuid),
        };
        device.name()
    }
}

/// The names of a device's handles.
pub fn names(device: &OfferedDevice) -> Vec<String> {
    device.handles.iter().map(NamedDevice::name).collect()
}

/// The name of the device behind a handle of the accelerator service; `None` if the handle has no device.
pub fn name_of_handle(uuid: Uuid, kind: &str, info: &AttachHandleInfoBody) -> Option<String> {
    let kind = AttachHandleType::from_name(kind)?;
    let device = match info.clone().into_info(kind).ok()? {
        AttachHandleInfo::Pci { address, .. } => HostDeviceId::Function(address),
        AttachHandleInfo::Mdev { .. } => HostDeviceId::Mdev(uuid),
        AttachHandleInfo::TestPci { .. } => return None,
    };
    Some(device.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "5c965fc9-a7cd-4d38-8ccb-d8821db50d03";

    #[test]
    fn a_device_has_one_name_in_all_sources() {
        let (address, uuid): (_, Uuid) = ("0000:84:00.1".parse().unwrap(), UUID.parse().unwrap());
        let mdev = OfferedHandle::Mdev {
            uuid,
            parent: address,
            mdev_type: "t".to_owned(),
        };
        let of_guest = GuestDevice::Mdev { uuid };
        assert_eq!([mdev.name(), of_guest.name()], [UUID, UUID]);
        assert_eq!(OfferedHandle::Function(address).name(), "0000:84:00.1");
        let info: AttachHandleInfoBody = serde_json::from_str(
            r#"{"domain": "0000", "bus": "84", "device": "00", "function": "1", "asked_type": "t"}"#,
        )
        .unwrap();
        for (kind, name) in [("MDEV", Some(UUID)), ("TEST_PCI", None), ("USB", None)] {
            let found = name_of_handle(uuid, kind, &info);
            assert_eq!(found.as_deref(), name, "{kind}");
        }
        let info = serde_json::from_str(
            r#"{"domain": "0000", "bus": "84", "device": "00", "function": "1"}"#,
        );
        let found = name_of_handle(uuid, "PCI", &info.unwrap());
        assert_eq!(found.as_deref(), Some("0000:84:00.1"));
    }
}
