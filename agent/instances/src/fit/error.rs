//! Errors of the fit.

use std::fmt;

use berth_model::Disposition;
use berth_virt::guest_spec::GuestSpecError;

/// Why an instance does not fit on this host.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FitError {
    #[error(
        "the host shares no CPUs (cpu_dedicated_set is set and cpu_shared_set is not): only guests with hw:cpu_policy=dedicated fit"
    )]
    NoSharedCpus,
    #[error(
        "the guest wants {wanted} NUMA cells, each on a host cell of its own; the host has {found}"
    )]
    TooFewCells { wanted: usize, found: usize },
    #[error("the guest wants huge pages (hw:mem_page_size); no cell of the host has any")]
    NoHugePages,
    /// A device requires a cell, and its cell is unknown.
    #[error(
        "{device} must be near the guest (hw:pci_numa_affinity_policy), but the host does not report its NUMA cell"
    )]
    DeviceNowhere { device: String },
    /// Some guest cells fit on no host cell.
    #[error("no place for the guest: {}", listed(.refusals))]
    Refused {
        /// Each such guest cell, with each host cell and what that lacks.
        refusals: Vec<GuestCellRefusal>,
    },
    /// Each guest cell fits on a host cell, but not all on different ones.
    #[error("each guest cell fits on a host cell, but not all on different ones")]
    Together,
    /// The cells with enough room are not those of the devices.
    #[error(
        "the guest's cells do not fit on the host cells of {} (hw:pci_numa_affinity_policy)",
        .devices.join(", ")
    )]
    Devices { devices: Vec<String> },
    #[error(transparent)]
    Spec(#[from] GuestSpecError),
}

impl FitError {
    /// How a caller reacts: another host may have room, and this one later.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Spec(_) => Disposition::Fatal,
            _ => Disposition::Refresh,
        }
    }
}

/// Maximum number of refusals in the message.
const MOST_LISTED: usize = 32;

fn listed(refusals: &[GuestCellRefusal]) -> String {
    let mut parts: Vec<_> = refusals
        .iter()
        .take(MOST_LISTED)
        .map(ToString::to_string)
        .collect();
    if refusals.len() > MOST_LISTED {
        parts.push(format!("and {} more", refusals.len() - MOST_LISTED));
    }
    parts.join("; ")
}

/// A host cell that a guest cell does not fit on.
#[derive(Debug, Clone, PartialEq)]
pub struct GuestCellRefusal {
    /// The guest cell's index.
    pub guest_cell: usize,
    /// The host cell; `None` for a host without NUMA cells.
    pub host_cell: Option<u32>,
    pub constraint: CellConstraint,
}

impl fmt::Display for GuestCellRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            guest_cell,
            host_cell,
            constraint,
        } = self;
        match host_cell {
            Some(cell) => write!(
                f,
                "guest cell {guest_cell} on host cell {cell}: {constraint}"
            ),
            None => write!(f, "guest cell {guest_cell}: {constraint}"),
        }
    }
}

/// What a host cell lacks.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CellConstraint {
    /// The cell is not in the limits.
    #[error("the scheduler's limits exclude it")]
    NotAllowed,
    #[error("{needed} dedicated CPUs are needed, {free} of cpu_dedicated_set are free")]
    Dedicated {
        /// Including an isolated emulator's CPU.
        needed: usize,
        free: usize,
    },
    #[error("{needed} whole cores are needed (hw:cpu_thread_policy=isolate), {free} are free")]
    WholeCores { needed: usize, free: usize },
    #[error(
        "{needed} CPUs that share cores are needed (hw:cpu_thread_policy=require), {free} are free"
    )]
    Siblings {
        needed: usize,
        /// The maximum over the possible choices.
        free: usize,
    },
    #[error("{needed} shared CPUs are needed, it has {found}")]
    Shared { needed: usize, found: usize },
    #[error(
        "{used} virtual CPUs share its {cpus} CPUs, {needed} more pass the cpu_allocation_ratio {ratio}"
    )]
    CpuRatio {
        used: u64,
        cpus: usize,
        needed: usize,
        ratio: f64,
    },
    #[error(
        "guests have {used} MiB of its {memory} MiB, {needed} MiB more pass the ram_allocation_ratio {ratio}"
    )]
    RamRatio {
        used: u64,
        memory: u64,
        needed: u64,
        ratio: f64,
    },
    #[error("{needed} MiB of small pages are needed, {free} MiB are free")]
    Memory { needed: u64, free: u64 },
    #[error("{needed} pages of {size_kib} KiB are needed, {free} are free")]
    Pages {
        size_kib: u64,
        needed: u64,
        free: u64,
    },
    /// The guest cell's memory is not a multiple of the page size.
    #[error("{memory_mib} MiB are not a multiple of the page size {size_kib} KiB")]
    Uneven { memory_mib: u64, size_kib: u64 },
}
