//! The devices that an instance released.

use std::collections::{BTreeMap, BTreeSet};

/// The results of releasing an instance's devices, by device name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReleasedDevices {
    /// The devices whose reset was verified.
    pub clean: BTreeSet<String>,
    /// The devices that must be quarantined, each with the reason.
    pub quarantined: BTreeMap<String, String>,
}
