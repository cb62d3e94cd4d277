//! A fair queue: the addresses that share one delay take turns, however many attempts wait at one of them.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::AttemptSlot;
use super::backoff::FailureBackoff;
use crate::client_address::ClientAddress;

/// How soon an address that is not first asks again.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub(super) struct FairQueue {
    pub(super) backoff: FailureBackoff,
    waiting: BTreeMap<ClientAddress, QueuedAddress>,
    /// The last position that was assigned.
    places: u64,
}

#[derive(Debug)]
struct QueuedAddress {
    place: u64,
    /// How many wait at the address.
    count: usize,
}

impl FairQueue {
    pub(super) fn enqueue(&mut self, source: ClientAddress) {
        let place = self.next_place();
        let queued = self.waiting.entry(source);
        queued.or_insert(QueuedAddress { place, count: 0 }).count += 1;
    }

    pub(super) fn dequeue(&mut self, source: ClientAddress) {
        if let Some(queued) = self.waiting.get_mut(&source) {
            queued.count = queued.count.saturating_sub(1);
            if queued.count == 0 {
                self.waiting.remove(&source);
            }
        }
    }

    /// Whether an attempt of this address may run now. Only addresses for which `takes_turns` is true are considered.
    pub(super) fn try_acquire(
        &mut self,
        source: ClientAddress,
        now: Instant,
        takes_turns: impl Fn(&ClientAddress) -> bool,
    ) -> AttemptSlot {
        if let Some(next) = self.backoff.next(now)
            && !self.is_first(source, takes_turns)
        {
            return AttemptSlot::Later(next.max(now) + LOOK_AGAIN);
        }
        let turn = self.backoff.try_acquire(now);
        if turn == AttemptSlot::Now {
            let place = self.next_place();
            if let Some(queued) = self.waiting.get_mut(&source) {
                queued.place = place;
            }
        }
        turn
    }

    fn is_first(
        &self,
        source: ClientAddress,
        takes_turns: impl Fn(&ClientAddress) -> bool,
    ) -> bool {
        let waiting = self.waiting.iter().filter(|(it, _)| takes_turns(it));
        let first = waiting.min_by_key(|(_, queued)| queued.place);
        first.is_none_or(|(first, _)| *first == source)
    }

    fn next_place(&mut self) -> u64 {
        self.places += 1;
        self.places
    }
}
