//! The NUMA cells of a host.

use super::NumaCell;

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

/// Some of a host's cells, by index. Indexes from 128 on are never contained.
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
