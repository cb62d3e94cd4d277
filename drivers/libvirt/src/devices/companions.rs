//! Companions: the other members of a function's IOMMU group. VFIO refuses a function while a host driver has another
//! member of its group, and a guest could reach that member. Therefore listed companions are bound to VFIO when the
//! function is prepared, and cleaned and returned with it.

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
    /// Checks whether all companions may go with a function, and returns them.
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

    /// Why a companion cannot leave its driver; `None` if it can, or need not.
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

    /// Binds companions to VFIO and records their drivers.
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

    /// Cleans the companions that were taken, as far as the kernel can, and returns them to their drivers. The caller
    /// has made sure that no guest has any of them.
    pub(super) async fn give_companions_back(
        &self,
        device: HostDevice,
        address: PciAddress,
    ) -> Result<(), DeviceError> {
        let fellows = self.sysfs().group_fellows(address);
        for fellow in fellows.map_err(unreadable(device))? {
            let companion = match self.allowed(device, fellow) {
                Ok(companion) if companion.tags().managed != Some(false) => companion,
                // Unlisted devices are not touched.
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
                // Without a record it is unknown whether it was taken or belongs on VFIO, as for the function itself.
                RestsOn::KernelsChoice if is_taken && !self.resting.is_kept() => {
                    RestsOn::KernelsChoice
                }
                // It was not taken.
                _ => continue,
            };
            let returned = match hosts_driver(&companion) {
                // It was already returned, or never taken; its VFIO driver override is removed.
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

/// The host driver that a function is bound to, if any.
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
