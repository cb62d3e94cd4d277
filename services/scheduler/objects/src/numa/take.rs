//! The host's state after an instance took NUMA cells.

use super::order::{self, CellStrategy};
use super::pages::kib;
use super::pinning::CpuPinning;
use super::search::{CellSearch, SearchGoal};
use super::{CellNeed, NumaAsk, NumaReason, Offer, pages, pinning};
use crate::host_state::{CellSet, CpuBitSet, NumaCell, NumaTopology};
use crate::request::CpuThreadPolicy;

impl NumaAsk<'_> {
    /// The host's cells after the claim, and the cells used, by the first placement in Nova's order. If that order has
    /// too many combinations, the host's own order is used, so that everything that fits can be claimed.
    pub fn take(
        &self,
        offer: Offer<'_>,
        packing: CellStrategy,
    ) -> Result<(NumaTopology, CellSet), NumaReason> {
        let order = order::places(self, offer, packing);
        let way = match CellSearch::new(self, offer, Some(order))?.run(SearchGoal::FirstPlacement) {
            // In the order in which `fit` found one.
            Err(NumaReason::SearchLimitReached { .. }) => {
                CellSearch::new(self, offer, None)?.run(SearchGoal::FirstPlacement)
            }
            way => way,
        }?;
        let (mut after, mut chosen) = (offer.numa.clone(), CellSet::default());
        for (kind, place) in self.cells.iter().zip(way) {
            put(&self.kinds[*kind], &mut after.cells[place]);
            chosen = chosen.with(place);
        }
        Ok((after, chosen))
    }

    /// Whether CPUs are dedicated.
    pub(super) fn is_pinned(&self) -> bool {
        self.kinds.iter().any(|need| need.pinned.is_some())
    }
}

/// Adds an instance cell to a host cell on which it fits.
fn put(need: &CellNeed, cell: &mut NumaCell) {
    let size = pages::choose(need, cell).ok().flatten();
    let mut pools = cell.mempages.iter_mut();
    if let Some(pages) = pools.find(|pages| Some(pages.size_kb) == size) {
        pages.used = pages.used.saturating_add(kib(need.memory) / pages.size_kb);
    }
    cell.memory_usage = cell.memory_usage.saturating_add(need.memory);
    let shared = i64::try_from(need.shared.unwrap_or_default()).unwrap_or(i64::MAX);
    cell.cpu_usage = cell.cpu_usage.saturating_add(shared);
    if let Some(pinned) = need.pinned {
        let pinning = pinning::choose(pinned, cell).unwrap_or_default();
        let is_isolated = pinned.threads == CpuThreadPolicy::Isolate;
        pin(pinning, is_isolated, cell);
    }
}

/// Marks CPUs as dedicated; whole cores for isolation.
fn pin(pinning: CpuPinning, is_isolated: bool, cell: &mut NumaCell) {
    let mut cpus = pinning.cpus;
    cpus.extend(pinning.emulator);
    if is_isolated {
        let cores = cell.siblings.iter().filter(|core| core.meets(&cpus));
        let whole: CpuBitSet = cores.flat_map(CpuBitSet::iter).collect();
        cpus.extend(whole.iter().filter(|cpu| cell.pcpuset.contains(*cpu)));
    }
    cell.pinned_cpus.extend(cpus.iter());
}
