//! Long polling for agents: wakes a host's agent when an operator changes the desired state of its devices.
//!
//! The desired state is in the database and is part of the answer to every report, so this only shortens the wait for
//! the next report. Each host has a change marker in the database (`store::host_changes`). Waiters in the process that
//! makes a change are woken at once; if other processes may make changes, waiters also poll.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use berth_store::SqlError;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use crate::store::{AcceleratorTables, host_changes};

/// The maximum number of waiters: half of a listener's connections. Further callers are answered at once.
const MAX_WAITERS: usize = 256;
/// The polling interval if other processes may make changes.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Notifies waiting agents when the requested state of a host's devices changes. Clones share one state.
#[derive(Debug, Clone)]
pub struct HostChangeNotifier(Arc<HostChangeInner>);

#[derive(Debug)]
struct HostChangeInner {
    changes: watch::Sender<ChangeSignal>,
    permits: Semaphore,
}

#[derive(Debug, Default)]
struct ChangeSignal {
    /// How often, by host.
    hosts: HashMap<String, u64>,
    /// Set at shutdown: no caller waits any longer.
    ended: bool,
}

impl ChangeSignal {
    fn times(&self, host: &str) -> u64 {
        self.hosts.get(host).copied().unwrap_or_default()
    }
}

impl Default for HostChangeNotifier {
    fn default() -> Self {
        Self::with_permits(MAX_WAITERS)
    }
}

impl HostChangeNotifier {
    fn with_permits(permits: usize) -> Self {
        Self(Arc::new(HostChangeInner {
            changes: watch::Sender::default(),
            permits: Semaphore::new(permits),
        }))
    }

    /// Answers all waiters and accepts no new ones, because the service is stopping.
    pub fn end(&self) {
        self.0.changes.send_modify(|changes| changes.ended = true);
    }

    pub(crate) fn notify(&self, host: &str) {
        self.0.changes.send_modify(|changes| {
            *changes.hosts.entry(host.to_owned()).or_default() += 1;
        });
    }

    /// Returns a host's change marker as soon as it differs from `after`, and at the latest after the wait.
    pub(crate) async fn changed(
        &self,
        tables: &AcceleratorTables,
        host: &str,
        after: &str,
        wait: Duration,
    ) -> Result<String, SqlError> {
        let permit = self.0.permits.try_acquire();
        let end = Instant::now() + wait;
        let mut changes = self.0.changes.subscribe();
        loop {
            // Subscribe before reading the marker, so that no later change is missed.
            let (known, ended) = {
                let changes = changes.borrow_and_update();
                (changes.times(host), changes.ended)
            };
            let mark = {
                let mut tx = tables.read().await?;
                host_changes::mark(&mut tx, host).await?
            };
            if mark != after || ended || permit.is_err() || Instant::now() >= end {
                return Ok(mark);
            }
            let until = match tables.are_shared() {
                true => end.min(Instant::now() + POLL_INTERVAL),
                false => end,
            };
            let other = changes.wait_for(|changes| changes.ended || changes.times(host) != known);
            // Timeout or not, the marker is read again.
            drop(timeout_at(until, other).await);
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_store::{SqlStore, Transaction, Work};

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    async fn tables() -> AcceleratorTables {
        let store = SqlStore::in_memory().await.unwrap();
        crate::prepare(&store).await.unwrap();
        AcceleratorTables::of(store)
    }

    /// Something is changed of a host.
    struct Change(&'static str);

    impl Work for Change {
        type Output = ();
        type Error = SqlError;

        async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
            host_changes::changed(tx, self.0).await
        }
    }

    async fn mark(tables: &AcceleratorTables, host: &str) -> String {
        let mut tx = tables.read().await.unwrap();
        host_changes::mark(&mut tx, host).await.unwrap()
    }

    #[tokio::test]
    async fn a_waiter_for_a_host_is_woken_by_that_host_only() {
        let (notifier, tables) = (HostChangeNotifier::default(), tables().await);
        let before = mark(&tables, "here").await;
        assert_eq!(mark(&tables, "there").await, before);
        let waiting = tokio::join!(
            notifier.changed(&tables, "here", &before, LONG),
            notifier.changed(&tables, "there", &before, Duration::from_millis(20)),
            async {
                tables.write(&Change("here")).await.unwrap();
                notifier.notify("here");
            }
        );
        let (here, there) = (waiting.0.unwrap(), waiting.1.unwrap());
        assert_ne!(here, before);
        assert_eq!(there, before);
        assert_eq!(mark(&tables, "here").await, here);
    }

    #[tokio::test]
    async fn what_was_changed_before_the_wait_is_not_waited_for() {
        let (notifier, tables) = (HostChangeNotifier::default(), tables().await);
        let before = mark(&tables, "here").await;
        // A change by another process: no waiter is woken here.
        tables.write(&Change("here")).await.unwrap();
        let answered = notifier
            .changed(&tables, "here", &before, LONG)
            .await
            .unwrap();
        assert_ne!(answered, before);
        // A marker of another database does not match either.
        let other = self::tables().await;
        let known = notifier
            .changed(&other, "here", &answered, LONG)
            .await
            .unwrap();
        assert_ne!(known, answered);
    }

    #[tokio::test]
    async fn a_stop_releases_all_waiters_and_admits_no_more() {
        let (notifier, tables) = (HostChangeNotifier::default(), tables().await);
        let before = mark(&tables, "here").await;
        let wait = || notifier.changed(&tables, "here", &before, LONG);
        let (answered, ()) = tokio::join!(wait(), async {
            tokio::task::yield_now().await;
            notifier.end();
        });
        assert_eq!(answered.unwrap(), before);
        assert_eq!(wait().await.unwrap(), before);
    }

    #[tokio::test]
    async fn where_all_permits_are_taken_the_answer_comes_at_once() {
        let (notifier, tables) = (HostChangeNotifier::with_permits(1), tables().await);
        let before = mark(&tables, "here").await;
        tokio::select! {
            biased;
            _ = notifier.changed(&tables, "here", &before, LONG) => panic!("it answers without a change"),
            changed = notifier.changed(&tables, "here", &before, LONG) => assert_eq!(changed.unwrap(), before),
        }
    }
}
