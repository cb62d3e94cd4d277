//! Which pools of a host serve which requests for devices, and what is left of them then.
//!
//! A request narrows the pools step by step ([`PciStep`]): to those that its specs describe, to those near enough to the
//! instance's cells, to those that Placement allocated from, and so on. What is left must have enough devices; they are taken in
//! the order of the pools, so a later request meets what the earlier ones left. Nothing is taken from the host: the counts are
//! copied, and only [`PciAsk::take`] writes them back. Callers: `PciPassthroughFilter`, `numa`, and the claim.

mod left;
mod narrow;
mod providers;
mod reason;
mod spec;

use std::collections::BTreeMap;

use crate::host_state::{CellSet, NumaTopology, PciPools};
use crate::numbers;
use crate::request::{PciRequest, PciRequestOrigin};

pub use reason::{PciReason, PciStep};

use left::Left;
use providers::Providers;
use spec::Spec;

/// The providers of each request group, by its suffix: `mappings` of an allocation candidate.
pub type Mappings = BTreeMap<String, Vec<String>>;

/// The devices that a request asks for, read once for all hosts.
#[derive(Debug, Clone)]
pub struct PciAsk<'a> {
    requests: Vec<Asked<'a>>,
}

/// One of the requests.
#[derive(Debug, Clone)]
struct Asked<'a> {
    request: &'a PciRequest,
    specs: Vec<Spec<'a>>,
    physical_functions: bool,
    vdpa: bool,
    remote_managed: bool,
    /// What the tag of this name must say; none: anything.
    live_migratable: Option<bool>,
}

/// Where in the host devices are looked for.
#[derive(Debug, Clone, Copy)]
pub enum Near<'a> {
    /// The instance has no cells.
    Anywhere,
    /// The instance's cells are on these.
    Cells {
        /// All of the host's.
        host: &'a NumaTopology,
        chosen: CellSet,
    },
}

impl<'a> PciAsk<'a> {
    #[must_use]
    pub fn new(requests: &'a [PciRequest]) -> Self {
        Self {
            requests: requests.iter().map(Asked::new).collect(),
        }
    }

    /// Whether nothing is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Whether the answer depends on the allocation candidate: devices of ports are in none.
    #[must_use]
    pub fn reads_mappings(&self) -> bool {
        let mut requests = self.requests.iter();
        requests.any(|asked| asked.request.origin != PciRequestOrigin::Port)
    }

    /// Whether the pool at a place may serve one of the requests: others do not matter.
    #[must_use]
    pub(crate) fn is_described(&self, pools: &PciPools, place: usize) -> bool {
        let mut requests = self.requests.iter();
        requests.any(|asked| asked.describes(pools, place))
    }

    /// Whether the pools serve all requests.
    pub fn fit(
        &self,
        pools: &PciPools,
        mappings: &Mappings,
        near: Near<'_>,
    ) -> Result<(), PciReason> {
        self.left(pools, mappings, near).map(|_| ())
    }

    /// Takes the devices out of the pools; pools that are empty then are no more.
    pub fn take(
        &self,
        pools: &mut PciPools,
        mappings: &Mappings,
        near: Near<'_>,
    ) -> Result<(), PciReason> {
        let left = self.left(pools, mappings, near)?.into_pools();
        *pools = left;
        Ok(())
    }

    fn left<'p>(
        &self,
        pools: &'p PciPools,
        mappings: &Mappings,
        near: Near<'_>,
    ) -> Result<Left<'p>, PciReason> {
        let mut left = Left::all(pools);
        for asked in &self.requests {
            asked.is_for_some()?;
            let providers = Providers::of(asked.request, mappings);
            let eligible = asked.narrow(&left, near, providers)?;
            left.take(asked, &eligible, near, providers)?;
        }
        Ok(left)
    }
}

impl<'a> Asked<'a> {
    fn new(request: &'a PciRequest) -> Self {
        let any = |name: &str, says: fn(&str) -> bool| {
            let mut values = request.spec.iter().filter_map(|one| one.get(name));
            values.any(|value| says(value))
        };
        let all = |word: &str| {
            let mut specs = request.spec.iter();
            specs.all(|one| one.get("live_migratable").is_some_and(|it| it == word))
        };
        Self {
            request,
            specs: request.spec.iter().map(Spec::new).collect(),
            physical_functions: any("dev_type", |it| it == PHYSICAL_FUNCTION),
            vdpa: any("dev_type", |it| it == VDPA),
            remote_managed: any("remote_managed", numbers::is_true),
            live_migratable: match () {
                () if all("true") => Some(true),
                () if all("false") => Some(false),
                () => None,
            },
        }
    }

    /// Less than one device would be given back to the pools.
    fn is_for_some(&self) -> Result<(), PciReason> {
        match self.request.count {
            1.. => Ok(()),
            requested => Err(PciReason::Count {
                request: self.name(),
                requested,
            }),
        }
    }

    fn describes(&self, pools: &PciPools, place: usize) -> bool {
        let mut specs = self.specs.iter();
        specs.any(|spec| spec.describes(pools, place))
    }
}

const PHYSICAL_FUNCTION: &str = "type-PF";
const VDPA: &str = "vdpa";

#[cfg(test)]
mod tests;
