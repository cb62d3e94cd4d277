//! Whose turn it is: the journeys' paces, the crossings that wait, and the seeded choice among them. Under the gate's lock.

use std::collections::BTreeMap;
use std::task::Waker;

use crate::Seeded;

pub(super) struct Turns {
    pub(super) seeded: Seeded,
    pub(super) journeys: Vec<Pace>,
    pub(super) waiting: BTreeMap<Ticket, Option<Waker>>,
    pub(super) turn: Turn,
    pub(super) tickets: u64,
}

/// A side of a crossing that waits: by journey first, so that the choice does not depend on who came earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket {
    pub(super) journey: usize,
    pub(super) number: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nobody's.
    Free,
    /// This ticket's, from the choice until it has been told its release.
    Given(Ticket),
    /// An effect of this journey is being performed.
    InFlight(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// Not run yet, or over.
    Still,
    /// Started, not polled yet.
    Started,
    /// Being polled.
    Polled,
    /// Polled, waits.
    Waits,
}

impl Turns {
    /// Nobody yet, in the order that this seed chooses.
    pub(super) fn seeded(seed: u64) -> Self {
        Self {
            seeded: Seeded::new(seed),
            journeys: Vec::new(),
            waiting: BTreeMap::new(),
            turn: Turn::Free,
            tickets: 0,
        }
    }

    pub(super) fn wait_at_the_gate(&mut self, journey: usize) -> Ticket {
        // The effect under way has ended, or its future was dropped and the journey went on.
        if self.turn == Turn::InFlight(journey) {
            self.turn = Turn::Free;
        }
        self.tickets += 1;
        let ticket = Ticket {
            journey,
            number: self.tickets,
        };
        self.waiting.insert(ticket, None);
        ticket
    }

    pub(super) fn set(&mut self, journey: usize, pace: Pace) {
        if let Some(here) = self.journeys.get_mut(journey) {
            *here = pace;
        }
    }

    /// Nobody can go on without a release.
    pub(super) fn is_quiet(&self) -> bool {
        let moves = |pace: &Pace| matches!(pace, Pace::Started | Pace::Polled);
        self.turn == Turn::Free && !self.journeys.iter().any(moves)
    }

    /// Gives the turn to one that waits, if it is nobody's.
    pub(super) fn choose(&mut self) {
        if self.waiting.is_empty() || !self.is_quiet() {
            return;
        }
        let chosen = self.seeded.below(self.waiting.len());
        let Some(ticket) = self.waiting.keys().nth(chosen).copied() else {
            return;
        };
        self.turn = Turn::Given(ticket);
        if let Some(Some(waker)) = self.waiting.remove(&ticket) {
            waker.wake();
        }
    }
}
