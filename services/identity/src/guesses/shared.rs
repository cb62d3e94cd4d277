//! Whose turn it is at one pace, of the addresses that wait for it: each in its turn, however many wait at one of them.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::Turn;
use super::pace::Pace;
use crate::source::Source;

/// After this long whoever is not next looks whether it is.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) pace: Pace,
    waiting: BTreeMap<Source, Queued>,
    /// Places in the queue that were given.
    places: u64,
}

#[derive(Debug)]
struct Queued {
    place: u64,
    /// How many wait at the address.
    count: usize,
}

impl Shared {
    pub(super) fn come(&mut self, source: Source) {
        let place = self.next_place();
        let queued = self.waiting.entry(source);
        queued.or_insert(Queued { place, count: 0 }).count += 1;
    }

    pub(super) fn leave(&mut self, source: Source) {
        if let Some(queued) = self.waiting.get_mut(&source) {
            queued.count = queued.count.saturating_sub(1);
            if queued.count == 0 {
                self.waiting.remove(&source);
            }
        }
    }

    /// Of one that has come and not left, among those of the others that take turns here.
    pub(super) fn turn(
        &mut self,
        source: Source,
        now: Instant,
        takes_turns: impl Fn(&Source) -> bool,
    ) -> Turn {
        if let Some(next) = self.pace.next(now)
            && !self.is_first(source, takes_turns)
        {
            return Turn::Later(next.max(now) + LOOK_AGAIN);
        }
        let turn = self.pace.turn(now);
        if turn == Turn::Now {
            let place = self.next_place();
            if let Some(queued) = self.waiting.get_mut(&source) {
                queued.place = place;
            }
        }
        turn
    }

    fn is_first(&self, source: Source, takes_turns: impl Fn(&Source) -> bool) -> bool {
        let waiting = self.waiting.iter().filter(|(it, _)| takes_turns(it));
        let first = waiting.min_by_key(|(_, queued)| queued.place);
        first.is_none_or(|(first, _)| *first == source)
    }

    fn next_place(&mut self) -> u64 {
        self.places += 1;
        self.places
    }
}
