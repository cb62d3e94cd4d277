//! Binds a function to VFIO instead of its driver, and returns it.
//!
//! Both operations consist of checks and single writes that are skipped if already effective, so after a kill they can
//! be repeated. The caller must record the function's driver before [`DeviceTree::bind_vfio`], because afterwards the tree
//! does not contain it.

use berth_model::{Disposition, PciAddress};

use crate::allow_list::AllowedFunction;
use crate::attribute::AttributeError;
use crate::devices::DeviceTree;
use crate::group_viability::ViableGroup;
use crate::pci::PciFunction;
use crate::read::{self, SysfsError};

/// The kernel's driver that hands functions to guests.
pub const VFIO_DRIVER: &str = "vfio-pci";

/// The outcome of [`DeviceTree::bind_vfio`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VfioBound {
    /// The function is now on `vfio-pci`.
    Bound,
    /// It was already bound.
    AlreadyBound,
}

/// The outcome of [`DeviceTree::release_vfio`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VfioReleased {
    /// The function is on its driver again, or without one if it had none.
    Released,
    AlreadyReleased,
    /// The function does not exist.
    NotThere,
}

/// Why a function did not change its driver.
#[derive(Debug, thiserror::Error)]
pub enum VfioError {
    /// The kernel has no such driver at present.
    #[error(
        "the driver {driver} is not loaded (modprobe {driver}); PCI function {address} was not changed"
    )]
    DriverMissing { address: PciAddress, driver: String },
    /// The text is not a valid name of a driver.
    #[error("{driver:?} is not a driver's name")]
    DriverName { driver: String },
    /// The function does not exist.
    #[error("PCI function {address} is gone")]
    Gone { address: PciAddress },
    /// Another card is there now.
    #[error("at {address} there is another card now than device_spec allowed")]
    Changed { address: PciAddress },
    /// It is not in the checked group.
    #[error("PCI function {address} is not in IOMMU group {group}")]
    OtherGroup { address: PciAddress, group: u32 },
    /// The kernel took the writes and did something else.
    #[error(
        "PCI function {address} should be on {wanted}, and is on {}; the kernel's log says why (dmesg)",
        found.as_deref().unwrap_or("no driver")
    )]
    NotOn {
        address: PciAddress,
        /// The driver it should be on, or the words "no driver".
        wanted: String,
        found: Option<String>,
    },
    #[error("PCI function {address}: the driver was not changed")]
    Write {
        address: PciAddress,
        #[source]
        source: AttributeError,
    },
    /// The tree could not be read.
    #[error(transparent)]
    Sysfs(#[from] SysfsError),
}

impl VfioError {
    /// Errors that an operator must repair are fatal; others may be over at the next observation.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            VfioError::DriverMissing { .. } | VfioError::DriverName { .. } => Disposition::Fatal,
            VfioError::Gone { .. } | VfioError::Changed { .. } | VfioError::OtherGroup { .. } => {
                Disposition::Refresh
            }
            VfioError::NotOn { .. } | VfioError::Write { .. } | VfioError::Sysfs(_) => {
                Disposition::Retry
            }
        }
    }
}

impl DeviceTree {
    /// Binds a function to `vfio-pci`, so that it can be given to a guest. Its group was checked before.
    ///
    /// Errors: [`VfioError`]; the function may then be without a driver, and the call may be repeated
    /// or undone by [`DeviceTree::release_vfio`].
    pub async fn bind_vfio(
        &self,
        allowed: &AllowedFunction,
        group: &ViableGroup,
    ) -> Result<VfioBound, VfioError> {
        let address = allowed.address();
        if !group.endpoints().contains(&address) {
            let group = group.id();
            return Err(VfioError::OtherGroup { address, group });
        }
        let now = self.unchanged(allowed)?;
        if now.driver.as_deref() == Some(VFIO_DRIVER) {
            return Ok(VfioBound::AlreadyBound);
        }
        self.driver_is_loaded(address, VFIO_DRIVER)?;
        self.set_override(address, Some(VFIO_DRIVER)).await?;
        if now.driver.is_some() {
            self.unbind(address).await?;
        }
        self.change("bus/pci/drivers_probe", address).await?;
        self.wait_for_driver(address, Some(VFIO_DRIVER)).await?;
        Ok(VfioBound::Bound)
    }

    /// Returns a function to its former driver, or to none.
    pub async fn release_vfio(
        &self,
        allowed: &AllowedFunction,
        former: Option<&str>,
    ) -> Result<VfioReleased, VfioError> {
        let address = allowed.address();
        let now = match self.unchanged(allowed) {
            Err(VfioError::Gone { .. }) => return Ok(VfioReleased::NotThere),
            other => other?,
        };
        if let Some(driver) = former {
            let fits = |b: u8| b.is_ascii_alphanumeric() || b"_-.".contains(&b);
            if driver.is_empty() || driver.starts_with('.') || !driver.bytes().all(fits) {
                let driver = driver.chars().take(80).collect();
                return Err(VfioError::DriverName { driver });
            }
        }
        let overridden = self.sysfs().driver_override(address)?.is_some();
        if !overridden && now.driver.as_deref() == former {
            return Ok(VfioReleased::AlreadyReleased);
        }
        if let Some(driver) = former {
            self.driver_is_loaded(address, driver)?;
        }
        if former != Some(VFIO_DRIVER) {
            self.set_override(address, None).await?;
        }
        if now.driver.as_deref() == former {
            return Ok(VfioReleased::Released);
        }
        if now.driver.is_some() {
            self.unbind(address).await?;
        }
        if let Some(driver) = former {
            self.change(&format!("bus/pci/drivers/{driver}/bind"), address)
                .await?;
        }
        self.wait_for_driver(address, former).await?;
        Ok(VfioReleased::Released)
    }

    /// The current function, if it is still the allowed card.
    pub(crate) fn unchanged(&self, allowed: &AllowedFunction) -> Result<PciFunction, VfioError> {
        let address = allowed.address();
        let Some(now) = self.sysfs().pci_function(address)? else {
            return Err(VfioError::Gone { address });
        };
        let then = allowed.function();
        if (now.vendor, now.device, now.class) == (then.vendor, then.device, then.class) {
            Ok(now)
        } else {
            Err(VfioError::Changed { address })
        }
    }

    fn driver_is_loaded(&self, address: PciAddress, driver: &str) -> Result<(), VfioError> {
        let at = self.sysfs().root().join("bus/pci/drivers").join(driver);
        match read::resolved(&at)? {
            Some(_) => Ok(()),
            None => Err(VfioError::DriverMissing {
                address,
                driver: driver.to_owned(),
            }),
        }
    }

    pub(crate) async fn set_override(
        &self,
        address: PciAddress,
        driver: Option<&str>,
    ) -> Result<(), VfioError> {
        if self.sysfs().driver_override(address)?.as_deref() == driver {
            return Ok(());
        }
        let name = format!("bus/pci/devices/{address}/driver_override");
        // An empty line clears `driver_override`.
        let content = format!("{}\n", driver.unwrap_or_default());
        self.write(&name, &content)
            .await
            .map_err(|source| VfioError::Write { address, source })
    }

    pub(crate) async fn unbind(&self, address: PciAddress) -> Result<(), VfioError> {
        let name = format!("bus/pci/devices/{address}/driver/unbind");
        match self.change(&name, address).await {
            // It lost its driver concurrently.
            Err(VfioError::Write {
                source: AttributeError::Missing { .. },
                ..
            }) => {}
            other => other?,
        }
        self.wait_for_driver(address, None).await
    }

    pub(crate) async fn change(&self, name: &str, address: PciAddress) -> Result<(), VfioError> {
        self.write(name, &address.to_string())
            .await
            .map_err(|source| VfioError::Write { address, source })
    }

    async fn wait_for_driver(
        &self,
        address: PciAddress,
        wanted: Option<&str>,
    ) -> Result<(), VfioError> {
        let link = self.sysfs().pci_device(address).join("driver");
        let arrived = self
            .until(|_| Ok((read::link_name(&link)?.as_deref() == wanted).then_some(())))
            .await?;
        match arrived {
            Some(()) => Ok(()),
            None => Err(VfioError::NotOn {
                address,
                wanted: wanted.unwrap_or("no driver").to_owned(),
                found: read::link_name(&link)?,
            }),
        }
    }
}

#[cfg(test)]
mod tests;
