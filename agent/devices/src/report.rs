//! Converts observed devices into the report for the accelerator service ([`host_devices`]), and the service's answer
//! into [`Advice`] ([`advice`]). Pure.

use std::collections::{BTreeMap, BTreeSet};

use berth_agent_journal::{NamedDevice as _, Register, name_of_handle};
use berth_model::{
    ArqUuid, AttachHandleInfo, AttachHandleType, ConsumerUuid, NodeName, Provider, ProviderTree,
    ProviderUuid,
};
use berth_virt::guest_spec::{GuestDevice, PciManagement};
use berth_virt::{
    DeviceOwner, MdevSource, OfferedDevice, OfferedHandle, UnfitReason, WantedDevice,
};
use berth_wire::accelerator::{
    AttachHandleInfoBody, GroupBody, Health, HostAttachHandle, HostDeployable, HostDevicesReport,
    KnownAttachHandle, KnownDevices, ReportedHostDevice,
};

/// The status of a device that an operator disabled at the accelerator service.
const MAINTAINING: &str = "maintaining";

/// Whether devices are cleaned between two guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scrub {
    /// A handle is reset after each guest, and is not free before.
    #[default]
    Always,
    /// A handle is free when it is released.
    Never,
}

/// The device of a handle, as it is attached to a guest.
#[must_use]
pub fn wanted_device(handle: &OfferedHandle) -> WantedDevice {
    match handle {
        OfferedHandle::Function(address) => WantedDevice::of(GuestDevice::Pci {
            address: *address,
            managed: PciManagement::Hypervisor,
        }),
        OfferedHandle::Mdev {
            uuid,
            parent,
            mdev_type,
        } => WantedDevice {
            device: GuestDevice::Mdev { uuid: *uuid },
            mdev: Some(MdevSource {
                parent: *parent,
                mdev_type: mdev_type.clone(),
            }),
        },
    }
}

/// The devices to report: those of the accelerator service that exist, in the order of their addresses. The service
/// already knows vanished devices that are in use.
pub fn reportable_devices(devices: &[OfferedDevice]) -> impl Iterator<Item = &OfferedDevice> {
    devices.iter().filter(|device| {
        device.owner == DeviceOwner::Accelerator
            && !device.handles.is_empty()
            && device.condition.reason() != Some(UnfitReason::Vanished)
    })
}

/// The report of a node's devices, with the guests that the node has or is building. With the provider tree, devices
/// keep the providers in it: a provider that Cyborg created under another host name has a UUID derived from that name.
#[must_use]
pub fn host_devices(
    node: &NodeName,
    tree: Option<&ProviderTree>,
    devices: &[OfferedDevice],
    guests: &BTreeSet<ConsumerUuid>,
    register: &Register,
    scrub: Scrub,
) -> HostDevicesReport {
    let devices = reportable_devices(devices).map(|device| ReportedHostDevice {
        name: device.address.to_string(),
        device_type: device.device_type.as_str().to_owned(),
        vendor: format!("{:04x}", device.vendor_id),
        model: device.model.clone(),
        std_board_info: Some(format!("{{\"product_id\": \"{:04x}\"}}", device.product_id)),
        vendor_board_info: None,
        deployables: vec![deployable(node, tree, device, register, scrub)],
    });
    HostDevicesReport {
        devices: devices.collect(),
        guests: Some(guests.iter().map(|guest| *guest.as_uuid()).collect()),
    }
}

fn deployable(
    node: &NodeName,
    tree: Option<&ProviderTree>,
    device: &OfferedDevice,
    register: &Register,
    scrub: Scrub,
) -> HostDeployable {
    let name = device.provider_name(node);
    let words = register.unhealthy.get(&device.address.to_string());
    let vendors = || words.map(|words| format!("{}: {words}", UnfitReason::Vendor));
    let reason = device.condition.reason().map(|reason| reason.to_string());
    let reason = reason.or_else(vendors);
    let handles = device.handles.iter();
    let there = tree.and_then(|tree| device.provider_in(node, tree));
    let provider = there.map_or_else(|| ProviderUuid::of_deployable(&name), Provider::uuid);
    HostDeployable {
        rp_uuid: *provider.as_uuid(),
        name: name.to_string(),
        resource_class: device.class.to_string(),
        traits: device.traits.iter().map(ToString::to_string).collect(),
        attributes: GroupBody(Vec::new()),
        driver_name: Some(device.cyborgs_driver()),
        numa_node: device.numa_node,
        health: match &reason {
            None => Health::Ok,
            Some(_) => Health::Bad,
        },
        health_reason: reason,
        programmable: false,
        attach_handles: handles
            .map(|handle| attach_handle(device, handle, register, scrub))
            .collect(),
    }
}

fn attach_handle(
    device: &OfferedDevice,
    handle: &OfferedHandle,
    register: &Register,
    scrub: Scrub,
) -> HostAttachHandle {
    let name = handle.name();
    let (uuid, kind, info) = match handle {
        OfferedHandle::Function(address) => {
            let info = AttachHandleInfo::Pci {
                address: *address,
                physical_network: device.physical_network.clone(),
            };
            (None, AttachHandleType::Pci, info)
        }
        OfferedHandle::Mdev {
            uuid,
            parent,
            mdev_type,
        } => {
            let info = AttachHandleInfo::Mdev {
                parent: *parent,
                asked_type: mdev_type.clone(),
                vgpu_mark: None,
            };
            // A guest gets the mediated device by its UUID.
            (Some(*uuid), AttachHandleType::Mdev, info)
        }
    };
    let quarantine = register.quarantines.get(&name);
    HostAttachHandle {
        uuid,
        attach_type: kind.as_str().to_owned(),
        attach_info: AttachHandleInfoBody::from(&info),
        unavailable: quarantine.map(|why| format!("in quarantine: {}", why.reason)),
        scrubbed: scrub == Scrub::Always,
        cleaned: match scrub {
            Scrub::Always => register.release_count_at_reset.get(&name).copied(),
            Scrub::Never => None,
        },
    }
}

/// The accelerator request that holds a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    pub arq: ArqUuid,
    /// The guest that the request is bound for.
    pub guest: Option<ConsumerUuid>,
}

/// A released handle that must be cleaned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncleanHandle {
    pub name: String,
    pub wanted: WantedDevice,
    /// The release count after which it must be reset.
    pub release_count: i64,
}

/// A device in use that was missing in the last report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VanishedDevice {
    pub name: String,
    pub holder: Holder,
}

/// What the service's answer to a report asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Advice {
    /// Providers of devices that an operator disabled, with the UUIDs derived from the provider names. Their inventory
    /// must be reserved.
    pub disabled: BTreeSet<ProviderUuid>,
    pub unclean: Vec<UncleanHandle>,
    /// Vanished devices in use, for the log.
    pub vanished: Vec<VanishedDevice>,
    /// Providers that Placement lost. A pass must create them again.
    pub missing: BTreeSet<ProviderUuid>,
    pub holders: BTreeMap<String, Holder>,
    /// The release count of each device.
    pub release_counts: BTreeMap<String, i64>,
}

/// Converts the service's answer, given the observed devices.
#[must_use]
pub fn advice(node: &NodeName, known: &KnownDevices, devices: &[OfferedDevice]) -> Advice {
    let handles = reportable_devices(devices).flat_map(|device| &device.handles);
    let handles: BTreeMap<String, &OfferedHandle> =
        handles.map(|handle| (handle.name(), handle)).collect();
    let mut advice = Advice::default();
    for device in &known.devices {
        for deployable in &device.deployables {
            let provider = ProviderUuid::from(deployable.rp_uuid);
            if device.status == MAINTAINING {
                // Use the UUID derived from the name: before the first pass, the UUIDs in Placement are unknown.
                let mut there = devices.iter();
                let there = there.find(|offered| offered.address.to_string() == device.name);
                let named =
                    there.map(|offered| ProviderUuid::of_deployable(&offered.provider_name(node)));
                advice.disabled.insert(named.unwrap_or(provider));
            }
            if deployable.provider_missing && !deployable.vanished && !device.vanished {
                advice.missing.insert(provider);
            }
            let gone = device.vanished || deployable.vanished;
            for handle in &deployable.attach_handles {
                advice.handle(handle, gone || handle.vanished, &handles);
            }
        }
    }
    advice
}

impl Advice {
    fn handle(
        &mut self,
        known: &KnownAttachHandle,
        gone: bool,
        handles: &BTreeMap<String, &OfferedHandle>,
    ) {
        let (kind, info) = (&known.attach_type, &known.attach_info);
        let Some(name) = name_of_handle(known.uuid, kind, info) else {
            return;
        };
        if let Some((arq, guest)) = known.holder() {
            let holder = Holder { arq, guest };
            if gone {
                let name = name.clone();
                self.vanished.push(VanishedDevice { name, holder });
            }
            self.holders.insert(name, holder);
            return;
        }
        if gone {
            return;
        }
        self.release_counts.insert(name.clone(), known.releases);
        if let Some(handle) = handles.get(&name).filter(|_| known.unclean) {
            self.unclean.push(UncleanHandle {
                wanted: wanted_device(handle),
                release_count: known.releases,
                name,
            });
        }
    }
}

#[cfg(test)]
mod tests;
