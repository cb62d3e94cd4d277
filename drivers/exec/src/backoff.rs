//! Restart backoff for the driver process. Pure.

use std::time::{Duration, Instant};

use berth_model::ExponentialBackoff;

/// The delay before a restart. It grows with each consecutive exit and resets after a process that ran long enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// After the first end.
    pub first: Duration,
    /// At most; each wait is twice the one before.
    pub longest: Duration,
    /// A process that ran at least this long counts as healthy: its exit is again a first one.
    pub well_after: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(250),
            longest: Duration::from_secs(30),
            well_after: Duration::from_mins(1),
        }
    }
}

/// The ends in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ends {
    in_a_row: u32,
    not_before: Option<Instant>,
}

impl Ends {
    /// A child ended now, that was started then.
    pub(crate) fn count(&mut self, backoff: &Backoff, started: Instant, now: Instant) {
        if now.saturating_duration_since(started) >= backoff.well_after {
            self.in_a_row = 0;
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        let pauses = ExponentialBackoff {
            first: backoff.first,
            longest: backoff.longest,
        };
        self.not_before = Some(now + pauses.pause(self.in_a_row));
    }

    /// How long is to be waited yet.
    pub(crate) fn left(&self, now: Instant) -> Duration {
        self.not_before
            .map_or(Duration::ZERO, |then| then.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_in_a_row_is_waited_for_twice_as_long_up_to_a_bound() {
        let backoff = Backoff::default();
        let now = Instant::now();
        let mut ends = Ends::default();
        assert_eq!(ends.left(now), Duration::ZERO);
        let mut waits = Vec::new();
        for _ in 0..40 {
            ends.count(&backoff, now, now);
            waits.push(ends.left(now).as_millis());
        }
        assert_eq!(waits[..4], [250, 500, 1000, 2000]);
        assert_eq!(waits[39], 30_000);
        assert_eq!(ends.left(now + backoff.longest), Duration::ZERO);
    }

    #[test]
    fn the_end_of_a_child_that_lived_is_a_first_one() {
        let backoff = Backoff::default();
        let now = Instant::now();
        let mut ends = Ends::default();
        for _ in 0..5 {
            ends.count(&backoff, now, now);
        }
        let later = now + backoff.well_after;
        ends.count(&backoff, now, later);
        assert_eq!(ends.left(later), backoff.first);
    }
}
