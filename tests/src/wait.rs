//! Waits with a time limit. A failed wait reports what was expected and the last state.
//!
//! A `poll` returns `Ok` with the expected value, or `Err` with the present state for the failure message. If the last
//! state can no longer lead to the expected one, `poll` itself panics.

use std::fmt::Debug;
use std::future::Future;
use std::panic::Location;
use std::thread;
use std::time::{Duration, Instant};

/// How long a wait may take, in time of the machine, whatever clock the test has.
pub const LIMIT: Duration = Duration::from_secs(60);

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Between two polls passes more than this where the whole machine stood still. Then what is waited for had no time either.
const STALL: Duration = Duration::from_secs(10);
const AFTER_STALL: Duration = Duration::from_secs(10);

/// The pauses between polls, and the end of the wait.
struct Wait<'a> {
    what: &'a str,
    caller: &'static Location<'static>,
    limit: Duration,
    end: Instant,
    last: Instant,
    stalled: bool,
    pause: Duration,
}

impl<'a> Wait<'a> {
    fn new(what: &'a str, limit: Duration, caller: &'static Location<'static>) -> Self {
        let now = Instant::now();
        Self {
            what,
            caller,
            limit,
            end: now + limit,
            last: now,
            stalled: false,
            pause: FIRST_PAUSE,
        }
    }

    fn next_pause(&mut self, state: &impl Debug) -> Duration {
        let now = Instant::now();
        if now - self.last > STALL && !self.stalled {
            self.stalled = true;
            self.end = self.end.max(now + AFTER_STALL);
        }
        self.last = now;
        let Self { what, limit, .. } = self;
        assert!(
            now < self.end,
            "{}: waited {limit:?} for this: {what}; at the end: {state:?}",
            self.caller
        );
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        pause
    }
}

/// Polls until it gives a value.
///
/// # Panics
/// After [`LIMIT`].
#[track_caller]
pub fn wait_until<T, S: Debug>(what: &str, poll: impl FnMut() -> Result<T, S>) -> T {
    blocking(Wait::new(what, LIMIT, Location::caller()), poll)
}

fn blocking<T, S: Debug>(mut wait: Wait<'_>, mut poll: impl FnMut() -> Result<T, S>) -> T {
    loop {
        match poll() {
            Ok(value) => return value,
            Err(state) => thread::sleep(wait.next_pause(&state)),
        }
    }
}

/// As [`wait_until`], in a task.
///
/// # Panics
/// After [`LIMIT`].
#[track_caller]
pub fn poll_until<T, S: Debug>(
    what: &str,
    poll: impl AsyncFnMut() -> Result<T, S>,
) -> impl Future<Output = T> {
    in_task(Wait::new(what, LIMIT, Location::caller()), poll)
}

async fn in_task<T, S: Debug>(
    mut wait: Wait<'_>,
    mut poll: impl AsyncFnMut() -> Result<T, S>,
) -> T {
    loop {
        match poll().await {
            Ok(value) => return value,
            Err(state) => tokio::time::sleep(wait.next_pause(&state)).await,
        }
    }
}

/// Awaits what no poll can ask for.
///
/// # Panics
/// After [`LIMIT`], of the clock that the test has.
#[track_caller]
pub fn within<T>(what: &str, awaited: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = Location::caller();
    async move {
        match tokio::time::timeout(LIMIT, awaited).await {
            Ok(value) => value,
            Err(_) => panic!("{caller}: waited {LIMIT:?} for this: {what}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    fn message_of(wait: impl FnOnce()) -> String {
        let panic = catch_unwind(AssertUnwindSafe(wait)).expect_err("the wait ends");
        *panic.downcast::<String>().expect("a sentence")
    }

    fn assert_message(message: &str) {
        let end = "wait.rs:";
        assert!(message.contains(end), "{message}");
        let expected = ": waited 20ms for this: the guest is active; at the end: \"building\"";
        assert!(message.ends_with(expected), "{message}");
    }

    #[test]
    fn a_timed_out_wait_reports_the_expected_and_the_last_state() {
        let wait = || Wait::new("the guest is active", SHORT, Location::caller());
        assert_message(&message_of(|| blocking(wait(), || Err("building"))));
        // The clock of this test advances only in its sleeps.
        let clock = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        let clock = clock.expect("a runtime");
        let poll = async || Err::<(), _>("building");
        assert_message(&message_of(|| clock.block_on(in_task(wait(), poll))));
    }

    #[test]
    fn a_wait_returns_the_value_of_the_poll() {
        let mut polls = 0..3;
        let last = wait_until("a third poll", || match polls.next() {
            Some(n) if n < 2 => Err(n),
            last => Ok(last),
        });
        assert_eq!(last, Some(2));
    }
}
