//! What an operator may set of disks.

use std::time::Duration;

use berth_virt::guest_spec::{GuestSpecError, HostPath};

use crate::config_drive::ConfigDriveFormat;
use crate::layout::InstancesPath;

/// What an operator may set of disks; most are Nova's options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskOptions {
    /// `instances_path`: the folder of all guests.
    pub instances_path: InstancesPath,
    /// `config_drive_layout`: which layout guests look at.
    pub config_drive_format: ConfigDriveFormat,
    /// `largest_image_gb`: the most bytes of one image that are fetched.
    pub largest_image: u64,
    /// `remove_unused_base_images`: whether images that no guest uses are removed.
    pub remove_unused_base_images: bool,
    /// `remove_unused_original_minimum_age_seconds`: after how long.
    pub remove_unused_original_minimum_age: Duration,
    pub qemu_img: HostPath,
    /// How long it may take for one image.
    pub qemu_img_deadline: Duration,
}

impl DiskOptions {
    pub const LARGEST_IMAGE: u64 = 1 << 40;
    pub const MINIMUM_AGE: Duration = Duration::from_secs(86_400);
    pub const QEMU_IMG_DEADLINE: Duration = Duration::from_secs(3600);
    /// Where Debian has it.
    pub const QEMU_IMG: &str = "/usr/bin/qemu-img";

    /// The defaults for guests below this folder.
    pub fn new(instances_path: HostPath) -> Result<Self, GuestSpecError> {
        Ok(Self {
            instances_path: InstancesPath::new(instances_path),
            config_drive_format: ConfigDriveFormat::default(),
            largest_image: Self::LARGEST_IMAGE,
            remove_unused_base_images: true,
            remove_unused_original_minimum_age: Self::MINIMUM_AGE,
            qemu_img: HostPath::new(Self::QEMU_IMG)?,
            qemu_img_deadline: Self::QEMU_IMG_DEADLINE,
        })
    }
}
