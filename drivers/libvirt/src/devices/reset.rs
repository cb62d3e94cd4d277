//! Returns the devices of deleted guests.

use std::collections::BTreeSet;

use berth_model::PciAddress;
use berth_sysfs::{
    FunctionResetError, HomeDriver, MdevRemoved, ResetNeed, ReturnError, ReturnedFunction,
    VFIO_DRIVER, VfioError,
};
use berth_virt::{DeviceError, DeviceReset, HostDeviceId, UnfitReason, WantedDevice};

use super::{DeviceHandling, HostDevices, unreadable, whole};

const CALL: &str = "resetting the device";

impl HostDevices {
    /// Returns a device. The caller guarantees that no guest has it; `held` are the functions of guests. If one of
    /// those is in the same IOMMU group, the group stays on VFIO.
    pub(crate) async fn reset(
        &self,
        wanted: &WantedDevice,
        held: &BTreeSet<PciAddress>,
    ) -> Result<DeviceReset, DeviceError> {
        let device = wanted.host_device();
        match self.handling_of(wanted)? {
            DeviceHandling::Managed(address) => {
                let unkept = |error: std::io::Error| DeviceError::Unfinished {
                    device,
                    call: "reading the recorded driver",
                    reason: error.to_string(),
                };
                let is_shared = self.is_shared(device, address, held)?;
                if is_shared && !self.is_the_hosts(device, address)? {
                    let place = HomeDriver::ItsPlace;
                    return self.reset_function(device, address, &place).await;
                }
                let home = self.home_drivers.recall(address).map_err(unkept)?;
                let home = self.record_home_driver(device, address, home)?;
                let reset = self.reset_function(device, address, &home).await?;
                if !is_shared {
                    self.return_companions(device, address).await?;
                }
                self.home_drivers.forget(address).map_err(unkept)?;
                Ok(reset)
            }
            DeviceHandling::InPlace(address, _) => {
                let place = HomeDriver::ItsPlace;
                let reset = self.reset_function(device, address, &place).await?;
                if !self.is_shared(device, address, held)? {
                    self.return_companions(device, address).await?;
                }
                Ok(reset)
            }
            // The guest had no access to its registers.
            DeviceHandling::OnHostDriver(address) => {
                let found = self.sysfs().pci_function(address);
                Ok(match found.map_err(unreadable(device))? {
                    Some(_) => DeviceReset::Retained,
                    None => DeviceReset::NotThere,
                })
            }
            DeviceHandling::Made(uuid, _) => {
                let unfinished = |reason: String| DeviceError::Unfinished {
                    device,
                    call: CALL,
                    reason,
                };
                let removed = self.devices.remove_mdev(uuid).await;
                let removed = removed.map_err(|error| unfinished(whole(&error)))?;
                let forgotten = self.home_drivers.forget_mdev(uuid);
                forgotten.map_err(|error| unfinished(error.to_string()))?;
                Ok(match removed {
                    MdevRemoved::Removed => DeviceReset::Removed,
                    MdevRemoved::NotThere => DeviceReset::NotThere,
                })
            }
            DeviceHandling::Found(uuid) => Ok(match self.mdev(device, uuid)? {
                Some(_) => DeviceReset::Retained,
                None => DeviceReset::NotThere,
            }),
        }
    }

    /// Whether a guest has another function of its IOMMU group.
    fn is_shared(
        &self,
        device: HostDeviceId,
        address: PciAddress,
        held: &BTreeSet<PciAddress>,
    ) -> Result<bool, DeviceError> {
        let members = self.sysfs().other_group_members(address);
        Ok(!members.map_err(unreadable(device))?.is_disjoint(held))
    }

    /// Whether a driver of the host has it.
    fn is_the_hosts(&self, device: HostDeviceId, address: PciAddress) -> Result<bool, DeviceError> {
        let function = self.sysfs().pci_function(address);
        let driver = function
            .map_err(unreadable(device))?
            .and_then(|it| it.driver);
        Ok(driver.is_some_and(|driver| driver != VFIO_DRIVER))
    }

    /// Records the driver before the function is taken from it, so that a kill loses nothing.
    fn record_home_driver(
        &self,
        device: HostDeviceId,
        address: PciAddress,
        recalled: HomeDriver,
    ) -> Result<HomeDriver, DeviceError> {
        if recalled != HomeDriver::KernelsChoice {
            return Ok(recalled);
        }
        let function = self.sysfs().pci_function(address);
        let driver = function
            .map_err(unreadable(device))?
            .and_then(|it| it.driver);
        match driver {
            Some(driver) if driver != VFIO_DRIVER => {
                let kept = self.home_drivers.remember(address, Some(&driver));
                kept.map_err(|error| DeviceError::Unfinished {
                    device,
                    call: "recording its driver",
                    reason: error.to_string(),
                })?;
                Ok(HomeDriver::Driver(Some(driver)))
            }
            _ => Ok(HomeDriver::KernelsChoice),
        }
    }

    async fn reset_function(
        &self,
        device: HostDeviceId,
        address: PciAddress,
        home: &HomeDriver,
    ) -> Result<DeviceReset, DeviceError> {
        let quarantined = |cause, reason| DeviceError::Quarantined {
            device,
            cause,
            reason,
        };
        let allowed = match self.allowed(device, address) {
            Ok(allowed) => allowed,
            // It was listed when the guest got it. An unlisted device is not touched and counts as unclean.
            Err(DeviceError::NotAllowed { reason, .. }) => {
                let reason = format!("it can no longer be reset: {reason}");
                return Err(quarantined(UnfitReason::ResetFailed, reason));
            }
            Err(DeviceError::Missing { .. }) => {
                return Err(quarantined(UnfitReason::Vanished, "it is gone".to_owned()));
            }
            Err(other) => return Err(other),
        };
        // Back on its driver, it may have been mounted or bridged since.
        self.is_not_the_hosts(device, address)?;
        let need = match &self.hook {
            Some(_) => ResetNeed::WhereOffered,
            None => ResetNeed::Always,
        };
        let returned = self.devices.return_function(&allowed, home, need).await;
        let ReturnedFunction { driver, .. } =
            returned.map_err(|error| device_error(device, &error))?;
        if let Some(hook) = &self.hook {
            let function = allowed.function();
            let about = [
                ("BERTH_DEVICE_ADDRESS", function.address.to_string()),
                ("BERTH_DEVICE_VENDOR", format!("{:04x}", function.vendor)),
                ("BERTH_DEVICE_PRODUCT", format!("{:04x}", function.device)),
                ("BERTH_DEVICE_DRIVER", driver.clone().unwrap_or_default()),
            ];
            hook.ask(about)
                .await
                .map_err(|error| quarantined(UnfitReason::Vendor, error.to_string()))?;
        }
        Ok(DeviceReset::Reset { driver })
    }
}

/// The meaning of a failed return: quarantine the card, or try again.
pub(super) fn device_error(device: HostDeviceId, error: &ReturnError) -> DeviceError {
    let reason = whole(error);
    let cause = match error {
        ReturnError::Reset(
            FunctionResetError::NoResetMethod { .. }
            | FunctionResetError::PowerStateOnly { .. }
            | FunctionResetError::MemorySurvives { .. }
            | FunctionResetError::NotOffered { .. }
            | FunctionResetError::NotBack { .. },
        ) => Some(UnfitReason::ResetFailed),
        ReturnError::Driver(VfioError::Gone { .. })
        | ReturnError::Reset(FunctionResetError::NotTheSame(VfioError::Gone { .. })) => {
            Some(UnfitReason::Vanished)
        }
        ReturnError::Driver(VfioError::Changed { .. })
        | ReturnError::Reset(FunctionResetError::NotTheSame(_)) => Some(UnfitReason::ConfigSpace),
        ReturnError::Driver(
            VfioError::DriverMissing { .. }
            | VfioError::DriverName { .. }
            | VfioError::OtherGroup { .. }
            | VfioError::NotOn { .. },
        ) => Some(UnfitReason::Driver),
        // The kernel offers this reset, but it failed.
        ReturnError::Reset(FunctionResetError::Write {
            source: berth_sysfs::AttributeError::Refused { .. },
            ..
        }) => Some(UnfitReason::ResetFailed),
        ReturnError::Reset(FunctionResetError::Write { .. } | FunctionResetError::Sysfs(_))
        | ReturnError::Driver(VfioError::Write { .. } | VfioError::Sysfs(_)) => None,
    };
    match cause {
        Some(cause) => DeviceError::Quarantined {
            device,
            cause,
            reason,
        },
        None => DeviceError::Unfinished {
            device,
            call: CALL,
            reason,
        },
    }
}
