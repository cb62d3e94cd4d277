//! Background tasks by key: at most one task of a key (an instance, a server) runs at a time. A running task can be interrupted when the
//! desired state of its key changes, and all tasks are stopped together.
//!
//! ```text
//! spawn_if_idle(key) -> waiting for the key -> KeyGuard: the task runs -> guard dropped -> next waiting task
//!                          (one at most)          ^ interrupt(key) cancels its token
//! ```
//!
//! The desired state of a key is written down by the caller, and each task reads it at the beginning of each pass. [`KeyedTasks::interrupt`]
//! only cancels tokens that were taken before it. So take the token ([`KeyGuard::interrupt_token`]) **first**, then read the desired state:
//! an update is then either already in what you read, or it cancels your token.
//!
//! A key has an entry only while a task, a waiting task or a subscriber uses it.
//!
//! [`FairPermits`] bound how many tasks of all owners (projects) do something at once.
//!
//! Callers: the instances of the agent, the boots of the conductor, the servers of the compute API.

mod fair;

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use fair::{FairPermit, FairPermits};

/// The key of a task.
pub trait Key: Clone + Eq + Hash + Send + 'static {}

impl<K: Clone + Eq + Hash + Send + 'static> Key for K {}

/// The state of a key while something uses it.
struct Entry {
    /// Locked by the owner of the key guard.
    lock: Arc<tokio::sync::Mutex<()>>,
    /// Cancelled and replaced at each interrupt.
    token: CancellationToken,
    /// How many key guards, waiting tasks and subscribers there are.
    users: usize,
    /// Whether a spawned task has not begun yet.
    is_waiting: bool,
}

struct TaskRegistry<K> {
    entries: Mutex<HashMap<K, Entry>>,
    /// The parent of every token.
    stop: CancellationToken,
    tracker: TaskTracker,
}

/// The background tasks of keys of one type. Clones share the tasks.
pub struct KeyedTasks<K: Key> {
    inner: Arc<TaskRegistry<K>>,
}

impl<K: Key> Clone for KeyedTasks<K> {
    fn clone(&self) -> Self {
        let inner = Arc::clone(&self.inner);
        Self { inner }
    }
}

impl<K: Key> Default for KeyedTasks<K> {
    fn default() -> Self {
        let inner = TaskRegistry {
            entries: Mutex::default(),
            stop: CancellationToken::new(),
            tracker: TaskTracker::new(),
        };
        let inner = Arc::new(inner);
        Self { inner }
    }
}

/// Exclusive access to a key. No other guard of the key exists until this one is dropped.
#[must_use = "the key is released when this is dropped"]
pub struct KeyGuard<K: Key> {
    // Dropped before the reference to its entry.
    _held: OwnedMutexGuard<()>,
    entry: EntryRef<K>,
}

/// A subscription to the interrupts of a key, from its creation.
#[must_use = "no interrupt is received when this is dropped"]
pub struct Interrupt<K: Key> {
    token: CancellationToken,
    _entry: EntryRef<K>,
}

/// Counts as a user of an entry; the last one removes the entry.
struct EntryRef<K: Key> {
    tasks: KeyedTasks<K>,
    key: K,
    is_waiting: bool,
}

impl<K: Key> KeyedTasks<K> {
    /// Waits for exclusive access to the key.
    pub async fn lock(&self, key: K) -> KeyGuard<K> {
        self.entry_ref(key).lock().await
    }

    /// Spawns a task that begins once it has exclusive access to the key. If another task of the key is already waiting to begin, nothing is
    /// spawned: that task will read the current desired state. Does nothing after [`stop`](Self::stop).
    pub fn spawn_if_idle<T>(&self, key: K, task: impl FnOnce(KeyGuard<K>) -> T + Send + 'static)
    where
        T: Future<Output = ()> + Send + 'static,
    {
        let (entry, tracked) = {
            let mut entries = self.entries();
            if self.is_stopping() {
                return;
            }
            let entry = self.entry(&mut entries, &key);
            if std::mem::replace(&mut entry.is_waiting, true) {
                return;
            }
            entry.users += 1;
            let entry = EntryRef {
                tasks: self.clone(),
                key,
                is_waiting: true,
            };
            (entry, self.inner.tracker.token())
        };
        let task = async move { task(entry.lock().await).await };
        self.inner.tracker.spawn(task);
        drop(tracked);
    }

    /// Spawns a task without a key. [`stop`](Self::stop) waits for it; after it, nothing is spawned.
    pub fn spawn_detached(&self, task: impl Future<Output = ()> + Send + 'static) {
        let tracked = {
            let _entries = self.entries();
            if self.is_stopping() {
                return;
            }
            self.inner.tracker.token()
        };
        self.inner.tracker.spawn(task);
        drop(tracked);
    }

    /// Whether the key is locked, or a task of it is waiting to begin.
    #[must_use]
    pub fn is_active(&self, key: &K) -> bool {
        let entries = self.entries();
        let entry = entries.get(key);
        entry.is_some_and(|entry| entry.is_waiting || entry.lock.try_lock().is_err())
    }

    /// Cancels the tokens and subscriptions of the key that exist now. Call it **after** the new desired state was written down. Later tokens
    /// are not affected.
    pub fn interrupt(&self, key: &K) {
        let mut entries = self.entries();
        if let Some(entry) = entries.get_mut(key) {
            let next = self.inner.stop.child_token();
            std::mem::replace(&mut entry.token, next).cancel();
        }
    }

    /// Subscribes to the next interrupt of the key, without locking the key.
    pub fn subscribe(&self, key: K) -> Interrupt<K> {
        let entry = self.entry_ref(key);
        Interrupt {
            token: entry.token(),
            _entry: entry,
        }
    }

    /// Whether [`stop`](Self::stop) was called. All tokens are cancelled then.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.inner.stop.is_cancelled()
    }

    /// Interrupts all tasks, spawns no more, and waits until all have ended.
    pub async fn stop(&self) {
        {
            // Under the lock: a task that was spawned before it is waited for below.
            let _entries = self.entries();
            self.inner.stop.cancel();
        }
        self.inner.tracker.close();
        self.inner.tracker.wait().await;
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<K, Entry>> {
        let entries = self.inner.entries.lock();
        entries.unwrap_or_else(PoisonError::into_inner)
    }

    fn entry<'a>(&self, entries: &'a mut HashMap<K, Entry>, key: &K) -> &'a mut Entry {
        entries.entry(key.clone()).or_insert_with(|| Entry {
            lock: Arc::default(),
            token: self.inner.stop.child_token(),
            users: 0,
            is_waiting: false,
        })
    }

    fn entry_ref(&self, key: K) -> EntryRef<K> {
        self.entry(&mut self.entries(), &key).users += 1;
        EntryRef {
            tasks: self.clone(),
            key,
            is_waiting: false,
        }
    }
}

impl<K: Key> KeyGuard<K> {
    /// A token that the next interrupt of the key cancels, and [`KeyedTasks::stop`]. Take a new one before each reading of the desired state.
    #[must_use]
    pub fn interrupt_token(&self) -> CancellationToken {
        self.entry.token()
    }
}

impl<K: Key> Interrupt<K> {
    /// Waits for the interrupt, or for [`KeyedTasks::stop`].
    pub async fn interrupted(&self) {
        self.token.cancelled().await;
    }
}

impl<K: Key> EntryRef<K> {
    async fn lock(mut self) -> KeyGuard<K> {
        let lock = {
            let mut entries = self.tasks.entries();
            Arc::clone(&self.tasks.entry(&mut entries, &self.key).lock)
        };
        let held = lock.lock_owned().await;
        self.task_begins();
        KeyGuard {
            _held: held,
            entry: self,
        }
    }

    fn token(&self) -> CancellationToken {
        let mut entries = self.tasks.entries();
        self.tasks.entry(&mut entries, &self.key).token.clone()
    }

    /// The spawned task begins, so another one may be spawned.
    fn task_begins(&mut self) {
        if std::mem::take(&mut self.is_waiting) {
            let mut entries = self.tasks.entries();
            self.tasks.entry(&mut entries, &self.key).is_waiting = false;
        }
    }
}

impl<K: Key> Drop for EntryRef<K> {
    fn drop(&mut self) {
        self.task_begins();
        let mut entries = self.tasks.entries();
        if let Some(entry) = entries.get_mut(&self.key) {
            entry.users -= 1;
            if entry.users == 0 {
                entries.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests;
