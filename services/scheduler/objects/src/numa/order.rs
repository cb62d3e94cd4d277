//! The order in which host cells are tried.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{NumaAsk, Offer};
use crate::host_state::{CellSet, NumaCell};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellStrategy {
    /// Least used cells first.
    Spread,
    /// Most used cells first: `[compute] packing_host_numa_cells_allocation_strategy`.
    Pack,
}

/// The order of the host's cells. If the host has as many cells as the instance, its own order is kept. Cells with
/// devices come first if devices are requested, otherwise last; then free CPUs decide, then free memory, then the
/// host's order.
pub(super) fn places(ask: &NumaAsk<'_>, offer: Offer<'_>, packing: CellStrategy) -> Vec<usize> {
    let cells = &offer.numa.cells;
    let mut places: Vec<usize> = (0..cells.len().min(CellSet::LIMIT)).collect();
    if cells.len() <= ask.cells.len() {
        return places;
    }
    let mut devices = BTreeMap::<i64, i64>::new();
    for pool in offer.pci.iter().flat_map(|pools| pools.iter()) {
        if let Some(node) = pool.numa_node {
            let sum = devices.entry(node).or_default();
            *sum = sum.saturating_add(pool.count);
        }
    }
    let load = |cell: &NumaCell| {
        let usage = match ask.is_pinned() {
            true => -count(cell.pcpuset.len_without(&cell.pinned_cpus)),
            false => cell.cpu_usage,
        };
        (usage, cell.memory_usage.saturating_sub(cell.memory))
    };
    places.sort_by_key(|place| {
        let cell = &cells[*place];
        let devices = devices.get(&cell.id).copied().unwrap_or_default();
        let devices = match ask.pci.is_empty() {
            true => devices,
            false => devices.saturating_neg(),
        };
        let load = load(cell);
        let (spread, pack) = match packing {
            CellStrategy::Spread => (Some(load), None),
            CellStrategy::Pack => (None, Some(Reverse(load))),
        };
        (devices, spread, pack)
    });
    places
}

fn count(cpus: usize) -> i64 {
    i64::try_from(cpus).unwrap_or(i64::MAX)
}
