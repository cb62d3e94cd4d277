//! How fast passwords can be guessed: after some that were wrong, the next one for the same user is looked at later and later.
//!
//! A user is never locked out: that would let anybody lock anybody out. Names that nobody has are treated alike, or the pace
//! would tell which names there are.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// So many wrong passwords cost nothing.
const FREE: u32 = 5;
/// The pause after the first that does, which doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// After this long without a wrong one all are forgotten.
const FORGET: Duration = Duration::from_secs(900);
/// Names that nobody has share so many places.
const STRANGERS: usize = 512;

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
    users: Mutex<HashMap<String, Attempts>>,
    strangers: Mutex<HashMap<usize, Attempts>>,
    places: RandomState,
}

#[derive(Debug, Clone, Copy, Default)]
struct Attempts {
    wrong: u32,
    last: Option<Instant>,
    /// When the next one may be looked at.
    next: Option<Instant>,
}

/// Whether a password may be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Now; until it was found right or wrong the next one waits its pause.
    Now,
    /// Ask again then.
    Later(Instant),
}

impl Guesses {
    /// Asks for the turn to look at a password.
    pub(crate) fn turn(&self, who: &Who, now: Instant) -> Turn {
        self.with(who, |attempts| {
            if attempts
                .last
                .is_some_and(|last| now.duration_since(last) > FORGET)
            {
                *attempts = Attempts::default();
            }
            match attempts.next {
                Some(next) if next > now => Turn::Later(next),
                _ => {
                    attempts.next = Some(now + pause(attempts.wrong));
                    Turn::Now
                }
            }
        })
    }

    /// The password was wrong.
    pub(crate) fn was_wrong(&self, who: &Who, now: Instant) {
        self.with(who, |attempts| {
            attempts.wrong = attempts.wrong.saturating_add(1);
            attempts.last = Some(now);
            attempts.next = Some(now + pause(attempts.wrong));
        });
    }

    /// The password was right: the wrong ones before it are forgotten.
    pub(crate) fn was_right(&self, who: &Who) {
        if let Who::User(id) = who {
            let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
            users.remove(id);
        }
    }

    fn with<T>(&self, who: &Who, act: impl FnOnce(&mut Attempts) -> T) -> T {
        match who {
            Who::User(id) => {
                let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
                act(users.entry(id.clone()).or_default())
            }
            Who::Stranger(asked) => {
                let hash = self.places.hash_one(asked);
                let count = u64::try_from(STRANGERS).unwrap_or(1);
                let place = usize::try_from(hash % count).unwrap_or(0);
                let strangers = self.strangers.lock();
                let mut strangers = strangers.unwrap_or_else(PoisonError::into_inner);
                act(strangers.entry(place).or_default())
            }
        }
    }
}

fn pause(wrong: u32) -> Duration {
    match wrong.checked_sub(FREE) {
        None => Duration::ZERO,
        Some(more) => (FIRST_PAUSE * (1 << more.min(10))).min(LONGEST_PAUSE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(id: &str) -> Who {
        Who::User(id.to_owned())
    }

    /// How many of the guesses of an hour are looked at, one tried each 10 ms.
    fn looked_at(who: &Who) -> u32 {
        let (guesses, start) = (Guesses::default(), Instant::now());
        let mut count = 0;
        for tick in 0..360_000 {
            let now = start + Duration::from_millis(10 * tick);
            if guesses.turn(who, now) == Turn::Now {
                guesses.was_wrong(who, now);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn an_hour_of_guessing_is_worth_some_nine_hundred_guesses_whether_there_is_such_a_user_or_not()
    {
        let known = looked_at(&user("u"));
        assert!((890..920).contains(&known), "{known}");
        assert_eq!(looked_at(&Who::Stranger("nobody".to_owned())), known);
    }

    #[test]
    fn one_users_wrong_passwords_hold_up_nobody_else_and_a_right_one_forgets_them() {
        let (guesses, now) = (Guesses::default(), Instant::now());
        for _ in 0..20 {
            guesses.was_wrong(&user("a"), now);
        }
        assert_eq!(
            guesses.turn(&user("a"), now),
            Turn::Later(now + LONGEST_PAUSE)
        );
        assert_eq!(guesses.turn(&user("b"), now), Turn::Now);
        let later = now + LONGEST_PAUSE;
        assert_eq!(guesses.turn(&user("a"), later), Turn::Now);
        assert!(
            matches!(guesses.turn(&user("a"), later), Turn::Later(_)),
            "one at a time"
        );
        guesses.was_right(&user("a"));
        assert_eq!(guesses.turn(&user("a"), later), Turn::Now);
        assert_eq!(guesses.turn(&user("a"), later), Turn::Now);
    }

    #[test]
    fn wrong_passwords_of_yesterday_are_forgotten() {
        let (guesses, now) = (Guesses::default(), Instant::now());
        for _ in 0..20 {
            guesses.was_wrong(&user("a"), now);
        }
        let tomorrow = now + FORGET + Duration::from_secs(1);
        for _ in 0..2 {
            assert_eq!(guesses.turn(&user("a"), tomorrow), Turn::Now);
        }
    }
}
