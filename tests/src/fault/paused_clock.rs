//! Keeps a paused clock stopped. The runtime advances its paused clock when it is idle, but not while a blocking task
//! runs. Without this, an answer from another thread would be taken for one that never arrives.

use std::cell::RefCell;
use std::future::Future;
use std::io::Write as _;
use std::sync::mpsc;
use std::time::Duration;

/// Keeps the paused clock still while the effect is under way.
pub async fn busy<T>(effect: impl Future<Output = T>) -> T {
    let _still = hold();
    effect.await
}

/// The same around an effect that comes to gates in its turn: while one of those takes its turn ([`turn`]), time passes.
pub async fn busy_but_at_gates<T>(effect: impl Future<Output = T>) -> T {
    let _in_progress = PendingCount::begin(Count::InProgress);
    effect.await
}

/// A gate holds its callers for this time to decide their order, so time must pass for it.
pub async fn turn(pause: Duration) {
    let _at_gate = PendingCount::begin(Count::AtGate);
    tokio::time::sleep(pause).await;
}

/// No effect takes this long: one that does waits for time, which does not pass.
const FOR_EVER: Duration = Duration::from_mins(10);

/// Stops the clock until the returned value is dropped.
pub(super) fn hold() -> mpsc::Sender<()> {
    let (ends, end) = mpsc::channel::<()>();
    drop(tokio::task::spawn_blocking(move || {
        if end.recv_timeout(FOR_EVER) == Err(mpsc::RecvTimeoutError::Timeout) {
            // Not by a macro: what those say is a test's, and goes with the process.
            let line = b"an effect waits for the clock, which is stopped while it runs\n";
            let _ = std::io::stderr().write_all(line);
            std::process::abort();
        }
    }));
    ends
}

/// What is under way on this thread's runtime.
#[derive(Default)]
struct PendingWork {
    effects: usize,
    at_gates: usize,
    still: Option<mpsc::Sender<()>>,
}

thread_local! {
    static UNDER_WAY: RefCell<PendingWork> = RefCell::default();
}

#[derive(Clone, Copy)]
enum Count {
    InProgress,
    AtGate,
}

/// One more of a count, until it is dropped. It stays on the thread that began it: a runtime with a paused clock has one.
struct PendingCount(Count);

impl PendingCount {
    fn begin(count: Count) -> Self {
        Self::change(count, |n| n + 1);
        Self(count)
    }

    fn change(count: Count, by: impl FnOnce(usize) -> usize) {
        UNDER_WAY.with_borrow_mut(|in_progress| {
            let n = match count {
                Count::InProgress => &mut in_progress.effects,
                Count::AtGate => &mut in_progress.at_gates,
            };
            *n = by(*n);
            match in_progress.effects > 0 && in_progress.at_gates == 0 {
                true => {
                    in_progress.still.get_or_insert_with(hold);
                }
                false => in_progress.still = None,
            }
        });
    }
}

impl Drop for PendingCount {
    fn drop(&mut self) {
        Self::change(self.0, |n| n - 1);
    }
}
