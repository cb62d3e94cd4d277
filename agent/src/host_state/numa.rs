//! A node's NUMA cells with what guests have of them, as Nova's `NUMACell`. Pure.
//!
//! Of guests that the journal knows everything is known. Of others only what the hypervisor tells counts: their virtual CPUs and
//! memory on a cell, not the CPUs that they are pinned to.

use std::collections::BTreeSet;

use berth_virt::{CpuPolicy, CpuSet, GuestView, NumaCell};
use berth_wire::host_state::{MemoryPagesBody, NumaCellBody};

use super::compose::{NodeFacts, whole};
use crate::guest::fit::{CellUse, Held};
use crate::guest::held;

/// The usual page, in KiB, of all architectures that libvirt's hosts usually have.
const SMALL_PAGE_KIB: u64 = 4;

/// The cells; none where the host shows none.
pub(super) fn cells(facts: &NodeFacts<'_>) -> Option<Vec<NumaCellBody>> {
    if facts.seen.cells.is_empty() {
        return None;
    }
    let held = held(facts.own_records());
    let known: BTreeSet<_> = facts.own_records().map(|it| it.request.uuid()).collect();
    let others = facts.seen.guests.iter();
    let others: Vec<_> = others
        .filter(|(uuid, _)| !known.contains(uuid))
        .map(|(_, guest)| guest)
        .collect();
    let cpus = &facts.seen.cpus;
    let (shared, dedicated) = (cpus.shared_online(), cpus.dedicated_online());
    let cells = facts.seen.cells.iter();
    let cells = cells.map(|cell| body(cell, &shared, &dedicated, &held, &others));
    Some(cells.collect())
}

fn body(
    cell: &NumaCell,
    shared: &CpuSet,
    dedicated: &CpuSet,
    held: &Held,
    others: &[&GuestView],
) -> NumaCellBody {
    let used = held.on(Some(cell.id));
    let (vcpus, memory_mib) = of_others(cell.id, others);
    NumaCellBody {
        id: i64::from(cell.id),
        cpuset: set(&cell.cpus.intersection(shared)),
        pcpuset: set(&cell.cpus.intersection(dedicated)),
        memory: whole(cell.memory_mib),
        cpu_usage: whole(used.shared_vcpus.saturating_add(vcpus)),
        memory_usage: whole(used.memory_mib().saturating_add(memory_mib)),
        pinned_cpus: set(&cell.cpus.intersection(&held.reserved())),
        siblings: cell.siblings.iter().map(set).collect(),
        mempages: pages(cell, &used),
        socket: None,
        physnets: BTreeSet::new(),
        tunneled: false,
    }
}

/// Virtual CPUs on shared CPUs, and memory in MiB, that guests have of the cell that the journal does not know.
fn of_others(cell: u32, others: &[&GuestView]) -> (u64, u64) {
    let mut sum = (0_u64, 0_u64);
    for guest in others {
        for share in guest.cells.iter().filter(|it| it.host_cell == cell) {
            if guest.cpu_policy == CpuPolicy::Shared {
                sum.0 = sum.0.saturating_add(share.vcpus);
            }
            sum.1 = sum.1.saturating_add(share.memory_mib);
        }
    }
    sum
}

/// The usual pages are what the huge ones leave.
fn pages(cell: &NumaCell, used: &CellUse) -> Vec<MemoryPagesBody> {
    let huge = cell.huge_pages.iter();
    let huge_kib = huge.map(|(size, count)| size.saturating_mul(*count));
    let huge_kib = huge_kib.fold(0, u64::saturating_add);
    let small_kib = (cell.memory_mib.saturating_mul(1024)).saturating_sub(huge_kib);
    let small = MemoryPagesBody {
        size_kb: whole(SMALL_PAGE_KIB),
        total: whole(small_kib / SMALL_PAGE_KIB),
        used: whole(used.small_mib.saturating_mul(1024) / SMALL_PAGE_KIB),
        reserved: 0,
    };
    let huge = cell.huge_pages.iter().map(|(size, count)| MemoryPagesBody {
        size_kb: whole(*size),
        total: whole(*count),
        used: whole(used.huge.get(size).copied().unwrap_or(0)),
        reserved: 0,
    });
    [small].into_iter().chain(huge).collect()
}

fn set(cpus: &CpuSet) -> BTreeSet<u32> {
    cpus.iter().collect()
}
