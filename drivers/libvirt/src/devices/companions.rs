//! Companions: the other members of a function's IOMMU group. VFIO refuses a function while a host driver has another
//! member of its group, and a guest could reach that member. Therefore listed companions are bound to VFIO when the
//! function is prepared, and cleaned and returned with it.

use std::collections::BTreeSet;

use berth_model::PciAddress;
use berth_sysfs::{
    AllowedFunction, HomeDriver, ResetNeed, Sriov, SysfsError, VFIO_DRIVER, VfioError, ViableGroup,
};
use berth_virt::{DeviceError, HostDeviceId};

use super::reset::device_error;
use super::{HostDevices, unreadable, whole};

const CALL: &str = "preparing the other functions of its IOMMU group";

impl HostDevices {
    /// Checks whether all companions may go with a function, and returns them.
    pub(super) fn check_companions(
        &self,
        device: HostDeviceId,
        allowed: &AllowedFunction,
        group: &ViableGroup,
    ) -> Result<BTreeSet<PciAddress>, DeviceError> {
        let companions = self.companions(device, allowed, group)?;
        for companion in &companions {
            let address = companion.address();
            self.is_not_the_hosts(device, address)?;
            if let Some(reason) = self.stays(companion).map_err(unreadable(device))? {
                let reason = format!(
                    "IOMMU group {} is given to a guest as a whole, and PCI function {address} {reason}",
                    group.id()
                );
                return Err(DeviceError::GroupNotViable { device, reason });
            }
        }
        Ok(companions.iter().map(AllowedFunction::address).collect())
    }

    /// Why a companion cannot leave its driver; `None` if it can, or need not.
    fn stays(&self, companion: &AllowedFunction) -> Result<Option<String>, SysfsError> {
        let Some(driver) = hosts_driver(companion) else {
            return Ok(None);
        };
        if companion.tags().managed == Some(false) {
            return Ok(Some(format!(
                "must stay on its driver (managed = no), which is {driver}; bind it to {VFIO_DRIVER}"
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
        device: HostDeviceId,
        allowed: &AllowedFunction,
        group: &ViableGroup,
    ) -> Result<Vec<AllowedFunction>, DeviceError> {
        let others = group.endpoints().iter().copied();
        let others = others.filter(|member| *member != allowed.address());
        others.map(|member| self.allowed(device, member)).collect()
    }

    /// Binds companions to VFIO and records their drivers.
    pub(super) async fn prepare_companions(
        &self,
        device: HostDeviceId,
        address: PciAddress,
    ) -> Result<(), DeviceError> {
        let (allowed, group) = self.function(device, address)?;
        for companion in self.companions(device, &allowed, &group)? {
            let Some(driver) = hosts_driver(&companion) else {
                continue;
            };
            let kept = self
                .home_drivers
                .remember(companion.address(), Some(driver));
            kept.map_err(|error| unfinished(device, error.to_string()))?;
            let bound = self.devices.bind_vfio(&companion, &group).await;
            bound.map_err(|error| unbound(device, &error))?;
        }
        Ok(())
    }

    /// Cleans the taken companions, as far as the kernel can, and returns them to their drivers. The caller guarantees
    /// that no guest has any of them.
    pub(super) async fn return_companions(
        &self,
        device: HostDeviceId,
        address: PciAddress,
    ) -> Result<(), DeviceError> {
        let members = self.sysfs().other_group_members(address);
        for member in members.map_err(unreadable(device))? {
            let companion = match self.allowed(device, member) {
                Ok(companion) if companion.tags().managed != Some(false) => companion,
                // Unlisted devices are not touched.
                Ok(_) | Err(DeviceError::NotAllowed { .. } | DeviceError::Missing { .. }) => {
                    continue;
                }
                Err(error) => return Err(error),
            };
            let unkept = |error: std::io::Error| unfinished(device, error.to_string());
            let is_taken = companion.function().driver.as_deref() == Some(VFIO_DRIVER);
            let home = match self.home_drivers.recall(member).map_err(unkept)? {
                HomeDriver::Driver(Some(driver)) if driver != VFIO_DRIVER => {
                    HomeDriver::Driver(Some(driver))
                }
                // Without a record it is unknown whether it was taken or belongs on VFIO, as for the function itself.
                HomeDriver::KernelsChoice if is_taken && !self.home_drivers.is_enabled() => {
                    HomeDriver::KernelsChoice
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
                    let taken = self.devices.return_function(&companion, &home, need).await;
                    taken.map(drop)
                }
            };
            returned.map_err(|error| device_error(device, &error))?;
            self.home_drivers.forget(member).map_err(unkept)?;
        }
        Ok(())
    }
}

/// The host driver that a function is bound to, if any.
fn hosts_driver(allowed: &AllowedFunction) -> Option<&str> {
    let driver = allowed.function().driver.as_deref();
    driver.filter(|driver| !driver.contains("vfio") && *driver != "pci-stub")
}

fn unfinished(device: HostDeviceId, reason: String) -> DeviceError {
    DeviceError::Unfinished {
        device,
        call: CALL,
        reason,
    }
}

fn unbound(device: HostDeviceId, error: &VfioError) -> DeviceError {
    let reason = whole(error);
    match error {
        VfioError::DriverMissing { .. } => DeviceError::GroupNotViable { device, reason },
        _ => unfinished(device, reason),
    }
}
