//! The options for images and disks.

use std::time::Duration;

use berth_virt::guest_spec::{GuestSpecError, HostPath};

use crate::config_drive::ConfigDriveFormat;
use crate::layout::InstancesPath;

/// The options for images and disks. Most have Nova's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskOptions {
    /// The folder of all instances.
    pub instances_path: InstancesPath,
    /// `config_drive_layout`: the layout that guests read.
    pub config_drive_format: ConfigDriveFormat,
    /// `largest_image_gb`: maximum size of an image in bytes.
    pub largest_image: u64,
    /// Whether to remove images that no instance uses.
    pub remove_unused_base_images: bool,
    /// The value of the option `remove_unused_original_minimum_age_seconds`.
    pub remove_unused_original_minimum_age: Duration,
    pub qemu_img: HostPath,
    /// Time limit for one image.
    pub qemu_img_deadline: Duration,
    /// A folder that scripts in place of qemu-img write to.
    #[cfg(test)]
    pub(crate) qemu_img_scratch: Option<std::path::PathBuf>,
}

impl DiskOptions {
    pub const LARGEST_IMAGE: u64 = 1 << 40;
    pub const MINIMUM_AGE: Duration = Duration::from_secs(86_400);
    pub const QEMU_IMG_DEADLINE: Duration = Duration::from_secs(3600);
    /// The path on Debian.
    pub const QEMU_IMG: &str = "/usr/bin/qemu-img";

    /// The defaults, with this folder.
    pub fn new(instances_path: HostPath) -> Result<Self, GuestSpecError> {
        Ok(Self {
            instances_path: InstancesPath::new(instances_path),
            config_drive_format: ConfigDriveFormat::default(),
            largest_image: Self::LARGEST_IMAGE,
            remove_unused_base_images: true,
            remove_unused_original_minimum_age: Self::MINIMUM_AGE,
            qemu_img: HostPath::new(Self::QEMU_IMG)?,
            qemu_img_deadline: Self::QEMU_IMG_DEADLINE,
            #[cfg(test)]
            qemu_img_scratch: None,
        })
    }
}
