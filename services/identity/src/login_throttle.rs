//! Throttling of wrong passwords: after a few failures, each further attempt for the same user is delayed longer.
//!
//! No user is ever locked out, because that would let anybody lock out anybody. Each address from which a user has
//! logged in before is trusted and has a delay of its own. All other addresses share one delay per user, so that many
//! addresses cannot guess faster. Unknown user names are treated the same way, so that timing does not reveal which
//! names exist.

mod backoff;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError};

use berth_http::ClientAddress;
use tokio::time::Instant;

use self::backoff::FailureBackoff;
pub(crate) use self::backoff::LONGEST_PAUSE;

/// The number of buckets that all unknown user names share.
const UNKNOWN_USER_BUCKETS: u64 = 512;
/// The maximum number of trusted addresses of a user; the least recently used one is dropped.
const MAX_TRUSTED: usize = 256;

/// The user that a login is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum LoginSubject {
    /// The user of this id.
    User(String),
    /// A name that no user has, as given in the request.
    UnknownUser(String),
}

/// The recent wrong passwords of all users.
#[derive(Debug, Default)]
pub(crate) struct LoginThrottle {
    buckets: Mutex<ThrottleBuckets>,
    hasher: RandomState,
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
    others: FailureBackoff,
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

impl LoginThrottle {
    /// Whether the user has logged in from there.
    pub(crate) fn is_trusted(&self, subject: &LoginSubject, source: ClientAddress) -> bool {
        self.with_bucket(subject, |bucket| bucket.trusted.contains_key(&source))
    }

    /// Asks whether an attempt from this address may run now.
    pub(crate) fn try_acquire(
        &self,
        subject: &LoginSubject,
        source: ClientAddress,
        now: Instant,
    ) -> AttemptSlot {
        self.with_backoff(subject, source, |backoff| backoff.try_acquire(now))
    }

    pub(crate) fn record_failure(
        &self,
        subject: &LoginSubject,
        source: ClientAddress,
        now: Instant,
    ) {
        self.with_backoff(subject, source, |backoff| backoff.record_failure(now));
    }

    /// Records a success: the address becomes trusted, and its earlier failures are forgotten.
    pub(crate) fn record_success(
        &self,
        subject: &LoginSubject,
        source: ClientAddress,
        now: Instant,
    ) {
        if let LoginSubject::User(_) = subject {
            self.with_bucket(subject, |bucket| bucket.trust(source, now));
        }
    }

    fn with_backoff<T>(
        &self,
        subject: &LoginSubject,
        source: ClientAddress,
        act: impl FnOnce(&mut FailureBackoff) -> T,
    ) -> T {
        self.with_bucket(subject, |bucket| {
            let trusted = bucket.trusted.get_mut(&source);
            act(trusted.map_or(&mut bucket.others, |address| &mut address.failure_backoff))
        })
    }

    fn with_bucket<T>(&self, subject: &LoginSubject, act: impl FnOnce(&mut UserBucket) -> T) -> T {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        act(match subject {
            LoginSubject::User(id) => buckets.users.entry(id.clone()).or_default(),
            LoginSubject::UnknownUser(name) => {
                let bucket = self.hasher.hash_one(name) % UNKNOWN_USER_BUCKETS;
                buckets.unknown_users.entry(bucket).or_default()
            }
        })
    }
}

impl UserBucket {
    fn trust(&mut self, source: ClientAddress, now: Instant) {
        let address = TrustedAddress {
            failure_backoff: FailureBackoff::default(),
            last_success: now,
        };
        self.trusted.insert(source, address);
        if self.trusted.len() > MAX_TRUSTED {
            let oldest = self
                .trusted
                .iter()
                .min_by_key(|(_, address)| address.last_success);
            if let Some(oldest) = oldest.map(|(source, _)| *source) {
                self.trusted.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests;
