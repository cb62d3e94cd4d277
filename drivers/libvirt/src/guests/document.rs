//! Parses the libvirt domain XML of a guest, and checks the devices that it names against the host's sysfs.
//!
//! [`guest`] converts the XML to a [`GuestOnHost`]. [`missing`] finds a device that the host does not have.
//! [`group_members`] finds the devices that share an IOMMU group with a guest's devices.

use std::collections::BTreeSet;

use berth_sysfs::{Sysfs, SysfsError};
use berth_virt::guest_spec::AttachedDevice;
use berth_virt::{GuestError, GuestMark, GuestOnHost, HeldDevice, HostDeviceId, PowerState};
use roxmltree::Node;
use uuid::Uuid;

use super::hardware;
use crate::guest::{macvtap_functions, macvtap_links, pci_address};
use crate::guest_metadata::GuestMetadata;
use crate::xml::{self, Reader, XmlError};

/// Parses a domain XML. `state` is the guest's power state, which the XML does not contain. The functions below its macvtaps
/// are in `sysfs`; without it they are not among the guest's devices.
pub(super) fn guest(
    name: String,
    text: &str,
    state: PowerState,
    sysfs: Option<&Sysfs>,
) -> Result<GuestOnHost, GuestError> {
    let (mut guest, links) = read(&name, text, state).map_err(|error| GuestError::Malformed {
        origin: format!("libvirt's document of guest {name:?}"),
        reason: error.to_string(),
    })?;
    let functions = macvtap_functions(&links, (state, guest.owner.is_some()), sysfs);
    let functions = functions.map_err(unreadable)?.into_iter();
    guest.devices.extend(functions.map(|function| HeldDevice {
        device: HostDeviceId::Function(function),
        arq: None,
        is_interface: true,
    }));
    Ok(guest)
}

/// A guest without the functions below its macvtaps, and the host's network interfaces that the macvtaps are on.
fn read(
    name: &str,
    text: &str,
    state: PowerState,
) -> Result<(GuestOnHost, BTreeSet<String>), XmlError> {
    let reader = Reader::new("a guest", "domain", text)?;
    let domain = reader.root();
    let mark = GuestMetadata::read(&reader, domain)?;
    let given = xml::find(domain, &["devices"])
        .into_iter()
        .flat_map(|devices| devices.children())
        .filter(|device| device.has_tag_name("hostdev") || device.has_tag_name("interface"))
        .filter_map(|device| held_device(&reader, device).transpose());
    // Only read the hardware of Berth's own guests: the XML of other guests may contain elements unknown to Berth.
    let hardware = mark.as_ref().and_then(|_| hardware::read(&reader, domain));
    let guest = GuestOnHost {
        name: name.to_owned(),
        state,
        owner: mark.map(|mark| GuestMark {
            project: mark.project,
            consumer: mark.consumer,
            requests: mark.requests,
        }),
        devices: given.collect::<Result<_, _>>()?,
        unreadable: None,
        hardware,
        stuck: None,
        ended_by_hypervisor: false,
    };
    Ok((guest, macvtap_links(domain)))
}

/// The host device of an element; `None` for elements without one (USB, an interface on a bridge).
fn held_device(reader: &Reader<'_>, device: Node<'_, '_>) -> Result<Option<HeldDevice>, XmlError> {
    let address = xml::find(device, &["source", "address"]);
    let kind = device.attribute("type");
    let is_function = kind == Some("pci") || kind == Some("hostdev");
    let host_device = match (kind, address) {
        (Some("mdev"), Some(address)) => {
            let uuid = reader.required(
                "hostdev/source/address/@uuid",
                address.attribute("uuid"),
                "a UUID",
                |text| Uuid::parse_str(text).ok(),
            )?;
            HostDeviceId::Mdev(uuid)
        }
        (_, Some(address)) if is_function => {
            let function = pci_address(address).ok_or_else(|| {
                reader.unexpected("source/address", "", "a PCI function's address")
            })?;
            HostDeviceId::Function(function)
        }
        _ => return Ok(None),
    };
    let alias = xml::find(device, &["alias"]).and_then(|alias| alias.attribute("name"));
    Ok(Some(HeldDevice {
        device: host_device,
        arq: alias.and_then(AttachedDevice::arq_of_alias),
        is_interface: device.has_tag_name("interface"),
    }))
}

/// The first of these devices that the host does not have.
pub(super) fn missing(
    devices: impl Iterator<Item = HostDeviceId>,
    sysfs: &Sysfs,
) -> Result<Option<HostDeviceId>, GuestError> {
    for device in devices {
        let there = match device {
            HostDeviceId::Function(address) => {
                sysfs.pci_function(address).map_err(unreadable)?.is_some()
            }
            HostDeviceId::Mdev(uuid) => {
                let mdevs = sysfs.mdev_devices().map_err(unreadable)?;
                mdevs.iter().any(|mdev| mdev.uuid == uuid)
            }
        };
        if !there {
            return Ok(Some(device));
        }
    }
    Ok(None)
}

/// The PCI functions that share an IOMMU group with one of these devices, without the device itself. No other guest may
/// have them. Empty without `sysfs`.
pub(super) fn group_members(
    devices: impl Iterator<Item = HostDeviceId>,
    sysfs: Option<&Sysfs>,
) -> Result<BTreeSet<HostDeviceId>, GuestError> {
    let mut members = BTreeSet::new();
    let Some(sysfs) = sysfs else {
        return Ok(members);
    };
    for device in devices {
        if let HostDeviceId::Function(address) = device {
            let found = sysfs.other_group_members(address).map_err(unreadable)?;
            members.extend(found.into_iter().map(HostDeviceId::Function));
        }
    }
    Ok(members)
}

fn unreadable(error: SysfsError) -> GuestError {
    GuestError::Malformed {
        origin: "the kernel's device tree".to_owned(),
        reason: error.to_string(),
    }
}
