//! Taking a function back when its guest is gone: reset, verified, and then on the driver it rests on.
//!
//! In this order: the reset is made while no driver of the host's has the function, so that none meets what a guest left in it,
//! and a card that does not come back is given to none. The hypervisor may have given it back to its driver before; it is taken
//! off once more for that. Every step is left out where it is done, so a kill at any point is mended by asking again.

use berth_model::{Disposition, PciAddress};

use crate::allow_list::Allowed;
use crate::device_reset::{ResetError, ResetMethod, ResetWay, VerifiedReset};
use crate::devices::Devices;
use crate::vfio::{VFIO_DRIVER, VfioError};

/// Where a function rests when no guest has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestsOn {
    /// Where it is: on the driver that hands it to guests.
    ItsPlace,
    /// On this driver, or on none.
    Driver(Option<String>),
    /// On the one it is on, or that the kernel picks, if that is none for guests.
    KernelsChoice,
}

/// Whether a function may be taken back that the kernel knows no reset for, or none that clears its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetNeed {
    Always,
    /// It may: something else cleans it.
    WhereOffered,
}

/// A function that was taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Returned {
    /// Its reset; none where the kernel knows no way and that was accepted. The power states alone are accepted alike.
    pub reset: Option<VerifiedReset>,
    /// The driver it is on.
    pub driver: Option<String>,
}

/// Why a function was not taken back.
#[derive(Debug, thiserror::Error)]
pub enum ReturnError {
    /// It is not known to be clean.
    #[error(transparent)]
    Reset(#[from] ResetError),
    /// It is clean, or was not touched, and is not on its driver.
    #[error(transparent)]
    Driver(#[from] VfioError),
}

impl ReturnError {
    /// As that of what failed.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            ReturnError::Reset(error) => error.disposition(),
            ReturnError::Driver(error) => error.disposition(),
        }
    }
}

impl Devices {
    /// Takes back a function that no guest has.
    pub async fn take_back(
        &self,
        allowed: &Allowed,
        rests: &RestsOn,
        need: ResetNeed,
    ) -> Result<Returned, ReturnError> {
        let address = allowed.address();
        let now = self.unchanged(allowed)?;
        let methods = self
            .sysfs()
            .reset_methods(address)
            .map_err(ResetError::from)?;
        if methods.is_none() && need == ResetNeed::Always {
            let file = self.sysfs().pci_device(address).join("reset");
            let file = file.display().to_string();
            return Err(ResetError::NoWay { address, file }.into());
        }
        let way = methods.as_deref().map(best);
        if way == Some(None) && need == ResetNeed::Always {
            return Err(ResetError::PowerStateOnly { address }.into());
        }
        let on_a_hosts_driver = now
            .driver
            .as_deref()
            .filter(|driver| *driver != VFIO_DRIVER);
        let rests = match (rests, on_a_hosts_driver) {
            (RestsOn::KernelsChoice, Some(driver)) => RestsOn::Driver(Some(driver.to_owned())),
            (rests, _) => rests.clone(),
        };
        if on_a_hosts_driver.is_some() && rests != RestsOn::ItsPlace {
            self.unbind(address).await?;
        }
        let reset = match way {
            // What else cleans it finds it as after a start at least.
            Some(way) => Some(
                self.reset(allowed, way.unwrap_or(ResetWay::Kernels))
                    .await?,
            ),
            None => None,
        };
        match &rests {
            RestsOn::ItsPlace => {}
            RestsOn::Driver(former) => {
                self.release_vfio(allowed, former.as_deref()).await?;
            }
            RestsOn::KernelsChoice => self.leave_to_the_kernel(allowed).await?,
        }
        Ok(Returned {
            reset,
            driver: self.unchanged(allowed)?.driver,
        })
    }

    /// Lets the kernel pick the driver for a function that is on none or on VFIO.
    async fn leave_to_the_kernel(&self, allowed: &Allowed) -> Result<(), VfioError> {
        let address: PciAddress = allowed.address();
        self.set_override(address, None).await?;
        if self.unchanged(allowed)?.driver.is_some() {
            self.unbind(address).await?;
        }
        self.change("bus/pci/drivers_probe", address).await?;
        // The kernel has bound it when the write comes back, or has no driver for it.
        match self.unchanged(allowed)?.driver {
            Some(driver) if driver == VFIO_DRIVER => Err(VfioError::NotOn {
                address,
                wanted: "a driver of the host's".to_owned(),
                found: Some(driver),
            }),
            _ => Ok(()),
        }
    }
}

/// The kernel's own first way, but for one: a power state leaves memory as it was, so the next one is taken then. None where
/// there is no other.
fn best(methods: &[ResetMethod]) -> Option<ResetWay> {
    match methods {
        [ResetMethod::PowerManagement, rest @ ..] => rest.first().copied().map(ResetWay::Only),
        _ => Some(ResetWay::Kernels),
    }
}

#[cfg(test)]
mod tests;
