//! How far a peer is behind the rate that it must keep.

use std::time::Duration;

use tokio::time::Instant;

/// The time by which a peer is behind a rate. Only time in which this side waits for the peer counts, and a fast start
/// earns nothing for later.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Pace {
    /// As of the last progress.
    behind: Duration,
    waiting_since: Option<Instant>,
}

impl Pace {
    /// This side waits for the peer from now on, unless it waits already.
    pub(crate) fn waits(&mut self, now: Instant) {
        self.waiting_since.get_or_insert(now);
    }

    /// The peer sent or took this many bytes. `rate` is in bytes per second.
    pub(crate) fn moved(&mut self, bytes: usize, rate: u32, now: Instant) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let micros = bytes.saturating_mul(1_000_000) / u64::from(rate.max(1));
        self.behind = self
            .behind(now)
            .saturating_sub(Duration::from_micros(micros));
        self.waiting_since = None;
    }

    pub(crate) fn behind(&self, now: Instant) -> Duration {
        let waited = self.waiting_since.map(|since| now - since);
        self.behind + waited.unwrap_or_default()
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting_since.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_peer_is_behind_by_the_time_that_its_bytes_do_not_cover() {
        let start = Instant::now();
        let mut pace = Pace::default();
        assert_eq!(pace.behind(start + SECOND), Duration::ZERO);
        pace.waits(start);
        pace.waits(start + SECOND);
        assert_eq!(pace.behind(start + 3 * SECOND), 3 * SECOND);
        pace.moved(500, 500, start + 3 * SECOND);
        assert!(!pace.is_waiting());
        // The handler works.
        assert_eq!(pace.behind(start + 9 * SECOND), 2 * SECOND);
        pace.waits(start + 9 * SECOND);
        assert_eq!(pace.behind(start + 10 * SECOND), 3 * SECOND);
    }

    #[test]
    fn a_fast_start_earns_nothing_for_later() {
        let start = Instant::now();
        let mut pace = Pace::default();
        pace.waits(start);
        pace.moved(1 << 20, 500, start + SECOND);
        pace.waits(start + SECOND);
        assert_eq!(pace.behind(start + 21 * SECOND), 20 * SECOND);
    }
}
