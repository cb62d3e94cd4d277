//! The images and disks of instances on this host: images are fetched, inspected and cached; disks are made over them.
//!
//! | module | what it is |
//! |---|---|
//! | [`DiskPlan`] | the disks of an instance, as requested |
//! | [`ImageSource`] | an image: where it is, and what it must be |
//! | [`ConfigDriveContent`] | the content of a config drive |
//! | [`InstancesPath`] | where the files of instances lie |
//! | [`Disks`] | makes the disks of instances, and removes them |
//! | `cache`, `fetch` | the images on this host, and their download |
//! | `inspect` | checks the bytes of an image before any program opens it |
//! | `qemu_img` | runs qemu-img |
//! | `iso9660` | writes the file of a config drive |
//! | `atomic_file` | files that are there wholly or not at all |

mod atomic_file;
mod cache;
mod config_drive;
mod config_drive_store;
mod error;
mod fetch;
mod image_source;
mod inspect;
mod instance_disks;
mod iso9660;
mod layout;
mod options;
mod plan;
mod progress;
mod provision;
mod qemu_img;
pub mod serde_text;

pub use atomic_file::open;
pub use config_drive::{
    ConfigDrive, ConfigDriveContent, ConfigDriveError, ConfigDriveFormat, ConfigDriveParts,
    ContentDigest, PublicKey, UserData,
};
pub use error::DiskError;
pub use fetch::ImageSources;
pub use image_source::{
    Checksum, HashAlgorithm, ImageKey, ImageLocation, ImageSource, ImageSourceError, ImageUrl,
};
pub use instance_disks::Disks;
pub use iso9660::IsoError;
pub use layout::InstancesPath;
pub use options::DiskOptions;
pub use plan::{DiskPlan, DiskPlanError};
pub use progress::{ImageDownload, ImageProgress, ImageStage, LoggedProgress};
pub use provision::{DiskProvision, RecreateDisks};

#[cfg(test)]
mod tests;
