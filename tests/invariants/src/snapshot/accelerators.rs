//! The rows of the accelerator service: its ARQs, and the devices that it would bind for the next guest.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{ArqPhase, ArqUuid, ConsumerUuid};

/// The rows that invariants need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AcceleratorSnapshot {
    pub requests: BTreeMap<ArqUuid, ArqRow>,
    /// The devices that are available, by their name in a guest's definition.
    pub free: BTreeSet<String>,
}

/// An accelerator request (ARQ).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArqRow {
    pub phase: ArqPhase,
    pub instance: Option<ConsumerUuid>,
    /// The device bound to it, by its name in a guest's definition.
    pub device: Option<String>,
}

impl AcceleratorSnapshot {
    /// The devices that are bound for a guest.
    #[must_use]
    pub fn bound_for(&self, guest: ConsumerUuid) -> BTreeSet<String> {
        let bound = self.bound();
        bound
            .filter(|row| row.instance == Some(guest))
            .filter_map(|row| row.device.clone())
            .collect()
    }

    pub(crate) fn bound(&self) -> impl Iterator<Item = &ArqRow> {
        let rows = self.requests.values();
        rows.filter(|row| row.phase == ArqPhase::Bound)
    }
}
