//! Reads and changes the kernel's devices below a root path: PCI functions, SR-IOV, IOMMU groups, NUMA cells, mediated
//! devices, uevents.
//!
//! Everything is read below one root ([`Sysfs::at`]): `/sys` on a host, a temporary directory in tests. Reading
//! tolerates races (a device that disappears while it is read is omitted) and is strict in everything else: a file with
//! unexpected content is an error with its name, never a guess. The drivers use this crate.
//!
//! Changes are made by [`DeviceTree`] through one trait ([`AttributeWrites`]), and only to functions that the
//! operator's [`AllowList`] includes.

mod allow_list;
mod attribute;
mod cleaning;
mod config_space;
mod cpu;
mod cpu_stats;
mod device_reset;
mod device_return;
mod device_spec;
mod devices;
mod group_viability;
mod health;
mod host_use;
mod iommu;
#[cfg(test)]
mod kernel;
mod mdev;
mod mdev_instance;
mod offered_devices;
mod pci;
mod read;
mod sriov;
#[cfg(test)]
mod tree;
mod uevent;
mod vfio;
mod vgpu_type;

pub use allow_list::{AllowList, AllowedFunction, DEVICE_SPEC, NotAllowed};
pub use attribute::{AttributeError, AttributeWrites, KernelAttributes, WriteFuture};
pub use cleaning::{CleaningFacts, NotCleanable, ResetNeed, plan_cleaning};
pub use config_space::{ConfigSpace, Link};
pub use device_reset::{FunctionResetError, ResetMethod, ResetSelection, VerifiedReset};
pub use device_return::{HomeDriver, ReturnError, ReturnedFunction};
pub use device_spec::{DeviceSpecError, DeviceTags};
pub use devices::DeviceTree;
pub use group_viability::{GroupError, ViableGroup};
pub use health::{AerCounts, Ailment, DeviceHealth};
pub use host_use::{HostUse, Procfs};
pub use iommu::IommuGroup;
pub use mdev::{MdevDevice, MdevParent, MdevType};
pub use mdev_instance::{MdevError, MdevMade, MdevRemoved};
pub use offered_devices::{
    Baseline, ConditionChange, DeviceLists, DeviceRefusal, LastObservation, OfferedDevices,
    SeenFunction, SeenMdevs, offered_devices,
};
pub use pci::{PciFunction, Sriov};
pub use read::SysfsError;
pub use sriov::{SriovError, VirtualFunctionsMade};
pub use uevent::{DeviceUevent, Uevent, UeventError, UeventStream, parse_uevent};
pub use vfio::{VFIO_DRIVER, VfioBound, VfioError, VfioReleased};
pub use vgpu_type::{CreatableVgpu, VgpuTypeError, VgpuTypeSet};

use std::path::{Path, PathBuf};

/// The kernel's device tree, rooted at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sysfs {
    root: PathBuf,
}

impl Sysfs {
    /// Uses the tree below `root`: `/sys` on a host, or a directory of the same form in a test. Reads nothing yet.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }
}
