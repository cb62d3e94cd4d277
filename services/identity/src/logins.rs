//! A password is looked at: a few at once, on threads that nobody waits for, and for one user at a bounded pace.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use berth_store::Disposition;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};

use crate::guesses::{Guesses, Turn, Who};
use crate::passwords::{LONGEST_PASSWORD, PasswordHash};
use crate::store::TableError;

/// So many passwords are looked at at once: each may take all of a processor and 256 MiB.
const AT_ONCE: usize = 2;
/// So many wait for that at most.
const MOST_WAITING: usize = 128;
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
        /// What it was.
        reason: &'static str,
    },
    /// Too many passwords are waiting to be looked at, for this user or for all.
    #[error(
        "too many logins at once, or too many wrong passwords; wait some seconds and try again"
    )]
    TooMany,
    /// The database failed.
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
    threads: Semaphore,
    waiting: AtomicUsize,
}

impl Default for Logins {
    fn default() -> Self {
        Self {
            guesses: Guesses::default(),
            threads: Semaphore::new(AT_ONCE),
            waiting: AtomicUsize::new(0),
        }
    }
}

/// One that waits, as long as the value is.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn among(count: &'a AtomicUsize) -> Result<Self, LoginError> {
        let waiting = Self(count);
        if count.fetch_add(1, Ordering::Relaxed) >= MOST_WAITING {
            return Err(LoginError::TooMany);
        }
        Ok(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Logins {
    /// Looks whether a password is of a hash. Without a hash it takes as long as with one: `costliest` is what a check is
    /// modelled on.
    pub(crate) async fn check(
        &self,
        who: &Who,
        hash: Option<PasswordHash>,
        costliest: Option<PasswordHash>,
        password: String,
    ) -> Result<(), LoginError> {
        let _waiting = Waiting::among(&self.waiting)?;
        let deadline = Instant::now() + PATIENCE;
        let is_somebodys = hash.is_some();
        let hash = hash.or(costliest).or_else(|| NOBODYS.parse().ok());
        loop {
            let permit = tokio::time::timeout_at(deadline, self.threads.acquire());
            let permit = permit.await.map_err(|_| LoginError::TooMany)?;
            match self.guesses.turn(who, Instant::now()) {
                Turn::Now => {}
                Turn::Later(moment) if moment <= deadline => {
                    drop(permit);
                    sleep_until(moment).await;
                    continue;
                }
                Turn::Later(_) => return Err(LoginError::TooMany),
            }
            let looked =
                tokio::task::spawn_blocking(move || hash.is_some_and(|hash| hash.is_of(&password)));
            let is_right = looked.await.map_err(|_| LoginError::System)? && is_somebodys;
            return if is_right {
                self.guesses.was_right(who);
                Ok(())
            } else {
                self.guesses.was_wrong(who, Instant::now());
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

    fn user() -> Who {
        Who::User("u".to_owned())
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
                who,
                hash.cloned(),
                Some(PasswordHash::cheap("right").unwrap()),
                password.to_owned(),
            )
        };
        let user = user();
        assert!(ask(&user, Some(&hash), "right").await.is_ok());
        assert!(ask(&user, Some(&hash), "wrong").await.is_err());
        let stranger = Who::Stranger("s".to_owned());
        assert!(ask(&stranger, None, "right").await.is_err());
    }

    #[tokio::test]
    async fn a_crowd_is_refused_and_not_kept() {
        let logins = Logins::default();
        logins.waiting.store(MOST_WAITING, Ordering::Relaxed);
        let hash = PasswordHash::cheap("right").unwrap();
        let refused = logins
            .check(&user(), Some(hash), None, "right".to_owned())
            .await;
        assert!(matches!(refused, Err(LoginError::TooMany)));
        assert_eq!(logins.waiting.load(Ordering::Relaxed), MOST_WAITING);
    }
}
