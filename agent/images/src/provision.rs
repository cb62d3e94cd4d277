//! [`DiskProvision`]: the input for checking, creating and removing the disks of one instance.

use berth_virt::guest_spec::GuestSpec;
use serde::{Deserialize, Serialize};

use crate::plan::DiskPlan;

/// The disks of one instance.
#[derive(Debug, Clone, Copy)]
pub struct DiskProvision<'a> {
    pub spec: &'a GuestSpec,
    pub plan: &'a DiskPlan,
    /// Whether the instance has run before. If it has, its disks hold its tenant's data, and a missing disk is an error unless
    /// `recreate` covers it.
    pub has_run_before: bool,
    pub recreate: RecreateDisks,
}

/// Which missing disks of an instance that has run before may be created again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecreateDisks {
    #[serde(rename = "nothing")]
    None,
    /// The root disk, or the rescue disk.
    Root,
    /// The root disk and the ephemeral disks.
    All,
}
