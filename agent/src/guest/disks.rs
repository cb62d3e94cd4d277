//! A guest's disks on this host: what is asked for, and where it lies.
//!
//! | room | what it is |
//! |---|---|
//! | [`DiskPlan`] | the disks as they are asked for |
//! | [`ImageSource`] | an image: where it is, what it must be |
//! | [`ConfigDriveContent`] | what a guest is told about itself |
//! | [`InstancesPath`] | where a guest's files lie |
//!
//! Callers: whoever makes a request (`guest::build`), [`super::HostResources`], tests.

mod config_drive;
mod image_source;
mod layout;
mod plan;

pub use config_drive::{
    ConfigDrive, ConfigDriveContent, ConfigDriveError, ConfigDriveParts, ContentDigest, PublicKey,
    UserData,
};
pub use image_source::{
    Checksum, HashAlgorithm, ImageKey, ImageLocation, ImageSource, ImageSourceError, ImageUrl,
};
pub use layout::InstancesPath;
pub use plan::{DiskPlan, DiskPlanError};
