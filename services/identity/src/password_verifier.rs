//! Verifies passwords: a few at a time on blocking threads, throttled per user and address.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_http::ClientAddress;
use berth_store::Disposition;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};

use crate::login_throttle::{AttemptSlot, LoginSubject, LoginThrottle};
use crate::passwords::{LONGEST_PASSWORD, PasswordHash};
use crate::store::TokenTableError;

/// The number of passwords verified concurrently. Each may use a whole core and 256 MiB.
const AT_ONCE: usize = 2;
/// The maximum number of waiting attempts, and of those from one address.
const MAX_WAITING: usize = 256;
const MAX_WAITING_PER_ADDRESS: usize = 64;
/// An attempt that has waited for longer is refused.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// A hash with the default cost that matches no password. It is verified when the file has no users, so that
/// timing is the same.
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
    throttle: LoginThrottle,
    threads: Arc<Semaphore>,
    waiting: Mutex<HashMap<ClientAddress, Vec<LoginSubject>>>,
}

impl Default for PasswordVerifier {
    fn default() -> Self {
        Self {
            throttle: LoginThrottle::default(),
            threads: Arc::new(Semaphore::new(AT_ONCE)),
            waiting: Mutex::default(),
        }
    }
}

/// A reserved place among the waiting attempts, released on drop.
struct QueueSlot<'a> {
    verifier: &'a PasswordVerifier,
    source: ClientAddress,
    subject: &'a LoginSubject,
}

impl Drop for QueueSlot<'_> {
    fn drop(&mut self) {
        let waiting = self.verifier.waiting.lock();
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        if let Some(subjects) = waiting.get_mut(&self.source) {
            if let Some(slot) = subjects.iter().position(|other| other == self.subject) {
                subjects.swap_remove(slot);
            }
            if subjects.is_empty() {
                waiting.remove(&self.source);
            }
        }
    }
}

impl PasswordVerifier {
    /// Reserves a place among the waiting attempts. The first attempt of a user from a trusted address always gets one.
    fn reserve_slot<'a>(
        &'a self,
        subject: &'a LoginSubject,
        source: ClientAddress,
    ) -> Result<QueueSlot<'a>, LoginError> {
        let waiting = self.waiting.lock();
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        let all: usize = waiting.values().map(Vec::len).sum();
        let here = waiting.get(&source).map_or(&[][..], Vec::as_slice);
        let is_full = all >= MAX_WAITING || here.len() >= MAX_WAITING_PER_ADDRESS;
        if is_full && (here.contains(subject) || !self.throttle.is_trusted(subject, source)) {
            return Err(LoginError::TooMany);
        }
        waiting.entry(source).or_default().push(subject.clone());
        Ok(QueueSlot {
            verifier: self,
            source,
            subject,
        })
    }

    /// Verifies a password against a hash. Without a hash it takes equally long: it verifies `costliest` instead.
    pub(crate) async fn check(
        &self,
        (subject, source): (&LoginSubject, ClientAddress),
        hash: Option<PasswordHash>,
        costliest: Option<PasswordHash>,
        password: String,
    ) -> Result<(), LoginError> {
        let _slot = self.reserve_slot(subject, source)?;
        let deadline = Instant::now() + MAX_WAIT;
        let user_exists = hash.is_some();
        let hash = hash.or(costliest).or_else(|| DUMMY_HASH.parse().ok());
        loop {
            let permit = Arc::clone(&self.threads).acquire_owned();
            let permit = tokio::time::timeout_at(deadline, permit).await;
            let permit = permit.map_err(|_| LoginError::TooMany)?;
            match self.throttle.try_acquire(subject, source, Instant::now()) {
                AttemptSlot::Now => {}
                AttemptSlot::Later(next) if next <= deadline => {
                    drop(permit);
                    sleep_until(next).await;
                    continue;
                }
                AttemptSlot::Later(_) => return Err(LoginError::TooMany),
            }
            let verification = tokio::task::spawn_blocking(move || {
                // The caller may have disconnected; the verification still occupies a thread.
                let _permit = permit;
                hash.is_some_and(|hash| hash.verify(&password))
            });
            let is_right = verification.await.map_err(|_| LoginError::System)? && user_exists;
            let now = Instant::now();
            return if is_right {
                self.throttle.record_success(subject, source, now);
                Ok(())
            } else {
                self.throttle.record_failure(subject, source, now);
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
    fn the_dummy_hash_has_the_default_cost_and_matches_nothing() {
        let dummy: PasswordHash = DUMMY_HASH.parse().unwrap();
        assert_eq!(dummy.cost(), PasswordHash::of("x").unwrap().cost());
        assert!(!dummy.verify("x"));
    }

    #[tokio::test]
    async fn an_unknown_user_is_refused_even_with_the_password_of_the_hash_that_is_verified_instead()
     {
        let verifier = PasswordVerifier::default();
        let hash = PasswordHash::cheap("right").unwrap();
        let ask = |who, hash: Option<&PasswordHash>, password: &str| {
            verifier.check(
                (who, from(1)),
                hash.cloned(),
                Some(PasswordHash::cheap("right").unwrap()),
                password.to_owned(),
            )
        };
        let user = user("u");
        assert!(ask(&user, Some(&hash), "right").await.is_ok());
        assert!(ask(&user, Some(&hash), "wrong").await.is_err());
        let unknown = LoginSubject::UnknownUser("s".to_owned());
        assert!(ask(&unknown, None, "right").await.is_err());
    }

    fn reserve_all<'a>(
        verifier: &'a PasswordVerifier,
        subjects: &'a [LoginSubject],
        number: u8,
    ) -> Vec<QueueSlot<'a>> {
        let slots = subjects
            .iter()
            .map(|subject| verifier.reserve_slot(subject, from(number)));
        slots.flatten().collect()
    }

    #[test]
    fn one_address_may_take_a_quarter_of_the_waiting_places() {
        let verifier = PasswordVerifier::default();
        let crowd: Vec<_> = (0..MAX_WAITING).map(|n| user(&n.to_string())).collect();
        let slots = reserve_all(&verifier, &crowd, 1);
        assert_eq!(slots.len(), MAX_WAITING_PER_ADDRESS);
        assert!(matches!(
            verifier.reserve_slot(&crowd[0], from(1)),
            Err(LoginError::TooMany)
        ));
        assert!(verifier.reserve_slot(&crowd[0], from(2)).is_ok());
        drop(slots);
        assert!(verifier.waiting.lock().unwrap().is_empty());
    }

    #[test]
    fn a_user_always_has_one_waiting_place_at_a_trusted_address() {
        let verifier = PasswordVerifier::default();
        let bob = user("bob");
        verifier
            .throttle
            .record_success(&bob, from(1), Instant::now());
        let crowd: Vec<_> = (0..MAX_WAITING).map(|n| user(&n.to_string())).collect();
        let all: Vec<_> = (1..6)
            .map(|number| reserve_all(&verifier, &crowd, number))
            .collect();
        assert!(
            verifier.reserve_slot(&bob, from(9)).is_err(),
            "all are taken"
        );
        let first = verifier.reserve_slot(&bob, from(1));
        assert!(first.is_ok() && verifier.reserve_slot(&bob, from(1)).is_err());
        drop((all, first));
        assert!(verifier.waiting.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn endless_guessing_from_one_address_does_not_delay_a_user_at_a_trusted_address() {
        let verifier = Arc::new(PasswordVerifier::default());
        let hash = PasswordHash::cheap("right").unwrap();
        let ask = |number: u8, password: &'static str| {
            let (verifier, hash) = (Arc::clone(&verifier), hash.clone());
            async move {
                let bob = user("bob");
                let password = password.to_owned();
                verifier
                    .check((&bob, from(number)), Some(hash), None, password)
                    .await
            }
        };
        ask(1, "right").await.unwrap();
        let mut crowd = tokio::task::JoinSet::new();
        for _ in 0..MAX_WAITING_PER_ADDRESS {
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
