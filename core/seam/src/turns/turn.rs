//! Whose turn it is: the journeys' paces, the crossings that wait, and the seeded choice among them. Under the gate's lock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use crate::{Crossing, Seeded};

pub(super) struct Turns {
    pub(super) seeded: Seeded,
    pub(super) journeys: Vec<Pace>,
    /// Whether each was woken and not polled since: it goes on by itself.
    pub(super) woken: Vec<Arc<AtomicBool>>,
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Turn {
    Free,
    /// This ticket's, from the choice until it has been told its release.
    Given(Ticket),
    /// An effect of this journey is being performed: this one, however many of its others come to the gate meanwhile.
    InFlight(Ticket, Crossing),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// Not run yet, or over.
    Still,
    /// Started, not polled yet.
    Started,
    Polled,
    Waits,
}

impl Turns {
    /// Nobody yet, in the order that this seed chooses.
    pub(super) fn seeded(seed: u64) -> Self {
        Self {
            seeded: Seeded::new(seed),
            journeys: Vec::new(),
            woken: Vec::new(),
            waiting: BTreeMap::new(),
            turn: Turn::Free,
            tickets: 0,
        }
    }

    /// The effect has ended; it waits in the place that it left, whenever a thread answered.
    pub(super) fn land(&mut self, journey: usize, crossing: &Crossing) -> Ticket {
        match &self.turn {
            Turn::InFlight(ticket, what) if ticket.journey == journey && what == crossing => {
                let ticket = *ticket;
                self.turn = Turn::Free;
                self.waiting.insert(ticket, None);
                ticket
            }
            _ => self.wait_at_the_gate(journey),
        }
    }

    pub(super) fn wait_at_the_gate(&mut self, journey: usize) -> Ticket {
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
        let moves = |(pace, woken): (&Pace, &Arc<AtomicBool>)| match pace {
            Pace::Started | Pace::Polled => true,
            Pace::Waits => woken.load(Ordering::SeqCst),
            Pace::Still => false,
        };
        self.turn == Turn::Free && !self.journeys.iter().zip(&self.woken).any(moves)
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
