//! What the disks of one instance are made of.

use berth_virt::guest_spec::GuestSpec;
use serde::{Deserialize, Serialize};

use crate::plan::DiskPlan;

/// The disks of one instance, as they are checked, made and removed.
#[derive(Debug, Clone, Copy)]
pub struct DiskProvision<'a> {
    pub spec: &'a GuestSpec,
    pub plan: &'a DiskPlan,
    /// Whether the instance has run before. If it has, its disks hold its tenant's data, and a missing disk is an error unless
    /// `recreate` covers it.
    pub has_run_before: bool,
    pub recreate: RecreateDisks,
}

/// Which disks of an instance that has run before are made again if they are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecreateDisks {
    #[serde(rename = "nothing")]
    None,
    /// The root disk, or the rescue system's.
    Root,
    /// The root disk and the ephemeral ones.
    All,
}
