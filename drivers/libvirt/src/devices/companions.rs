//! What goes with a function: the other members of its IOMMU group. VFIO hands no function to a guest while a driver of the
//! host's has another of the group, and the guest could reach what is in it; so what a list means of it is put on VFIO when its
//! function is made ready, and cleaned and given back with it.

use std::collections::BTreeSet;

use berth_model::PciAddress;
use berth_sysfs::{
    Allowed, ResetNeed, RestsOn, Sriov, SysfsError, VFIO_DRIVER, VfioError, ViableGroup,
};
use berth_virt::{DeviceError, HostDevice};

use super::reset::judged;
use super::{HostDevices, unreadable, whole};

const CALL: &str = "bringing along what shares its IOMMU group";

impl HostDevices {
    /// Whether all that shares a function's group may go with it. Answers which those are.
    pub(super) fn may_come_along(
        &self,
        device: HostDevice,
        allowed: &Allowed,
        group: &ViableGroup,
    ) -> Result<BTreeSet<PciAddress>, DeviceError> {
        let companions = self.companions(device, allowed, group)?;
        for companion in &companions {
            let address = companion.address();
            self.is_not_the_hosts(device, address)?;
            if let Some(reason) = self.stays(companion).map_err(unreadable(device))? {
                let reason = format!(
                    "IOMMU group {} goes to a guest whole, and PCI function {address} {reason}",
                    group.id()
                );
                return Err(DeviceError::NotWhole { device, reason });
            }
        }
        Ok(companions.iter().map(Allowed::address).collect())
    }

    /// Why a companion cannot leave its driver; none where it can, or need not.
    fn stays(&self, companion: &Allowed) -> Result<Option<String>, SysfsError> {
        let Some(driver) = hosts_driver(companion) else {
            return Ok(None);
        };
        if companion.tags().managed == Some(false) {
            return Ok(Some(format!(
                "is to stay where it is (managed = no), which is {driver}; bind it to {VFIO_DRIVER}"
            )));
        }
        if let Sriov::Physical { enabled, .. } = companion.function().sriov
            && enabled > 0
        {
            return Ok(Some(format!(
                "has {enabled} virtual functions, which would be lost (sriov_numvfs)"
            )));
        }
        let name = companion.address().to_string();
        let mdevs = self.sysfs().mdev_devices()?;
        let parted = mdevs.iter().find(|mdev| mdev.parent == name);
        Ok(parted.map(|mdev| format!("has mediated device {}, which would be lost", mdev.uuid)))
    }

    /// The other endpoints of a function's group.
    fn companions(
        &self,
        device: HostDevice,
        allowed: &Allowed,
        group: &ViableGroup,
    ) -> Result<Vec<Allowed>, DeviceError> {
        let others = group.endpoints().iter().copied();
        let others = others.filter(|member| *member != allowed.address());
        others.map(|member| self.allowed(device, member)).collect()
    }

    /// Puts on VFIO what shares a function's group, and remembers where it was.
    pub(super) async fn bring_along(
        &self,
        device: HostDevice,
        address: PciAddress,
    ) -> Result<(), DeviceError> {
        let (allowed, group) = self.function(device, address)?;
        for companion in self.companions(device, &allowed, &group)? {
            let Some(driver) = hosts_driver(&companion) else {
                continue;
            };
            let kept = self.resting.remember(companion.address(), Some(driver));
            kept.map_err(|error| unfinished(device, error.to_string()))?;
            let bound = self.devices.bind_vfio(&companion, &group).await;
            bound.map_err(|error| unbound(device, &error))?;
        }
        Ok(())
    }

    /// Cleans what shares a function's group and was brought along, as far as the kernel can, and gives it back to the driver it
    /// had. The caller has made sure that no guest has any of it.
    pub(super) async fn give_companions_back(
        &self,
        device: HostDevice,
        address: PciAddress,
    ) -> Result<(), DeviceError> {
        let fellows = self.sysfs().group_fellows(address);
        for fellow in fellows.map_err(unreadable(device))? {
            let companion = match self.allowed(device, fellow) {
                Ok(companion) if companion.tags().managed != Some(false) => companion,
                // What no list means is not touched.
                Ok(_) | Err(DeviceError::NotAllowed { .. } | DeviceError::Missing { .. }) => {
                    continue;
                }
                Err(error) => return Err(error),
            };
            let unkept = |error: std::io::Error| unfinished(device, error.to_string());
            let is_taken = companion.function().driver.as_deref() == Some(VFIO_DRIVER);
            let rests = match self.resting.recall(fellow).map_err(unkept)? {
                RestsOn::Driver(Some(driver)) if driver != VFIO_DRIVER => {
                    RestsOn::Driver(Some(driver))
                }
                // Without a memory nobody knows whether it was brought along or rests there; as with the function itself.
                RestsOn::KernelsChoice if is_taken && !self.resting.is_kept() => {
                    RestsOn::KernelsChoice
                }
                // It was not brought along.
                _ => continue,
            };
            let returned = match hosts_driver(&companion) {
                // Somebody gave it back, or it was never taken; what reserves it for VFIO goes.
                Some(driver) => {
                    let released = self.devices.release_vfio(&companion, Some(driver)).await;
                    released.map(drop).map_err(Into::into)
                }
                None => {
                    let need = ResetNeed::WhereOffered;
                    let taken = self.devices.take_back(&companion, &rests, need).await;
                    taken.map(drop)
                }
            };
            returned.map_err(|error| judged(device, &error))?;
            self.resting.forget(fellow).map_err(unkept)?;
        }
        Ok(())
    }
}

/// The driver of the host's that a function is on: one that hands it to no guest.
fn hosts_driver(allowed: &Allowed) -> Option<&str> {
    let driver = allowed.function().driver.as_deref();
    driver.filter(|driver| !driver.contains("vfio") && *driver != "pci-stub")
}

fn unfinished(device: HostDevice, reason: String) -> DeviceError {
    DeviceError::Unfinished {
        device,
        call: CALL,
        reason,
    }
}

fn unbound(device: HostDevice, error: &VfioError) -> DeviceError {
    let reason = whole(error);
    match error {
        VfioError::DriverMissing { .. } => DeviceError::NotWhole { device, reason },
        _ => unfinished(device, reason),
    }
}
