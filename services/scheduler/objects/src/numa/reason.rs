//! Reasons why an instance's NUMA cells do not fit on a host.

use std::fmt;

use serde::Serialize;

use crate::pci::PciReason;

/// As JSON an object: `constraint`, and the values.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[serde(tag = "constraint", rename_all = "snake_case")]
pub enum NumaReason {
    /// The host reports no cells.
    #[error("it reports no NUMA cells")]
    NoTopology,
    /// No allocation candidate is left.
    #[error("it has no allocation candidate left")]
    NoCandidates,
    /// Threads of one core are required, and its cores have one each.
    #[error("its cores have no threads, and hw:cpu_thread_policy is require")]
    NoThreads,
    /// The host has fewer cells than the instance.
    #[error("it has {available} NUMA cells, and {requested} are asked for")]
    TooFewCells { requested: usize, available: usize },
    /// A cell of the instance fits on none of the host's.
    #[error(
        "instance cell {instance_cell} fits on none of its NUMA cells: {}",
        list(cells)
    )]
    CellFitsNowhere {
        /// The first such cell of the instance.
        instance_cell: usize,
        /// Why not, for each cell of the host.
        cells: Vec<NumaCellRefusal>,
    },
    /// Each cell of the instance fits on one of the host's, but all of them together do not.
    #[error(
        "each instance cell fits on one of its NUMA cells, but not each on another: {}",
        list(cells)
    )]
    CellsContend {
        /// The pairs that do not fit.
        cells: Vec<NumaCellRefusal>,
    },
    /// Its devices do not serve the instance on any cells that would do.
    #[error("on its NUMA cells {cells:?}: {reason}")]
    Pci {
        /// The first cells that were tried.
        cells: Vec<i64>,
        reason: PciReason,
    },
    /// A physical network is only at other cells.
    #[error(
        "network {physnet} is at its NUMA cells {at:?}, and the instance would be on {cells:?}"
    )]
    Physnet {
        physnet: String,
        at: Vec<i64>,
        /// The first cells that were tried.
        cells: Vec<i64>,
    },
    /// Tunnelled networks are only at other cells.
    #[error(
        "tunnelled networks are at its NUMA cells {at:?}, and the instance would be on {cells:?}"
    )]
    Tunnel {
        at: Vec<i64>,
        /// The first cells that were tried.
        cells: Vec<i64>,
    },
    /// The search was given up: more than 16 different cells, and none of very many combinations fits.
    #[error(
        "it has {cells} NUMA cells, and none of {states} ways to use them fits; others were not tried"
    )]
    SearchLimitReached { cells: usize, states: usize },
}

/// A cell of a host that cannot take a cell of an instance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NumaCellRefusal {
    /// The index of the instance's cell.
    pub instance_cell: usize,
    /// The number of the host's cell.
    pub cell: i64,
    #[serde(flatten)]
    pub reason: CellReason,
}

/// What a host cell lacks for an instance cell.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[serde(tag = "lacks", rename_all = "snake_case")]
pub enum CellReason {
    /// No pages of this size.
    #[error("has no pages of size {pagesize}")]
    PageSize {
        /// In KiB, or by name.
        pagesize: String,
    },
    /// Too few free pages of this size, or the memory is not a multiple of it.
    #[error(
        "has {available_kb} KiB in pages of size {pagesize} for {requested_kb} KiB in whole pages"
    )]
    Pages {
        /// In KiB, or by name.
        pagesize: String,
        requested_kb: i64,
        /// In KiB; for several sizes, the one with the most.
        available_kb: i64,
    },
    #[error("has {available_mb} MiB for {requested_mb} MiB")]
    Memory {
        requested_mb: i64,
        /// In MiB: the total for shared CPUs, the free memory for dedicated ones.
        available_mb: i64,
    },
    /// Too few CPUs for dedicated use, used or not.
    #[error("has {total} dedicated CPUs in all for {requested}")]
    DedicatedCpus {
        /// CPUs, with that of the emulator.
        requested: usize,
        total: usize,
    },
    /// Too few CPUs for shared use.
    #[error("has {total} shared CPUs in all for {requested}")]
    SharedCpus { requested: usize, total: usize },
    /// Too few free dedicated CPUs.
    #[error("has {free} dedicated CPUs free for {requested}")]
    FreeCpus {
        /// CPUs, with that of the emulator.
        requested: usize,
        free: usize,
    },
    /// Enough free CPUs, but not as the thread policy requires.
    #[error("has {available} CPUs as hw:cpu_thread_policy {policy} wants them, for {requested}")]
    Threads {
        policy: &'static str,
        /// CPUs, without that of the emulator.
        requested: usize,
        available: usize,
    },
    /// The dedicated CPUs leave none for the emulator's threads.
    #[error("has no dedicated CPU left for the emulator's threads")]
    EmulatorCpu,
    /// The host does not report thread siblings.
    #[error("does not tell its cores")]
    NoCores,
    /// Cores have several threads and the sets of shared and dedicated CPUs differ, so a core cannot be isolated.
    #[error("has cores of several threads, which it cannot isolate for one instance")]
    Isolation,
    /// More CPUs than the allocation ratio allows.
    #[error("would have {usage} shared CPUs in use, and {limit} are allowed")]
    CpuLimit {
        usage: i64,
        /// By the allocation ratio.
        limit: f64,
    },
    /// More memory than the allocation ratio allows.
    #[error("would have {usage} MiB in use, and {limit} are allowed")]
    MemoryLimit {
        /// With this cell, in MiB.
        usage: i64,
        /// By the allocation ratio.
        limit: f64,
    },
}

impl fmt::Display for NumaCellRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            instance_cell,
            cell,
            reason,
        } = self;
        write!(f, "cell {cell} {reason} (instance cell {instance_cell})")
    }
}

fn list(cells: &[NumaCellRefusal]) -> String {
    let texts: Vec<String> = cells.iter().map(ToString::to_string).collect();
    texts.join("; ")
}
