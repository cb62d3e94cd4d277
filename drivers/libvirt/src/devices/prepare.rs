//! Prepares devices: creates mediated devices before a guest gets them, and virtual functions before the host is
//! observed.

use berth_sysfs::{
    HomeDriver, MdevError, PciFunction, Sriov, SriovError, VFIO_DRIVER, VgpuTypeError, VgpuTypeSet,
    VirtualFunctionsMade,
};
use berth_virt::{DeviceError, HostDeviceId, UnfitReason, WantedDevice};

use super::{DeviceHandling, HostDevices, whole};

const CALL: &str = "preparing the device";

impl HostDevices {
    /// Prepares a device for a guest that has not started.
    pub(crate) async fn prepare(&self, wanted: &WantedDevice) -> Result<(), DeviceError> {
        // Check again after a possibly long wait.
        self.check(wanted)?;
        let device = wanted.host_device();
        match self.handling_of(wanted)? {
            DeviceHandling::Managed(address) => {
                let driver = self.allowed(device, address)?.function().driver.clone();
                // It is on a VFIO driver because the hypervisor was killed, or because it belongs there; the record
                // decides.
                let is_taken = driver.as_deref() == Some(VFIO_DRIVER);
                let unknown = |recalled| recalled == HomeDriver::KernelsChoice;
                let unkept = |error: std::io::Error| DeviceError::Unfinished {
                    device,
                    call: "recording its driver",
                    reason: error.to_string(),
                };
                if !is_taken
                    || self
                        .home_drivers
                        .recall(address)
                        .map(unknown)
                        .map_err(unkept)?
                {
                    let driver = driver.as_deref();
                    self.home_drivers
                        .remember(address, driver)
                        .map_err(unkept)?;
                }
                self.prepare_companions(device, address).await
            }
            DeviceHandling::InPlace(address, _) => self.prepare_companions(device, address).await,
            DeviceHandling::OnHostDriver(_) | DeviceHandling::Found(_) => Ok(()),
            DeviceHandling::Made(uuid, source) => {
                if self.mdev(device, uuid)?.is_none() {
                    // Recorded before it is created: devices without a record belong to others and are never removed
                    // automatically.
                    let kept = self.home_drivers.record_created_mdev(uuid);
                    kept.map_err(|error| DeviceError::Unfinished {
                        device,
                        call: "recording its creation",
                        reason: error.to_string(),
                    })?;
                }
                let parent = source.parent.to_string();
                let made = self.devices.create_mdev(&parent, &source.mdev_type, uuid);
                made.await.map(drop).map_err(|error| unmade(device, &error))
            }
        }
    }

    fn functions(&self) -> Result<Vec<PciFunction>, DeviceError> {
        let functions = self.sysfs().pci_functions();
        functions.map_err(|error| DeviceError::Unobservable {
            reason: whole(&error),
        })
    }

    /// Sets the vGPU types that the lists want. Virtual functions must exist.
    pub(crate) async fn set_vgpu_types(&self) -> Vec<DeviceError> {
        let functions = match self.functions() {
            Ok(functions) => functions,
            Err(error) => return vec![error],
        };
        let mut errors = Vec::new();
        for function in functions {
            let device = HostDeviceId::Function(function.address);
            // Errors of other functions are reported by the creation of virtual functions and by observations.
            let Ok(allowed) = self.allowed(device, function.address) else {
                continue;
            };
            let Some(wanted) = allowed.tags().vgpu_type else {
                continue;
            };
            match self.devices.set_vgpu_type(&allowed, wanted).await {
                Ok(VgpuTypeSet::Set) => {
                    tracing::info!(device = %function.address, vgpu_type = wanted, "vGPU type set");
                }
                Ok(VgpuTypeSet::AlreadySet) => {}
                Err(error) => errors.push(untyped(device, &error)),
            }
        }
        errors
    }

    /// Creates the virtual functions that the lists want, card by card.
    pub(crate) async fn make_virtual_functions(&self) -> Vec<DeviceError> {
        let functions = match self.functions() {
            Ok(functions) => functions,
            Err(error) => return vec![error],
        };
        let mut errors = Vec::new();
        for function in functions {
            let device = HostDeviceId::Function(function.address);
            if !matches!(function.sriov, Sriov::Physical { .. }) {
                continue;
            }
            let allowed = match self.allowed(device, function.address) {
                Ok(allowed) => allowed,
                Err(DeviceError::NotAllowed { .. } | DeviceError::Missing { .. }) => continue,
                // A list may allow it, but that cannot be determined.
                Err(error) => {
                    errors.push(error);
                    continue;
                }
            };
            let Some(wanted) = allowed.tags().num_vfs else {
                continue;
            };
            match self
                .devices
                .create_virtual_functions(&allowed, wanted)
                .await
            {
                Ok(VirtualFunctionsMade::Made(made)) => {
                    tracing::info!(
                        device = %function.address,
                        count = made.len(),
                        "virtual functions created"
                    );
                }
                Ok(VirtualFunctionsMade::AlreadyThere(_)) => {}
                Err(error) => errors.push(unparted(device, &error)),
            }
        }
        errors
    }
}

fn unmade(device: HostDeviceId, error: &MdevError) -> DeviceError {
    let reason = whole(error);
    match error {
        MdevError::NoParent { .. } | MdevError::NoType { .. } | MdevError::Another { .. } => {
            DeviceError::Missing { device, reason }
        }
        MdevError::NoneLeft { .. } => DeviceError::InUse { device, reason },
        MdevError::NotDone { .. } | MdevError::Write { .. } | MdevError::Sysfs(_) => {
            DeviceError::Unfinished {
                device,
                call: CALL,
                reason,
            }
        }
    }
}

fn untyped(device: HostDeviceId, error: &VgpuTypeError) -> DeviceError {
    let reason = whole(error);
    match error {
        VgpuTypeError::NotTheSame(_) => DeviceError::Quarantined {
            device,
            cause: UnfitReason::ConfigSpace,
            reason,
        },
        VgpuTypeError::NoTypes { .. }
        | VgpuTypeError::OtherType { .. }
        | VgpuTypeError::NotCreatable { .. } => DeviceError::Quarantined {
            device,
            cause: UnfitReason::Driver,
            reason,
        },
        VgpuTypeError::NotSet { .. } | VgpuTypeError::Write { .. } | VgpuTypeError::Sysfs(_) => {
            DeviceError::Unfinished {
                device,
                call: "setting its vGPU type",
                reason,
            }
        }
    }
}

fn unparted(device: HostDeviceId, error: &SriovError) -> DeviceError {
    let reason = whole(error);
    match error {
        SriovError::NotPhysical { .. }
        | SriovError::TooMany { .. }
        | SriovError::OtherNumber { .. } => DeviceError::NotAllowed { device, reason },
        SriovError::NotTheSame(_) => DeviceError::Quarantined {
            device,
            cause: UnfitReason::ConfigSpace,
            reason,
        },
        SriovError::NotMade { .. } | SriovError::Write { .. } | SriovError::Sysfs(_) => {
            DeviceError::Unfinished {
                device,
                call: "creating its virtual functions",
                reason,
            }
        }
    }
}
