//! A guest's disks on this host: what is asked for, and how it is made.
//!
//! | room | what it is |
//! |---|---|
//! | [`DiskPlan`] | the disks as they are asked for |
//! | [`ImageSource`] | an image: where it is, what it must be |
//! | [`ConfigDriveContent`] | what a guest is told about itself |
//! | [`InstancesPath`] | where a guest's files lie |
//! | [`Disks`] | makes them, and takes them away |
//! | `cache`, `fetch` | images on this host, and how they come |
//! | `inspect` | what an image's bytes say, before any program opens it |
//! | `qemu_img` | the program that does |
//! | `iso9660` | a config drive's file |
//! | `place` | files that are whole or not there |
//!
//! Callers: whoever makes a request (`guest::build`), [`super::HostResources`], tests.

mod cache;
mod config_drive;
mod error;
mod fetch;
mod image_source;
mod inspect;
mod instance_disks;
mod iso9660;
mod kept;
mod layout;
mod options;
mod place;
mod plan;
mod progress;
mod provision;
mod qemu_img;

pub use config_drive::{
    ConfigDrive, ConfigDriveContent, ConfigDriveError, ConfigDriveFormat, ConfigDriveParts,
    ContentDigest, PublicKey, UserData,
};
pub use error::DiskError;
pub use fetch::ImageSources;
pub use image_source::{
    Checksum, HashAlgorithm, ImageKey, ImageLocation, ImageSource, ImageSourceError, ImageUrl,
};
pub use iso9660::IsoError;
pub use layout::InstancesPath;
pub use options::DiskOptions;
pub(in crate::guest) use place::open as open_plain;
pub use plan::{DiskPlan, DiskPlanError};
pub use progress::{ImageComing, ImageProgress, ImageStage, LoggedProgress};

pub use instance_disks::Disks;
pub use provision::{DiskProvision, RecreateDisks};

#[cfg(test)]
mod tests;
