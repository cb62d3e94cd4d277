//! Creates the virtual functions of a physical function.

use berth_model::{Disposition, PciAddress};

use crate::allow_list::AllowedFunction;
use crate::attribute::AttributeError;
use crate::devices::DeviceTree;
use crate::pci::Sriov;
use crate::read::SysfsError;
use crate::vfio::VfioError;

/// The outcome of [`DeviceTree::create_virtual_functions`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VirtualFunctionsMade {
    /// These were created, ordered by number.
    Made(Vec<PciAddress>),
    /// There were as many already.
    AlreadyThere(Vec<PciAddress>),
}

/// Why the wanted number does not exist.
#[derive(Debug, thiserror::Error)]
pub enum SriovError {
    /// The function is gone, or is another card.
    #[error(transparent)]
    NotTheSame(VfioError),
    /// It does not support virtual functions.
    #[error(
        "PCI function {address} can have no virtual functions (it has no sriov_totalvfs); see the card's firmware settings"
    )]
    NotPhysical { address: PciAddress },
    #[error(
        "PCI function {address} can have {total} virtual functions (sriov_totalvfs), but {wanted} are required"
    )]
    TooMany {
        address: PciAddress,
        total: u32,
        wanted: u32,
    },
    /// Another number exists. To change it, the kernel would remove all of them, even those in use.
    #[error(
        "PCI function {address} has {found} virtual functions, {wanted} are wanted; end its guests and write 0 to \
         sriov_numvfs, or start the host again"
    )]
    OtherNumber {
        address: PciAddress,
        found: u32,
        wanted: u32,
    },
    /// The kernel took the number and did not bring the functions.
    #[error(
        "PCI function {address} shows {found} virtual functions of {wanted}; the kernel's log says why (dmesg)"
    )]
    NotMade {
        address: PciAddress,
        found: usize,
        wanted: u32,
    },
    #[error("the virtual functions of PCI function {address} were not created")]
    Write {
        address: PciAddress,
        #[source]
        source: AttributeError,
    },
    /// The tree could not be read.
    #[error(transparent)]
    Sysfs(#[from] SysfsError),
}

impl SriovError {
    /// Errors that an operator must repair are fatal.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            SriovError::NotTheSame(error) => error.disposition(),
            SriovError::NotPhysical { .. }
            | SriovError::TooMany { .. }
            | SriovError::OtherNumber { .. } => Disposition::Fatal,
            SriovError::NotMade { .. } | SriovError::Write { .. } | SriovError::Sysfs(_) => {
                Disposition::Retry
            }
        }
    }
}

impl DeviceTree {
    /// Ensures that a physical function has `wanted` virtual functions. Changes the number only from 0, because
    /// existing ones may be in use by guests.
    pub async fn create_virtual_functions(
        &self,
        allowed: &AllowedFunction,
        wanted: u32,
    ) -> Result<VirtualFunctionsMade, SriovError> {
        let address = allowed.address();
        let now = self.unchanged(allowed).map_err(SriovError::NotTheSame)?;
        let Sriov::Physical {
            total,
            enabled,
            functions,
        } = now.sriov
        else {
            return Err(SriovError::NotPhysical { address });
        };
        if wanted > total {
            return Err(SriovError::TooMany {
                address,
                total,
                wanted,
            });
        }
        if enabled == wanted && functions.len() as u64 == u64::from(wanted) {
            return Ok(VirtualFunctionsMade::AlreadyThere(functions));
        }
        if enabled != 0 && enabled != wanted {
            return Err(SriovError::OtherNumber {
                address,
                found: enabled,
                wanted,
            });
        }
        if enabled == 0 {
            let name = format!("bus/pci/devices/{address}/sriov_numvfs");
            self.write(&name, &wanted.to_string())
                .await
                .map_err(|source| SriovError::Write { address, source })?;
        }
        self.await_functions(address, wanted).await
    }

    async fn await_functions(
        &self,
        address: PciAddress,
        wanted: u32,
    ) -> Result<VirtualFunctionsMade, SriovError> {
        let mut found = 0;
        let made = self
            .until(|sysfs| {
                let now = sysfs.pci_function(address)?;
                let Some(Sriov::Physical { functions, .. }) = now.map(|now| now.sriov) else {
                    return Ok(None);
                };
                found = functions.len();
                // A function that is not listed yet cannot be used yet.
                for function in &functions {
                    if sysfs.pci_function(*function)?.is_none() {
                        return Ok(None);
                    }
                }
                Ok((found as u64 == u64::from(wanted)).then_some(functions))
            })
            .await?;
        made.map(VirtualFunctionsMade::Made)
            .ok_or(SriovError::NotMade {
                address,
                found,
                wanted,
            })
    }
}

#[cfg(test)]
mod tests;
