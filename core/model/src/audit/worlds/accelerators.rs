//! The accelerator service as rows: its requests, and what it would give to the next guest.

use std::collections::{BTreeMap, BTreeSet};

use crate::{ArqPhase, ArqUuid, ConsumerUuid};

/// All rows that matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AcceleratorWorld {
    /// The requests.
    pub requests: BTreeMap<ArqUuid, ArqRow>,
    /// The devices that the next guest may be given, each by the name it has in a guest's definition.
    pub free: BTreeSet<String>,
}

/// An accelerator request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArqRow {
    /// Its state.
    pub phase: ArqPhase,
    /// The guest it is for.
    pub instance: Option<ConsumerUuid>,
    /// The device it holds, by the name that it has in a guest's definition.
    pub device: Option<String>,
}

impl AcceleratorWorld {
    /// The devices that are bound for a guest.
    #[must_use]
    pub fn bound_for(&self, guest: ConsumerUuid) -> BTreeSet<String> {
        let bound = self.bound();
        bound
            .filter(|row| row.instance == Some(guest))
            .filter_map(|row| row.device.clone())
            .collect()
    }

    /// The requests that are bound.
    pub(in crate::audit) fn bound(&self) -> impl Iterator<Item = &ArqRow> {
        let rows = self.requests.values();
        rows.filter(|row| row.phase == ArqPhase::Bound)
    }
}
