//! Sets the vGPU type of NVIDIA's virtual functions. Its driver offers them as VFIO devices, without mediated devices. A host
//! boot resets the type.
//!
//! ```text
//! nvidia/creatable_vgpu_types    ID    : vGPU Name
//!                                557   : NVIDIA A40-1Q
//! nvidia/current_vgpu_type       0 (none), or an ID
//! ```

use std::fmt::Write as _;

use berth_model::{Disposition, PciAddress};

use crate::Sysfs;
use crate::allow_list::AllowedFunction;
use crate::attribute::AttributeError;
use crate::devices::DeviceTree;
use crate::read::{self, SysfsError};
use crate::vfio::VfioError;

/// The largest number of types in a message.
const SHOWN: usize = 16;

/// A type that the driver can give a virtual function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatableVgpu {
    pub id: u32,
    /// The vendor's name: `NVIDIA A40-8Q`.
    pub name: String,
}

/// The outcome of [`DeviceTree::set_vgpu_type`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VgpuTypeSet {
    Set,
    AlreadySet,
}

/// Why a virtual function does not have the wanted type.
#[derive(Debug, thiserror::Error)]
pub enum VgpuTypeError {
    /// The function is gone, or is another card.
    #[error(transparent)]
    NotTheSame(VfioError),
    /// Its driver has no such attribute.
    #[error(
        "PCI function {address} has no nvidia/current_vgpu_type: its driver is not NVIDIA's vGPU driver without mediated \
         devices, or it is not a virtual function"
    )]
    NoTypes { address: PciAddress },
    /// It has another type. A guest may have it.
    #[error(
        "PCI function {address} has the vGPU type {found}, {wanted} is wanted; end its guest and write 0 to \
         nvidia/current_vgpu_type"
    )]
    OtherType {
        address: PciAddress,
        found: u32,
        wanted: u32,
    },
    /// The driver cannot create it: it does not know the type, or the GPU has no room for another one.
    #[error(
        "PCI function {address} cannot have the vGPU type {wanted}; its driver can create {}",
        listed(creatable)
    )]
    NotCreatable {
        address: PciAddress,
        wanted: u32,
        creatable: Vec<CreatableVgpu>,
    },
    /// The driver took the type and does not show it.
    #[error(
        "PCI function {address} does not show the vGPU type {wanted}; the kernel's log says why (dmesg)"
    )]
    NotSet { address: PciAddress, wanted: u32 },
    #[error("the vGPU type of PCI function {address} was not set")]
    Write {
        address: PciAddress,
        #[source]
        source: AttributeError,
    },
    /// The tree could not be read.
    #[error(transparent)]
    Sysfs(#[from] SysfsError),
}

fn listed(creatable: &[CreatableVgpu]) -> String {
    if creatable.is_empty() {
        return "no type at present".to_owned();
    }
    let mut text = String::new();
    for (number, one) in creatable.iter().take(SHOWN).enumerate() {
        let separator = if number == 0 { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(text, "{separator}{} ({})", one.id, one.name);
    }
    if creatable.len() > SHOWN {
        text.push_str(" and others");
    }
    text
}

impl VgpuTypeError {
    /// Errors that an operator must repair are fatal.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::NotTheSame(error) => error.disposition(),
            Self::NoTypes { .. } | Self::OtherType { .. } | Self::NotCreatable { .. } => {
                Disposition::Fatal
            }
            Self::NotSet { .. } | Self::Write { .. } | Self::Sysfs(_) => Disposition::Retry,
        }
    }
}

impl Sysfs {
    /// The vGPU type of a virtual function: 0 for none; `None` if its driver has no such attribute.
    pub fn vgpu_type(&self, address: PciAddress) -> Result<Option<u32>, SysfsError> {
        let path = self.pci_device(address).join("nvidia/current_vgpu_type");
        read::value(&path, "a number", |text| text.parse().ok())
    }

    /// What is wrong with a function that must have this vGPU type; `None` if it has it.
    pub fn other_vgpu(
        &self,
        address: PciAddress,
        wanted: u32,
    ) -> Result<Option<String>, SysfsError> {
        Ok(match self.vgpu_type(address)? {
            Some(found) if found == wanted => None,
            Some(found) => Some(format!(
                "it has the vGPU type {found}, and {wanted} is wanted"
            )),
            None => Some(format!("it has no vGPU type, and {wanted} is wanted")),
        })
    }

    /// The types that a virtual function can have at present.
    pub fn creatable_vgpus(&self, address: PciAddress) -> Result<Vec<CreatableVgpu>, SysfsError> {
        let path = self.pci_device(address).join("nvidia/creatable_vgpu_types");
        let text = read::text(&path)?.unwrap_or_default();
        // The first line is a heading.
        let rows = text.lines().filter_map(|line| {
            let (id, name) = line.split_once(':')?;
            Some(CreatableVgpu {
                id: id.trim().parse().ok()?,
                name: name.trim().to_owned(),
            })
        });
        Ok(rows.collect())
    }
}

impl DeviceTree {
    /// Ensures that a virtual function has this vGPU type. Changes the type only from none, because a guest may have the
    /// function.
    pub async fn set_vgpu_type(
        &self,
        allowed: &AllowedFunction,
        wanted: u32,
    ) -> Result<VgpuTypeSet, VgpuTypeError> {
        let address = allowed.address();
        self.unchanged(allowed).map_err(VgpuTypeError::NotTheSame)?;
        match self.sysfs().vgpu_type(address)? {
            None => return Err(VgpuTypeError::NoTypes { address }),
            Some(found) if found == wanted => return Ok(VgpuTypeSet::AlreadySet),
            Some(0) => {}
            Some(found) => {
                return Err(VgpuTypeError::OtherType {
                    address,
                    found,
                    wanted,
                });
            }
        }
        let creatable = self.sysfs().creatable_vgpus(address)?;
        if !creatable.iter().any(|one| one.id == wanted) {
            return Err(VgpuTypeError::NotCreatable {
                address,
                wanted,
                creatable,
            });
        }
        let name = format!("bus/pci/devices/{address}/nvidia/current_vgpu_type");
        self.write(&name, &wanted.to_string())
            .await
            .map_err(|source| VgpuTypeError::Write { address, source })?;
        let is_set = self
            .until(|sysfs| {
                let now = sysfs.vgpu_type(address)?;
                Ok((now == Some(wanted)).then_some(()))
            })
            .await?;
        match is_set {
            Some(()) => Ok(VgpuTypeSet::Set),
            None => Err(VgpuTypeError::NotSet { address, wanted }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{CARD, KernelSimulator, address, survives_a_kill_anywhere};

    const TYPES: &str = "ID    : vGPU Name\n557   : NVIDIA A40-1Q\n558   : NVIDIA A40-2Q\n";

    fn attribute(name: &str) -> String {
        format!("bus/pci/devices/{CARD}/nvidia/{name}")
    }

    fn with_types(kernel: &KernelSimulator) {
        kernel.tree.write(&attribute("current_vgpu_type"), "0\n");
        kernel.tree.write(&attribute("creatable_vgpu_types"), TYPES);
    }

    #[tokio::test]
    async fn the_type_is_set_once_and_never_changed() {
        let kernel = KernelSimulator::new();
        with_types(&kernel);
        let (devices, allowed) = (kernel.devices(), kernel.allowed());
        let set = |wanted| devices.set_vgpu_type(&allowed, wanted);
        assert_eq!(set(558).await.unwrap(), VgpuTypeSet::Set);
        assert_eq!(set(558).await.unwrap(), VgpuTypeSet::AlreadySet);
        let sysfs = kernel.tree.sysfs();
        assert_eq!(sysfs.vgpu_type(address()).unwrap(), Some(558));
        let error = set(557).await.unwrap_err();
        assert!(
            matches!(error, VgpuTypeError::OtherType { found: 558, .. }),
            "{error}"
        );
        assert_eq!(error.disposition(), Disposition::Fatal);
        assert_eq!(
            kernel.log(),
            [format!("{}=558", attribute("current_vgpu_type"))]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn setting_survives_a_kill_anywhere() {
        let act = |kernel: std::sync::Arc<KernelSimulator>| async move {
            let set = kernel.devices().set_vgpu_type(&kernel.allowed(), 557).await;
            set.map(|_| ()).map_err(|error| error.to_string())
        };
        survives_a_kill_anywhere(with_types, act, |kernel| {
            let sysfs = kernel.tree.sysfs();
            assert_eq!(sysfs.vgpu_type(address()).unwrap(), Some(557));
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_driver_cannot_do_is_refused_with_what_it_can() {
        let kernel = KernelSimulator::new();
        let (devices, allowed) = (kernel.devices(), kernel.allowed());
        let error = devices.set_vgpu_type(&allowed, 557).await.unwrap_err();
        assert!(matches!(error, VgpuTypeError::NoTypes { .. }), "{error}");
        with_types(&kernel);
        let error = devices.set_vgpu_type(&allowed, 600).await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.ends_with("can create 557 (NVIDIA A40-1Q), 558 (NVIDIA A40-2Q)"),
            "{text}"
        );
        kernel
            .tree
            .write(&attribute("creatable_vgpu_types"), "ID    : vGPU Name\n");
        let error = devices.set_vgpu_type(&allowed, 557).await.unwrap_err();
        assert!(error.to_string().ends_with("no type at present"), "{error}");
        with_types(&kernel);
        kernel.ignores("current_vgpu_type");
        let error = devices.set_vgpu_type(&allowed, 557).await.unwrap_err();
        assert!(matches!(error, VgpuTypeError::NotSet { .. }), "{error}");
        assert_eq!(error.disposition(), Disposition::Retry);
    }
}
