//! Verifies passwords: a few at a time on blocking threads, in fair turns and throttled per user and address.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_http::ClientAddress;
use berth_store::Disposition;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use crate::login_queue::{LoginAttempt, LoginQueue};
use crate::login_throttle::{AttemptSlot, LoginSubject, LoginThrottle};
use crate::passwords::{LONGEST_PASSWORD, PasswordHash};
use crate::store::TokenTableError;

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

/// Verifies passwords within the limits of this module and of the [queue](LoginQueue).
#[derive(Debug, Default)]
pub(crate) struct PasswordVerifier {
    throttle: LoginThrottle,
    threads: LoginThreads,
}

/// The threads that verify passwords, and the logins that wait for them. Clones share both.
#[derive(Debug, Clone, Default)]
struct LoginThreads(Arc<Mutex<LoginQueue<oneshot::Sender<ThreadPermit>>>>);

impl LoginThreads {
    fn queue(&self) -> MutexGuard<'_, LoginQueue<oneshot::Sender<ThreadPermit>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admit(&self, attempt: LoginAttempt) -> Result<LoginPlace, LoginError> {
        let id = self.queue().admit(attempt).ok_or(LoginError::TooMany)?;
        let threads = self.clone();
        Ok(LoginPlace { threads, id })
    }

    /// Gives the free threads to the next logins.
    fn start_waiting(&self) {
        loop {
            // No lock is held while a permit is sent: an unsent one gives its thread back.
            let next = self.queue().start();
            let Some((attempt, waiter)) = next else {
                return;
            };
            let threads = self.clone();
            drop(waiter.send(ThreadPermit { threads, attempt }));
        }
    }
}

/// The use of one thread, until it is dropped.
#[derive(Debug)]
struct ThreadPermit {
    threads: LoginThreads,
    attempt: LoginAttempt,
}

impl Drop for ThreadPermit {
    fn drop(&mut self) {
        self.threads.queue().finish(&self.attempt);
        self.threads.start_waiting();
    }
}

/// The place of a login in the queue, until it is dropped.
#[derive(Debug)]
struct LoginPlace {
    threads: LoginThreads,
    id: u64,
}

impl LoginPlace {
    /// Waits for a thread. Fails if another login takes the place.
    async fn thread(&self) -> Result<ThreadPermit, LoginError> {
        let (waiter, permit) = oneshot::channel();
        let has_place = self.threads.queue().wait(self.id, waiter);
        if !has_place {
            return Err(LoginError::TooMany);
        }
        self.threads.start_waiting();
        permit.await.map_err(|_| LoginError::TooMany)
    }
}

impl Drop for LoginPlace {
    fn drop(&mut self) {
        self.threads.queue().leave(self.id);
    }
}

impl PasswordVerifier {
    /// Verifies a password against a hash. Without a hash it takes equally long: it verifies `costliest` instead.
    pub(crate) async fn check(
        &self,
        (subject, source): (&LoginSubject, ClientAddress),
        hash: Option<PasswordHash>,
        costliest: Option<PasswordHash>,
        password: String,
    ) -> Result<(), LoginError> {
        let place = self.threads.admit(LoginAttempt {
            subject: subject.clone(),
            source,
            is_trusted: self.throttle.is_trusted(subject, source),
        })?;
        let deadline = Instant::now() + MAX_WAIT;
        let user_exists = hash.is_some();
        let hash = hash.or(costliest).or_else(|| DUMMY_HASH.parse().ok());
        loop {
            let permit = tokio::time::timeout_at(deadline, place.thread()).await;
            let permit = permit.map_err(|_| LoginError::TooMany)??;
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

    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

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

    /// Polls once.
    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test]
    async fn a_login_that_stops_waiting_costs_no_thread_and_leaves_no_place() {
        let threads = LoginThreads::default();
        let place = |number| {
            let attempt = LoginAttempt {
                subject: user("u"),
                source: from(number),
                is_trusted: false,
            };
            threads.admit(attempt).unwrap()
        };
        let (first, second) = (place(1), place(2));
        let held = (
            first.thread().await.unwrap(),
            second.thread().await.unwrap(),
        );
        {
            let (gone, unread) = (place(3), place(4));
            let mut gone_waits = Box::pin(gone.thread());
            let mut unread_waits = pin!(unread.thread());
            assert!(poll(gone_waits.as_mut()).is_pending());
            assert!(poll(unread_waits.as_mut()).is_pending());
            // The first one has stopped waiting and keeps its place, the second one has a permit that it does not take.
            drop(gone_waits);
            drop(held);
        }
        let (third, fourth, fifth) = (place(5), place(6), place(7));
        let held = (
            third.thread().await.unwrap(),
            fourth.thread().await.unwrap(),
        );
        let mut fifth_waits = pin!(fifth.thread());
        assert!(poll(fifth_waits.as_mut()).is_pending(), "two at once");
        drop(held);
        assert!(matches!(poll(fifth_waits), Poll::Ready(Ok(_))));
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
        for _ in 0..64 {
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
