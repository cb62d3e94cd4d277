//! Why the cells of an instance do not fit on those of a host.

use std::fmt;

use serde::Serialize;

use crate::pci::PciReason;

/// As JSON an object: `constraint`, and the values.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[serde(tag = "constraint", rename_all = "snake_case")]
pub enum NumaReason {
    /// The host tells of no cells.
    #[error("it tells of no NUMA cells")]
    NoTopology,
    /// No allocation candidate is left that could be looked at.
    #[error("it has no allocation candidate left")]
    NoCandidates,
    /// Threads of one core are required, and its cores have one each.
    #[error("its cores have no threads, and hw:cpu_thread_policy is require")]
    NoThreads,
    /// It has fewer cells than the instance.
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
        cells: Vec<CellRefusal>,
    },
    /// Each cell of the instance fits on one of the host's, but all of them together do not.
    #[error(
        "each instance cell fits on one of its NUMA cells, but not each on another: {}",
        list(cells)
    )]
    CellsContend {
        /// Where they do not fit.
        cells: Vec<CellRefusal>,
    },
    /// Its devices do not serve the instance on any cells that would do.
    #[error("on its NUMA cells {cells:?}: {reason}")]
    Pci {
        /// The first cells that were tried.
        cells: Vec<i64>,
        reason: PciReason,
    },
    /// A physical network leaves from other cells only.
    #[error(
        "network {physnet} is at its NUMA cells {at:?}, and the instance would be on {cells:?}"
    )]
    Physnet {
        physnet: String,
        at: Vec<i64>,
        /// The first cells that were tried.
        cells: Vec<i64>,
    },
    /// Tunnelled networks leave from other cells only.
    #[error(
        "tunnelled networks are at its NUMA cells {at:?}, and the instance would be on {cells:?}"
    )]
    Tunnel {
        at: Vec<i64>,
        /// The first cells that were tried.
        cells: Vec<i64>,
    },
    /// A host of more than 16 cells that all differ, and none of very many ways fits: the search was given up.
    #[error(
        "it has {cells} NUMA cells, and none of {ways} ways to use them fits; others were not tried"
    )]
    TooManyWays { cells: usize, ways: usize },
}

/// A cell of a host that cannot take a cell of an instance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellRefusal {
    /// Of the instance, by its place.
    pub instance_cell: usize,
    /// Of the host, by the host's number.
    pub cell: i64,
    #[serde(flatten)]
    pub reason: CellReason,
}

/// What a cell of a host lacks for a cell of an instance.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[serde(tag = "lacks", rename_all = "snake_case")]
pub enum CellReason {
    /// It has no pages of such a size.
    #[error("has no pages of size {pagesize}")]
    PageSize {
        /// In KiB, or a word.
        pagesize: String,
    },
    /// Too few of its pages of such a size are free, or the memory is not a whole number of them.
    #[error(
        "has {available_kb} KiB in pages of size {pagesize} for {requested_kb} KiB in whole pages"
    )]
    Pages {
        /// In KiB, or a word.
        pagesize: String,
        requested_kb: i64,
        /// In KiB; of several sizes the one that has most.
        available_kb: i64,
    },
    /// It has not the memory.
    #[error("has {available_mb} MiB for {requested_mb} MiB")]
    Memory {
        requested_mb: i64,
        /// In MiB: all of it for shared CPUs, what is free for dedicated ones.
        available_mb: i64,
    },
    /// It has not so many CPUs for dedication, used or not.
    #[error("has {total} dedicated CPUs in all for {requested}")]
    DedicatedCpus {
        /// CPUs, with that of the emulator.
        requested: usize,
        total: usize,
    },
    /// It has not so many CPUs to share.
    #[error("has {total} shared CPUs in all for {requested}")]
    SharedCpus { requested: usize, total: usize },
    /// Not so many dedicated CPUs are free.
    #[error("has {free} dedicated CPUs free for {requested}")]
    FreeCpus {
        /// CPUs, with that of the emulator.
        requested: usize,
        free: usize,
    },
    /// So many CPUs are free, but not as the thread policy wants them.
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
    /// It does not tell which CPUs are threads of one core.
    #[error("does not tell its cores")]
    NoCores,
    /// Its cores have several threads, and other CPUs are for sharing than for dedication: so it cannot keep other instances
    /// from a core.
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

impl fmt::Display for CellRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            instance_cell,
            cell,
            reason,
        } = self;
        write!(f, "cell {cell} {reason} (instance cell {instance_cell})")
    }
}

fn list(cells: &[CellRefusal]) -> String {
    let texts: Vec<String> = cells.iter().map(ToString::to_string).collect();
    texts.join("; ")
}
