//! The NUMA cells of a host.

use std::collections::BTreeSet;

use super::CpuSet;

/// The cells, in the order in which the host tells them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NumaTopology {
    /// None, and the host is as one that tells of no cells.
    pub cells: Vec<NumaCell>,
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NumaCell {
    /// The host's number for it.
    pub id: i64,
    /// CPUs for guests that share them.
    pub cpuset: CpuSet,
    /// CPUs for guests with CPUs of their own.
    pub pcpuset: CpuSet,
    /// Memory in MiB.
    pub memory: i64,
    /// Memory that guests have, in MiB.
    pub memory_usage: i64,
    /// CPUs that guests have.
    pub cpu_usage: i64,
    /// CPUs that are one guest's own.
    pub pinned_cpus: CpuSet,
    /// CPUs that are threads of one core; a core without such threads is a set of one.
    pub siblings: Vec<CpuSet>,
    /// Memory by the size of its pages.
    pub mempages: Vec<MemoryPages>,
    /// The socket; none where the host does not tell.
    pub socket: Option<i64>,
    /// Physical networks whose cards are at this cell.
    pub physnets: BTreeSet<String>,
    /// Whether tunnelled networks leave from this cell.
    pub tunneled: bool,
}

/// The pages of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryPages {
    /// Of one page, in KiB.
    pub size_kb: i64,
    /// How many there are.
    pub total: i64,
    /// How many guests have.
    pub used: i64,
    /// How many are no guest's to have.
    pub reserved: i64,
}
