//! Journeys: what takes a thing (a guest) from where it is to where it is meant to be. One journey of a thing at a time, the
//! others wait for their turn; one under way can be told that something else is wanted by now; all end together.
//!
//! Where a thing is meant to go is written down elsewhere, by the caller, and read at the beginning of each look. So a word
//! that something changed ([`Journeys::cut_short`]) says no more than *look again*: it ends what a look has begun, and never what
//! a later look begins. Whoever takes his word ([`Turn::cut_short`]) **before** he reads what is wanted misses nothing: what was
//! written before the word was given is read by him, and what is written later comes with a word that he hears.
//!
//! A thing that nobody travels with, waits for or watches has nothing here: there is no entry that must be removed, and none
//! that is removed too early.
//!
//! Callers: the agent's guests and the conductor's, which may not import each other.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What a thing is known by.
pub trait Key: Clone + Eq + Hash + Send + 'static {}

impl<K: Clone + Eq + Hash + Send + 'static> Key for K {}

/// What stands for a thing as long as anybody is concerned with it.
struct Seat {
    /// Held by the one who has the turn.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Replaced at each word that something changed, so that a word is heard once.
    word: CancellationToken,
    /// How many have the turn, wait for it or listen.
    users: usize,
    /// Whether a journey was set out and has not begun yet.
    is_waiting: bool,
}

struct Inner<K> {
    seats: Mutex<HashMap<K, Seat>>,
    /// The parent of every word.
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// The journeys of things that are known by `K`. Clones are one.
pub struct Journeys<K: Key> {
    inner: Arc<Inner<K>>,
}

impl<K: Key> Clone for Journeys<K> {
    fn clone(&self) -> Self {
        let inner = Arc::clone(&self.inner);
        Self { inner }
    }
}

impl<K: Key> Default for Journeys<K> {
    fn default() -> Self {
        let inner = Inner {
            seats: Mutex::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        let inner = Arc::new(inner);
        Self { inner }
    }
}

/// One's turn with a thing: as long as this is there no other has it.
#[must_use = "the turn ends when this is dropped"]
pub struct Turn<K: Key> {
    // Given back before the seat is left.
    _held: OwnedMutexGuard<()>,
    place: Place<K>,
}

/// An ear for what is said of a thing, from when it was made.
#[must_use = "nothing is heard when this is dropped"]
pub struct Ear<K: Key> {
    word: CancellationToken,
    _place: Place<K>,
}

/// A use of a seat.
struct Place<K: Key> {
    journeys: Journeys<K>,
    key: K,
    is_waiting: bool,
}

impl<K: Key> Journeys<K> {
    /// The thing's turn, once no other has it.
    pub async fn turn(&self, key: K) -> Turn<K> {
        self.place(key).turn().await
    }

    /// Begins a journey of the thing as soon as it has its turn, unless one waits to begin already: that one will see whatever
    /// is written by now. Nothing is begun any more once they [stop](Self::stop).
    pub fn set_out<J>(&self, key: K, journey: impl FnOnce(Turn<K>) -> J + Send + 'static)
    where
        J: Future<Output = ()> + Send + 'static,
    {
        let (place, begins) = {
            let mut seats = self.seats();
            if self.is_stopping() {
                return;
            }
            let seat = self.seat(&mut seats, &key);
            if std::mem::replace(&mut seat.is_waiting, true) {
                return;
            }
            seat.users += 1;
            let place = Place {
                journeys: self.clone(),
                key,
                is_waiting: true,
            };
            (place, self.inner.tasks.token())
        };
        let journey = async move { journey(place.turn().await).await };
        self.inner.tasks.spawn(journey);
        drop(begins);
    }

    /// Does this beside, and is not stopped before it is done. Nothing is begun any more once they [stop](Self::stop).
    pub fn beside(&self, errand: impl Future<Output = ()> + Send + 'static) {
        let begins = {
            let _seats = self.seats();
            if self.is_stopping() {
                return;
            }
            self.inner.tasks.token()
        };
        self.inner.tasks.spawn(errand);
        drop(begins);
    }

    /// Whether somebody has the thing's turn, or a journey of it waits to begin.
    #[must_use]
    pub fn is_under_way(&self, key: &K) -> bool {
        let seats = self.seats();
        let seat = seats.get(key);
        seat.is_some_and(|seat| seat.is_waiting || seat.turn.try_lock().is_err())
    }

    /// Says that something else is wanted of the thing by now: whoever listens is told, once. To be called **after** that was
    /// written down. Whoever begins to listen later is not told.
    pub fn cut_short(&self, key: &K) {
        let mut seats = self.seats();
        if let Some(seat) = seats.get_mut(key) {
            let next = self.inner.stop.child_token();
            std::mem::replace(&mut seat.word, next).cancel();
        }
    }

    /// Listens without having the turn.
    pub fn listen(&self, key: K) -> Ear<K> {
        let place = self.place(key);
        Ear {
            word: place.word(),
            _place: place,
        }
    }

    /// Whether they stop: then every word is given at once.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.inner.stop.is_cancelled()
    }

    /// Begins nothing any more, cuts short what is under way, and waits until nothing is.
    pub async fn stop(&self) {
        {
            // Whoever saw that they do not stop is waited for.
            let _seats = self.seats();
            self.inner.stop.cancel();
        }
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    fn seats(&self) -> MutexGuard<'_, HashMap<K, Seat>> {
        let seats = self.inner.seats.lock();
        seats.unwrap_or_else(PoisonError::into_inner)
    }

    fn seat<'a>(&self, seats: &'a mut HashMap<K, Seat>, key: &K) -> &'a mut Seat {
        seats.entry(key.clone()).or_insert_with(|| Seat {
            turn: Arc::default(),
            word: self.inner.stop.child_token(),
            users: 0,
            is_waiting: false,
        })
    }

    fn place(&self, key: K) -> Place<K> {
        self.seat(&mut self.seats(), &key).users += 1;
        Place {
            journeys: self.clone(),
            key,
            is_waiting: false,
        }
    }
}

impl<K: Key> Turn<K> {
    /// Cancelled when something else is wanted of the thing than now, or all stop. To be taken anew before each look at what is
    /// wanted.
    #[must_use]
    pub fn cut_short(&self) -> CancellationToken {
        self.place.word()
    }
}

impl<K: Key> Ear<K> {
    /// Until something else is wanted of the thing, or all stop.
    pub async fn cut_short(&self) {
        self.word.cancelled().await;
    }
}

impl<K: Key> Place<K> {
    async fn turn(mut self) -> Turn<K> {
        let turn = {
            let mut seats = self.journeys.seats();
            Arc::clone(&self.journeys.seat(&mut seats, &self.key).turn)
        };
        let held = turn.lock_owned().await;
        self.begins();
        Turn {
            _held: held,
            place: self,
        }
    }

    fn word(&self) -> CancellationToken {
        let mut seats = self.journeys.seats();
        self.journeys.seat(&mut seats, &self.key).word.clone()
    }

    /// A journey that was set out waits no longer.
    fn begins(&mut self) {
        if std::mem::take(&mut self.is_waiting) {
            let mut seats = self.journeys.seats();
            self.journeys.seat(&mut seats, &self.key).is_waiting = false;
        }
    }
}

impl<K: Key> Drop for Place<K> {
    fn drop(&mut self) {
        self.begins();
        let mut seats = self.journeys.seats();
        if let Some(seat) = seats.get_mut(&self.key) {
            seat.users -= 1;
            if seat.users == 0 {
                seats.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests;
