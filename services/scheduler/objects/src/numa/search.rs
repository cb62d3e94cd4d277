//! Searches a placement of each instance cell on another host cell.
//!
//! Instance cells are placed in their order. Whether a state fails depends only on the set of used host cells, and
//! equal host cells are interchangeable, so each such state is tried once. Equal cells are determined after the first
//! failure; most searches never need them.

use std::collections::HashSet;

use smallvec::{SmallVec, smallvec};

use super::{NumaAsk, NumaCellRefusal, NumaReason, Offer, cell};
use crate::host_state::{CellSet, NumaCell};

/// Enough for every host of 16 cells, be they all different.
const STATES: usize = 1 << 16;

/// The maximum number of reported pairs.
const REFUSALS: usize = 16;

/// What the caller wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SearchGoal {
    /// Whether a placement exists.
    Any,
    First,
}

/// A search on one host.
pub(super) struct CellSearch<'s, 'a> {
    ask: &'s NumaAsk<'a>,
    offer: Offer<'s>,
    /// The places of the host's cells as they are tried; none: as they are.
    order: Option<Vec<usize>>,
    fits: SmallVec<[CellFits; 4]>,
    /// Why the first complete placement was refused.
    refused: Option<NumaReason>,
    failed: Option<FailedStates>,
    /// The host's cell for each of the instance's, the last one first.
    way: Vec<usize>,
}

/// The host cells on which a kind of cell fits, as far as tried.
#[derive(Debug, Clone, Copy, Default)]
struct CellFits {
    tried: CellSet,
    fit: CellSet,
}

/// States that are known to fail.
struct FailedStates {
    /// For each host cell the first equivalent one.
    first: Vec<usize>,
    /// For each host cell the next equivalent one; itself if there is none.
    next: Vec<usize>,
    states: HashSet<CellSet>,
}

impl FailedStates {
    fn new(first: Vec<usize>) -> Self {
        let next = |place: usize| {
            let mut later = place + 1..first.len();
            later.find(|it| first[*it] == first[place]).unwrap_or(place)
        };
        Self {
            next: (0..first.len()).map(next).collect(),
            first,
            states: HashSet::new(),
        }
    }

    /// The canonical set among sets that use equally many of each group of equivalent cells.
    fn state(&self, used: CellSet) -> CellSet {
        let mut state = CellSet::default();
        for place in used.places() {
            let mut at = self.first[place];
            while state.contains(at) && self.next[at] != at {
                at = self.next[at];
            }
            state = state.with(at);
        }
        state
    }
}

impl<'s, 'a> CellSearch<'s, 'a> {
    pub(super) fn new(
        ask: &'s NumaAsk<'a>,
        offer: Offer<'s>,
        order: Option<Vec<usize>>,
    ) -> Result<Self, NumaReason> {
        let (requested, available) = (ask.cells.len(), offer.numa.cells.len());
        if available < requested {
            return Err(NumaReason::TooFewCells {
                requested,
                available,
            });
        }
        Ok(Self {
            ask,
            offer,
            order,
            fits: smallvec![CellFits::default(); ask.kinds.len()],
            refused: None,
            failed: None,
            way: Vec::new(),
        })
    }

    /// The host cell for each instance cell, if requested.
    pub(super) fn run(&mut self, want: SearchGoal) -> Result<Vec<usize>, NumaReason> {
        match self.place(0, CellSet::default(), want) {
            true => {
                let mut way = std::mem::take(&mut self.way);
                way.reverse();
                Ok(way)
            }
            false => Err(self.reason()),
        }
    }

    /// Places this instance cell and all later ones on unused cells.
    fn place(&mut self, instance_cell: usize, used: CellSet, want: SearchGoal) -> bool {
        let Some(kind) = self.ask.cells.get(instance_cell).copied() else {
            return self.is_accepted(used);
        };
        for at in 0..self.offer.numa.cells.len().min(CellSet::LIMIT) {
            let place = self.order.as_ref().map_or(at, |order| order[at]);
            if used.contains(place) || !self.fits(kind, place) {
                continue;
            }
            let with = used.with(place);
            if self.has_failed(with) {
                continue;
            }
            if self.place(instance_cell + 1, with, want) {
                if want == SearchGoal::First {
                    self.way.push(place);
                }
                return true;
            }
            self.fail(with);
            if self.is_given_up() {
                return false;
            }
        }
        false
    }

    fn is_accepted(&mut self, chosen: CellSet) -> bool {
        match self.ask.accepts(self.offer, chosen) {
            Ok(()) => true,
            Err(reason) => {
                self.refused.get_or_insert(reason);
                false
            }
        }
    }

    fn fits(&mut self, kind: usize, place: usize) -> bool {
        let fits = &mut self.fits[kind];
        if !fits.tried.contains(place) {
            fits.tried = fits.tried.with(place);
            let (need, on) = (&self.ask.kinds[kind], &self.offer.numa.cells[place]);
            if cell::fit(need, on, self.offer.limits).is_ok() {
                fits.fit = fits.fit.with(place);
            }
        }
        fits.fit.contains(place)
    }

    fn has_failed(&self, used: CellSet) -> bool {
        let failed = self.failed.as_ref();
        failed.is_some_and(|failed| failed.states.contains(&failed.state(used)))
    }

    fn fail(&mut self, used: CellSet) {
        let failed = self.failed.take();
        let mut failed = failed.unwrap_or_else(|| FailedStates::new(self.classes()));
        failed.states.insert(failed.state(used));
        self.failed = Some(failed);
    }

    fn is_given_up(&self) -> bool {
        let failed = self.failed.as_ref();
        failed.is_some_and(|failed| failed.states.len() >= STATES)
    }

    /// The equivalence classes of cells: the same kinds fit, and the same networks and devices are near.
    fn classes(&mut self) -> Vec<usize> {
        let cells = self.offer.numa.cells.len().min(CellSet::LIMIT);
        for kind in 0..self.ask.kinds.len() {
            for place in 0..cells {
                self.fits(kind, place);
            }
        }
        let first = |place| (0..place).find(|other| self.is_like(*other, place));
        (0..cells)
            .map(|place| first(place).unwrap_or(place))
            .collect()
    }

    fn is_like(&self, one: usize, two: usize) -> bool {
        let mut kinds = (0..self.ask.kinds.len()).map(|kind| self.fits[kind].fit);
        let cells = &self.offer.numa.cells;
        let (a, b) = (&cells[one], &cells[two]);
        kinds.all(|fit| fit.contains(one) == fit.contains(two))
            && a.socket == b.socket
            && a.physnets == b.physnets
            && a.tunneled == b.tunneled
            && !self.has_devices(a)
            && !self.has_devices(b)
    }

    /// Whether devices that may be requested are at the cell; then it is equivalent to no other.
    fn has_devices(&self, cell: &NumaCell) -> bool {
        self.offer.pci.is_some_and(|pools| {
            let all = pools.summaries().iter().enumerate();
            let mut there = all.filter(|(_, pool)| pool.numa_node == Some(cell.id));
            there.any(|(place, _)| self.ask.pci.is_described(pools, place))
        })
    }

    /// Why there is no placement.
    fn reason(&mut self) -> NumaReason {
        if self.is_given_up() {
            return NumaReason::TooManyWays {
                cells: self.offer.numa.cells.len(),
                ways: STATES,
            };
        }
        if let Some(refused) = self.refused.take() {
            return refused;
        }
        let host_cells = self.offer.numa.cells.len();
        for instance_cell in 0..self.ask.cells.len() {
            let cells = self.refusals(instance_cell);
            if cells.len() == host_cells {
                return NumaReason::CellFitsNowhere {
                    instance_cell,
                    cells,
                };
            }
        }
        let all = (0..self.ask.cells.len()).flat_map(|it| self.refusals(it));
        NumaReason::CellsContend {
            cells: all.take(REFUSALS).collect(),
        }
    }

    /// Why the cells of the host do not take this cell of the instance.
    fn refusals(&self, instance_cell: usize) -> Vec<NumaCellRefusal> {
        let need = &self.ask.kinds[self.ask.cells[instance_cell]];
        let cells = self.offer.numa.cells.iter();
        let refuse = |cell: &NumaCell| {
            let reason = cell::fit(need, cell, self.offer.limits).err()?;
            Some(NumaCellRefusal {
                instance_cell,
                cell: cell.id,
                reason,
            })
        };
        cells.filter_map(refuse).collect()
    }
}
