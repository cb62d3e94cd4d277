//! Gives the host's devices to guests and takes them back: `check_device`, `prepare_device`, `reset_device` and `prepare_host`
//! of the driver contract.
//!
//! This module and its submodules decide what to do and in which order. Each single step is done and verified by `berth-sysfs`.
//! Accesses to a faulty device can hang in the kernel, so each call runs on a thread of its own (`blocking`) with a
//! timeout; the next call for the same device waits until that thread has ended.

pub(crate) mod baselines;
mod blocking;
mod check;
mod companions;
mod home_driver_records;
mod prepare;
mod prepared;
mod reset;

use std::sync::Arc;
use std::time::Duration;

use berth_hook::Hook;
use berth_model::PciAddress;
use berth_sysfs::{
    AllowList, AllowedFunction, AttributeWrites, DeviceLists, DeviceTree, KernelAttributes,
    NotAllowed, Procfs, Sysfs, SysfsError,
};
use berth_virt::guest_spec::{AttachedDevice, GuestDevice, GuestDevices, PciManagement};
use berth_virt::{DeviceError, HostDeviceId, PciInPlacement, UnfitReason, WantedDevice};

use crate::options::{LibvirtOptions, MdevTypes};
use home_driver_records::HomeDriverRecords;

pub(crate) use blocking::{FunctionLocks, Task};

impl LibvirtOptions {
    /// Whether PCI devices are reported to Placement.
    pub(crate) fn pci(&self) -> PciInPlacement {
        match self.report_pci_in_placement {
            true => PciInPlacement::Reported,
            false => PciInPlacement::NotReported,
        }
    }

    /// The lists of devices.
    pub(crate) fn device_lists(&self) -> DeviceLists<'_> {
        DeviceLists {
            compute: &self.pci_devices,
            pci: self.pci(),
            accelerator: &self.accelerator_devices,
        }
    }
}

/// The devices of the host the driver is on.
#[derive(Debug, Clone)]
pub(crate) struct HostDevices {
    devices: DeviceTree,
    procfs: Procfs,
    /// Devices for flavors and for accelerator requests.
    list: AllowList,
    mdev_types: MdevTypes,
    home_drivers: HomeDriverRecords,
    hook: Option<Hook>,
    limit: Duration,
}

impl HostDevices {
    /// Devices below `sysfs`, as in the options. `attributes` writes to it: the kernel's in
    /// production, another in tests.
    pub(crate) fn new(
        sysfs: Sysfs,
        options: &LibvirtOptions,
        attributes: Option<Arc<dyn AttributeWrites>>,
    ) -> Self {
        let life = &options.device_assignment;
        let attributes = attributes
            .unwrap_or_else(|| Arc::new(KernelAttributes::at(sysfs.root(), life.write_limit)));
        Self {
            devices: DeviceTree::new(sysfs, attributes, life.patience),
            procfs: Procfs::at(&life.procfs),
            list: options.pci_devices.and(&options.accelerator_devices),
            mdev_types: options.mdev_types.clone(),
            home_drivers: HomeDriverRecords::at(life.home_drivers.clone()),
            hook: life.reset_hook.clone(),
            // A reset makes at most eight writes and verifies each.
            limit: (life.write_limit + life.patience) * 8
                + life
                    .reset_hook
                    .as_ref()
                    .map_or(Duration::ZERO, |hook| hook.deadline * 2),
        }
    }

    /// The maximum duration of one call.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    fn sysfs(&self) -> &Sysfs {
        self.devices.sysfs()
    }

    /// The function that serialises operations on this one: the members of an IOMMU group share one.
    pub(crate) fn lock_key(&self, address: PciAddress) -> PciAddress {
        let members = self
            .sysfs()
            .other_group_members(address)
            .unwrap_or_default();
        members.into_iter().fold(address, PciAddress::min)
    }

    /// The operation for a wanted device. A function with `managed: no` in its entry stays on its driver,
    /// whatever the guest requests.
    fn handling_of<'a>(&self, wanted: &'a WantedDevice) -> Result<DeviceHandling<'a>, DeviceError> {
        Ok(match DeviceHandling::of(wanted) {
            DeviceHandling::Managed(address) if self.is_prepared(address)? => {
                DeviceHandling::InPlace(address, ReadyDriver::Vfio)
            }
            other => other,
        })
    }

    /// Whether the operator binds the function to VFIO (`managed: no`). If this is unknown it is an error, because a
    /// guess could return the function to a host driver.
    fn is_prepared(&self, address: PciAddress) -> Result<bool, DeviceError> {
        match self.sysfs().allowed(&self.list, address) {
            Ok(allowed) => Ok(allowed.tags().managed == Some(false)),
            Err(NotAllowed::Sysfs(error)) => {
                Err(unreadable(HostDeviceId::Function(address))(error))
            }
            Err(
                NotAllowed::NotThere { .. }
                | NotAllowed::NotListed { .. }
                | NotAllowed::Bridge { .. },
            ) => Ok(false),
        }
    }

    /// The guest's devices, with the handling that their entries require.
    pub(crate) fn as_listed(&self, devices: &GuestDevices) -> Result<GuestDevices, DeviceError> {
        let as_listed = |attached: &AttachedDevice| match attached.device {
            GuestDevice::Pci {
                address,
                managed: PciManagement::Hypervisor,
            } if self.is_prepared(address)? => Ok(AttachedDevice {
                device: GuestDevice::Pci {
                    address,
                    managed: PciManagement::Prepared,
                },
                ..*attached
            }),
            _ => Ok(*attached),
        };
        let listed = devices.as_slice().iter().map(as_listed);
        let listed = listed.collect::<Result<_, DeviceError>>()?;
        // The same devices, so a valid set stays valid.
        let listed = GuestDevices::new(listed).unwrap_or_else(|_| devices.clone());
        Ok(listed.with_places(devices.places()))
    }

    /// The name of the network interface of a function that stays on the host's network driver.
    ///
    /// Errors: the function has none, or several.
    pub(crate) fn link_of(&self, address: PciAddress) -> Result<String, DeviceError> {
        let device = HostDeviceId::Function(address);
        let names = self.sysfs().network_names(address);
        match names.map_err(unreadable(device))?.as_slice() {
            [name] => Ok(name.clone()),
            names => {
                let found = names.len();
                let reason = format!(
                    "a macvtap needs one network interface of it on the host, and it has {found}; bind it to its network driver"
                );
                Err(DeviceError::Quarantined {
                    device,
                    cause: UnfitReason::Driver,
                    reason,
                })
            }
        }
    }

    /// The function, if a list allows it.
    fn allowed(
        &self,
        device: HostDeviceId,
        address: PciAddress,
    ) -> Result<AllowedFunction, DeviceError> {
        self.sysfs()
            .allowed(&self.list, address)
            .map_err(|error| match error {
                NotAllowed::NotThere { .. } => DeviceError::Missing {
                    device,
                    reason: error.to_string(),
                },
                NotAllowed::Sysfs(error) => unreadable(device)(error),
                NotAllowed::NotListed { .. } | NotAllowed::Bridge { .. } => {
                    DeviceError::NotAllowed {
                        device,
                        reason: error.to_string(),
                    }
                }
            })
    }
}

/// The kind of driver that gives a function to guests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadyDriver {
    /// The kernel's VFIO driver, or one derived from it.
    Vfio,
    Vendors,
}

/// A wanted device, by how it is handled.
enum DeviceHandling<'a> {
    /// A function that the hypervisor takes from its driver and gives back.
    Managed(PciAddress),
    /// A function that stays on its driver.
    InPlace(PciAddress, ReadyDriver),
    /// A virtual function that stays on the host's network driver.
    OnHostDriver(PciAddress),
    /// A mediated device to be created.
    Made(uuid::Uuid, &'a berth_virt::MdevSource),
    /// A mediated device created by others.
    Found(uuid::Uuid),
}

impl<'a> DeviceHandling<'a> {
    fn of(wanted: &'a WantedDevice) -> Self {
        match (wanted.device, &wanted.mdev) {
            (GuestDevice::Pci { address, managed }, _) => match managed {
                PciManagement::Hypervisor => Self::Managed(address),
                PciManagement::Prepared => Self::InPlace(address, ReadyDriver::Vfio),
                PciManagement::HostDriver => Self::OnHostDriver(address),
            },
            (GuestDevice::VendorVfio { address }, _) => {
                Self::InPlace(address, ReadyDriver::Vendors)
            }
            (GuestDevice::Mdev { uuid }, Some(source)) => Self::Made(uuid, source),
            (GuestDevice::Mdev { uuid }, None) => Self::Found(uuid),
        }
    }
}

/// The device tree is unreadable now; a later check may succeed.
fn unreadable(device: HostDeviceId) -> impl Fn(SysfsError) -> DeviceError {
    move |error| DeviceError::Unfinished {
        device,
        call: "observing the device",
        reason: whole(&error),
    }
}

/// An error with all its causes.
fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
#[allow(dead_code, reason = "the tests with a libvirtd use the rest")]
mod test_kernel;
#[cfg(test)]
mod tests;
