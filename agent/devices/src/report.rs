//! From what is seen of a node's devices to the report for the accelerator service, and from its answer to what is to be done.
//! Pure.

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

/// Whether this host cleans devices between two guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scrub {
    /// Each handle is reset after each guest, and free only then.
    #[default]
    Always,
    /// Handles are free as soon as they are given back.
    Never,
}

/// The device of a handle as a guest would get it.
#[must_use]
pub fn wanted(handle: &OfferedHandle) -> WantedDevice {
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

/// The devices of these that the accelerator service is to offer, in the order of their addresses. One that has vanished is not
/// among them: what is held of it the service knows.
pub fn told(devices: &[OfferedDevice]) -> impl Iterator<Item = &OfferedDevice> {
    devices.iter().filter(|device| {
        device.owner == DeviceOwner::Accelerator
            && !device.handles.is_empty()
            && device.condition.reason() != Some(UnfitReason::Vanished)
    })
}

/// The report of a node's devices as they are seen, with the guests that the node has or is building. Where the node's tree is
/// known, their providers are those that are in it: one that Cyborg made under another name of the host has its UUID from that.
#[must_use]
pub fn host_devices(
    node: &NodeName,
    tree: Option<&ProviderTree>,
    devices: &[OfferedDevice],
    guests: &BTreeSet<ConsumerUuid>,
    register: &Register,
    scrub: Scrub,
) -> HostDevicesReport {
    let devices = told(devices).map(|device| ReportedHostDevice {
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
    let words = register.sick.get(&device.address.to_string());
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
            // The handle's UUID is the mediated device's: a guest gets it by that.
            (Some(*uuid), AttachHandleType::Mdev, info)
        }
    };
    let quarantine = register.quarantines.get(&name);
    HostAttachHandle {
        uuid,
        attach_type: kind.as_str().to_owned(),
        attach_info: AttachHandleInfoBody::from(&info),
        unavailable: quarantine.map(|why| format!("it is in quarantine: {}", why.reason)),
        scrubbed: scrub == Scrub::Always,
        cleaned: match scrub {
            Scrub::Always => register.cleaned.get(&name).copied(),
            Scrub::Never => None,
        },
    }
}

/// Who holds a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    pub arq: ArqUuid,
    /// The guest that it is bound for.
    pub guest: Option<ConsumerUuid>,
}

/// A handle that was given back and is not clean yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unclean {
    pub name: String,
    pub wanted: WantedDevice,
    /// The release after which it is to be cleaned.
    pub releases: i64,
}

/// Something of the host that is held and was not there at the last report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VanishedHeld {
    pub name: String,
    pub holder: Holder,
}

/// What an answer asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Advice {
    /// Devices that an operator disabled, by the UUID that is made of their providers' names: their inventory is to be reserved.
    pub disabled: BTreeSet<ProviderUuid>,
    /// Handles to clean now.
    pub unclean: Vec<Unclean>,
    /// What is gone and held: to be told.
    pub vanished: Vec<VanishedHeld>,
    /// Providers that Placement was seen without: a pass is to make them again.
    pub missing: BTreeSet<ProviderUuid>,
    /// Who holds which device.
    pub holders: BTreeMap<String, Holder>,
    /// How often each device was given back.
    pub releases: BTreeMap<String, i64>,
}

/// What an answer asks for, of the devices as they are seen.
#[must_use]
pub fn advice(node: &NodeName, known: &KnownDevices, devices: &[OfferedDevice]) -> Advice {
    let handles = told(devices).flat_map(|device| &device.handles);
    let handles: BTreeMap<String, &OfferedHandle> =
        handles.map(|handle| (handle.name(), handle)).collect();
    let mut advice = Advice::default();
    for device in &known.devices {
        for deployable in &device.deployables {
            let provider = ProviderUuid::from(deployable.rp_uuid);
            if device.status == MAINTAINING {
                // By name: at the first look of a process nobody knows yet which UUIDs Placement has.
                let mut there = devices.iter();
                let there = there.find(|it| it.address.to_string() == device.name);
                let named = there.map(|it| ProviderUuid::of_deployable(&it.provider_name(node)));
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
                self.vanished.push(VanishedHeld { name, holder });
            }
            self.holders.insert(name, holder);
            return;
        }
        if gone {
            return;
        }
        self.releases.insert(name.clone(), known.releases);
        if let Some(handle) = handles.get(&name).filter(|_| known.unclean) {
            self.unclean.push(Unclean {
                wanted: wanted(handle),
                releases: known.releases,
                name,
            });
        }
    }
}

#[cfg(test)]
mod tests;
