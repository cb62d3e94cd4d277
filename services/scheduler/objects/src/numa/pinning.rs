//! Dedicated CPUs by cores and thread siblings.
//!
//! `prefer` uses siblings together if enough cores have equally many free ones, and otherwise any CPUs; `require` uses
//! them together or fails; `isolate` uses one thread of each completely free core.

use super::{CellReason, DedicatedCpuNeed};
use crate::host_state::{CpuBitSet, NumaCell};
use crate::request::CpuThreadPolicy;

/// The CPUs of the host that a cell of an instance has for itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct CpuPinning {
    /// As many as the cell's dedicated CPUs.
    pub(super) cpus: CpuBitSet,
    pub(super) emulator: Option<u16>,
}

/// Whether enough CPUs are free, and as the thread policy wants them. Counts only.
pub(super) fn check(pinned: DedicatedCpuNeed, cell: &NumaCell) -> Result<(), CellReason> {
    let (requested, free) = (pinned.all(), cell.pcpuset.len_without(&cell.pinned_cpus));
    if requested > free {
        return Err(CellReason::FreeCpus { requested, free });
    }
    let threads = threads_per_core(cell)?;
    let available = match pinned.threads {
        CpuThreadPolicy::Prefer => free_of_cores(cell),
        CpuThreadPolicy::Require => together(cell, threads),
        CpuThreadPolicy::Isolate => {
            if threads > 1 && cell.cpuset != cell.pcpuset {
                return Err(CellReason::Isolation);
            }
            free_by_core(cell).filter(|free| *free == threads).count()
        }
    };
    // As in Nova: the policy has no effect without dedicated CPUs.
    let is_void = pinned.cpus == 0
        && match pinned.threads {
            CpuThreadPolicy::Prefer => false,
            CpuThreadPolicy::Require => available == 0,
            CpuThreadPolicy::Isolate => true,
        };
    if pinned.cpus > available || is_void {
        return Err(CellReason::Threads {
            policy: pinned.threads.name(),
            requested: pinned.cpus,
            available,
        });
    }
    let left = || match pinned.threads {
        CpuThreadPolicy::Isolate => free_by_core(cell).filter(|free| *free > 0).count(),
        _ => free_of_cores(cell),
    };
    match pinned.emulator && (pinned.cpus == 0 || left() <= pinned.cpus) {
        true => Err(CellReason::EmulatorCpu),
        false => Ok(()),
    }
}

/// The number of threads of the largest core.
fn threads_per_core(cell: &NumaCell) -> Result<usize, CellReason> {
    cell.siblings.threads().ok_or(CellReason::NoCores)
}

/// The free CPUs of each core.
fn free_by_core(cell: &NumaCell) -> impl Iterator<Item = usize> {
    let cores = cell.siblings.iter();
    cores.map(|core| core.len_common_without(&cell.pcpuset, &cell.pinned_cpus))
}

/// The maximum number of CPUs with equally many from each core, at least two.
fn together(cell: &NumaCell, threads: usize) -> usize {
    let cores = |threads| free_by_core(cell).filter(|free| *free >= threads).count();
    (2..=threads)
        .map(|threads| threads * cores(threads))
        .max()
        .unwrap_or_default()
}

/// The free CPUs of all cores.
fn free_of_cores(cell: &NumaCell) -> usize {
    let all = cell.siblings.all();
    all.len_common_without(&cell.pcpuset, &cell.pinned_cpus)
}

/// The CPUs that a cell takes; `None` if [`check`] refuses it.
pub(super) fn choose(pinned: DedicatedCpuNeed, cell: &NumaCell) -> Option<CpuPinning> {
    check(pinned, cell).ok()?;
    let cores: Vec<Vec<u16>> = cell
        .siblings
        .iter()
        .map(|core| {
            core.common_without(&cell.pcpuset, &cell.pinned_cpus)
                .collect()
        })
        .collect();
    let threads = threads_per_core(cell).ok()?;
    let is_isolated = pinned.threads == CpuThreadPolicy::Isolate;
    let cpus = match is_isolated {
        true => of_each(&cores, threads, 1, pinned.cpus),
        // Emptier cores first, so that instances are spread evenly.
        false => (1..=threads)
            .rev()
            .find_map(|threads| of_each(&cores, threads, threads, pinned.cpus))
            .or_else(|| Some(cores.concat().into_iter().take(pinned.cpus).collect())),
    }?;
    let is_left = |core: &&Vec<u16>| !is_isolated || !core.iter().any(|cpu| cpus.contains(*cpu));
    let mut left = cores.iter().filter(is_left).flatten().copied();
    let emulator = match pinned.emulator {
        true => Some(left.find(|cpu| !cpus.contains(*cpu))?),
        false => None,
    };
    Some(CpuPinning { cpus, emulator })
}

/// CPUs with `taken` from each core that has `free`; `None` if there are too few cores.
fn of_each(cores: &[Vec<u16>], free: usize, taken: usize, cpus: usize) -> Option<CpuBitSet> {
    let cores = cores.iter().filter(|core| core.len() >= free);
    let taken: Vec<u16> = cores.flat_map(|core| &core[..taken]).copied().collect();
    (taken.len() >= cpus).then(|| taken.into_iter().take(cpus).collect())
}
