//! Verifies passwords: a few at a time on blocking threads, throttled per user and address.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_store::Disposition;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};

use crate::client_address::ClientAddress;
use crate::login_throttle::{AttemptSlot, LoginSubject, LoginThrottle};
use crate::passwords::{LONGEST_PASSWORD, PasswordHash};
use crate::store::TokenTableError;

/// The number of passwords verified concurrently. Each may use a whole core and 256 MiB.
const AT_ONCE: usize = 2;
/// The maximum number of waiting attempts.
const MOST_WAITING: usize = 256;
/// The maximum number of waiting attempts per address (and at most half of the free slots), and per user.
const MOST_OF_SOURCE: usize = 128;
const MOST_OF_USER: usize = 96;
/// None waits for longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A hash with the default cost that matches no password. It is verified when the file has no users, so that timing is
/// the same.
const DUMMY_HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$YmVydGgtaWRlbnRpdHktMQ$\
                       AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Why a token was not issued.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The request does not have the documented form.
    #[error("{0}")]
    Malformed(String),
    /// The authentication method is not supported.
    #[error("Attempted to authenticate with an unsupported method.")]
    UnsupportedMethod,
    /// Wrong credentials, or no access to the requested scope. The reason is logged, not returned.
    #[error("{reason}")]
    Refused { reason: &'static str },
    /// too many logins at once, or too many wrong passwords; wait some seconds and try again
    #[error(
        "too many logins at once, or too many wrong passwords; wait some seconds and try again"
    )]
    TooMany,
    #[error(transparent)]
    Table(#[from] TokenTableError),
    /// The system gives no random bytes, or no thread.
    #[error("the system gives no random bytes, or no thread")]
    System,
}

impl LoginError {
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::TooMany => Disposition::Retry,
            Self::Table(error) => error.disposition(),
            _ => Disposition::Fatal,
        }
    }
}

/// Verifies passwords within the limits of this module.
#[derive(Debug)]
pub(crate) struct PasswordVerifier {
    guesses: LoginThrottle,
    threads: Arc<Semaphore>,
    waiting: Mutex<HashMap<ClientAddress, Vec<LoginSubject>>>,
}

impl Default for PasswordVerifier {
    fn default() -> Self {
        Self {
            guesses: LoginThrottle::default(),
            threads: Arc::new(Semaphore::new(AT_ONCE)),
            waiting: Mutex::default(),
        }
    }
}

/// A reserved place among the waiting attempts, released on drop.
struct QueueSlot<'a> {
    logins: &'a PasswordVerifier,
    source: ClientAddress,
    who: &'a LoginSubject,
}

impl Drop for QueueSlot<'_> {
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

impl PasswordVerifier {
    /// Reserves a place among the waiting attempts. The first attempt of a user from a trusted address always gets one.
    fn reserve_slot<'a>(
        &'a self,
        who: &'a LoginSubject,
        source: ClientAddress,
    ) -> Result<QueueSlot<'a>, LoginError> {
        let waiting = self.waiting.lock();
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        let all: usize = waiting.values().map(Vec::len).sum();
        let there = waiting.get(&source).map_or(&[][..], Vec::as_slice);
        let of_user = there.iter().filter(|other| *other == who).count();
        let left = MOST_WAITING.saturating_sub(all);
        let is_full =
            left == 0 || there.len() >= MOST_OF_SOURCE.min(left) || of_user >= MOST_OF_USER;
        let is_due = of_user == 0 && self.guesses.is_trusted(who, source);
        if is_full && !is_due {
            return Err(LoginError::TooMany);
        }
        waiting.entry(source).or_default().push(who.clone());
        Ok(QueueSlot {
            logins: self,
            source,
            who,
        })
    }

    /// Verifies a password against a hash. Without a hash it takes equally long: it verifies `costliest` instead.
    pub(crate) async fn check(
        &self,
        (who, source): (&LoginSubject, ClientAddress),
        hash: Option<PasswordHash>,
        costliest: Option<PasswordHash>,
        password: String,
    ) -> Result<(), LoginError> {
        let _place = self.reserve_slot(who, source)?;
        let waiter = self.guesses.enqueue(who, source);
        let deadline = Instant::now() + PATIENCE;
        let is_somebodys = hash.is_some();
        let hash = hash.or(costliest).or_else(|| DUMMY_HASH.parse().ok());
        loop {
            let permit = Arc::clone(&self.threads).acquire_owned();
            let permit = tokio::time::timeout_at(deadline, permit).await;
            let permit = permit.map_err(|_| LoginError::TooMany)?;
            match waiter.try_acquire(Instant::now()) {
                AttemptSlot::Now => {}
                AttemptSlot::Later(moment) if moment <= deadline => {
                    drop(permit);
                    sleep_until(moment).await;
                    continue;
                }
                AttemptSlot::Later(_) => return Err(LoginError::TooMany),
            }
            let looked = tokio::task::spawn_blocking(move || {
                // The caller may have disconnected; the verification still occupies a thread.
                let _permit = permit;
                hash.is_some_and(|hash| hash.verify(&password))
            });
            let is_right = looked.await.map_err(|_| LoginError::System)? && is_somebodys;
            return if is_right {
                waiter.record_success(Instant::now());
                Ok(())
            } else {
                waiter.record_failure(Instant::now());
                Err(LoginError::Refused {
                    reason: "the password is wrong, or there is no such user",
                })
            };
        }
    }

    /// Refuses passwords that are too long before any work is done.
    pub(crate) fn check_length(password: &str) -> Result<(), LoginError> {
        if password.len() > LONGEST_PASSWORD {
            return Err(LoginError::Refused {
                reason: "the password is too long",
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn user(id: &str) -> LoginSubject {
        LoginSubject::User(id.to_owned())
    }

    fn from(number: u8) -> ClientAddress {
        ClientAddress::from(Some(std::net::Ipv4Addr::new(192, 0, 2, number).into()))
    }

    #[test]
    fn what_a_stranger_is_checked_against_is_a_hash_of_the_default_costs() {
        let nobodys: PasswordHash = DUMMY_HASH.parse().unwrap();
        assert_eq!(nobodys.cost(), PasswordHash::of("x").unwrap().cost());
        assert!(!nobodys.verify("x"));
    }

    #[tokio::test]
    async fn a_stranger_is_refused_even_with_the_password_of_the_hash_it_is_modelled_on() {
        let logins = PasswordVerifier::default();
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
        let stranger = LoginSubject::UnknownUser("s".to_owned());
        assert!(ask(&stranger, None, "right").await.is_err());
    }

    #[test]
    fn a_crowd_is_refused_and_not_kept_and_the_others_have_places() {
        let logins = PasswordVerifier::default();
        let (bob, alice) = (user("bob"), user("alice"));
        let is_full = |who, number| {
            matches!(
                logins.reserve_slot(who, from(number)),
                Err(LoginError::TooMany)
            )
        };
        let of_bob: Vec<_> = (0..MOST_OF_USER)
            .map(|_| logins.reserve_slot(&bob, from(1)).unwrap())
            .collect();
        assert!(is_full(&bob, 1) && !is_full(&alice, 1) && !is_full(&bob, 2));
        let of_alice: Vec<_> = (MOST_OF_USER..MOST_OF_SOURCE)
            .map(|_| logins.reserve_slot(&alice, from(1)).unwrap())
            .collect();
        assert!(is_full(&alice, 1) && !is_full(&alice, 2));
        drop((of_bob, of_alice));
        assert!(!is_full(&bob, 1));
        assert!(logins.waiting.lock().unwrap().is_empty());
    }

    #[test]
    fn whatever_waits_at_other_addresses_a_user_has_a_place_where_it_has_logged_in_before() {
        let logins = PasswordVerifier::default();
        let bob = user("bob");
        let crowd: Vec<LoginSubject> = (0..MOST_WAITING)
            .map(|n| user(&format!("somebody {}", n / 64)))
            .collect();
        let fill = |number| -> Vec<_> {
            let asked = crowd
                .iter()
                .map(|who| logins.reserve_slot(who, from(number)));
            asked.flatten().collect()
        };
        let two = (fill(2), fill(3));
        assert_eq!(
            (two.0.len(), two.1.len()),
            (128, 64),
            "half of what is left"
        );
        assert!(logins.reserve_slot(&bob, from(4)).is_ok());
        logins
            .guesses
            .enqueue(&bob, from(1))
            .record_success(Instant::now());
        let rest: Vec<_> = (5..30).map(fill).collect();
        assert!(
            logins.reserve_slot(&bob, from(4)).is_err(),
            "all slots are taken"
        );
        let first = logins.reserve_slot(&bob, from(1));
        assert!(first.is_ok() && logins.reserve_slot(&bob, from(1)).is_err());
        drop((two, rest, first));
        assert!(logins.waiting.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn eighty_that_guess_without_end_do_not_keep_a_user_out_where_it_has_logged_in_before() {
        let logins = Arc::new(PasswordVerifier::default());
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
        assert!(crowd.try_join_next().is_none(), "they are throttled");
        let begun = Instant::now();
        for _ in 0..4 {
            ask(1, "right").await.unwrap();
        }
        assert!(begun.elapsed() < Duration::from_secs(2));
        assert!(ask(1, "wrong").await.is_err());
        crowd.abort_all();
    }
}
