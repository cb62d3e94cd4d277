//! Device operations of a fake machine: check, prepare, reset. Their results are stored in the guest book, so they
//! survive a kill. Faults come from the machine file (`[[node.fault]]`).

use std::collections::{BTreeMap, BTreeSet};

use berth_model::PciAddress;
use berth_virt::guest_spec::{GuestDevice, PciManagement};
use berth_virt::{
    DeviceError, DeviceReset, HostDeviceId, HostView, MdevSource, NodeView, OfferedHandle,
    PreparedDevice, Preparer, UnfitReason, WantedDevice,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use uuid::Uuid;

use crate::guests::GuestBook;
use crate::machine::{DeviceFault, Faults};

/// The driver that a fake function rests on.
const DRIVER: &str = "fake";

/// A function or a mediated device that something was done with.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeviceRecord {
    /// Whether the device is prepared and was not reset since.
    ready: bool,
    /// The number of resets.
    resets: u64,
    /// The parent and type of a mediated device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<MdevSource>,
}

#[cfg(test)]
impl DeviceRecord {
    pub(crate) fn ready_record(ready: bool) -> Self {
        Self {
            ready,
            ..Self::default()
        }
    }
}

/// The devices that something was done with, by their names.
pub(crate) type DeviceBook = BTreeMap<String, DeviceRecord>;

impl GuestBook {
    pub(crate) fn check_device(
        &self,
        wanted: &WantedDevice,
        machine: &HostView,
        faults: &Faults,
    ) -> Result<(), DeviceError> {
        let device = wanted.host_device();
        let fault = fault(wanted, faults);
        if fault == Some(DeviceFault::InUseByHost) {
            let reason = "the machine file has a fault hosts-own for it".to_owned();
            return Err(DeviceError::InUseByHost { device, reason });
        }
        let missing = |reason: &str| DeviceError::Missing {
            device,
            reason: reason.to_owned(),
        };
        match (wanted.device, &wanted.mdev) {
            (GuestDevice::Pci { address, .. } | GuestDevice::VendorVfio { address }, _) => {
                if !machine.nodes.values().any(|node| has(node, address)) {
                    return Err(missing("the machine file has no such device"));
                }
            }
            (GuestDevice::Mdev { uuid }, Some(source)) => {
                self.mdev(device, uuid, source, machine)?;
            }
            (GuestDevice::Mdev { uuid }, None) => {
                let listed = |node: &NodeView| node.guests.values().any(|it| has_mdev(it, uuid));
                if !self.is_ready(device) && !machine.nodes.values().any(listed) {
                    return Err(missing("no guest has it and it was not prepared"));
                }
            }
        }
        if fault == Some(DeviceFault::ConfigSpaceDead) {
            return Err(dead(device));
        }
        match unfit(wanted, machine) {
            None => Ok(()),
            Some(cause) => Err(DeviceError::Quarantined {
                device,
                cause,
                reason: cause.to_string(),
            }),
        }
    }

    pub(crate) fn prepare_device(
        &mut self,
        wanted: &WantedDevice,
        machine: &HostView,
        faults: &Faults,
    ) -> Result<(), DeviceError> {
        self.check_device(wanted, machine, faults)?;
        let device = wanted.host_device();
        if fault(wanted, faults) == Some(DeviceFault::PrepareFails) {
            return Err(DeviceError::Unfinished {
                device,
                call: "preparing it",
                reason: "the machine file has a fault prepare-fails for it".to_owned(),
            });
        }
        let handled = self.devices.entry(name(device)).or_default();
        handled.ready = true;
        handled.source.clone_from(&wanted.mdev);
        Ok(())
    }

    pub(crate) fn reset_device(
        &mut self,
        wanted: &WantedDevice,
        machine: &HostView,
        faults: &Faults,
    ) -> Result<DeviceReset, DeviceError> {
        let device = wanted.host_device();
        for (uuid, guest) in self.all(machine) {
            if guest.devices.iter().any(|held| held.device == device) {
                let reason = format!("guest {uuid} has it and is {}", guest.state);
                return Err(DeviceError::InUse { device, reason });
            }
        }
        let fault_text = |word: &str| format!("the machine file has a fault {word} for it");
        match fault(wanted, faults) {
            Some(DeviceFault::ResetFails) => {
                return Err(DeviceError::Quarantined {
                    device,
                    cause: UnfitReason::ResetFailed,
                    reason: fault_text("reset-fails"),
                });
            }
            Some(DeviceFault::ResetHangs) => {
                return Err(DeviceError::TimedOut {
                    device,
                    call: "resetting it",
                    limit: Duration::from_mins(1),
                });
            }
            Some(DeviceFault::ConfigSpaceDead) => return Err(dead(device)),
            Some(DeviceFault::InUseByHost | DeviceFault::PrepareFails) | None => {}
        }
        let was_ready = self.is_ready(device);
        match wanted.device {
            GuestDevice::Pci { address, .. } | GuestDevice::VendorVfio { address } => {
                if !machine.nodes.values().any(|node| has(node, address)) {
                    return Err(DeviceError::Quarantined {
                        device,
                        cause: UnfitReason::Vanished,
                        reason: "the machine file has no such device".to_owned(),
                    });
                }
                self.release(device);
                let driver = Some(DRIVER.to_owned());
                Ok(DeviceReset::Reset { driver })
            }
            GuestDevice::Mdev { .. } if !was_ready => Ok(DeviceReset::NotThere),
            GuestDevice::Mdev { .. } if wanted.mdev.is_none() => Ok(DeviceReset::Retained),
            GuestDevice::Mdev { .. } => {
                self.release(device);
                Ok(DeviceReset::Removed)
            }
        }
    }

    /// The devices that are prepared and were not reset since.
    pub(crate) fn prepared_devices(&self) -> Vec<PreparedDevice> {
        let ready = self.devices.iter().filter(|(_, handled)| handled.ready);
        let devices = ready.filter_map(|(name, handled)| {
            let function = name.parse().map(|address| GuestDevice::Pci {
                address,
                managed: PciManagement::Hypervisor,
            });
            let mdev = || name.parse().map(|uuid| GuestDevice::Mdev { uuid });
            let device = function.ok().or_else(|| mdev().ok())?;
            Some(PreparedDevice {
                wanted: WantedDevice {
                    device,
                    mdev: handled.source.clone(),
                },
                by: Preparer::Berth,
                group_members: BTreeSet::new(),
            })
        });
        devices.collect()
    }

    fn release(&mut self, device: HostDeviceId) {
        let handled = self.devices.entry(name(device)).or_default();
        handled.ready = false;
        handled.resets += 1;
    }

    fn is_ready(&self, device: HostDeviceId) -> bool {
        self.devices
            .get(&name(device))
            .is_some_and(|handled| handled.ready)
    }

    /// Checks that a mediated device exists as wanted, or can be created.
    fn mdev(
        &self,
        device: HostDeviceId,
        uuid: Uuid,
        source: &MdevSource,
        machine: &HostView,
    ) -> Result<(), DeviceError> {
        let missing = |reason: String| DeviceError::Missing { device, reason };
        let handled = self.devices.get(&name(device));
        if let Some(there) = handled.filter(|handled| handled.ready) {
            return match &there.source {
                Some(found) if found != source => Err(missing(format!(
                    "it exists as {} of {}, but {} of {} is wanted",
                    found.mdev_type, found.parent, source.mdev_type, source.parent
                ))),
                _ => Ok(()),
            };
        }
        let room: u64 = machine.nodes.values().map(|node| room(node, source)).sum();
        if room == 0 {
            return Err(missing(format!(
                "the machine file has no {} of {}",
                source.mdev_type, source.parent
            )));
        }
        let made = self
            .devices
            .iter()
            .filter(|(_, handled)| handled.ready && handled.source.as_ref() == Some(source));
        let nodes = machine.nodes.values();
        let listed = nodes
            .flat_map(|node| node.guests.values())
            .flat_map(|guest| &guest.mdevs)
            .filter(|mdev| mdev.parent == Some(source.parent) && mdev.uuid != uuid);
        if (made.count() + listed.count()) as u64 >= room {
            let reason = format!("{} has no {} left", source.parent, source.mdev_type);
            return Err(DeviceError::InUse { device, reason });
        }
        Ok(())
    }
}

fn name(device: HostDeviceId) -> String {
    match device {
        HostDeviceId::Function(address) => address.to_string(),
        HostDeviceId::Mdev(uuid) => uuid.to_string(),
    }
}

fn dead(device: HostDeviceId) -> DeviceError {
    DeviceError::Quarantined {
        device,
        cause: UnfitReason::ConfigSpace,
        reason: "its configuration space is all ones (config-space-dead)".to_owned(),
    }
}

fn fault(wanted: &WantedDevice, faults: &Faults) -> Option<DeviceFault> {
    faults.get(&wanted.function()?).copied()
}

/// Whether the node has this function, offered or not.
fn has(node: &NodeView, address: PciAddress) -> bool {
    let offers = |handle: &OfferedHandle| *handle == OfferedHandle::Function(address);
    let cards = node.functions.iter();
    node.gpus.iter().any(|gpu| gpu.address == address)
        || cards
            .flat_map(|card| &card.addresses)
            .any(|one| *one == address)
        || node.functions.iter().any(|card| card.physical == address)
        || node.devices.iter().flat_map(|it| &it.handles).any(offers)
}

fn has_mdev(guest: &berth_virt::GuestView, uuid: Uuid) -> bool {
    guest.mdevs.iter().any(|mdev| mdev.uuid == uuid)
}

/// How many mediated devices of this kind the node has room for.
fn room(node: &NodeView, source: &MdevSource) -> u64 {
    let gpus = node.gpus.iter().filter(|gpu| gpu.address == source.parent);
    let parted = gpus
        .filter_map(|gpu| gpu.offered.as_ref())
        .filter(|offered| offered.mdev_type == source.mdev_type)
        .map(|offered| offered.total);
    let is_of = |handle: &&OfferedHandle| {
        matches!(
            handle,
            OfferedHandle::Mdev { parent, mdev_type, .. }
                if *parent == source.parent && *mdev_type == source.mdev_type
        )
    };
    let handles = node.devices.iter().flat_map(|device| &device.handles);
    parted.sum::<u64>() + handles.filter(is_of).count() as u64
}

/// Why an offered device is unfit according to the machine file.
fn unfit(wanted: &WantedDevice, machine: &HostView) -> Option<UnfitReason> {
    let is_it = |handle: &OfferedHandle| match (handle, wanted.device) {
        (OfferedHandle::Function(offered), GuestDevice::Pci { address, .. })
        | (OfferedHandle::Function(offered), GuestDevice::VendorVfio { address }) => {
            *offered == address
        }
        (OfferedHandle::Mdev { uuid: offered, .. }, GuestDevice::Mdev { uuid }) => *offered == uuid,
        _ => false,
    };
    let mut devices = machine.nodes.values().flat_map(|node| &node.devices);
    let device = devices.find(|device| device.handles.iter().any(is_it))?;
    device.condition.reason()
}
