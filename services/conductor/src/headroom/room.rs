//! What providers have free, and what candidates take of it. Pure.

use std::collections::BTreeMap;

use berth_client::placement::{Candidate, Candidates};
use berth_model::{ProviderUuid, ResourceClass};

/// Units that are free, by provider and class.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Room(BTreeMap<(ProviderUuid, ResourceClass), u64>);

impl Room {
    /// As an answer of Placement tells it.
    pub(crate) fn of(found: &Candidates) -> Self {
        let mut room = BTreeMap::new();
        for (provider, summary) in &found.providers {
            for (class, units) in &summary.resources {
                // A class that has no name of one is asked for by no candidate.
                if let Ok(class) = ResourceClass::answered(class) {
                    let free = units.capacity.saturating_sub(units.used);
                    room.insert((*provider, class), free);
                }
            }
        }
        Self(room)
    }

    /// Whether a candidate could be claimed.
    pub(crate) fn has(&self, candidate: &Candidate) -> bool {
        let mut taken = candidate.resources().iter();
        taken.all(|(of, amount)| self.0.get(of).is_some_and(|free| free >= amount))
    }

    /// Claims a candidate: all of it, or nothing where something is not there.
    pub(crate) fn take(&mut self, candidate: &Candidate) -> bool {
        let has = self.has(candidate);
        if has {
            for (of, amount) in candidate.resources() {
                if let Some(free) = self.0.get_mut(of) {
                    *free = free.saturating_sub(*amount);
                }
            }
        }
        has
    }
}
