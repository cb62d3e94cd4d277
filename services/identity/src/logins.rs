//! A password is looked at: a few at once, on threads that nobody waits for, and for one user at a bounded pace.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_store::Disposition;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};

use crate::guesses::{Guesses, Turn, Who};
use crate::passwords::{LONGEST_PASSWORD, PasswordHash};
use crate::source::Source;
use crate::store::TableError;

/// So many passwords are looked at at once: each may take all of a processor and 256 MiB.
const AT_ONCE: usize = 2;
/// So many wait for that at most.
const MOST_WAITING: usize = 256;
/// So many of them are from one address, at most half of those that others leave, and so many of those for one user: the others
/// find a place.
const MOST_OF_SOURCE: usize = 128;
const MOST_OF_USER: usize = 96;
/// None waits for longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A hash of the default costs, of a password that nobody has: what is checked where a file has no users.
const NOBODYS: &str = "$argon2id$v=19$m=19456,t=2,p=1$YmVydGgtaWRlbnRpdHktMQ$\
                       AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Why a token was not made.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// What was asked is not what the API promises to take.
    #[error("{0}")]
    Malformed(String),
    /// There is no such method.
    #[error("Attempted to authenticate with an unsupported method.")]
    UnsupportedMethod,
    /// It is not who it says, or may not have such a token. The reason is for the log alone.
    #[error("{reason}")]
    Refused {
        reason: &'static str,
    },
    /// Too many passwords are waiting to be looked at, for this user or for all.
    #[error(
        "too many logins at once, or too many wrong passwords; wait some seconds and try again"
    )]
    TooMany,
    #[error(transparent)]
    Table(#[from] TableError),
    /// The system gives no random bytes, or no thread.
    #[error("the system gives no random bytes, or no thread")]
    System,
}

impl LoginError {
    /// What a loop does about it.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::TooMany => Disposition::Retry,
            Self::Table(error) => error.disposition(),
            _ => Disposition::Fatal,
        }
    }
}

/// Where passwords are looked at.
#[derive(Debug)]
pub(crate) struct Logins {
    guesses: Guesses,
    threads: Arc<Semaphore>,
    waiting: Mutex<HashMap<Source, Vec<Who>>>,
}

impl Default for Logins {
    fn default() -> Self {
        Self {
            guesses: Guesses::default(),
            threads: Arc::new(Semaphore::new(AT_ONCE)),
            waiting: Mutex::default(),
        }
    }
}

/// One that waits, as long as the value is.
struct Waiting<'a> {
    logins: &'a Logins,
    source: Source,
    who: &'a Who,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let waiting = self.logins.waiting.lock();
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = waiting.get_mut(&self.source) {
            if let Some(place) = there.iter().position(|who| who == self.who) {
                there.swap_remove(place);
            }
            if there.is_empty() {
                waiting.remove(&self.source);
            }
        }
    }
}

impl Logins {
    /// A place among those that wait, where there is one. The first of a user from where it is known has one whoever else waits.
    fn place<'a>(&'a self, who: &'a Who, source: Source) -> Result<Waiting<'a>, LoginError> {
        let waiting = self.waiting.lock();
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        let all: usize = waiting.values().map(Vec::len).sum();
        let there = waiting.get(&source).map_or(&[][..], Vec::as_slice);
        let of_user = there.iter().filter(|other| *other == who).count();
        let left = MOST_WAITING.saturating_sub(all);
        let is_full =
            left == 0 || there.len() >= MOST_OF_SOURCE.min(left) || of_user >= MOST_OF_USER;
        let is_due = of_user == 0 && self.guesses.is_known(who, source);
        if is_full && !is_due {
            return Err(LoginError::TooMany);
        }
        waiting.entry(source).or_default().push(who.clone());
        Ok(Waiting {
            logins: self,
            source,
            who,
        })
    }

    /// Looks whether a password from an address is of a hash. Without a hash it takes as long as with one: `costliest` is what a
    /// check is modelled on.
    pub(crate) async fn check(
        &self,
        (who, source): (&Who, Source),
        hash: Option<PasswordHash>,
        costliest: Option<PasswordHash>,
        password: String,
    ) -> Result<(), LoginError> {
        let _place = self.place(who, source)?;
        let waiter = self.guesses.wait(who, source);
        let deadline = Instant::now() + PATIENCE;
        let is_somebodys = hash.is_some();
        let hash = hash.or(costliest).or_else(|| NOBODYS.parse().ok());
        loop {
            let permit = Arc::clone(&self.threads).acquire_owned();
            let permit = tokio::time::timeout_at(deadline, permit).await;
            let permit = permit.map_err(|_| LoginError::TooMany)?;
            match waiter.turn(Instant::now()) {
                Turn::Now => {}
                Turn::Later(moment) if moment <= deadline => {
                    drop(permit);
                    sleep_until(moment).await;
                    continue;
                }
                Turn::Later(_) => return Err(LoginError::TooMany),
            }
            let looked = tokio::task::spawn_blocking(move || {
                // Whoever asked may be gone by now; the processor is used all the same.
                let _permit = permit;
                hash.is_some_and(|hash| hash.is_of(&password))
            });
            let is_right = looked.await.map_err(|_| LoginError::System)? && is_somebodys;
            return if is_right {
                waiter.was_right(Instant::now());
                Ok(())
            } else {
                waiter.was_wrong(Instant::now());
                Err(LoginError::Refused {
                    reason: "the password is wrong, or there is no such user",
                })
            };
        }
    }

    /// Refuses what cannot be a password before anything is done about it.
    pub(crate) fn fits(password: &str) -> Result<(), LoginError> {
        if password.len() > LONGEST_PASSWORD {
            return Err(LoginError::Refused {
                reason: "no password is so long",
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn user(id: &str) -> Who {
        Who::User(id.to_owned())
    }

    fn from(number: u8) -> Source {
        Source::from(Some(std::net::Ipv4Addr::new(192, 0, 2, number).into()))
    }

    #[test]
    fn what_a_stranger_is_checked_against_is_a_hash_of_the_default_costs() {
        let nobodys: PasswordHash = NOBODYS.parse().unwrap();
        assert_eq!(nobodys.cost(), PasswordHash::of("x").unwrap().cost());
        assert!(!nobodys.is_of("x"));
    }

    #[tokio::test]
    async fn a_stranger_is_refused_even_with_the_password_of_the_hash_it_is_modelled_on() {
        let logins = Logins::default();
        let hash = PasswordHash::cheap("right").unwrap();
        let ask = |who, hash: Option<&PasswordHash>, password: &str| {
            logins.check(
                (who, from(1)),
                hash.cloned(),
                Some(PasswordHash::cheap("right").unwrap()),
                password.to_owned(),
            )
        };
        let user = user("u");
        assert!(ask(&user, Some(&hash), "right").await.is_ok());
        assert!(ask(&user, Some(&hash), "wrong").await.is_err());
        let stranger = Who::Stranger("s".to_owned());
        assert!(ask(&stranger, None, "right").await.is_err());
    }

    #[test]
    fn a_crowd_is_refused_and_not_kept_and_the_others_have_places() {
        let logins = Logins::default();
        let (bob, alice) = (user("bob"), user("alice"));
        let is_full =
            |who, number| matches!(logins.place(who, from(number)), Err(LoginError::TooMany));
        let of_bob: Vec<_> = (0..MOST_OF_USER)
            .map(|_| logins.place(&bob, from(1)).unwrap())
            .collect();
        assert!(is_full(&bob, 1) && !is_full(&alice, 1) && !is_full(&bob, 2));
        let of_alice: Vec<_> = (MOST_OF_USER..MOST_OF_SOURCE)
            .map(|_| logins.place(&alice, from(1)).unwrap())
            .collect();
        assert!(is_full(&alice, 1) && !is_full(&alice, 2));
        drop((of_bob, of_alice));
        assert!(!is_full(&bob, 1));
        assert!(logins.waiting.lock().unwrap().is_empty());
    }

    #[test]
    fn whatever_waits_at_other_addresses_a_user_has_a_place_where_it_has_logged_in_before() {
        let logins = Logins::default();
        let bob = user("bob");
        let crowd: Vec<Who> = (0..MOST_WAITING)
            .map(|n| user(&format!("somebody {}", n / 64)))
            .collect();
        let fill = |number| -> Vec<_> {
            let asked = crowd.iter().map(|who| logins.place(who, from(number)));
            asked.flatten().collect()
        };
        let two = (fill(2), fill(3));
        assert_eq!(
            (two.0.len(), two.1.len()),
            (128, 64),
            "half of what is left"
        );
        assert!(logins.place(&bob, from(4)).is_ok());
        logins.guesses.wait(&bob, from(1)).was_right(Instant::now());
        let rest: Vec<_> = (5..30).map(fill).collect();
        assert!(logins.place(&bob, from(4)).is_err(), "all places are taken");
        let first = logins.place(&bob, from(1));
        assert!(first.is_ok() && logins.place(&bob, from(1)).is_err());
        drop((two, rest, first));
        assert!(logins.waiting.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn eighty_that_guess_without_end_do_not_keep_a_user_out_where_it_has_logged_in_before() {
        let logins = Arc::new(Logins::default());
        let hash = PasswordHash::cheap("right").unwrap();
        let ask = |number: u8, password: &'static str| {
            let (logins, hash) = (Arc::clone(&logins), hash.clone());
            async move {
                let bob = user("bob");
                let password = password.to_owned();
                logins
                    .check((&bob, from(number)), Some(hash), None, password)
                    .await
            }
        };
        ask(1, "right").await.unwrap();
        let mut crowd = tokio::task::JoinSet::new();
        for _ in 0..80 {
            let guesses: [_; 20] = std::array::from_fn(|_| ask(2, "wrong"));
            crowd.spawn(async move {
                for guess in guesses {
                    let _refused = guess.await;
                }
            });
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(crowd.try_join_next().is_none(), "they are held up");
        let begun = Instant::now();
        for _ in 0..4 {
            ask(1, "right").await.unwrap();
        }
        assert!(begun.elapsed() < Duration::from_secs(2));
        assert!(ask(1, "wrong").await.is_err());
        crowd.abort_all();
    }
}
