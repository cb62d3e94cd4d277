//! A host while it passes through the filters.

use std::sync::Arc;

use super::{AllocationCandidate, HostState};

/// A host with its candidates of this request.
#[derive(Debug, Clone)]
pub struct ConsideredHost {
    /// Shared with other requests until a claim of this request changes it.
    pub state: Arc<HostState>,
    pub candidates: Arc<[AllocationCandidate]>,
    /// The candidates that no filter has removed.
    pub surviving: SurvivingCandidates,
    /// Limits that the host's agent checks again.
    pub limits: SchedulerLimits,
}

impl ConsideredHost {
    /// A host that no filter has checked.
    #[must_use]
    pub fn new(state: Arc<HostState>, candidates: Arc<[AllocationCandidate]>) -> Self {
        Self {
            state,
            candidates,
            surviving: SurvivingCandidates::All,
            limits: SchedulerLimits::default(),
        }
    }

    /// The surviving candidates with their indices in the answer.
    pub fn surviving(&self) -> impl Iterator<Item = (usize, &AllocationCandidate)> {
        let (all, these): (_, &[usize]) = match &self.surviving {
            SurvivingCandidates::All => (0..self.candidates.len(), &[]),
            SurvivingCandidates::These(places) => (0..0, places),
        };
        let places = all.chain(these.iter().copied());
        places.map(|place| (place, &self.candidates[place]))
    }

    /// Keeps the surviving candidates that fit.
    ///
    /// Errors: None is left: the reason of the first one, or `None` if there were none before.
    pub fn keep<E>(
        &mut self,
        mut fit: impl FnMut(&HostState, &AllocationCandidate) -> Result<(), E>,
    ) -> Result<(), Option<E>> {
        let (mut first, mut refused) = (None, Vec::new());
        let mut are_left = false;
        for (place, candidate) in self.surviving() {
            match fit(&self.state, candidate) {
                Ok(()) => are_left = true,
                Err(why) => {
                    first.get_or_insert(why);
                    refused.push(place);
                }
            }
        }
        if !refused.is_empty() {
            let mut refused = refused.into_iter().peekable();
            let places = self.surviving().map(|(place, _)| place);
            let kept = places.filter(|place| refused.next_if_eq(place).is_none());
            self.surviving = SurvivingCandidates::These(kept.collect());
        }
        if are_left { Ok(()) } else { Err(first) }
    }

    /// Like [`ConsideredHost::keep`]. If the result does not depend on the candidate (`each` is false), it is computed
    /// once, with an empty candidate.
    pub fn keep_each_or_all<E: Clone>(
        &mut self,
        each: bool,
        fit: impl Fn(&HostState, &AllocationCandidate) -> Result<(), E>,
    ) -> Result<(), Option<E>> {
        if each {
            return self.keep(fit);
        }
        let all = fit(&self.state, &AllocationCandidate::default());
        self.keep(|_, _| all.clone())
    }
}

/// The remaining candidates of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SurvivingCandidates {
    All,
    These(Vec<usize>),
}

/// Limits that are sent with the request, by which the agent checks its claim.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SchedulerLimits {
    pub vcpu: Option<f64>,
    pub memory_mb: Option<f64>,
    pub disk_gb: Option<f64>,
    /// Allocation ratios of CPUs and memory per cell, if NUMA cells are requested.
    pub numa: Option<NumaLimits>,
}

/// Allocation ratios of CPUs and memory for each NUMA cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NumaLimits {
    pub cpu_allocation_ratio: f64,
    pub ram_allocation_ratio: f64,
}
