//! Free resources of providers, reduced by allocated candidates. Pure.

use std::collections::BTreeMap;

use berth_client::placement::{Candidate, Candidates};
use berth_model::{ProviderUuid, ResourceClass};

/// Free units by provider and resource class.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct FreeResources(BTreeMap<(ProviderUuid, ResourceClass), u64>);

impl FreeResources {
    /// From the provider summaries of an allocation candidates response.
    pub(crate) fn from_candidates(found: &Candidates) -> Self {
        let mut room = BTreeMap::new();
        for (provider, summary) in &found.providers {
            for (class, units) in &summary.resources {
                // No candidate uses a class with an invalid name.
                if let Ok(class) = ResourceClass::answered(class) {
                    let free = units.capacity.saturating_sub(units.used);
                    room.insert((*provider, class), free);
                }
            }
        }
        Self(room)
    }

    /// Whether all resources of a candidate are free.
    pub(crate) fn has(&self, candidate: &Candidate) -> bool {
        let mut taken = candidate.resources().iter();
        taken.all(|(of, amount)| self.0.get(of).is_some_and(|free| free >= amount))
    }

    /// Allocates a candidate completely, or not at all. Returns whether it was allocated.
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
