//! How fast passwords can be guessed: after some that were wrong, the next one for the same user is looked at later and later.
//!
//! A user is never locked out: that would let anybody lock anybody out. So a user who has logged in from an address is held up there
//! by wrong passwords from there alone; all other addresses share one pace, or who has many of them could guess the faster, and
//! take turns at it, or one that asks a lot would keep the others away. Names that nobody has are treated alike, or the pace would
//! tell which names there are.
//!
//! | room | noun |
//! |---|---|
//! | `pace` | when the next password may be looked at |
//! | `shared` | whose turn it is, of the addresses that wait |

mod pace;
mod shared;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use self::pace::Pace;
use self::shared::Shared;
use crate::source::Source;

/// Names that nobody has share so many places.
const STRANGERS: u64 = 512;
/// From so many addresses a user is known; the one not used for longest gives way.
const MOST_KNOWN: usize = 256;

/// For whom a password is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Who {
    /// The user of this id.
    User(String),
    /// Nobody, by what was asked for.
    Stranger(String),
}

/// Wrong passwords of late.
#[derive(Debug, Default)]
pub(crate) struct Guesses {
    lanes: Mutex<Lanes>,
    places: RandomState,
}

#[derive(Debug, Default)]
struct Lanes {
    users: HashMap<String, Lane>,
    strangers: HashMap<u64, Lane>,
}

/// Wrong passwords for one user.
#[derive(Debug, Default)]
struct Lane {
    known: HashMap<Source, Known>,
    others: Shared,
}

/// An address from which the user has logged in.
#[derive(Debug)]
struct Known {
    pace: Pace,
    last_right: Instant,
}

/// Whether a password may be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Now; until it was found right or wrong the next one waits its pause.
    Now,
    Later(Instant),
}

/// One password that waits to be looked at, as long as the value is.
pub(crate) struct Waiter<'a> {
    guesses: &'a Guesses,
    who: &'a Who,
    source: Source,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.guesses
            .with(self.who, |lane| lane.others.leave(self.source));
    }
}

impl Guesses {
    /// A password from an address has come.
    pub(crate) fn wait<'a>(&'a self, who: &'a Who, source: Source) -> Waiter<'a> {
        self.with(who, |lane| lane.others.come(source));
        Waiter {
            guesses: self,
            who,
            source,
        }
    }

    /// Whether the user has logged in from there.
    pub(crate) fn is_known(&self, who: &Who, source: Source) -> bool {
        self.with(who, |lane| lane.known.contains_key(&source))
    }

    fn with<T>(&self, who: &Who, act: impl FnOnce(&mut Lane) -> T) -> T {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        act(match who {
            Who::User(id) => lanes.users.entry(id.clone()).or_default(),
            Who::Stranger(asked) => {
                let place = self.places.hash_one(asked) % STRANGERS;
                lanes.strangers.entry(place).or_default()
            }
        })
    }
}

impl Waiter<'_> {
    /// Asks for the turn to look at it.
    pub(crate) fn turn(&self, now: Instant) -> Turn {
        self.with(|lane| match lane.known.get_mut(&self.source) {
            Some(known) => known.pace.turn(now),
            None => {
                let Lane { known, others } = lane;
                // Those that are known take turns of their own: none of the others waits for them.
                others.turn(self.source, now, |other| !known.contains_key(other))
            }
        })
    }

    pub(crate) fn was_wrong(&self, now: Instant) {
        self.with(|lane| match lane.known.get_mut(&self.source) {
            Some(known) => known.pace.was_wrong(now),
            None => lane.others.pace.was_wrong(now),
        });
    }

    /// It was right: the wrong ones before it are forgotten, as far as they were from there.
    pub(crate) fn was_right(&self, now: Instant) {
        if let Who::User(_) = self.who {
            self.with(|lane| lane.knows(self.source, now));
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Lane) -> T) -> T {
        self.guesses.with(self.who, act)
    }
}

impl Lane {
    fn knows(&mut self, source: Source, now: Instant) {
        let known = Known {
            pace: Pace::default(),
            last_right: now,
        };
        self.known.insert(source, known);
        if self.known.len() > MOST_KNOWN {
            let oldest = self.known.iter().min_by_key(|(_, it)| it.last_right);
            if let Some(oldest) = oldest.map(|(source, _)| *source) {
                self.known.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests;
