//! The delay of one bucket: it grows with each wrong password and is forgotten after a quiet time.

use std::time::Duration;

use tokio::time::Instant;

use super::AttemptSlot;

/// The number of wrong passwords without a delay.
const FREE: u32 = 5;
/// The first delay. It doubles with each further failure up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// After this long without a wrong password all earlier ones are forgotten.
pub(super) const FORGET: Duration = Duration::from_secs(900);

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FailureBackoff {
    wrong: u32,
    last: Option<Instant>,
    /// When the next attempt may run.
    next: Option<Instant>,
}

impl FailureBackoff {
    pub(super) fn try_acquire(&mut self, now: Instant) -> AttemptSlot {
        self.forget(now);
        match self.next {
            Some(next) if next > now => AttemptSlot::Later(next),
            _ => {
                self.next = Some(now + pause(self.wrong));
                AttemptSlot::Now
            }
        }
    }

    pub(super) fn record_failure(&mut self, now: Instant) {
        self.wrong = self.wrong.saturating_add(1);
        self.last = Some(now);
        self.next = Some(now + pause(self.wrong));
    }

    fn forget(&mut self, now: Instant) {
        if self
            .last
            .is_some_and(|last| now.duration_since(last) > FORGET)
        {
            *self = Self::default();
        }
    }
}

fn pause(wrong: u32) -> Duration {
    match wrong.checked_sub(FREE) {
        None => Duration::ZERO,
        Some(delayed) => (FIRST_PAUSE * (1 << delayed.min(10))).min(LONGEST_PAUSE),
    }
}
