//! Why a guest has no place on the host.

use std::fmt;

use berth_model::Disposition;
use berth_virt::guest_spec::GuestSpecError;

/// A guest that has no place here.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FitError {
    /// All of the host's CPUs are dedicated.
    #[error(
        "the host shares no CPUs (cpu_dedicated_set is set and cpu_shared_set is not): only guests with hw:cpu_policy=dedicated fit"
    )]
    NoSharedCpus,
    /// The guest has more cells than the host.
    #[error(
        "the guest wants {wanted} NUMA cells, each on a host cell of its own; the host has {found}"
    )]
    TooFewCells {
        /// How many it wants.
        wanted: usize,
        /// How many there are.
        found: usize,
    },
    /// Huge pages are asked for and there are none.
    #[error("the guest wants huge pages (hw:mem_page_size); no cell of the host has any")]
    NoHugePages,
    /// A device binds the guest to a cell, and the host does not show on which one it is.
    #[error(
        "{device} must be near the guest (hw:pci_numa_affinity_policy), and the host does not say on which of its cells it is"
    )]
    DeviceNowhere { device: String },
    /// Guest cells fit nowhere.
    #[error("no place for the guest: {}", listed(.refusals))]
    Refused {
        /// Each guest cell that fits nowhere, with each host cell and what it lacks.
        refusals: Vec<CellRefusal>,
    },
    /// Each cell fits somewhere, but not all at once.
    #[error("each of the guest's cells fits on a host cell, but not each on one of its own")]
    Together,
    /// The cells that have room are not those of the devices.
    #[error(
        "the guest's cells have no room on the host cells of {} (hw:pci_numa_affinity_policy)",
        .devices.join(", ")
    )]
    Devices { devices: Vec<String> },
    /// What was found makes no guest.
    #[error(transparent)]
    Spec(#[from] GuestSpecError),
}

impl FitError {
    /// What the caller does about it: another host may have a place, and this one later.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Spec(_) => Disposition::Fatal,
            _ => Disposition::Refresh,
        }
    }
}

/// More than these are counted and not listed.
const MOST_LISTED: usize = 32;

fn listed(refusals: &[CellRefusal]) -> String {
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

/// A guest cell that a host cell does not take.
#[derive(Debug, Clone, PartialEq)]
pub struct CellRefusal {
    /// The guest's cell, by its place.
    pub guest_cell: usize,
    /// The host's; none for a host that shows no cells.
    pub host_cell: Option<u32>,
    pub constraint: Constraint,
}

impl fmt::Display for CellRefusal {
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
pub enum Constraint {
    /// It is not among the cells of the limits.
    #[error("the scheduler's limits leave it out")]
    LeftOut,
    /// Too few dedicated CPUs are free.
    #[error("{needed} dedicated CPUs are needed, {free} of cpu_dedicated_set are free")]
    Dedicated {
        /// How many are needed, an isolated emulator's included.
        needed: usize,
        /// How many are free.
        free: usize,
    },
    /// `hw:cpu_thread_policy=isolate`, and too few whole cores are free.
    #[error("{needed} whole cores are needed (hw:cpu_thread_policy=isolate), {free} are free")]
    WholeCores {
        /// How many are needed.
        needed: usize,
        /// How many are free.
        free: usize,
    },
    /// `hw:cpu_thread_policy=require`, and too few threads that share cores are free.
    #[error(
        "{needed} CPUs that share cores are needed (hw:cpu_thread_policy=require), {free} are free"
    )]
    Siblings {
        /// How many are needed.
        needed: usize,
        /// How many are free, at best.
        free: usize,
    },
    /// Fewer shared CPUs than virtual ones.
    #[error("{needed} shared CPUs are needed, it has {found}")]
    Shared {
        /// How many are needed.
        needed: usize,
        /// How many it has.
        found: usize,
    },
    /// The limit's CPU ratio would be passed.
    #[error(
        "{used} virtual CPUs share its {cpus} CPUs, {needed} more pass the cpu_allocation_ratio {ratio}"
    )]
    CpuRatio {
        /// How many there are.
        used: u64,
        /// On how many CPUs.
        cpus: usize,
        needed: usize,
        ratio: f64,
    },
    /// The limit's memory ratio would be passed.
    #[error(
        "guests have {used} MiB of its {memory} MiB, {needed} MiB more pass the ram_allocation_ratio {ratio}"
    )]
    RamRatio {
        /// How much they have.
        used: u64,
        memory: u64,
        needed: u64,
        ratio: f64,
    },
    /// Too little memory of small pages.
    #[error("{needed} MiB of small pages are needed, {free} MiB are free")]
    Memory {
        /// How much is needed.
        needed: u64,
        /// How much is free.
        free: u64,
    },
    /// Too few huge pages.
    #[error("{needed} pages of {size_kib} KiB are needed, {free} are free")]
    Pages {
        size_kib: u64,
        /// How many are needed.
        needed: u64,
        /// How many are free.
        free: u64,
    },
    /// The guest cell's memory is no whole number of pages.
    #[error("{memory_mib} MiB are no whole number of pages of {size_kib} KiB")]
    Uneven {
        /// The guest cell's memory.
        memory_mib: u64,
        size_kib: u64,
    },
}
