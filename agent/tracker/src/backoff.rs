//! How long a loop waits after a failure: doubling from half a second up to a minute, jittered so that many agents do not
//! come back in step. It never gives up: a start waits for Placement for as long as it takes.

use std::time::Duration;

use berth_client::{Delay, JitterRng};

/// Counts failures in a row and names the pause after each. The same seed gives the same pauses.
#[derive(Debug)]
pub struct Backoff {
    failures: u32,
    dice: JitterRng,
}

impl Backoff {
    pub const CAP: Duration = Duration::from_mins(1);

    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self {
            failures: 0,
            dice: JitterRng::seeded(seed),
        }
    }

    /// Counts a failure; the pause before the next attempt.
    pub fn failed(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        Delay::Exponential
            .after(self.failures, &self.dice)
            .min(Self::CAP)
    }

    /// It worked: the next failure is the first again.
    pub fn worked(&mut self) {
        self.failures = 0;
    }

    /// Failures in a row.
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
        let mut backoff = Backoff::seeded(7);
        let pauses: Vec<Duration> = (0..200).map(|_| backoff.failed()).collect();
        assert!(pauses[0] <= Duration::from_millis(500));
        assert!(
            pauses
                .iter()
                .all(|pause| *pause <= Backoff::CAP && !pause.is_zero())
        );
        assert!(pauses[150..].iter().all(|pause| *pause >= Backoff::CAP / 2));
        backoff.worked();
        assert!(backoff.failed() <= Duration::from_millis(500));
        assert_eq!(backoff.failures(), 1);
    }

    #[test]
    fn two_seeds_do_not_come_back_in_step() {
        let pauses = |seed| {
            let mut backoff = Backoff::seeded(seed);
            (0..8).map(|_| backoff.failed()).collect::<Vec<_>>()
        };
        assert_eq!(pauses(1), pauses(1));
        assert_ne!(pauses(1), pauses(2));
    }
}
