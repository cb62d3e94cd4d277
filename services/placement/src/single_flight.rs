//! Single-flight: callers with the same query share one read of the database, and the number of concurrent reads is
//! limited.
//!
//! A caller that arrives while its query is still queued gets the result of that read. A caller that arrives after the
//! read has begun starts a new one, because the running read may not see what was written before the caller arrived.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

/// The queued queries and the read permits.
pub(crate) struct SingleFlight<Q, A> {
    turns: Semaphore,
    waiting: Mutex<HashMap<Q, WaitingCallers<A>>>,
}

/// The permit for a read. It is released as soon as reading is done, even if the result is still processed.
pub(crate) struct ReadPermit<'a>(#[expect(dead_code, reason = "held")] Option<SemaphorePermit<'a>>);

/// The callers that wait for one read.
struct WaitingCallers<A> {
    cell: Arc<OnceCell<A>>,
    /// How many they are: never none.
    count: usize,
}

impl<Q: Clone + Eq + Hash, A: Clone> SingleFlight<Q, A> {
    /// With this number of concurrent reads.
    pub(crate) fn new(turns: usize) -> Self {
        Self {
            turns: Semaphore::new(turns),
            waiting: Mutex::default(),
        }
    }

    /// The result of the query from a read that begins after this call. Errors are shared as well, so that a failing
    /// database is not asked once per caller.
    pub(crate) async fn ask(&self, query: &Q, read: impl AsyncFnOnce(ReadPermit<'_>) -> A) -> A {
        let joined = self.join(query);
        let answer = joined.cell.get_or_init(async || {
            let turn = self.turn().await;
            joined.begin();
            read(turn).await
        });
        answer.await.clone()
    }

    /// Waits for a read permit.
    pub(crate) async fn turn(&self) -> ReadPermit<'_> {
        // Never closed.
        ReadPermit(self.turns.acquire().await.ok())
    }

    fn join<'a>(&'a self, query: &'a Q) -> JoinedRead<'a, Q, A> {
        let mut waiting = self.waiting();
        let callers = waiting
            .entry(query.clone())
            .or_insert_with(|| WaitingCallers {
                cell: Arc::default(),
                count: 0,
            });
        callers.count += 1;
        JoinedRead {
            flight: self,
            query,
            cell: Arc::clone(&callers.cell),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Q, WaitingCallers<A>>> {
        // The map is consistent even after a panic.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct JoinedRead<'a, Q: Clone + Eq + Hash, A: Clone> {
    flight: &'a SingleFlight<Q, A>,
    query: &'a Q,
    cell: Arc<OnceCell<A>>,
}

impl<Q: Clone + Eq + Hash, A: Clone> JoinedRead<'_, Q, A> {
    /// From now on no caller joins this read.
    fn begin(&self) {
        let mut waiting = self.flight.waiting();
        if self.callers(&mut waiting).is_some() {
            waiting.remove(self.query);
        }
    }

    /// The group of callers, while its read has not begun.
    fn callers<'m>(
        &self,
        waiting: &'m mut HashMap<Q, WaitingCallers<A>>,
    ) -> Option<&'m mut WaitingCallers<A>> {
        let callers = waiting.get_mut(self.query)?;
        Arc::ptr_eq(&callers.cell, &self.cell).then_some(callers)
    }
}

impl<Q: Clone + Eq + Hash, A: Clone> Drop for JoinedRead<'_, Q, A> {
    /// The last caller of a group removes it.
    fn drop(&mut self) {
        let mut waiting = self.flight.waiting();
        if let Some(callers) = self.callers(&mut waiting) {
            callers.count -= 1;
            if callers.count == 0 {
                waiting.remove(self.query);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    /// Reads that the test releases one by one; each returns its number.
    #[derive(Default)]
    struct Readings {
        begun: AtomicUsize,
        has_begun: Notify,
        go: Notify,
    }

    impl Readings {
        async fn read(&self, turn: ReadPermit<'_>) -> Result<usize, &'static str> {
            let number = self.begun.fetch_add(1, Ordering::SeqCst);
            self.has_begun.notify_one();
            self.go.notified().await;
            drop(turn);
            Ok(number)
        }
    }

    type Answer = Result<usize, &'static str>;
    type Shared = (Arc<SingleFlight<&'static str, Answer>>, Arc<Readings>);

    fn ask((flight, readings): &Shared, query: &'static str) -> tokio::task::JoinHandle<usize> {
        let (flight, readings) = (Arc::clone(flight), Arc::clone(readings));
        tokio::spawn(async move {
            let read = async |turn: ReadPermit<'_>| readings.read(turn).await;
            flight.ask(&query, read).await.unwrap()
        })
    }

    fn shared() -> Shared {
        (Arc::new(SingleFlight::new(1)), Arc::default())
    }

    /// Yields until all tasks of this thread are waiting.
    async fn settled() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn callers_during_a_read_share_the_next_one() {
        let all = shared();
        let first = ask(&all, "q");
        all.1.has_begun.notified().await;
        let later: Vec<_> = (0..5).map(|_| ask(&all, "q")).collect();
        settled().await;
        all.1.go.notify_one();
        assert_eq!(first.await.unwrap(), 0);
        all.1.has_begun.notified().await;
        let latest = ask(&all, "q");
        settled().await;
        all.1.go.notify_one();
        for one in later {
            assert_eq!(one.await.unwrap(), 1);
        }
        all.1.has_begun.notified().await;
        all.1.go.notify_one();
        assert_eq!(latest.await.unwrap(), 2);
        assert!(all.0.waiting().is_empty());
    }

    #[tokio::test]
    async fn another_question_is_read_by_itself() {
        let all = shared();
        let (one, other) = (ask(&all, "q"), ask(&all, "r"));
        settled().await;
        all.1.go.notify_one();
        settled().await;
        all.1.go.notify_one();
        assert_ne!(one.await.unwrap(), other.await.unwrap());
    }

    #[tokio::test]
    async fn an_abandoned_caller_disturbs_no_other_and_leaves_nothing() {
        let all = shared();
        let first = ask(&all, "q");
        all.1.has_begun.notified().await;
        let (leader, other) = (ask(&all, "q"), ask(&all, "q"));
        let alone = ask(&all, "r");
        settled().await;
        leader.abort();
        alone.abort();
        settled().await;
        assert_eq!(all.0.waiting().len(), 1);
        all.1.go.notify_one();
        assert_eq!(first.await.unwrap(), 0);
        all.1.has_begun.notified().await;
        all.1.go.notify_one();
        assert_eq!(other.await.unwrap(), 1);
        assert!(all.0.waiting().is_empty());
    }

    #[tokio::test]
    async fn a_failed_read_fails_for_all_its_callers() {
        let all = shared();
        let first = ask(&all, "q");
        all.1.has_begun.notified().await;
        let fails = || {
            let (flight, readings) = (Arc::clone(&all.0), Arc::clone(&all.1));
            tokio::spawn(async move {
                let read = async |_: ReadPermit<'_>| {
                    readings.begun.fetch_add(1, Ordering::SeqCst);
                    Err("no")
                };
                flight.ask(&"q", read).await
            })
        };
        let all_who_fail = [fails(), fails(), fails()];
        settled().await;
        all.1.go.notify_one();
        first.await.unwrap();
        for one in all_who_fail {
            assert_eq!(one.await.unwrap(), Err("no"));
        }
        assert_eq!(all.1.begun.load(Ordering::SeqCst), 2, "readings");
        // A later caller starts a new read.
        let later = ask(&all, "q");
        all.1.has_begun.notified().await;
        all.1.go.notify_one();
        assert_eq!(later.await.unwrap(), 2);
    }

    #[tokio::test]
    async fn a_returned_turn_blocks_no_caller() {
        let all = shared();
        let (flight, done) = (Arc::clone(&all.0), Arc::new(Notify::new()));
        let end = Arc::clone(&done);
        let searching = tokio::spawn(async move {
            let read = async |turn: ReadPermit<'_>| {
                drop(turn);
                end.notified().await;
                Ok(77)
            };
            flight.ask(&"q", read).await
        });
        settled().await;
        let other = ask(&all, "r");
        all.1.go.notify_one();
        assert_eq!(other.await.unwrap(), 0);
        done.notify_one();
        assert_eq!(searching.await.unwrap(), Ok(77));
    }

    #[test]
    fn two_callers_abandoned_at_once_leave_nothing() {
        let flight = SingleFlight::<u32, usize>::new(1);
        let both = Barrier::new(2);
        for query in 0..2_000 {
            // Both there before one goes.
            let joined = [flight.join(&query), flight.join(&query)];
            std::thread::scope(|scope| {
                for one in joined {
                    let both = &both;
                    scope.spawn(move || {
                        both.wait();
                        drop(one);
                    });
                }
            });
        }
        assert_eq!(flight.waiting().len(), 0);
    }
}
