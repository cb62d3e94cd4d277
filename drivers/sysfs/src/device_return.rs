//! Takes a function back after its guest was deleted: resets it, verifies the reset, and returns it to its resting
//! driver.
//!
//! ```text
//! unbind from the host's driver -> reset -> verify -> bind to the resting driver
//! ```
//!
//! The reset happens while no host driver has the function, so no driver sees what a guest left in it, and a card that
//! does not recover is not bound again. The hypervisor may already have returned the function to its driver; it is then
//! unbound again. Finished steps are skipped, so after a kill the operation can be repeated.

use berth_model::{Disposition, PciAddress};

use crate::allow_list::AllowedFunction;
use crate::cleaning::{CleaningFacts, NotCleanable, ResetNeed, plan_cleaning};
use crate::device_reset::{FunctionResetError, ResetMethod, VerifiedReset};
use crate::devices::DeviceTree;
use crate::vfio::{VFIO_DRIVER, VfioError};

/// The resting driver: the driver of a function while no guest has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HomeDriver {
    /// Its current driver, which gives it to guests.
    ItsPlace,
    /// On this driver, or on none.
    Driver(Option<String>),
    /// Its current driver or the one that the kernel chooses, unless that is a driver for guests.
    KernelsChoice,
}

/// A function that was returned to the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReturnedFunction {
    /// Its reset; `None` if the kernel offers no suitable method and that was accepted.
    pub reset: Option<VerifiedReset>,
    pub driver: Option<String>,
}

/// Why a function could not be returned to the host.
#[derive(Debug, thiserror::Error)]
pub enum ReturnError {
    /// It may be unclean.
    #[error(transparent)]
    Reset(#[from] FunctionResetError),
    /// It is clean or was not changed, but it is not on its driver.
    #[error(transparent)]
    Driver(#[from] VfioError),
}

impl ReturnError {
    /// The disposition of the underlying error.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            ReturnError::Reset(error) => error.disposition(),
            ReturnError::Driver(error) => error.disposition(),
        }
    }
}

impl DeviceTree {
    /// Takes back a function that no guest has.
    pub async fn return_function(
        &self,
        allowed: &AllowedFunction,
        home: &HomeDriver,
        need: ResetNeed,
    ) -> Result<ReturnedFunction, ReturnError> {
        let address = allowed.address();
        let now = self.unchanged(allowed)?;
        let methods = self
            .sysfs()
            .reset_methods(address)
            .map_err(FunctionResetError::from)?;
        let facts = CleaningFacts {
            class: allowed.function().class,
            methods: methods.as_deref(),
            reset_clears_memory: allowed.tags().reset_clears_memory,
            need,
        };
        let selection = plan_cleaning(facts).map_err(|why| match why {
            NotCleanable::NoMethod => {
                let file = self.sysfs().pci_device(address).join("reset");
                let file = file.display().to_string();
                FunctionResetError::NoResetMethod { address, file }
            }
            NotCleanable::PowerStateOnly => FunctionResetError::PowerStateOnly { address },
            NotCleanable::MemorySurvives => FunctionResetError::MemorySurvives {
                address,
                class: facts.class,
                offered: listed(methods.as_deref().unwrap_or_default()),
            },
        })?;
        let on_a_hosts_driver = now
            .driver
            .as_deref()
            .filter(|driver| *driver != VFIO_DRIVER);
        let home = match (home, on_a_hosts_driver) {
            (HomeDriver::KernelsChoice, Some(driver)) => {
                HomeDriver::Driver(Some(driver.to_owned()))
            }
            (home, _) => home.clone(),
        };
        if on_a_hosts_driver.is_some() && home != HomeDriver::ItsPlace {
            self.unbind(address).await?;
        }
        let reset = match selection {
            Some(selection) => Some(self.reset(allowed, selection).await?),
            None => None,
        };
        match &home {
            HomeDriver::ItsPlace => {}
            HomeDriver::Driver(former) => {
                self.release_vfio(allowed, former.as_deref()).await?;
            }
            HomeDriver::KernelsChoice => self.return_to_kernel(allowed).await?,
        }
        Ok(ReturnedFunction {
            reset,
            driver: self.unchanged(allowed)?.driver,
        })
    }

    /// Lets the kernel pick the driver for a function that is on none or on VFIO.
    async fn return_to_kernel(&self, allowed: &AllowedFunction) -> Result<(), VfioError> {
        let address: PciAddress = allowed.address();
        self.set_override(address, None).await?;
        if self.unchanged(allowed)?.driver.is_some() {
            self.unbind(address).await?;
        }
        self.change("bus/pci/drivers_probe", address).await?;
        // When the write returns, the kernel has bound the function or has no driver for it.
        match self.unchanged(allowed)?.driver {
            Some(driver) if driver == VFIO_DRIVER => Err(VfioError::NotOn {
                address,
                wanted: "a host driver".to_owned(),
                found: Some(driver),
            }),
            _ => Ok(()),
        }
    }
}

/// `bus pm`; words for a kernel that lists no methods.
fn listed(methods: &[ResetMethod]) -> String {
    match methods {
        [] => "a reset without its name (before Linux 5.15)".to_owned(),
        methods => {
            let words: Vec<_> = methods.iter().map(|method| method.as_str()).collect();
            words.join(" ")
        }
    }
}

#[cfg(test)]
mod tests;
