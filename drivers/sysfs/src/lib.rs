//! The kernel's devices under a root path: PCI functions, SR-IOV, IOMMU groups, NUMA, mediated devices, uevents.
//!
//! Everything is read below one root ([`Sysfs::at`]), so a test gives it a tree in a temporary directory and the agent gives
//! it `/sys`. Reading is forgiving where the kernel is racy (a device that goes away between the listing and the reading is
//! simply not there) and strict where it is not: a file that is there and holds something else than the kernel writes is an
//! error that names the file, never a guess. The drivers call this; it calls nothing of ours but the nouns.

mod cpu;
mod iommu;
mod mdev;
mod pci;
mod read;
#[cfg(test)]
mod tree;
mod uevent;

pub use cpu::{HugePages, NumaCell, cpu_list};
pub use iommu::IommuGroup;
pub use mdev::{MdevDevice, MdevParent, MdevType};
pub use pci::{PciFunction, Sriov};
pub use read::SysfsError;
pub use uevent::{DeviceNews, Uevent, UeventError, UeventStream, parse_uevent};

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
