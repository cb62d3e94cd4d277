//! Exponential backoff: how long to wait after a number of failures in a row.

use std::time::Duration;

/// Pauses that double with each failure in a row, from `first` up to `longest`. The caller counts the failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExponentialBackoff {
    /// The pause after the first failure.
    pub first: Duration,
    /// The upper bound of all pauses.
    pub longest: Duration,
}

impl ExponentialBackoff {
    /// The pause after this number of failures in a row, counted from 1.
    #[must_use]
    pub fn pause(&self, failures: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
        self.first.saturating_mul(doubled).min(self.longest)
    }

    /// The same with jitter, so that many clients do not retry in step: between half of the pause (`fraction` 0) and all of it
    /// (`fraction` 1). The fraction is a random number of the caller, such as [`SeededRng::fraction`](crate::SeededRng::fraction).
    #[must_use]
    pub fn pause_with_jitter(&self, failures: u32, fraction: f64) -> Duration {
        self.pause(failures)
            .mul_f64(0.5 + fraction.clamp(0.0, 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: ExponentialBackoff = ExponentialBackoff {
        first: Duration::from_millis(250),
        longest: Duration::from_secs(30),
    };

    #[test]
    fn each_pause_is_twice_the_previous_up_to_the_longest() {
        let pauses = [1, 2, 3, 4, 7, 8, 40, u32::MAX].map(|failures| BACKOFF.pause(failures));
        assert_eq!(
            pauses.map(|pause| pause.as_millis()),
            [250, 500, 1000, 2000, 16_000, 30_000, 30_000, 30_000]
        );
        assert_eq!(BACKOFF.pause(0), BACKOFF.first);
    }

    #[test]
    fn jitter_takes_at_most_half_of_the_pause() {
        for (fraction, expected) in [(0.0, 500), (0.5, 750), (1.0, 1000), (7.0, 1000)] {
            let pause = BACKOFF.pause_with_jitter(3, fraction);
            assert_eq!(pause.as_millis(), expected, "{fraction}");
        }
    }
}
