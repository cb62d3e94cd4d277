//! [`FairPermits`]: a fair semaphore. Owners get permits in turn, so that one with much work does not delay the others.
//!
//! ```text
//! waiting: a1 a2 a3 a4 ... , then b1       granted: a1 b1 a2 a3 a4 ...
//! ```

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::Key;

/// A round-robin queue. Owners take turns, and the items of one owner keep their order.
#[derive(Debug)]
struct FairQueue<K, T> {
    /// The owners with items, the next one first.
    owners: VecDeque<K>,
    items: HashMap<K, VecDeque<T>>,
}

impl<K, T> Default for FairQueue<K, T> {
    fn default() -> Self {
        Self {
            owners: VecDeque::new(),
            items: HashMap::new(),
        }
    }
}

impl<K: Key, T> FairQueue<K, T> {
    fn push(&mut self, owner: K, item: T) {
        let items = self.items.entry(owner.clone()).or_default();
        if items.is_empty() {
            self.owners.push_back(owner);
        }
        items.push_back(item);
    }

    /// Removes the next item, and moves its owner behind all other owners with items.
    fn pop(&mut self) -> Option<T> {
        let owner = self.owners.pop_front()?;
        let items = self.items.get_mut(&owner)?;
        let item = items.pop_front();
        if items.is_empty() {
            self.items.remove(&owner);
        } else {
            self.owners.push_back(owner);
        }
        item
    }
}

struct PermitState<K: Key> {
    free: usize,
    waiting: FairQueue<K, oneshot::Sender<FairPermit<K>>>,
}

/// A fair semaphore: owners get permits in turn. Clones share it.
pub struct FairPermits<K: Key> {
    state: Arc<Mutex<PermitState<K>>>,
}

impl<K: Key> Clone for FairPermits<K> {
    fn clone(&self) -> Self {
        let state = Arc::clone(&self.state);
        Self { state }
    }
}

/// A permit. Dropping it returns the permit.
#[must_use = "the permit is given back when this is dropped"]
pub struct FairPermit<K: Key> {
    /// `None` if there is nothing to return on drop.
    permits: Option<FairPermits<K>>,
}

impl<K: Key> FairPermits<K> {
    /// Creates `permits` permits, at least one.
    #[must_use]
    pub fn new(permits: usize) -> Self {
        let state = PermitState {
            free: permits.max(1),
            waiting: FairQueue::default(),
        };
        let state = Arc::new(Mutex::new(state));
        Self { state }
    }

    /// The number of callers that wait for a permit.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let state = self.state();
        let senders = state.waiting.items.values().flatten();
        senders.filter(|sender| !sender.is_closed()).count()
    }

    /// Waits for a permit in the turn of its owner. A cancelled call leaks no permit.
    pub async fn acquire(&self, owner: K) -> FairPermit<K> {
        let receiver = {
            let mut state = self.state();
            if state.free > 0 {
                state.free -= 1;
                None
            } else {
                let (sender, receiver) = oneshot::channel();
                state.waiting.push(owner, sender);
                Some(receiver)
            }
        };
        match receiver {
            None => self.permit(),
            // A sender sends before it is dropped, so this default is never used.
            Some(receiver) => receiver.await.unwrap_or(FairPermit { permits: None }),
        }
    }

    fn permit(&self) -> FairPermit<K> {
        let permits = Some(self.clone());
        FairPermit { permits }
    }

    fn state(&self) -> MutexGuard<'_, PermitState<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a permit to the next waiting caller. Without one, the number of free permits rises.
    fn release(&self) {
        loop {
            let next = {
                let mut state = self.state();
                let next = state.waiting.pop();
                if next.is_none() {
                    state.free += 1;
                }
                next
            };
            let Some(next) = next else {
                return;
            };
            match next.send(self.permit()) {
                Ok(()) => return,
                // This caller was cancelled: try the next one.
                Err(mut unsent) => unsent.permits = None,
            }
        }
    }
}

impl<K: Key> Drop for FairPermit<K> {
    fn drop(&mut self) {
        if let Some(permits) = self.permits.take() {
            permits.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Polls once, which is when a waiter enters the queue.
    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn one_item_of_each_owner_is_next_however_many_an_owner_has() {
        let mut queue = FairQueue::default();
        for number in 0..100 {
            queue.push("greedy", number);
        }
        queue.push("polite", 1000);
        assert_eq!(queue.pop(), Some(0));
        assert_eq!(
            queue.pop(),
            Some(1000),
            "after one item of the greedy owner"
        );
        queue.push("polite", 1001);
        queue.push("third", 2000);
        let next: Vec<i32> = (0..5).filter_map(|_| queue.pop()).collect();
        assert_eq!(next, [1, 1001, 2000, 2, 3]);
        let rest: Vec<i32> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(rest, (4..100).collect::<Vec<i32>>());
        assert!(queue.items.is_empty() && queue.owners.is_empty());
    }

    #[test]
    fn a_permit_goes_to_the_owners_in_turn() {
        let permits = FairPermits::new(1);
        let Poll::Ready(held) = poll(pin!(permits.acquire("greedy"))) else {
            panic!("there is a free permit");
        };
        let mut second = pin!(permits.acquire("greedy"));
        let mut third = pin!(permits.acquire("greedy"));
        let mut polite = pin!(permits.acquire("polite"));
        for waiter in [second.as_mut(), third.as_mut(), polite.as_mut()] {
            assert!(poll(waiter).is_pending());
        }
        drop(held);
        let Poll::Ready(held) = poll(second) else {
            panic!("the first of the greedy owner is next");
        };
        assert!(poll(third.as_mut()).is_pending() && poll(polite.as_mut()).is_pending());
        drop(held);
        let Poll::Ready(held) = poll(polite) else {
            panic!("the polite owner is next");
        };
        assert!(poll(third.as_mut()).is_pending());
        drop(held);
        assert!(poll(third).is_ready());
    }

    #[test]
    fn a_cancelled_acquire_leaks_no_permit() {
        let permits = FairPermits::new(1);
        let Poll::Ready(held) = poll(pin!(permits.acquire("a"))) else {
            panic!("there is a free permit");
        };
        {
            let mut gone = pin!(permits.acquire("a"));
            assert!(poll(gone.as_mut()).is_pending());
            // Handed over, and dropped unread.
            let mut unread = pin!(permits.acquire("b"));
            assert!(poll(unread.as_mut()).is_pending());
            drop(held);
        }
        let Poll::Ready(held) = poll(pin!(permits.acquire("c"))) else {
            panic!("the permit came back");
        };
        assert!(
            poll(pin!(permits.acquire("c"))).is_pending(),
            "there is one only"
        );
        drop(held);
    }
}
