//! One reading for all who ask the same while they wait for it.
//!
//! So many readings are under way at a time, and no more. Who comes while his question waits for its turn gets the answer that
//! the others get; who comes when its reading has begun asks anew, for that reading may not see what was written before he
//! came.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

/// Questions that wait for their turn, and the turns.
pub(crate) struct Gathering<Q, A> {
    turns: Semaphore,
    waiting: Mutex<HashMap<Q, Waiting<A>>>,
}

/// Leave to read. Whoever has read gives it back, whatever he still does with what he read.
pub(crate) struct Turn<'a>(#[expect(dead_code, reason = "held")] Option<SemaphorePermit<'a>>);

/// Those who wait for one reading.
struct Waiting<A> {
    cell: Arc<OnceCell<A>>,
    /// How many they are: never none.
    count: usize,
}

impl<Q: Clone + Eq + Hash, A: Clone> Gathering<Q, A> {
    /// With so many readings at a time.
    pub(crate) fn new(turns: usize) -> Self {
        Self {
            turns: Semaphore::new(turns),
            waiting: Mutex::default(),
        }
    }

    /// The answer to the question, by a reading that begins after this call. A failure is an answer, too: where the database is
    /// gone, those who wait are not told so one after the other.
    pub(crate) async fn ask(&self, question: &Q, read: impl AsyncFnOnce(Turn<'_>) -> A) -> A {
        let asked = self.join(question);
        let answer = asked.cell.get_or_init(async || {
            let turn = self.turn().await;
            asked.begin();
            read(turn).await
        });
        answer.await.clone()
    }

    /// A turn, when it comes.
    pub(crate) async fn turn(&self) -> Turn<'_> {
        // Never closed.
        Turn(self.turns.acquire().await.ok())
    }

    fn join<'a>(&'a self, question: &'a Q) -> Asked<'a, Q, A> {
        let mut waiting = self.waiting();
        let those = waiting.entry(question.clone()).or_insert_with(|| Waiting {
            cell: Arc::default(),
            count: 0,
        });
        those.count += 1;
        Asked {
            gathering: self,
            question,
            cell: Arc::clone(&those.cell),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Q, Waiting<A>>> {
        // Whoever panicked while holding it left a map that is whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Asked<'a, Q: Clone + Eq + Hash, A: Clone> {
    gathering: &'a Gathering<Q, A>,
    question: &'a Q,
    cell: Arc<OnceCell<A>>,
}

impl<Q: Clone + Eq + Hash, A: Clone> Asked<'_, Q, A> {
    /// From now on nobody joins.
    fn begin(&self) {
        let mut waiting = self.gathering.waiting();
        if self.those(&mut waiting).is_some() {
            waiting.remove(self.question);
        }
    }

    /// Those he waits with, while their reading has not begun.
    fn those<'m>(&self, waiting: &'m mut HashMap<Q, Waiting<A>>) -> Option<&'m mut Waiting<A>> {
        let those = waiting.get_mut(self.question)?;
        Arc::ptr_eq(&those.cell, &self.cell).then_some(those)
    }
}

impl<Q: Clone + Eq + Hash, A: Clone> Drop for Asked<'_, Q, A> {
    /// Who goes as the last of those who wait leaves nothing behind.
    fn drop(&mut self) {
        let mut waiting = self.gathering.waiting();
        if let Some(those) = self.those(&mut waiting) {
            those.count -= 1;
            if those.count == 0 {
                waiting.remove(self.question);
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

    /// Readings that are let go one by one; each answers with its number.
    #[derive(Default)]
    struct Readings {
        begun: AtomicUsize,
        has_begun: Notify,
        go: Notify,
    }

    impl Readings {
        async fn read(&self, turn: Turn<'_>) -> Result<usize, &'static str> {
            let number = self.begun.fetch_add(1, Ordering::SeqCst);
            self.has_begun.notify_one();
            self.go.notified().await;
            drop(turn);
            Ok(number)
        }
    }

    type Answer = Result<usize, &'static str>;
    type Shared = (Arc<Gathering<&'static str, Answer>>, Arc<Readings>);

    fn ask(
        (gathering, readings): &Shared,
        question: &'static str,
    ) -> tokio::task::JoinHandle<usize> {
        let (gathering, readings) = (Arc::clone(gathering), Arc::clone(readings));
        tokio::spawn(async move {
            let read = async |turn: Turn<'_>| readings.read(turn).await;
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
    async fn a_reading_that_failed_failed_for_all_who_waited_for_it() {
        let all = shared();
        let first = ask(&all, "q");
        all.1.has_begun.notified().await;
        let fails = || {
            let (gathering, readings) = (Arc::clone(&all.0), Arc::clone(&all.1));
            tokio::spawn(async move {
                let read = async |_: Turn<'_>| {
                    readings.begun.fetch_add(1, Ordering::SeqCst);
                    Err("no")
                };
                gathering.ask(&"q", read).await
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
        // Who comes later reads anew.
        let later = ask(&all, "q");
        all.1.has_begun.notified().await;
        all.1.go.notify_one();
        assert_eq!(later.await.unwrap(), 2);
    }

    #[tokio::test]
    async fn who_gave_his_turn_back_keeps_nobody_waiting() {
        let all = shared();
        let (gathering, done) = (Arc::clone(&all.0), Arc::new(Notify::new()));
        let end = Arc::clone(&done);
        let searching = tokio::spawn(async move {
            let read = async |turn: Turn<'_>| {
                drop(turn);
                end.notified().await;
                Ok(77)
            };
            gathering.ask(&"q", read).await
        });
        settled().await;
        let other = ask(&all, "r");
        all.1.go.notify_one();
        assert_eq!(other.await.unwrap(), 0);
        done.notify_one();
        assert_eq!(searching.await.unwrap(), Ok(77));
    }

    #[test]
    fn two_who_go_away_at_once_leave_nothing() {
        let gathering = Gathering::<u32, usize>::new(1);
        let both = Barrier::new(2);
        for question in 0..2_000 {
            // Both there before one goes.
            let asked = [gathering.join(&question), gathering.join(&question)];
            std::thread::scope(|scope| {
                for one in asked {
                    let both = &both;
                    scope.spawn(move || {
                        both.wait();
                        drop(one);
                    });
                }
            });
        }
        assert_eq!(gathering.waiting().len(), 0);
    }
}
