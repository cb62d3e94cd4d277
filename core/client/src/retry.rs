//! Retry policy: keystoneauth's four options.

use std::time::Duration;

use berth_model::ExponentialBackoff;
use http::StatusCode;

use crate::JitterRng;

const LONGEST: Duration = Duration::from_secs(60);
const BACKOFF: ExponentialBackoff = ExponentialBackoff {
    first: Duration::from_millis(500),
    longest: LONGEST,
};

/// The pause before a repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delay {
    /// Doubles from 0.5 s up to 60 s. Each delay is randomised between half of that and the whole, so that many agents
    /// do not retry in step.
    Exponential,
    /// Constant (`connect_retry_delay`, `status_code_retry_delay`).
    Fixed(Duration),
}

impl Delay {
    /// The pause after `attempt` failed attempts, counted from 1.
    #[must_use]
    pub fn after(self, attempt: u32, rng: &JitterRng) -> Duration {
        match self {
            Self::Fixed(pause) => pause,
            Self::Exponential => BACKOFF.pause_with_jitter(attempt, rng.fraction()),
        }
    }
}

/// The retry policy. Like keystoneauth's, the default does not retry: the agent's loops repeat whole steps with a
/// backoff of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Repetitions after a connection failed (`connect_retries`).
    pub connect_retries: u32,
    /// The pause before them (`connect_retry_delay`).
    pub connect_retry_delay: Delay,
    /// Repetitions after a retriable status (`status_code_retries`).
    pub status_code_retries: u32,
    /// The delay before them (`status_code_retry_delay`); `Retry-After` may extend it, up to 60 s.
    pub status_code_retry_delay: Delay,
    /// Statuses after which a request is retried (`retriable_status_codes`).
    pub retriable_status_codes: Vec<StatusCode>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            connect_retries: 0,
            connect_retry_delay: Delay::Exponential,
            status_code_retries: 0,
            status_code_retry_delay: Delay::Exponential,
            retriable_status_codes: vec![StatusCode::SERVICE_UNAVAILABLE],
        }
    }
}

impl RetryPolicy {
    /// How often a request is sent at most.
    pub(crate) fn attempts(&self) -> u32 {
        self.connect_retries
            .saturating_add(self.status_code_retries)
            .saturating_add(1)
    }

    /// The longest pause before a repetition.
    pub(crate) fn longest_pause(&self) -> Duration {
        let delays = [self.connect_retry_delay, self.status_code_retry_delay];
        let fixed = delays.map(|delay| match delay {
            Delay::Exponential => Duration::ZERO,
            Delay::Fixed(pause) => pause,
        });
        // `Retry-After` and the exponential delay have the same limit.
        fixed[0].max(fixed[1]).max(LONGEST)
    }

    /// The delay before a retry after a failed connection; `None` if the retries are used up.
    pub(crate) fn after_connect(&self, failed: u32, rng: &JitterRng) -> Option<Duration> {
        (failed <= self.connect_retries).then(|| self.connect_retry_delay.after(failed, rng))
    }

    /// The delay before a retry after this status; `None` if the retries are used up or the status is final.
    pub(crate) fn after_status(
        &self,
        status: StatusCode,
        failed: u32,
        asked: Option<Duration>,
        rng: &JitterRng,
    ) -> Option<Duration> {
        let again =
            failed <= self.status_code_retries && self.retriable_status_codes.contains(&status);
        let asked = asked.unwrap_or_default().min(LONGEST);
        again.then(|| self.status_code_retry_delay.after(failed, rng).max(asked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute_and_are_never_less_than_half() {
        let rng = JitterRng::seeded(3);
        for (attempt, whole) in [
            (1, 0.5),
            (2, 1.0),
            (3, 2.0),
            (8, 60.0),
            (1000, 60.0),
            (u32::MAX, 60.0),
        ] {
            for _ in 0..50 {
                let pause = Delay::Exponential.after(attempt, &rng).as_secs_f64();
                assert!((whole / 2.0..=whole).contains(&pause), "{attempt}: {pause}");
            }
        }
        let fixed = Duration::from_secs(3);
        assert_eq!(Delay::Fixed(fixed).after(9, &rng), fixed);
    }

    #[test]
    fn repetitions_end() {
        let policy = RetryPolicy {
            connect_retries: 2,
            status_code_retries: 1,
            ..RetryPolicy::default()
        };
        let rng = JitterRng::seeded(0);
        assert!(policy.after_connect(2, &rng).is_some());
        assert!(policy.after_connect(3, &rng).is_none());
        let busy = StatusCode::SERVICE_UNAVAILABLE;
        assert!(policy.after_status(busy, 1, None, &rng).is_some());
        assert!(policy.after_status(busy, 2, None, &rng).is_none());
        assert!(
            policy
                .after_status(StatusCode::CONFLICT, 1, None, &rng)
                .is_none()
        );
        let day = Some(Duration::from_secs(86_400));
        assert_eq!(policy.after_status(busy, 1, day, &rng), Some(LONGEST));
    }
}
