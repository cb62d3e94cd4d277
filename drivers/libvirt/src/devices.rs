//! The host's devices on their way to guests and back: what the contract's `check_device`, `prepare_device`, `reset_device` and
//! `prepare_host` ask of the kernel's device tree.
//!
//! The judgement and the order are here and in the files below; each single step is `berth-sysfs`'s, and looks whether it is
//! done. Reads and writes of a sick device can hang in the kernel, so each call runs on a thread of its own (`off_the_runtime`)
//! and is given up after a time; the next call for the same device waits until that one ended.

pub(crate) mod baselines;
mod check;
mod companions;
mod off_the_runtime;
mod prepare;
mod prepared;
mod reset;
mod resting;

use std::sync::Arc;
use std::time::Duration;

use berth_hook::Hook;
use berth_model::PciAddress;
use berth_sysfs::{
    AllowList, Allowed, AttributeWrites, Devices, KernelAttributes, NotAllowed, Procfs, Sysfs,
    SysfsError,
};
use berth_virt::guest_spec::{AttachedDevice, GuestDevice, GuestDevices, PciManagement};
use berth_virt::{DeviceError, HostDevice, WantedDevice};

use crate::options::{LibvirtOptions, MdevTypes};
use resting::Resting;

pub(crate) use off_the_runtime::{Task, Turns};

/// The devices of the host the driver is on.
#[derive(Debug, Clone)]
pub(crate) struct HostDevices {
    devices: Devices,
    procfs: Procfs,
    /// What flavors may have, and what the accelerator service gives out.
    list: AllowList,
    mdev_types: MdevTypes,
    resting: Resting,
    hook: Option<Hook>,
    limit: Duration,
}

impl HostDevices {
    /// Those below `sysfs`, as the options say, written through `attributes`: the kernel's own, but for tests.
    pub(crate) fn new(
        sysfs: Sysfs,
        options: &LibvirtOptions,
        attributes: Option<Arc<dyn AttributeWrites>>,
    ) -> Self {
        let life = &options.device_life;
        let attributes = attributes
            .unwrap_or_else(|| Arc::new(KernelAttributes::at(sysfs.root(), life.write_limit)));
        Self {
            devices: Devices::new(sysfs, attributes, life.patience),
            procfs: Procfs::at(&life.procfs),
            list: options.pci_devices.and(&options.accelerator_devices),
            mdev_types: options.mdev_types.clone(),
            resting: Resting::at(life.resting.clone()),
            hook: life.reset_hook.clone(),
            // A reset makes at most eight writes, and looks for what comes of each.
            limit: (life.write_limit + life.patience) * 8
                + life
                    .reset_hook
                    .as_ref()
                    .map_or(Duration::ZERO, |hook| hook.deadline * 2),
        }
    }

    /// The most that one call may take.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    fn sysfs(&self) -> &Sysfs {
        self.devices.sysfs()
    }

    /// The function whose turn it is when something is done with this one: one for the whole of an IOMMU group, whose members
    /// go together.
    pub(crate) fn turn_of(&self, address: PciAddress) -> PciAddress {
        let fellows = self.sysfs().group_fellows(address).unwrap_or_default();
        fellows.into_iter().fold(address, PciAddress::min)
    }

    /// What is done with a wanted device: a function whose entry says `managed: no` stays on the driver it is on, whatever the
    /// guest's own request says.
    fn done_with<'a>(&self, wanted: &'a WantedDevice) -> Result<Wanted<'a>, DeviceError> {
        Ok(match Wanted::of(wanted) {
            Wanted::Managed(address) if self.is_prepared(address)? => {
                Wanted::InPlace(address, Stand::Vfio)
            }
            other => other,
        })
    }

    /// Whether the operator hands the function to VFIO himself: its entry says `managed: no`. Where nobody can say it is an error:
    /// what was to stay on VFIO would else go to a driver of the host's.
    fn is_prepared(&self, address: PciAddress) -> Result<bool, DeviceError> {
        match self.sysfs().allowed(&self.list, address) {
            Ok(allowed) => Ok(allowed.tags().managed == Some(false)),
            Err(NotAllowed::Sysfs(error)) => Err(unreadable(HostDevice::Function(address))(error)),
            Err(
                NotAllowed::NotThere { .. }
                | NotAllowed::NotListed { .. }
                | NotAllowed::Bridge { .. },
            ) => Ok(false),
        }
    }

    /// A guest's devices with its functions given as their entries say.
    pub(crate) fn as_listed(&self, devices: &GuestDevices) -> Result<GuestDevices, DeviceError> {
        let as_listed = |attached: &AttachedDevice| match attached.device {
            GuestDevice::Pci { address, .. } if self.is_prepared(address)? => Ok(AttachedDevice {
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
        // The same devices: what was whole is whole.
        Ok(GuestDevices::new(listed).unwrap_or_else(|_| devices.clone()))
    }

    /// The function, if a list means it.
    fn allowed(&self, device: HostDevice, address: PciAddress) -> Result<Allowed, DeviceError> {
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

/// Which driver hands a function to guests that stays where it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stand {
    /// The kernel's VFIO driver, or one made of it.
    Vfio,
    Vendors,
}

/// A wanted device, by what is done with it.
enum Wanted<'a> {
    /// A function that the hypervisor takes from its driver and gives back.
    Managed(PciAddress),
    /// A function that stays on the driver it is on.
    InPlace(PciAddress, Stand),
    /// A mediated device that is made of this.
    Made(uuid::Uuid, &'a berth_virt::MdevSource),
    /// A mediated device that somebody else made.
    Found(uuid::Uuid),
}

impl<'a> Wanted<'a> {
    fn of(wanted: &'a WantedDevice) -> Self {
        match (wanted.device, &wanted.mdev) {
            (GuestDevice::Pci { address, managed }, _) => match managed {
                PciManagement::Hypervisor => Self::Managed(address),
                PciManagement::Prepared => Self::InPlace(address, Stand::Vfio),
            },
            (GuestDevice::VendorVfio { address }, _) => Self::InPlace(address, Stand::Vendors),
            (GuestDevice::Mdev { uuid }, Some(source)) => Self::Made(uuid, source),
            (GuestDevice::Mdev { uuid }, None) => Self::Found(uuid),
        }
    }
}

/// A device tree that cannot be read now may be at the next look.
fn unreadable(device: HostDevice) -> impl Fn(SysfsError) -> DeviceError {
    move |error| DeviceError::Unfinished {
        device,
        call: "looking at it",
        reason: whole(&error),
    }
}

/// An error with all that it was caused by.
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
