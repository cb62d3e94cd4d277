//! The NUMA cells of a host.

use std::collections::BTreeSet;

use super::{Cores, CpuSet};

/// The cells, in the host's order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NumaTopology {
    /// Empty: like a host that reports no cells.
    pub cells: Vec<NumaCell>,
}

impl NumaTopology {
    /// Whether cores have several threads.
    #[must_use]
    pub fn has_threads(&self) -> bool {
        let mut cells = self.cells.iter();
        cells.any(|cell| cell.siblings.threads() > Some(1))
    }
}

/// Some of a host's cells, by their places in its topology. Places from 128 on are none's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CellSet(u128);

impl CellSet {
    /// The maximum number of cells in a set.
    pub const LIMIT: usize = 128;

    #[must_use]
    pub fn with(self, place: usize) -> Self {
        Self(self.0 | bit(place))
    }

    #[must_use]
    pub fn contains(self, place: usize) -> bool {
        self.0 & bit(place) != 0
    }

    /// The places, from the first on.
    pub fn places(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let place = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            usize::try_from(place).ok().filter(|it| *it < Self::LIMIT)
        })
    }

    /// The cells of a topology that are in, in its order.
    pub fn of(self, topology: &NumaTopology) -> impl Iterator<Item = &NumaCell> {
        self.places().filter_map(|place| topology.cells.get(place))
    }
}

fn bit(place: usize) -> u128 {
    match place < CellSet::LIMIT {
        true => 1 << place,
        false => 0,
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NumaCell {
    /// The host's cell number.
    pub id: i64,
    /// CPUs for guests that share them.
    pub cpuset: CpuSet,
    /// CPUs for guests with dedicated CPUs.
    pub pcpuset: CpuSet,
    pub memory: i64,
    /// Memory that guests have, in MiB.
    pub memory_usage: i64,
    /// CPUs that guests have.
    pub cpu_usage: i64,
    /// CPUs dedicated to a guest.
    pub pinned_cpus: CpuSet,
    /// CPUs that are threads of one core.
    pub siblings: Cores,
    /// Memory by the size of its pages.
    pub mempages: Vec<MemoryPages>,
    /// The socket, if reported.
    pub socket: Option<i64>,
    /// Physical networks with cards at this cell.
    pub physnets: BTreeSet<String>,
    /// Whether tunnelled networks leave from this cell.
    pub tunneled: bool,
}

/// The pages of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryPages {
    /// Of one page, in KiB.
    pub size_kb: i64,
    pub total: i64,
    /// How many guests have.
    pub used: i64,
    /// How many are no guest's to have.
    pub reserved: i64,
}
