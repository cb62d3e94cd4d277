//! Images and disks of instances on this host: fetches, inspects and caches images, and creates disks over them.
//!
//! ```text
//! ImageSource --> cache::get (fetch, inspect, qemu_img) --> base image --> disk of an instance
//! ConfigDriveContent --> config_drive_store --> iso9660 --> config drive of an instance
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`DiskPlan`] | the requested disks of an instance |
//! | [`ImageSource`] | a requested image: location, checksum and format |
//! | [`ConfigDriveContent`] | the content of a config drive |
//! | [`InstancesPath`] | the paths of instances' files |
//! | [`Disks`] | creates and removes the disks of instances |
//! | `cache`, `fetch` | the image cache and the downloads |
//! | `inspect` | checks an image before any program opens it |
//! | `qemu_img` | runs qemu-img |
//! | `iso9660` | writes a config drive |
//! | `atomic_file` | files that are complete or absent |

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
mod sandbox;
pub mod serde_text;
mod swap_space;

pub use atomic_file::open;
pub use config_drive::{
    ConfigDrive, ConfigDriveChange, ConfigDriveContent, ConfigDriveError, ConfigDriveFormat,
    ConfigDriveParts, ContentDigest, PublicKey, UserData,
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
