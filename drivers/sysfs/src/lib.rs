//! The kernel's devices under a root path: PCI functions, SR-IOV, IOMMU groups, NUMA, mediated devices, uevents.
//!
//! Everything is read below one root ([`Sysfs::at`]), so a test gives it a tree in a temporary directory and the agent gives
//! it `/sys`. Reading is forgiving where the kernel is racy (a device that goes away between the listing and the reading is
//! simply not there) and strict where it is not: a file that is there and holds something else than the kernel writes is an
//! error that names the file, never a guess. The drivers call this; it calls nothing of ours but the nouns.
//!
//! What is changed there is changed by [`Devices`], through one seam ([`AttributeWrites`]), and only on a function that the
//! operator's [`AllowList`] said yes to.

mod allow_list;
mod attribute;
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

pub use allow_list::{AllowList, Allowed, NotAllowed};
pub use attribute::{AttributeError, AttributeWrites, KernelAttributes, Written};
pub use config_space::{ConfigSpace, Link};
pub use cpu::{HugePages, NumaCell, cpu_list};
pub use device_reset::{ResetError, ResetMethod, ResetWay, VerifiedReset};
pub use device_return::{ResetNeed, RestsOn, ReturnError, Returned};
pub use device_spec::{DeviceSpecError, DeviceTags};
pub use devices::Devices;
pub use group_viability::{GroupError, ViableGroup};
pub use health::{AerCounts, Ailment, DeviceHealth};
pub use host_use::{HostUse, Procfs};
pub use iommu::IommuGroup;
pub use mdev::{MdevDevice, MdevParent, MdevType};
pub use mdev_instance::{MdevError, MdevMade, MdevRemoved};
pub use offered_devices::{
    Baseline, ConditionNews, DeviceLists, DeviceRefusal, LastLook, OfferedDevices, SeenFunction,
    SeenMdevs, offered_devices,
};
pub use pci::{PciFunction, Sriov};
pub use read::SysfsError;
pub use sriov::{SriovError, VirtualFunctionsMade};
pub use uevent::{DeviceNews, Uevent, UeventError, UeventStream, parse_uevent};
pub use vfio::{VFIO_DRIVER, VfioBound, VfioError, VfioReleased};

use std::path::{Path, PathBuf};

/// The kernel's device tree, rooted at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sysfs {
    root: PathBuf,
}

impl Sysfs {
    /// The tree under `root`: `/sys` on a host, any directory of the same shape in a test. Nothing is read yet.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where the tree starts.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }
}
