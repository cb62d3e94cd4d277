//! Backoff after failures: doubles from half a second up to one minute, with jitter so that many agents do not retry at
//! the same time. There is no limit of attempts: a start waits for Placement as long as necessary.

use std::time::Duration;

use berth_client::{Delay, JitterRng};

/// Counts consecutive failures and computes the delay after each. The same seed gives the same delays.
#[derive(Debug)]
pub struct LoopBackoff {
    failures: u32,
    rng: JitterRng,
}

impl LoopBackoff {
    pub const CAP: Duration = Duration::from_mins(1);

    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self {
            failures: 0,
            rng: JitterRng::seeded(seed),
        }
    }

    /// Counts a failure and returns the delay before the next attempt.
    pub fn next_delay(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        Delay::Exponential
            .after(self.failures, &self.rng)
            .min(Self::CAP)
    }

    /// Starts again after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Number of consecutive failures.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_cap_and_start_again_after_a_success() {
        let mut backoff = LoopBackoff::seeded(7);
        let pauses: Vec<Duration> = (0..200).map(|_| backoff.next_delay()).collect();
        assert!(pauses[0] <= Duration::from_millis(500));
        assert!(
            pauses
                .iter()
                .all(|pause| *pause <= LoopBackoff::CAP && !pause.is_zero())
        );
        assert!(
            pauses[150..]
                .iter()
                .all(|pause| *pause >= LoopBackoff::CAP / 2)
        );
        backoff.reset();
        assert!(backoff.next_delay() <= Duration::from_millis(500));
        assert_eq!(backoff.failures(), 1);
    }

    #[test]
    fn two_seeds_do_not_come_back_in_step() {
        let pauses = |seed| {
            let mut backoff = LoopBackoff::seeded(seed);
            (0..8).map(|_| backoff.next_delay()).collect::<Vec<_>>()
        };
        assert_eq!(pauses(1), pauses(1));
        assert_ne!(pauses(1), pauses(2));
    }
}
