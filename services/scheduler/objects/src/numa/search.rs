//! [`CellSearch`]: a backtracking search for a host cell for each instance cell. No two instance cells share a host cell.
//!
//! The search places instance cells in their order. Whether a state fails depends only on the set of used host cells.
//! Equivalent host cells are interchangeable. So the search tries each such state once. It determines the equivalence
//! after the first failure, because most searches need none.

use std::collections::HashSet;

use smallvec::{SmallVec, smallvec};

use super::{NumaAsk, NumaCellRefusal, NumaReason, Offer, cell};
use crate::host_state::{CellSet, NumaCell};

/// The maximum number of failed states, which is the number of sets of 16 cells.
const MAX_FAILED_STATES: usize = 1 << 16;

/// The maximum number of reported pairs of an instance cell and a host cell.
const MAX_REPORTED_REFUSALS: usize = 16;

/// What the caller wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SearchGoal {
    /// Whether a placement exists. None is returned.
    Exists,
    /// The first placement in the search order.
    FirstPlacement,
}

/// A search on one host.
pub(super) struct CellSearch<'s, 'a> {
    ask: &'s NumaAsk<'a>,
    offer: Offer<'s>,
    /// The order in which host cells are tried, as indices. `None`: the host's own order.
    order: Option<Vec<usize>>,
    fits: SmallVec<[CellFits; 4]>,
    /// Why the first complete placement was refused.
    placement_refusal: Option<NumaReason>,
    failed_states: Option<FailedStates>,
    /// The host cell of each instance cell, in reverse order.
    reversed_placement: Vec<usize>,
}

/// The host cells on which one kind of instance cell fits, among those tried.
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

    /// The representative of all sets that use the same number of cells of each equivalence class.
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
            placement_refusal: None,
            failed_states: None,
            reversed_placement: Vec::new(),
        })
    }

    /// The host cell for each instance cell, if requested.
    pub(super) fn run(&mut self, goal: SearchGoal) -> Result<Vec<usize>, NumaReason> {
        match self.place(0, CellSet::default(), goal) {
            true => {
                let mut placement = std::mem::take(&mut self.reversed_placement);
                placement.reverse();
                Ok(placement)
            }
            false => Err(self.reason()),
        }
    }

    /// Places this instance cell and all later ones on unused cells.
    fn place(&mut self, instance_cell: usize, used: CellSet, goal: SearchGoal) -> bool {
        let Some(kind) = self.ask.cells.get(instance_cell).copied() else {
            return self.is_accepted(used);
        };
        for at in 0..self.offer.numa.cells.len().min(CellSet::LIMIT) {
            let place = self.order.as_ref().map_or(at, |order| order[at]);
            if used.contains(place) || !self.fits(kind, place) {
                continue;
            }
            let used_with_place = used.with(place);
            if self.has_failed(used_with_place) {
                continue;
            }
            if self.place(instance_cell + 1, used_with_place, goal) {
                if goal == SearchGoal::FirstPlacement {
                    self.reversed_placement.push(place);
                }
                return true;
            }
            self.record_failed_state(used_with_place);
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
                self.placement_refusal.get_or_insert(reason);
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
        let failed = self.failed_states.as_ref();
        failed.is_some_and(|failed| failed.states.contains(&failed.state(used)))
    }

    fn record_failed_state(&mut self, used: CellSet) {
        let failed = self.failed_states.take();
        let mut failed = failed.unwrap_or_else(|| FailedStates::new(self.equivalence_classes()));
        failed.states.insert(failed.state(used));
        self.failed_states = Some(failed);
    }

    fn is_given_up(&self) -> bool {
        let failed = self.failed_states.as_ref();
        failed.is_some_and(|failed| failed.states.len() >= MAX_FAILED_STATES)
    }

    /// The equivalence class of each cell, as the index of its first cell. Equivalent cells have the same socket and networks,
    /// the same kinds of instance cells fit on them, and no requested device is near.
    fn equivalence_classes(&mut self) -> Vec<usize> {
        let cells = self.offer.numa.cells.len().min(CellSet::LIMIT);
        for kind in 0..self.ask.kinds.len() {
            for place in 0..cells {
                self.fits(kind, place);
            }
        }
        let first = |place| (0..place).find(|other| self.are_equivalent(*other, place));
        (0..cells)
            .map(|place| first(place).unwrap_or(place))
            .collect()
    }

    fn are_equivalent(&self, one: usize, two: usize) -> bool {
        let mut kinds = (0..self.ask.kinds.len()).map(|kind| self.fits[kind].fit);
        let cells = &self.offer.numa.cells;
        let (a, b) = (&cells[one], &cells[two]);
        kinds.all(|fit| fit.contains(one) == fit.contains(two))
            && a.socket == b.socket
            && a.physnets == b.physnets
            && a.tunneled == b.tunneled
            && !self.has_requested_devices(a)
            && !self.has_requested_devices(b)
    }

    /// Whether a device that may be requested is on the cell. Such a cell is not equivalent to another one.
    fn has_requested_devices(&self, cell: &NumaCell) -> bool {
        self.offer.pci.is_some_and(|pools| {
            let all = pools.summaries().iter().enumerate();
            let mut there = all.filter(|(_, pool)| pool.numa_node == Some(cell.id));
            there.any(|(place, _)| self.ask.pci.is_described(pools, place))
        })
    }

    /// Why there is no placement.
    fn reason(&mut self) -> NumaReason {
        if self.is_given_up() {
            return NumaReason::SearchLimitReached {
                cells: self.offer.numa.cells.len(),
                states: MAX_FAILED_STATES,
            };
        }
        if let Some(refused) = self.placement_refusal.take() {
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
            cells: all.take(MAX_REPORTED_REFUSALS).collect(),
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
