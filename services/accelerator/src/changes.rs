//! Wakes a host's agent when an operator wants something else of its devices than the answer to its last report said.
//!
//! What is wanted is in the database and comes with the answer to any report; this only shortens the wait for the next one. So
//! nothing of it is kept: a service that was started again has other marks, and every agent reports once more.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use uuid::Uuid;

/// How many may wait at once: half of the connections of a listener. Whoever comes when they all wait is answered at once.
const SEATS: usize = 256;

/// Rung when something else is wanted of a host's devices; heard by agents that wait. Clones are one.
#[derive(Debug, Clone)]
pub struct HostsBell(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Of this process: marks of one before it are never this one's.
    epoch: Uuid,
    rung: watch::Sender<Rung>,
    seats: Semaphore,
}

#[derive(Debug, Default)]
struct Rung {
    /// How often, by host.
    hosts: HashMap<String, u64>,
    /// Nobody waits any more.
    ended: bool,
}

impl Default for HostsBell {
    fn default() -> Self {
        Self::with_seats(SEATS)
    }
}

impl HostsBell {
    fn with_seats(seats: usize) -> Self {
        Self(Arc::new(Inner {
            epoch: Uuid::new_v4(),
            rung: watch::Sender::default(),
            seats: Semaphore::new(seats),
        }))
    }

    /// Whoever waits is answered, and nobody waits from now on: the service stops.
    pub fn end(&self) {
        self.0.rung.send_modify(|rung| rung.ended = true);
    }

    pub(crate) fn ring(&self, host: &str) {
        self.0.rung.send_modify(|rung| {
            *rung.hosts.entry(host.to_owned()).or_default() += 1;
        });
    }

    /// Where a host's changes stand.
    pub(crate) fn mark(&self, host: &str) -> String {
        self.mark_of(&self.0.rung.borrow(), host)
    }

    /// The same, as soon as it is not `after`, and at the latest after the wait.
    pub(crate) async fn changed(&self, host: &str, after: &str, wait: Duration) -> String {
        let Ok(_seat) = self.0.seats.try_acquire() else {
            return self.mark(host);
        };
        let mut rung = self.0.rung.subscribe();
        let other = rung.wait_for(|rung| rung.ended || self.mark_of(rung, host) != after);
        // Late or not, the mark says it.
        drop(timeout(wait, other).await);
        self.mark(host)
    }

    fn mark_of(&self, rung: &Rung, host: &str) -> String {
        let times = rung.hosts.get(host).copied().unwrap_or_default();
        format!("{}.{times}", self.0.epoch.simple())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn who_waits_for_a_host_is_woken_by_that_host_alone() {
        let bell = HostsBell::default();
        let (here, there) = (bell.mark("here"), bell.mark("there"));
        let waiting = tokio::join!(
            bell.changed("here", &here, LONG),
            bell.changed("there", &there, Duration::from_millis(20)),
            async {
                tokio::task::yield_now().await;
                bell.ring("here");
            }
        );
        assert_ne!(waiting.0, here);
        assert_eq!(waiting.1, there);
        assert_eq!(bell.mark("here"), waiting.0);
    }

    #[tokio::test]
    async fn what_was_rung_before_the_wait_is_not_waited_for() {
        let bell = HostsBell::default();
        let before = bell.mark("here");
        bell.ring("here");
        let answered = bell.changed("here", &before, LONG).await;
        assert_ne!(answered, before);
        // Nor is what a service before this one knew.
        let other = HostsBell::default();
        assert_ne!(other.changed("here", &answered, LONG).await, answered);
    }

    #[tokio::test]
    async fn a_stop_lets_everybody_go_and_nobody_waits_after_it() {
        let bell = HostsBell::default();
        let mark = bell.mark("here");
        let (answered, ()) = tokio::join!(bell.changed("here", &mark, LONG), async {
            tokio::task::yield_now().await;
            bell.end();
        });
        assert_eq!(answered, mark);
        assert_eq!(bell.changed("here", &mark, LONG).await, mark);
    }

    #[tokio::test]
    async fn where_all_seats_are_taken_the_answer_comes_at_once() {
        let bell = HostsBell::with_seats(1);
        let mark = bell.mark("here");
        tokio::select! {
            biased;
            _ = bell.changed("here", &mark, LONG) => panic!("nobody rang"),
            told = bell.changed("here", &mark, LONG) => assert_eq!(told, mark),
        }
    }
}
