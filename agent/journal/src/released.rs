//! The devices of an instance that were taken back.

use std::collections::{BTreeMap, BTreeSet};

/// What became of an instance's devices when they were taken back, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Released {
    /// The devices whose reset was verified.
    pub clean: BTreeSet<String>,
    /// The devices that must be quarantined, each with the reason.
    pub spoilt: BTreeMap<String, String>,
}
