//! Whether one instance cell fits on one host cell.

use super::{CellNeed, CellReason, pages, pinning};
use crate::host_state::{NumaCell, NumaLimits};

pub(super) fn fit(
    need: &CellNeed,
    cell: &NumaCell,
    limits: Option<NumaLimits>,
) -> Result<(), CellReason> {
    pages::choose(need, cell)?;
    let total = cell.pcpuset.len();
    if let Some(pinned) = need.pinned
        && pinned.all() > total
    {
        let requested = pinned.all();
        return Err(CellReason::DedicatedCpus { requested, total });
    }
    let total = cell.cpuset.len();
    if let Some(requested) = need.shared
        && requested > total
    {
        return Err(CellReason::SharedCpus { requested, total });
    }
    if let Some(pinned) = need.pinned {
        pinning::check(pinned, cell)?;
    }
    match (need.shared, limits) {
        (Some(cpus), Some(limits)) => within(need, cpus, cell, limits),
        _ => Ok(()),
    }
}

/// Whether a cell is not overcommitted beyond the ratios.
fn within(
    need: &CellNeed,
    cpus: usize,
    cell: &NumaCell,
    limits: NumaLimits,
) -> Result<(), CellReason> {
    let cpus = i64::try_from(cpus).unwrap_or(i64::MAX);
    let total = i64::try_from(cell.cpuset.len()).unwrap_or(i64::MAX);
    let usage = cell.cpu_usage.saturating_add(cpus);
    let limit = float(total) * limits.cpu_allocation_ratio;
    if float(usage) > limit {
        return Err(CellReason::CpuLimit { usage, limit });
    }
    let usage = cell.memory_usage.saturating_add(need.memory);
    let limit = float(cell.memory) * limits.ram_allocation_ratio;
    if float(usage) > limit {
        return Err(CellReason::MemoryLimit { usage, limit });
    }
    Ok(())
}

#[allow(
    clippy::cast_precision_loss,
    reason = "below 2^53 nothing is lost, and no host has so many MiB or CPUs"
)]
fn float(number: i64) -> f64 {
    number as f64
}
