//! Resets a function between two owners and verifies that it recovered.
//!
//! After a reset that the kernel reports as successful, a card may be dead (all ones on the bus, the link down). A dead
//! card must not be given to another guest, so a reset counts only if the card responds as before. Resets are
//! idempotent: after a kill the card is reset again.

use berth_model::{Disposition, PciAddress};

use crate::Sysfs;
use crate::allow_list::AllowedFunction;
use crate::attribute::AttributeError;
use crate::config_space::{ConfigSpace, Link};
use crate::devices::DeviceTree;
use crate::read::{self, SysfsError};
use crate::vfio::VfioError;

/// A reset method, as in the kernel's `reset_method`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetMethod {
    /// The kernel's quirk for the device.
    DeviceSpecific,
    Acpi,
    /// Only the function, by its own register (FLR).
    FunctionLevel,
    /// The same for conventional PCI.
    AdvancedFeatures,
    /// Through its power states.
    PowerManagement,
    /// All devices on its bus.
    Bus,
    /// Through the link of Compute Express Link.
    CxlBus,
}

impl ResetMethod {
    const ALL: [ResetMethod; 7] = [
        ResetMethod::DeviceSpecific,
        ResetMethod::Acpi,
        ResetMethod::FunctionLevel,
        ResetMethod::AdvancedFeatures,
        ResetMethod::PowerManagement,
        ResetMethod::Bus,
        ResetMethod::CxlBus,
    ];

    /// Parses the kernel's list, a line of words. Unknown words are skipped.
    #[must_use]
    pub fn of_list(text: &str) -> Vec<Self> {
        let known = |word: &str| {
            let mut all = Self::ALL.into_iter();
            all.find(|method| method.as_str() == word)
        };
        text.split_whitespace().filter_map(known).collect()
    }

    /// Whether a function has no data of its user after this reset, as far as the PCI Express specification and the
    /// kernel's code for the device promise it.
    #[must_use]
    pub const fn clears_memory(self) -> bool {
        matches!(
            self,
            ResetMethod::DeviceSpecific
                | ResetMethod::FunctionLevel
                | ResetMethod::AdvancedFeatures
        )
    }

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            ResetMethod::DeviceSpecific => "device_specific",
            ResetMethod::Acpi => "acpi",
            ResetMethod::FunctionLevel => "flr",
            ResetMethod::AdvancedFeatures => "af_flr",
            ResetMethod::PowerManagement => "pm",
            ResetMethod::Bus => "bus",
            ResetMethod::CxlBus => "cxl_bus",
        }
    }
}

/// How a function should be reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetSelection {
    /// The first that the kernel offers.
    Kernels,
    /// Only by this method.
    Only(ResetMethod),
}

/// A successful and verified reset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedReset {
    pub address: PciAddress,
    pub selection: ResetSelection,
    /// The link afterwards, if it has one.
    pub link: Option<Link>,
}

/// Why a function is not known to be clean.
#[derive(Debug, thiserror::Error)]
pub enum FunctionResetError {
    /// The function is gone, or is another card.
    #[error(transparent)]
    NotTheSame(VfioError),
    /// The kernel offers no method.
    #[error(
        "PCI function {address} cannot be reset: the kernel offers no method ({file} does not exist)"
    )]
    NoResetMethod {
        address: PciAddress,
        /// The missing file.
        file: String,
    },
    /// The kernel offers only power states, which do not clear the card's memory.
    #[error(
        "PCI function {address} cannot be reset: the kernel offers its power states alone (pm), which leave its memory as the \
         last guest wrote it; name a program that cleans it ([accelerators] reset_hook), or list it no more"
    )]
    PowerStateOnly { address: PciAddress },
    /// The kernel offers only methods that leave the function's memory as it is.
    #[error(
        "PCI function {address} (class {class:06x}) is not clean after a reset: the kernel offers {offered}, and only flr, af_flr \
         and device_specific are known to clear its memory. Set [accelerators] reset_hook to a program that clears it, or \
         reset_clears_memory = \"yes\" in its device_spec entry if any reset does. Then restart the agent and run: \
         berth device release {address}"
    )]
    MemorySurvives {
        address: PciAddress,
        /// Its class code.
        class: u32,
        /// The offered methods, as the kernel lists them.
        offered: String,
    },
    /// The kernel does not offer this method for the function.
    #[error("PCI function {address} cannot be reset by {}; the kernel offers: {offered}", wanted.as_str())]
    NotOffered {
        address: PciAddress,
        wanted: ResetMethod,
        offered: String,
    },
    /// The kernel reported success, but the card is not as before.
    #[error(
        "PCI function {address} did not come back from its reset: {reason}; it is not to be given to anybody until the host \
         was switched off and on"
    )]
    NotBack {
        address: PciAddress,
        /// The state of the card.
        reason: String,
    },
    #[error("PCI function {address} was not reset")]
    Write {
        address: PciAddress,
        #[source]
        source: AttributeError,
    },
    /// The tree could not be read.
    #[error(transparent)]
    Sysfs(#[from] SysfsError),
}

impl FunctionResetError {
    /// A card that did not recover, or that cannot be reset, is not reset again automatically.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            FunctionResetError::NotTheSame(error) => error.disposition(),
            FunctionResetError::NoResetMethod { .. }
            | FunctionResetError::PowerStateOnly { .. }
            | FunctionResetError::MemorySurvives { .. }
            | FunctionResetError::NotOffered { .. }
            | FunctionResetError::NotBack { .. } => Disposition::Fatal,
            FunctionResetError::Write { .. } | FunctionResetError::Sysfs(_) => Disposition::Retry,
        }
    }
}

impl Sysfs {
    /// The reset methods in the kernel's order; empty if the kernel has a method but does not list it (before Linux
    /// 5.15). `None`: it has no method.
    pub fn reset_methods(
        &self,
        address: PciAddress,
    ) -> Result<Option<Vec<ResetMethod>>, SysfsError> {
        let at = self.pci_device(address);
        if read::resolved(&at.join("reset"))?.is_none() {
            return Ok(None);
        }
        let text = read::text(&at.join("reset_method"))?.unwrap_or_default();
        Ok(Some(ResetMethod::of_list(&text)))
    }
}

impl DeviceTree {
    /// Resets a function that no guest has, and verifies it.
    pub async fn reset(
        &self,
        allowed: &AllowedFunction,
        selection: ResetSelection,
    ) -> Result<VerifiedReset, FunctionResetError> {
        let address = allowed.address();
        self.unchanged(allowed)
            .map_err(FunctionResetError::NotTheSame)?;
        let at = self.sysfs().pci_device(address);
        if read::resolved(&at.join("reset"))?.is_none() {
            let file = at.join("reset").display().to_string();
            return Err(FunctionResetError::NoResetMethod { address, file });
        }
        let before = self.sysfs().link(address)?;
        if let ResetSelection::Only(method) = selection {
            self.choose(address, method).await?;
        }
        let done = self.trigger(address, "reset", "1").await;
        if matches!(selection, ResetSelection::Only(_)) {
            // Restores the kernel's order, also after a failed reset.
            let restored = self.trigger(address, "reset_method", "default").await;
            done.and(restored)?;
        } else {
            done?;
        }
        self.verify(allowed, before).await?;
        Ok(VerifiedReset {
            address,
            selection,
            link: self.sysfs().link(address)?,
        })
    }

    async fn choose(
        &self,
        address: PciAddress,
        method: ResetMethod,
    ) -> Result<(), FunctionResetError> {
        // A kill may have left another method selected.
        let file = self.sysfs().pci_device(address).join("reset_method");
        let refuse = |offered: String| FunctionResetError::NotOffered {
            address,
            wanted: method,
            offered,
        };
        let Some(mut offered) = read::text(&file)? else {
            return Err(refuse("no method".to_owned()));
        };
        if !offers(&offered, method) {
            self.trigger(address, "reset_method", "default").await?;
            offered = read::text(&file)?.unwrap_or_default();
        }
        if !offers(&offered, method) {
            let known = ResetMethod::ALL.into_iter();
            let known: Vec<_> = known
                .filter(|method| offers(&offered, *method))
                .map(ResetMethod::as_str)
                .collect();
            return Err(refuse(known.join(" ")));
        }
        self.trigger(address, "reset_method", method.as_str()).await
    }

    async fn trigger(
        &self,
        address: PciAddress,
        file: &str,
        content: &str,
    ) -> Result<(), FunctionResetError> {
        let name = format!("bus/pci/devices/{address}/{file}");
        self.write(&name, content)
            .await
            .map_err(|source| FunctionResetError::Write { address, source })
    }

    /// Waits until the card responds as before; some need a second after a reset.
    async fn verify(
        &self,
        allowed: &AllowedFunction,
        before: Option<Link>,
    ) -> Result<(), FunctionResetError> {
        let address = allowed.address();
        let (vendor, device) = (allowed.function().vendor, allowed.function().device);
        let mut seen = (ConfigSpace::NotThere, None);
        let back = self
            .until(|sysfs| {
                seen = (sysfs.config_space(address)?, sysfs.link(address)?);
                let link_is_back =
                    before.is_none_or(|before| seen.1.is_some_and(|link| link.is_at_least(before)));
                let well = seen.0.answers_as(vendor, device) && link_is_back;
                Ok(well.then_some(()))
            })
            .await?;
        if back.is_some() {
            return Ok(());
        }
        let reason = match seen {
            (ConfigSpace::NotThere, _) => "it is gone".to_owned(),
            (ConfigSpace::AllOnes, _) => "its configuration space is all ones".to_owned(),
            (
                space @ ConfigSpace::Answers {
                    vendor: v,
                    device: d,
                },
                link,
            ) => {
                if space.answers_as(vendor, device) {
                    let shown = |link: Option<Link>| {
                        link.map_or("down".to_owned(), |link| link.to_string())
                    };
                    format!("its link is {}, and was {}", shown(link), shown(before))
                } else {
                    format!("it answers as {v:04x}:{d:04x} instead of {vendor:04x}:{device:04x}")
                }
            }
        };
        Err(FunctionResetError::NotBack { address, reason })
    }
}

fn offers(offered: &str, method: ResetMethod) -> bool {
    offered
        .split_whitespace()
        .any(|word| word == method.as_str())
}

#[cfg(test)]
mod tests;
