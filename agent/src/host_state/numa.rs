//! A node's NUMA cells with the usage of guests, as Nova's `NUMACell`. Pure.
//!
//! [`HostUsage`] defines how guests count that are not in the journal.

use std::collections::BTreeSet;

use berth_agent_instances::fit::{CellUse, HostUsage};
use berth_agent_instances::host_usage;
use berth_virt::{CpuSet, HostNumaCell};
use berth_wire::host_state::{CpuBitSet, NumaCell, NumaPages};

use crate::host_state::node_facts::{NodeFacts, whole};

/// The cells; `None` if the host reports none.
pub(super) fn cells(facts: &NodeFacts<'_>) -> Option<Vec<NumaCell>> {
    if facts.seen.cells.is_empty() {
        return None;
    }
    let held = host_usage(facts.own_records(), facts.seen);
    let cpus = &facts.seen.cpus;
    let (shared, dedicated) = (cpus.shared_online(), cpus.dedicated_online());
    let cells = facts.seen.cells.iter();
    let cells = cells.map(|cell| body(cell, &shared, &dedicated, &held));
    Some(cells.collect())
}

fn body(cell: &HostNumaCell, shared: &CpuSet, dedicated: &CpuSet, held: &HostUsage) -> NumaCell {
    let used = held.of_cell(Some(cell.id));
    NumaCell {
        id: i64::from(cell.id),
        cpuset: set(&cell.cpus.intersection(shared)),
        pcpuset: set(&cell.cpus.intersection(dedicated)),
        memory: whole(cell.memory_mib),
        cpu_usage: whole(used.shared_vcpus),
        memory_usage: whole(used.memory_mib()),
        pinned_cpus: set(&cell.cpus.intersection(&held.reserved())),
        siblings: cores(cell).iter().map(set).collect(),
        mempages: pages(cell, &used),
        socket: cell.socket.map(i64::from),
        physnets: BTreeSet::new(),
        tunneled: false,
    }
}

/// The CPUs of each core. A CPU that the driver puts into no core is one, because the scheduler pins only CPUs of cores.
fn cores(cell: &HostNumaCell) -> Vec<CpuSet> {
    let mut cores = cell.siblings.clone();
    let known: BTreeSet<u32> = cores.iter().flat_map(CpuSet::iter).collect();
    let alone = cell.cpus.iter().filter(|cpu| !known.contains(cpu));
    cores.extend(alone.map(|cpu| CpuSet::from_iter([cpu])));
    cores
}

/// Normal pages are the memory that is not in huge pages. Guests that are not in the journal may use huge pages, but
/// count as users of normal pages as far as there are any.
fn pages(cell: &HostNumaCell, used: &CellUse) -> Vec<NumaPages> {
    let huge = cell.huge_pages.iter();
    let huge_kib = huge.map(|(size, count)| size.saturating_mul(*count));
    let huge_kib = huge_kib.fold(0, u64::saturating_add);
    let small_kib = (cell.memory_mib.saturating_mul(1024)).saturating_sub(huge_kib);
    let size = cell.small_page_kib.max(1);
    let used_kib = used.small_mib.saturating_mul(1024).min(small_kib);
    let small = NumaPages {
        size_kb: whole(size),
        total: whole(small_kib / size),
        used: whole(used_kib / size),
        reserved: 0,
    };
    let huge = cell.huge_pages.iter().map(|(size, count)| NumaPages {
        size_kb: whole(*size),
        total: whole(*count),
        used: whole(used.huge.get(size).copied().unwrap_or(0)),
        reserved: 0,
    });
    [small].into_iter().chain(huge).collect()
}

/// No driver reports CPU numbers beyond 16 bits.
fn set(cpus: &CpuSet) -> CpuBitSet {
    cpus.iter()
        .filter_map(|cpu| u16::try_from(cpu).ok())
        .collect()
}
