//! Actions that were asked for in vain: when each is asked for again, how long that has gone on, and ends that could not be
//! written down. In memory: after a start each is asked for at once, by its id, and is not done twice.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use crate::servers::Ended;

/// The longest pause before the same is asked for again, in pauses of the keeper: half a minute of seconds.
const LONGEST: u32 = 30;

/// How long an agent that answers is asked for what it does not do, in pauses of the keeper: half an hour of seconds.
const PATIENCE: u32 = 1_800;

/// The actions of servers that were asked for in vain, one of each server.
#[derive(Debug, Default)]
pub(crate) struct Pacing(Mutex<HashMap<Uuid, Vain>>);

#[derive(Debug)]
struct Vain {
    action: i64,
    /// It is not asked for before.
    next: Instant,
    /// How long was waited last.
    pause: Duration,
    /// Since when the agent answers that it does not do it.
    refused_since: Option<Instant>,
    /// How it ended, where that could not be written down.
    ended: Option<Ended>,
}

/// Why an action has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Why {
    /// Nobody answers. That is waited for however long it takes: nobody knows what was done.
    NoAnswer,
    /// It cannot be done now, by who answers.
    NotNow,
    /// So it ended, and that could not be written down.
    NotWritten(Ended),
}

impl Pacing {
    /// Whether the server's action may be asked for now.
    pub(crate) fn is_due(&self, server: Uuid, now: Instant) -> bool {
        let vain = self.vain();
        vain.get(&server).is_none_or(|vain| vain.next <= now)
    }

    /// It was in vain: it is asked for again after a pause, each twice as long as the one before. Whether patience is at its end.
    pub(crate) fn failed(
        &self,
        (server, action): (Uuid, i64),
        why: Why,
        pause: Duration,
        now: Instant,
    ) -> bool {
        let mut all = self.vain();
        let before = all.remove(&server).filter(|vain| vain.action == action);
        let next = before.as_ref().map_or(pause, |vain| {
            vain.pause.saturating_mul(2).min(pause * LONGEST)
        });
        let refused_since = match why {
            Why::NotNow => before.and_then(|vain| vain.refused_since).or(Some(now)),
            Why::NoAnswer | Why::NotWritten(_) => None,
        };
        let vain = Vain {
            action,
            next: now + next,
            pause: next,
            refused_since,
            ended: match why {
                Why::NotWritten(ended) => Some(ended),
                Why::NoAnswer | Why::NotNow => None,
            },
        };
        all.insert(server, vain);
        refused_since.is_some_and(|since| now - since >= pause * PATIENCE)
    }

    /// How the action ended, where it has and that could not be written down.
    pub(crate) fn end(&self, server: Uuid, action: i64) -> Option<Ended> {
        let all = self.vain();
        let vain = all.get(&server).filter(|vain| vain.action == action)?;
        vain.ended.clone()
    }

    /// Nothing is asked for in vain any more.
    pub(crate) fn ended(&self, server: Uuid) {
        self.vain().remove(&server);
    }

    fn vain(&self) -> MutexGuard<'_, HashMap<Uuid, Vain>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance_actions::Outcome;

    const SERVER: Uuid = Uuid::from_u128(1);
    const PAUSE: Duration = Duration::from_secs(1);

    #[test]
    fn pauses_grow_to_the_longest_and_patience_with_who_answers_ends() {
        let pacing = Pacing::default();
        let began = Instant::now();
        let mut now = began;
        assert!(pacing.is_due(SERVER, now));
        let mut waited = Vec::new();
        while !pacing.failed((SERVER, 7), Why::NotNow, PAUSE, now) {
            let asked = now;
            while !pacing.is_due(SERVER, now) {
                now += PAUSE / 2;
            }
            waited.push((now - asked).as_secs());
        }
        assert_eq!(waited[..7], [1, 2, 4, 8, 16, 30, 30]);
        assert!(waited.len() < 100, "{} times", waited.len());
        assert!(now - began >= PAUSE * PATIENCE);
        // Who does not answer is waited for, and then patience begins anew.
        for why in [Why::NoAnswer, Why::NotNow] {
            assert!(!pacing.failed((SERVER, 7), why, PAUSE, now));
        }
        // Another action begins anew.
        assert!(!pacing.failed((SERVER, 8), Why::NoAnswer, PAUSE, now));
        assert!(pacing.is_due(SERVER, now + PAUSE));
    }

    #[test]
    fn an_end_that_was_not_written_is_kept_for_its_action() {
        let pacing = Pacing::default();
        let now = Instant::now();
        let ended = Ended {
            outcome: Outcome::Success,
            word: None,
        };
        let why = Why::NotWritten(ended.clone());
        pacing.failed((SERVER, 7), why, PAUSE, now);
        assert_eq!(pacing.end(SERVER, 7), Some(ended));
        assert_eq!(pacing.end(SERVER, 8), None);
        assert!(!pacing.is_due(SERVER, now));
        pacing.ended(SERVER);
        assert_eq!(pacing.end(SERVER, 7), None);
        assert!(pacing.is_due(SERVER, now));
    }
}
