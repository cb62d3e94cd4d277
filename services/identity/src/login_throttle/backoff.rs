//! When the next password may be looked at.

use std::time::Duration;

use tokio::time::Instant;

use super::AttemptSlot;

/// So many wrong passwords cost nothing.
const FREE: u32 = 5;
/// The pause after the first that does, which doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// After this long without a wrong one all are forgotten.
pub(super) const FORGET: Duration = Duration::from_secs(900);

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FailureBackoff {
    wrong: u32,
    last: Option<Instant>,
    /// When the next one may be looked at.
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

    /// When the next one may be looked at, where that is not whenever one comes.
    pub(super) fn next(&mut self, now: Instant) -> Option<Instant> {
        self.forget(now);
        self.next.filter(|_| !pause(self.wrong).is_zero())
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
        Some(more) => (FIRST_PAUSE * (1 << more.min(10))).min(LONGEST_PAUSE),
    }
}
