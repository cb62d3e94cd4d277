//! Throttling of wrong passwords: after a few failures, each further attempt for the same user is delayed longer.
//!
//! No user is ever locked out, because that would let anybody lock out anybody. Addresses from which a user has logged
//! in before are trusted: each has a delay of its own. All other addresses share one delay per user, so that many
//! addresses cannot guess faster, and take turns in a fair queue, so that one busy address cannot starve the others.
//! Unknown user names are treated the same way, so that timing does not reveal which names exist.
//!
//! | module | contents |
//! |---|---|
//! | `failure_backoff` | when the next attempt may run |
//! | `fair_queue` | which of the waiting addresses is next |

mod backoff;
mod fair_queue;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use self::backoff::FailureBackoff;
use self::fair_queue::FairQueue;
use crate::client_address::ClientAddress;

/// The number of buckets that all unknown user names share.
const STRANGERS: u64 = 512;
/// The maximum number of trusted addresses of a user; the least recently used one is dropped.
const MOST_KNOWN: usize = 256;

/// The user that a login is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LoginSubject {
    /// The user of this id.
    User(String),
    /// A name that no user has, as given in the request.
    UnknownUser(String),
}

/// Wrong passwords of late.
#[derive(Debug, Default)]
pub(crate) struct LoginThrottle {
    buckets: Mutex<ThrottleBuckets>,
    places: RandomState,
}

#[derive(Debug, Default)]
struct ThrottleBuckets {
    users: HashMap<String, UserBucket>,
    unknown_users: HashMap<u64, UserBucket>,
}

/// Wrong passwords for one user.
#[derive(Debug, Default)]
struct UserBucket {
    trusted: HashMap<ClientAddress, TrustedAddress>,
    others: FairQueue,
}

/// An address from which the user has logged in.
#[derive(Debug)]
struct TrustedAddress {
    failure_backoff: FailureBackoff,
    last_success: Instant,
}

/// Whether an attempt may run now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptSlot {
    /// Now. Until its result is recorded, the next attempt waits.
    Now,
    Later(Instant),
}

/// A login attempt in the queue. Dropping it removes it from the queue.
pub(crate) struct PendingAttempt<'a> {
    guesses: &'a LoginThrottle,
    who: &'a LoginSubject,
    source: ClientAddress,
}

impl Drop for PendingAttempt<'_> {
    fn drop(&mut self) {
        self.guesses
            .with(self.who, |lane| lane.others.dequeue(self.source));
    }
}

impl LoginThrottle {
    /// Adds an attempt from an address to the queue.
    pub(crate) fn enqueue<'a>(
        &'a self,
        who: &'a LoginSubject,
        source: ClientAddress,
    ) -> PendingAttempt<'a> {
        self.with(who, |lane| lane.others.enqueue(source));
        PendingAttempt {
            guesses: self,
            who,
            source,
        }
    }

    /// Whether the user has logged in from there.
    pub(crate) fn is_trusted(&self, who: &LoginSubject, source: ClientAddress) -> bool {
        self.with(who, |lane| lane.trusted.contains_key(&source))
    }

    fn with<T>(&self, who: &LoginSubject, act: impl FnOnce(&mut UserBucket) -> T) -> T {
        let mut lanes = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        act(match who {
            LoginSubject::User(id) => lanes.users.entry(id.clone()).or_default(),
            LoginSubject::UnknownUser(asked) => {
                let place = self.places.hash_one(asked) % STRANGERS;
                lanes.unknown_users.entry(place).or_default()
            }
        })
    }
}

impl PendingAttempt<'_> {
    /// Asks whether this attempt may run now.
    pub(crate) fn try_acquire(&self, now: Instant) -> AttemptSlot {
        self.with(|lane| match lane.trusted.get_mut(&self.source) {
            Some(known) => known.failure_backoff.try_acquire(now),
            None => {
                let UserBucket {
                    trusted: known,
                    others,
                } = lane;
                // Trusted addresses do not take part in the shared queue.
                others.try_acquire(self.source, now, |other| !known.contains_key(other))
            }
        })
    }

    pub(crate) fn record_failure(&self, now: Instant) {
        self.with(|lane| match lane.trusted.get_mut(&self.source) {
            Some(known) => known.failure_backoff.record_failure(now),
            None => lane.others.backoff.record_failure(now),
        });
    }

    /// Records a success: the address becomes trusted, and its earlier failures are forgotten.
    pub(crate) fn record_success(&self, now: Instant) {
        if let LoginSubject::User(_) = self.who {
            self.with(|lane| lane.trust(self.source, now));
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut UserBucket) -> T) -> T {
        self.guesses.with(self.who, act)
    }
}

impl UserBucket {
    fn trust(&mut self, source: ClientAddress, now: Instant) {
        let known = TrustedAddress {
            failure_backoff: FailureBackoff::default(),
            last_success: now,
        };
        self.trusted.insert(source, known);
        if self.trusted.len() > MOST_KNOWN {
            let oldest = self.trusted.iter().min_by_key(|(_, it)| it.last_success);
            if let Some(oldest) = oldest.map(|(source, _)| *source) {
                self.trusted.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests;
