//! An independent, simple implementation of the rules: tries every placement with copied cells, and takes CPUs one by
//! one. It only determines whether and where the instance fits. The search must agree on many random small hosts;
//! `BERTH_NUMA_CASES` sets the number.

mod devices;

use std::collections::{BTreeMap, BTreeSet};

use crate::host_state::{CpuBitSet, HostState, NumaCell, NumaLimits, NumaTopology, PciPool};
use crate::numa::CellStrategy;
use crate::pci::Mappings;
use crate::request::{
    CpuAllocationPolicy, CpuThreadPolicy, EmulatorThreadsPolicy, InstanceNumaCell,
    InstanceNumaTopology, PageSize, RequestSpec,
};

/// The placement that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// The place of the host's cell, for each of the instance's.
    pub(super) cells: Vec<usize>,
    /// Pinned CPUs of each cell of the host afterwards.
    pub(super) pinned: Vec<BTreeSet<u16>>,
    /// Pages in use of each cell of the host afterwards, by their size.
    pub(super) pages: Vec<BTreeMap<i64, i64>>,
    /// Devices that are left, by pool.
    pub(super) devices: Option<Vec<i64>>,
}

/// The first placement in Nova's order.
pub(super) fn find(
    host: &HostState,
    request: &RequestSpec,
    mappings: &Mappings,
    limits: Option<NumaLimits>,
    packing: CellStrategy,
) -> Option<Found> {
    let numa = host.numa.as_ref()?;
    let instance = request.numa_topology.as_ref()?;
    let order = order(host, request, instance, packing);
    ways(&order, instance.cells.len())
        .into_iter()
        .find_map(|way| {
            let mut after = numa.clone();
            for (cell, place) in way.iter().enumerate() {
                put(instance, cell, &mut after.cells[*place], limits)?;
            }
            let chosen: Vec<&NumaCell> = way.iter().map(|place| &numa.cells[*place]).collect();
            let devices = match &host.pci {
                Some(pools) if !request.pci_requests.is_empty() => {
                    let pools: Vec<PciPool> = pools.iter().cloned().collect();
                    Some(devices::left(pools, request, mappings, numa, &chosen)?)
                }
                Some(pools) => Some(pools.iter().map(|pool| pool.count).collect()),
                None => None,
            };
            has_networks(request, numa, &chosen).then(|| Found {
                pinned: after
                    .cells
                    .iter()
                    .map(|cell| cell.pinned_cpus.iter().collect())
                    .collect(),
                pages: after
                    .cells
                    .iter()
                    .map(|cell| {
                        cell.mempages
                            .iter()
                            .map(|it| (it.size_kb, it.used))
                            .collect()
                    })
                    .collect(),
                cells: way,
                devices,
            })
        })
}

/// All lists of this many different positions, in order.
fn ways(places: &[usize], len: usize) -> Vec<Vec<usize>> {
    if len == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for first in places {
        let others: Vec<usize> = places.iter().copied().filter(|it| it != first).collect();
        for mut way in ways(&others, len - 1) {
            way.insert(0, *first);
            all.push(way);
        }
    }
    all
}

/// Sorted three times, each time stably, as Nova does.
fn order(
    host: &HostState,
    request: &RequestSpec,
    instance: &InstanceNumaTopology,
    packing: CellStrategy,
) -> Vec<usize> {
    let cells = &host.numa.as_ref().expect("it has cells").cells;
    let mut places: Vec<usize> = (0..cells.len()).collect();
    if cells.len() == instance.cells.len() {
        return places;
    }
    let descending = |places: &mut Vec<usize>, key: &dyn Fn(usize) -> i64| {
        places.sort_by_key(|place| std::cmp::Reverse(key(*place)));
    };
    let free_memory = |at: usize| cells[at].memory - cells[at].memory_usage;
    let free_cpus = |at: usize| {
        let free = cells[at].pcpuset.without(&cells[at].pinned_cpus).len();
        i64::try_from(free).expect("few CPUs")
    };
    let is_shared = matches!(
        instance.cpu_policy,
        None | Some(CpuAllocationPolicy::Shared)
    );
    match packing {
        CellStrategy::Spread => {
            descending(&mut places, &free_memory);
            match is_shared {
                true => places.sort_by_key(|at| cells[*at].cpu_usage),
                false => descending(&mut places, &free_cpus),
            }
        }
        CellStrategy::Pack => {
            places.sort_by_key(|at| free_memory(*at));
            match is_shared {
                true => descending(&mut places, &|at| cells[at].cpu_usage),
                false => places.sort_by_key(|at| free_cpus(*at)),
            }
        }
    }
    if let Some(pools) = &host.pci {
        let devices = |at: usize| -> i64 {
            let there = pools
                .iter()
                .filter(|pool| pool.numa_node == Some(cells[at].id));
            there.map(|pool| pool.count).sum()
        };
        match request.pci_requests.is_empty() {
            true => places.sort_by_key(|at| devices(*at)),
            false => descending(&mut places, &devices),
        }
    }
    places
}

/// Places an instance cell on a host cell, if it fits.
fn put(
    instance: &InstanceNumaTopology,
    at: usize,
    cell: &mut NumaCell,
    limits: Option<NumaLimits>,
) -> Option<()> {
    let wanted = &instance.cells[at];
    let (dedicated, shared) = match instance.cpu_policy {
        None | Some(CpuAllocationPolicy::Shared) => (false, true),
        Some(CpuAllocationPolicy::Dedicated) => (true, false),
        Some(CpuAllocationPolicy::Mixed) => (true, true),
    };
    let size = page_size(instance.pagesize, wanted, dedicated, cell)?;
    let emulator =
        at == 0 && instance.emulator_threads_policy == Some(EmulatorThreadsPolicy::Isolate);
    let pinned = wanted.pcpuset.len();
    if dedicated && pinned + usize::from(emulator) > cell.pcpuset.len() {
        return None;
    }
    if shared && wanted.cpuset.len() > cell.cpuset.len() {
        return None;
    }
    let cpus = match dedicated {
        true => pin(instance.cpu_thread_policy, pinned, emulator, cell)?,
        false => BTreeSet::new(),
    };
    if let Some(limits) = limits.filter(|_| shared) {
        let (cpus, all) = (wanted.cpuset.len(), cell.cpuset.len());
        let used =
            f64::from(i32::try_from(cell.cpu_usage).ok()?) + f64::from(u32::try_from(cpus).ok()?);
        if used > f64::from(u32::try_from(all).ok()?) * limits.cpu_allocation_ratio {
            return None;
        }
        let used = f64::from(i32::try_from(cell.memory_usage + wanted.memory).ok()?);
        if used > f64::from(i32::try_from(cell.memory).ok()?) * limits.ram_allocation_ratio {
            return None;
        }
    }
    for pages in &mut cell.mempages {
        if Some(pages.size_kb) == size {
            pages.used += wanted.memory * 1024 / pages.size_kb;
        }
    }
    cell.pinned_cpus.extend(cpus);
    Some(())
}

/// `None`: it does not fit. `Some(None)`: the host reports no pages.
#[allow(clippy::option_option, reason = "both say something")]
fn page_size(
    asked: Option<PageSize>,
    wanted: &InstanceNumaCell,
    dedicated: bool,
    cell: &NumaCell,
) -> Option<Option<i64>> {
    let memory = wanted.memory * 1024;
    let mut sizes: Vec<i64> = cell.mempages.iter().map(|pages| pages.size_kb).collect();
    sizes.sort_unstable();
    let free = |size: i64| -> i64 {
        let mut pages = cell.mempages.iter().filter(|pages| pages.size_kb == size);
        let pages = pages.next().expect("it is one of them");
        (pages.total - pages.used - pages.reserved) * size
    };
    let tried: Vec<i64> = match asked {
        None => {
            let Some(size) = sizes.first().copied() else {
                let available = if dedicated {
                    cell.memory - cell.memory_usage
                } else {
                    cell.memory
                };
                return (wanted.memory <= available).then_some(None);
            };
            let mut all = cell.mempages.iter().filter(|pages| pages.size_kb == size);
            let total = all.next().expect("it is one of them").total * size;
            let available = if dedicated { free(size) } else { total };
            return (memory <= available && memory % size == 0).then_some(Some(size));
        }
        Some(PageSize::Small) => sizes.iter().take(1).copied().collect(),
        Some(PageSize::Large) => sizes.iter().skip(1).rev().copied().collect(),
        Some(PageSize::Any) => sizes.iter().rev().copied().collect(),
        Some(PageSize::Kib(size)) => sizes.iter().filter(|it| **it == size).copied().collect(),
    };
    let fits = |size: &i64| memory <= free(*size) && memory % size == 0;
    tried.into_iter().find(fits).map(Some)
}

/// All host CPUs that are then unavailable.
fn pin(
    policy: Option<CpuThreadPolicy>,
    wanted: usize,
    emulator: bool,
    cell: &NumaCell,
) -> Option<BTreeSet<u16>> {
    let free: BTreeSet<u16> = cell
        .pcpuset
        .iter()
        .filter(|cpu| !cell.pinned_cpus.contains(*cpu))
        .collect();
    if wanted + usize::from(emulator) > free.len() {
        return None;
    }
    let cores: Vec<Vec<u16>> = cell
        .siblings
        .iter()
        .map(|core| core.iter().filter(|cpu| free.contains(cpu)).collect())
        .collect();
    let threads = cell.siblings.iter().map(CpuBitSet::len).max()?;
    let taken_by = |threads: usize, taken: usize| -> Vec<u16> {
        let cores = cores.iter().filter(|core| core.len() >= threads);
        cores.flat_map(|core| core[..taken].to_vec()).collect()
    };
    let is_isolated = policy == Some(CpuThreadPolicy::Isolate);
    let taken: Vec<u16> = if is_isolated {
        if threads > 1 && cell.pcpuset != cell.cpuset || wanted == 0 {
            return None;
        }
        taken_by(threads, 1)
    } else {
        let least = if policy == Some(CpuThreadPolicy::Require) {
            2
        } else {
            1
        };
        let some = |threads: &usize| cores.iter().any(|core| core.len() >= *threads);
        let mut together = (least..=threads).rev().filter(some);
        let found = together.find_map(|threads| {
            let taken = taken_by(threads, threads);
            (taken.len() >= wanted).then_some(taken)
        });
        match found {
            Some(taken) => taken,
            None if least == 2 => return None,
            None => cores.concat(),
        }
    };
    if taken.len() < wanted {
        return None;
    }
    let mut gone: BTreeSet<u16> = taken.into_iter().take(wanted).collect();
    if emulator {
        if wanted == 0 {
            return None;
        }
        let is_open = |core: &&Vec<u16>| !is_isolated || core.iter().all(|it| !gone.contains(it));
        let mut left = cores.iter().filter(is_open).flatten();
        let cpu = left.find(|cpu| !gone.contains(*cpu)).copied()?;
        gone.insert(cpu);
    }
    if is_isolated {
        for core in cell.siblings.iter() {
            if core.iter().any(|cpu| gone.contains(&cpu)) {
                gone.extend(core.iter().filter(|cpu| cell.pcpuset.contains(*cpu)));
            }
        }
    }
    Some(gone)
}

fn has_networks(request: &RequestSpec, numa: &NumaTopology, chosen: &[&NumaCell]) -> bool {
    let Some(networks) = &request.network_metadata else {
        return true;
    };
    let all = |has: &dyn Fn(&NumaCell) -> bool| {
        chosen.iter().any(|cell| has(cell)) || !numa.cells.iter().any(has)
    };
    let physnets = networks.physnets.iter();
    physnets
        .clone()
        .all(|net| all(&|cell| cell.physnets.contains(net)))
        && (!networks.tunneled || all(&|cell| cell.tunneled))
}
