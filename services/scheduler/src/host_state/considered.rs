//! A host on its way through the filters.

use std::sync::Arc;

use super::{AllocationCandidate, HostState};

/// A host with the candidates of this request that are on it.
#[derive(Debug, Clone)]
pub struct ConsideredHost {
    /// Shared with every other request until a claim of this one changes it.
    pub state: Arc<HostState>,
    pub candidates: Arc<[AllocationCandidate]>,
    /// Those of them that no filter has refused.
    pub surviving: Surviving,
    /// What filters found for the host's agent to check again.
    pub limits: Limits,
}

impl ConsideredHost {
    /// Not looked at yet.
    #[must_use]
    pub fn new(state: Arc<HostState>, candidates: Arc<[AllocationCandidate]>) -> Self {
        Self {
            state,
            candidates,
            surviving: Surviving::All,
            limits: Limits::default(),
        }
    }

    /// The candidates that no filter has refused, with their places in the answer.
    pub fn surviving(&self) -> impl Iterator<Item = (usize, &AllocationCandidate)> {
        let (all, these): (_, &[usize]) = match &self.surviving {
            Surviving::All => (0..self.candidates.len(), &[]),
            Surviving::These(places) => (0..0, places),
        };
        let places = all.chain(these.iter().copied());
        places.map(|place| (place, &self.candidates[place]))
    }

    /// Keeps those of the surviving candidates that fit.
    ///
    /// # Errors
    /// None is left: why the first of them did not fit; none where there was none before.
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
            self.surviving = Surviving::These(kept.collect());
        }
        if are_left { Ok(()) } else { Err(first) }
    }

    /// As [`ConsideredHost::keep`]; where the answer does not depend on the candidate (`each` is false), one answer, on a candidate
    /// that says nothing, is that for all of them.
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

/// Which candidates of a host are left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Surviving {
    All,
    These(Vec<usize>),
}

/// Upper bounds that go with the request to the host's agent, which checks its claim by them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Limits {
    pub vcpu: Option<f64>,
    pub memory_mb: Option<f64>,
    pub disk_gb: Option<f64>,
    /// Allocation ratios of CPUs and of memory in each cell, where NUMA cells are asked for.
    pub numa: Option<NumaLimits>,
}

/// See [`Limits::numa`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NumaLimits {
    pub cpu_allocation_ratio: f64,
    pub ram_allocation_ratio: f64,
}
