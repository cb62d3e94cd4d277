//! The retry schedule of failed server actions: when each is retried, since when it fails, and results that could not
//! be stored. It is in memory: after a restart each action is retried at once, and its id prevents a second execution.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use crate::servers::ActionEnd;

/// The maximum delay between retries, in reconciler intervals: half a minute at one second.
const MAX_DELAY: u32 = 30;

/// How long an action is retried that a responding agent refuses, in reconciler intervals: half an hour at one second.
const RETRY_LIMIT: u32 = 1_800;

/// Failed actions, at most one per server.
#[derive(Debug, Default)]
pub(crate) struct RetrySchedule(Mutex<HashMap<Uuid, RetryEntry>>);

#[derive(Debug)]
struct RetryEntry {
    action: i64,
    /// The earliest time of the next retry.
    next: Instant,
    /// How long was waited last.
    pause: Duration,
    /// Since when the agent responds but refuses.
    refused_since: Option<Instant>,
    /// The result, if it could not be stored.
    unsaved_end: Option<ActionEnd>,
}

/// Why an action has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RetryCause {
    /// The agent does not answer. Retried without limit, because the action may have been carried out.
    NoAnswer,
    /// The agent answers that it cannot do it now.
    NotNow,
    /// The action has ended, but the result could not be stored.
    NotWritten(ActionEnd),
}

impl RetrySchedule {
    /// Whether the action of a server may be retried now.
    pub(crate) fn is_due(&self, server: Uuid, now: Instant) -> bool {
        let entry = self.entries();
        entry.get(&server).is_none_or(|entry| entry.next <= now)
    }

    /// Records a failure. The delay doubles each time. Returns whether the retry limit is reached.
    pub(crate) fn record_failure(
        &self,
        (server, action): (Uuid, i64),
        cause: RetryCause,
        pause: Duration,
        now: Instant,
    ) -> bool {
        let mut all = self.entries();
        let before = all.remove(&server).filter(|entry| entry.action == action);
        let next = before.as_ref().map_or(pause, |entry| {
            entry.pause.saturating_mul(2).min(pause * MAX_DELAY)
        });
        let refused_since = match cause {
            RetryCause::NotNow => before.and_then(|entry| entry.refused_since).or(Some(now)),
            RetryCause::NoAnswer | RetryCause::NotWritten(_) => None,
        };
        let entry = RetryEntry {
            action,
            next: now + next,
            pause: next,
            refused_since,
            unsaved_end: match cause {
                RetryCause::NotWritten(end) => Some(end),
                RetryCause::NoAnswer | RetryCause::NotNow => None,
            },
        };
        all.insert(server, entry);
        refused_since.is_some_and(|since| now - since >= pause * RETRY_LIMIT)
    }

    /// The result of the action, if it has ended but could not be stored.
    pub(crate) fn unsaved_end(&self, server: Uuid, action: i64) -> Option<ActionEnd> {
        let all = self.entries();
        let entry = all.get(&server).filter(|entry| entry.action == action)?;
        entry.unsaved_end.clone()
    }

    /// Removes the entry of a server.
    pub(crate) fn clear(&self, server: Uuid) {
        self.entries().remove(&server);
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Uuid, RetryEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance_actions::ActionOutcome;

    const SERVER: Uuid = Uuid::from_u128(1);
    const PAUSE: Duration = Duration::from_secs(1);

    #[test]
    fn pauses_grow_to_the_maximum_and_refusals_end_the_retries() {
        let retries = RetrySchedule::default();
        let began = Instant::now();
        let mut now = began;
        assert!(retries.is_due(SERVER, now));
        let mut waited = Vec::new();
        while !retries.record_failure((SERVER, 7), RetryCause::NotNow, PAUSE, now) {
            let asked = now;
            while !retries.is_due(SERVER, now) {
                now += PAUSE / 2;
            }
            waited.push((now - asked).as_secs());
        }
        assert_eq!(waited[..7], [1, 2, 4, 8, 16, 30, 30]);
        assert!(waited.len() < 100, "{} times", waited.len());
        assert!(now - began >= PAUSE * RETRY_LIMIT);
        // A missing answer is waited for, and then the limit starts again.
        for cause in [RetryCause::NoAnswer, RetryCause::NotNow] {
            assert!(!retries.record_failure((SERVER, 7), cause, PAUSE, now));
        }
        // Another action starts its own limit.
        assert!(!retries.record_failure((SERVER, 8), RetryCause::NoAnswer, PAUSE, now));
        assert!(retries.is_due(SERVER, now + PAUSE));
    }

    #[test]
    fn an_end_that_was_not_written_is_kept_for_its_action() {
        let retries = RetrySchedule::default();
        let now = Instant::now();
        let end = ActionEnd {
            outcome: ActionOutcome::Success,
            report: None,
        };
        let cause = RetryCause::NotWritten(end.clone());
        retries.record_failure((SERVER, 7), cause, PAUSE, now);
        assert_eq!(retries.unsaved_end(SERVER, 7), Some(end));
        assert_eq!(retries.unsaved_end(SERVER, 8), None);
        assert!(!retries.is_due(SERVER, now));
        retries.clear(SERVER);
        assert_eq!(retries.unsaved_end(SERVER, 7), None);
        assert!(retries.is_due(SERVER, now));
    }
}
