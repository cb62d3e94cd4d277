//! The queue of waiting effects, the states of the tasks, and the seeded choice. The scheduler keeps it under its lock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use berth_model::SeededRng;

use crate::Effect;

pub(super) struct RunQueue {
    pub(super) seeded: SeededRng,
    pub(super) tasks: Vec<TaskState>,
    /// Whether each task was woken and not polled since.
    pub(super) woken: Vec<Arc<AtomicBool>>,
    pub(super) waiting: BTreeMap<Ticket, Option<Waker>>,
    pub(super) running: RunningEffect,
    pub(super) tickets: u64,
}

/// One side of a waiting effect. Ordered by task first, so that the choice does not depend on the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket {
    pub(super) task: usize,
    pub(super) number: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RunningEffect {
    Free,
    /// Chosen, and the inner gate has not decided yet.
    Given(Ticket),
    /// This effect is being performed. Others of the same task may arrive at the gate meanwhile.
    InFlight(Ticket, Effect),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskState {
    /// Not started, or finished.
    Still,
    /// Started, not polled yet.
    Started,
    Polled,
    Waits,
}

impl RunQueue {
    pub(super) fn seeded(seed: u64) -> Self {
        Self {
            seeded: SeededRng::new(seed),
            tasks: Vec::new(),
            woken: Vec::new(),
            waiting: BTreeMap::new(),
            running: RunningEffect::Free,
            tickets: 0,
        }
    }

    /// The effect has ended. It waits under its old ticket, so that the order does not depend on when a thread answered.
    pub(super) fn effect_ended(&mut self, task: usize, effect: &Effect) -> Ticket {
        match &self.running {
            RunningEffect::InFlight(ticket, what) if ticket.task == task && what == effect => {
                let ticket = *ticket;
                self.running = RunningEffect::Free;
                self.waiting.insert(ticket, None);
                ticket
            }
            _ => self.enqueue(task),
        }
    }

    pub(super) fn enqueue(&mut self, task: usize) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket {
            task,
            number: self.tickets,
        };
        self.waiting.insert(ticket, None);
        ticket
    }

    pub(super) fn set(&mut self, task: usize, state: TaskState) {
        if let Some(here) = self.tasks.get_mut(task) {
            *here = state;
        }
    }

    /// No task can run by itself, and no effect is in flight.
    pub(super) fn is_quiet(&self) -> bool {
        let moves = |(state, woken): (&TaskState, &Arc<AtomicBool>)| match state {
            TaskState::Started | TaskState::Polled => true,
            TaskState::Waits => woken.load(Ordering::SeqCst),
            TaskState::Still => false,
        };
        self.running == RunningEffect::Free && !self.tasks.iter().zip(&self.woken).any(moves)
    }

    /// Chooses a waiting effect if nothing runs.
    pub(super) fn choose(&mut self) {
        if self.waiting.is_empty() || !self.is_quiet() {
            return;
        }
        let chosen = self.seeded.below(self.waiting.len());
        let Some(ticket) = self.waiting.keys().nth(chosen).copied() else {
            return;
        };
        self.running = RunningEffect::Given(ticket);
        if let Some(Some(waker)) = self.waiting.remove(&ticket) {
            waker.wake();
        }
    }
}
