//! One reading for all who ask the same while they wait for it.
//!
//! So many readings are under way at a time, and no more. Who comes while his question waits for its turn gets the answer that
//! the others get; who comes when its reading has begun asks anew, for that reading may not see what was written before he
//! came.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OnceCell, Semaphore};

/// Questions that wait for their turn, and the turns.
pub(crate) struct Gathering<Q, A> {
    turns: Semaphore,
    waiting: Mutex<HashMap<Q, Arc<OnceCell<A>>>>,
}

impl<Q: Clone + Eq + Hash, A: Clone> Gathering<Q, A> {
    /// With so many readings at a time.
    pub(crate) fn new(turns: usize) -> Self {
        Self {
            turns: Semaphore::new(turns),
            waiting: Mutex::default(),
        }
    }

    /// The answer to the question, by a reading that begins after this call.
    ///
    /// # Errors
    /// Those of the reading. Each who waits then reads for himself.
    pub(crate) async fn ask<E>(
        &self,
        question: &Q,
        read: impl AsyncFnOnce() -> Result<A, E>,
    ) -> Result<A, E> {
        let asked = self.join(question);
        let answer = asked.cell.get_or_try_init(async || {
            let turn = self.turns.acquire().await;
            asked.begin();
            let answer = read().await;
            drop(turn);
            answer
        });
        answer.await.cloned()
    }

    /// By a reading of one's own.
    ///
    /// # Errors
    /// Those of the reading.
    pub(crate) async fn ask_alone<E>(
        &self,
        read: impl AsyncFnOnce() -> Result<A, E>,
    ) -> Result<A, E> {
        let turn = self.turns.acquire().await;
        let answer = read().await;
        drop(turn);
        answer
    }

    fn join<'a>(&'a self, question: &'a Q) -> Asked<'a, Q, A> {
        let mut waiting = self.waiting();
        let cell = waiting.entry(question.clone()).or_default();
        Asked {
            gathering: self,
            question,
            cell: Arc::clone(cell),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Q, Arc<OnceCell<A>>>> {
        // Whoever panicked while holding it left a map that is whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who waits.
struct Asked<'a, Q: Clone + Eq + Hash, A: Clone> {
    gathering: &'a Gathering<Q, A>,
    question: &'a Q,
    cell: Arc<OnceCell<A>>,
}

impl<Q: Clone + Eq + Hash, A: Clone> Asked<'_, Q, A> {
    /// From now on nobody joins.
    fn begin(&self) {
        let mut waiting = self.gathering.waiting();
        if self.is_waiting(&waiting) {
            waiting.remove(self.question);
        }
    }

    fn is_waiting(&self, waiting: &HashMap<Q, Arc<OnceCell<A>>>) -> bool {
        let known = waiting.get(self.question);
        known.is_some_and(|cell| Arc::ptr_eq(cell, &self.cell))
    }
}

impl<Q: Clone + Eq + Hash, A: Clone> Drop for Asked<'_, Q, A> {
    /// Who goes as the last of those who wait leaves nothing behind.
    fn drop(&mut self) {
        let mut waiting = self.gathering.waiting();
        if Arc::strong_count(&self.cell) == 2 && self.is_waiting(&waiting) {
            waiting.remove(self.question);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    /// Readings that are let go one by one; each answers with its number.
    #[derive(Default)]
    struct Readings {
        begun: AtomicUsize,
        has_begun: Notify,
        go: Notify,
    }

    impl Readings {
        async fn read(&self) -> Result<usize, Infallible> {
            let number = self.begun.fetch_add(1, Ordering::SeqCst);
            self.has_begun.notify_one();
            self.go.notified().await;
            Ok(number)
        }
    }

    type Shared = (Arc<Gathering<&'static str, usize>>, Arc<Readings>);

    fn ask(
        (gathering, readings): &Shared,
        question: &'static str,
    ) -> tokio::task::JoinHandle<usize> {
        let (gathering, readings) = (Arc::clone(gathering), Arc::clone(readings));
        tokio::spawn(async move {
            let read = async || readings.read().await;
            gathering.ask(&question, read).await.unwrap()
        })
    }

    fn shared() -> Shared {
        (Arc::new(Gathering::new(1)), Arc::default())
    }

    /// Until whoever can do something has done it: all is on one thread.
    async fn settled() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn who_asks_while_a_reading_is_under_way_has_the_next_with_all_others() {
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
    async fn who_goes_away_takes_nobody_with_him_and_leaves_nothing() {
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
    async fn who_waited_for_a_reading_that_failed_reads_for_himself() {
        let all = shared();
        let first = ask(&all, "q");
        all.1.has_begun.notified().await;
        let gathering = Arc::clone(&all.0);
        let fails = tokio::spawn(async move {
            let read = async || Err::<usize, &str>("no");
            gathering.ask(&"q", read).await
        });
        settled().await;
        let other = ask(&all, "q");
        settled().await;
        all.1.go.notify_one();
        first.await.unwrap();
        assert_eq!(fails.await.unwrap(), Err("no"));
        all.1.has_begun.notified().await;
        all.1.go.notify_one();
        assert_eq!(other.await.unwrap(), 1);
    }
}
