//! Checks whether the NUMA cells of an instance fit on different cells of a host, and subtracts them.
//!
//! A cell fits by memory, CPUs and threads ([`CellReason`] says why not); all cells together must be near the requested
//! devices and networks. [`NumaAsk::take`] uses the first placement in Nova's order of host cells. [`NumaAsk::fit`]
//! only asks whether a placement exists, which does not depend on the order. The search is complete on hosts of up to
//! 16 cells and on larger hosts with many equal cells; it gives up after 65,536 failed states
//! ([`NumaReason::SearchLimitReached`]). Nova changes the instance's cells while it searches, which can lead to wrong results;
//! this search does not. Callers: `NUMATopologyFilter` and claims.

mod cell;
mod network;
mod order;
mod pages;
mod pinning;
mod reason;
mod search;
mod take;

use crate::host_state::{CellSet, NumaLimits, NumaTopology, PciPools};
use crate::pci::{Mappings, PciAsk};
use crate::request::{CpuThreadPolicy, EmulatorThreadsPolicy, PageSize, RequestSpec};

pub use order::CellStrategy;
pub use reason::{CellReason, NumaCellRefusal, NumaReason};

use search::{CellSearch, SearchGoal};

/// The NUMA cells of a request, prepared once for all hosts.
#[derive(Debug, Clone)]
pub struct NumaAsk<'a> {
    request: &'a RequestSpec,
    /// The different kinds of cells; most instances have one kind.
    kinds: Vec<CellNeed>,
    /// The kind of each cell.
    cells: Vec<usize>,
    pci: PciAsk<'a>,
}

/// The needs of one instance cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CellNeed {
    memory: i64,
    pagesize: Option<PageSize>,
    /// Shared CPUs; `None` if the instance has none.
    shared: Option<usize>,
    /// Dedicated CPUs; `None` if the instance has none.
    pinned: Option<DedicatedCpuNeed>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DedicatedCpuNeed {
    cpus: usize,
    threads: CpuThreadPolicy,
    /// One more for the emulator's threads.
    emulator: bool,
}

impl DedicatedCpuNeed {
    fn all(self) -> usize {
        self.cpus + usize::from(self.emulator)
    }
}

/// A host with its NUMA cells and devices.
#[derive(Debug, Clone, Copy)]
pub struct Offer<'h> {
    pub numa: &'h NumaTopology,
    /// Its devices; `None`: devices are ignored.
    pub pci: Option<&'h PciPools>,
    /// Overcommit limits per cell; `None`: unlimited.
    pub limits: Option<NumaLimits>,
    /// The providers that devices are allocated from.
    pub mappings: &'h Mappings,
}

impl<'a> NumaAsk<'a> {
    /// Prepares a request; `None` if it has no NUMA cells.
    #[must_use]
    pub fn new(request: &'a RequestSpec) -> Option<Self> {
        let topology = request.numa_topology.as_ref()?;
        let isolated = Some(EmulatorThreadsPolicy::Isolate);
        let mut kinds = Vec::new();
        let need = |(place, cell): (usize, &crate::request::InstanceNumaCell)| {
            let pinned = DedicatedCpuNeed {
                cpus: cell.pcpuset.len(),
                threads: topology
                    .cpu_thread_policy
                    .unwrap_or(CpuThreadPolicy::Prefer),
                emulator: place == 0 && topology.emulator_threads_policy == isolated,
            };
            let need = CellNeed {
                memory: cell.memory,
                pagesize: topology.pagesize,
                shared: topology.is_shared().then(|| cell.cpuset.len()),
                pinned: topology.is_pinned().then_some(pinned),
            };
            kinds.iter().position(|it| *it == need).unwrap_or_else(|| {
                kinds.push(need);
                kinds.len() - 1
            })
        };
        let cells = topology.cells.iter().enumerate().map(need).collect();
        let pci = PciAsk::new(&request.pci_requests);
        Some(Self {
            request,
            kinds,
            cells,
            pci,
        })
    }

    /// Whether the result depends on the allocation candidate.
    #[must_use]
    pub fn reads_mappings(&self) -> bool {
        self.pci.reads_mappings()
    }

    /// Whether a host can take the cells.
    pub fn fit(&self, offer: Offer<'_>) -> Result<(), NumaReason> {
        let mut search = CellSearch::new(self, offer, None)?;
        search.run(SearchGoal::Exists).map(|_| ())
    }

    /// Whether these host cells together are near everything the instance needs.
    fn accepts(&self, offer: Offer<'_>, chosen: CellSet) -> Result<(), NumaReason> {
        if let Some(pools) = offer.pci.filter(|_| !self.pci.is_empty()) {
            let near = crate::pci::DeviceLocality::Cells {
                host: offer.numa,
                chosen,
            };
            let fits = self.pci.fit(pools, offer.mappings, near);
            fits.map_err(|reason| NumaReason::Pci {
                cells: chosen.of(offer.numa).map(|cell| cell.id).collect(),
                reason,
            })?;
        }
        match &self.request.network_metadata {
            Some(networks) => network::check(networks, offer.numa, chosen),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
