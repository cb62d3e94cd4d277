//! Matches PCI requests with a host's device pools.
//!
//! ```text
//! pools of the host -> spec -> NUMA affinity -> device type -> allocation -> live migration -> enough devices?
//! ```
//!
//! Each [`PciStep`] removes the pools that do not qualify. The remaining pools must have enough devices. Requests take devices in
//! pool order, so a later request sees what the earlier ones left. Counts are copied: only [`PciAsk::take`] changes the host.
//! Callers: `PciPassthroughFilter`, `numa` and the claim.

mod narrow;
mod providers;
mod reason;
mod remaining_devices;
mod spec;

use std::collections::BTreeMap;

use crate::host_state::{CellSet, NumaTopology, PciPools};
use crate::numbers;
use crate::request::{PciRequest, PciRequestOrigin};

pub use reason::{PciReason, PciStep};

use providers::Providers;
use remaining_devices::RemainingDevices;
use spec::DeviceSpecMatcher;

/// The providers of each request group by suffix: `mappings` of an allocation candidate.
pub type Mappings = BTreeMap<String, Vec<String>>;

/// The devices of a request, prepared once for all hosts.
#[derive(Debug, Clone)]
pub struct PciAsk<'a> {
    requests: Vec<PreparedPciRequest<'a>>,
}

/// One PCI request, prepared for matching.
#[derive(Debug, Clone)]
struct PreparedPciRequest<'a> {
    request: &'a PciRequest,
    specs: Vec<DeviceSpecMatcher<'a>>,
    physical_functions: bool,
    vdpa: bool,
    remote_managed: bool,
    /// The required value of the tag `live_migratable`; `None`: any.
    live_migratable: Option<bool>,
}

/// The part of the host from which devices may be taken.
#[derive(Debug, Clone, Copy)]
pub enum DeviceLocality<'a> {
    /// The instance has no NUMA cells, so any device will do.
    Anywhere,
    /// The instance's NUMA cells are on the host cells `chosen`.
    Cells {
        /// The host's whole topology.
        host: &'a NumaTopology,
        chosen: CellSet,
    },
}

impl<'a> PciAsk<'a> {
    #[must_use]
    pub fn new(requests: &'a [PciRequest]) -> Self {
        Self {
            requests: requests.iter().map(PreparedPciRequest::new).collect(),
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Whether the result depends on the allocation candidate. Devices of ports are not part of candidates.
    #[must_use]
    pub fn reads_mappings(&self) -> bool {
        let mut requests = self.requests.iter();
        requests.any(|asked| asked.request.origin != PciRequestOrigin::Port)
    }

    /// Whether the pool with this index may serve at least one of the requests.
    #[must_use]
    pub fn is_described(&self, pools: &PciPools, place: usize) -> bool {
        let mut requests = self.requests.iter();
        requests.any(|asked| asked.describes(pools, place))
    }

    /// Whether the pools can serve all requests.
    pub fn fit(
        &self,
        pools: &PciPools,
        mappings: &Mappings,
        near: DeviceLocality<'_>,
    ) -> Result<(), PciReason> {
        self.left(pools, mappings, near).map(|_| ())
    }

    /// Takes the devices out of the pools and removes the pools that this empties.
    pub fn take(
        &self,
        pools: &mut PciPools,
        mappings: &Mappings,
        near: DeviceLocality<'_>,
    ) -> Result<(), PciReason> {
        let left = self.left(pools, mappings, near)?.into_pools();
        *pools = left;
        Ok(())
    }

    fn left<'p>(
        &self,
        pools: &'p PciPools,
        mappings: &Mappings,
        near: DeviceLocality<'_>,
    ) -> Result<RemainingDevices<'p>, PciReason> {
        let mut left = RemainingDevices::all(pools);
        for asked in &self.requests {
            asked.is_for_some()?;
            let providers = Providers::of(asked.request, mappings);
            let eligible = asked.narrow(&left, near, providers)?;
            left.take(asked, &eligible, near, providers)?;
        }
        Ok(left)
    }
}

impl<'a> PreparedPciRequest<'a> {
    fn new(request: &'a PciRequest) -> Self {
        let any = |name: &str, matches: fn(&str) -> bool| {
            let mut values = request.spec.iter().filter_map(|one| one.get(name));
            values.any(|value| matches(value))
        };
        let all = |word: &str| {
            let mut specs = request.spec.iter();
            specs.all(|one| one.get("live_migratable").is_some_and(|it| it == word))
        };
        Self {
            request,
            specs: request.spec.iter().map(DeviceSpecMatcher::new).collect(),
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

    /// Refuses a request for less than one device: taking a negative number would add devices to the pools.
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
