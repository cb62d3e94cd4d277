//! A journey's run: its future, and the word to the gate whether it goes on, waits or is over.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::Shared;
use super::turn::{Pace, Turn};

/// A journey under way: poll it (or drop it, which is what a kill does).
#[must_use = "a journey goes on only when it is polled"]
pub struct Course<F> {
    // Dropped first, so that its crossings leave the gate before the journey is over.
    pub(super) future: Pin<Box<F>>,
    pub(super) membership: Membership,
}

pub(super) struct Membership {
    pub(super) id: usize,
    pub(super) shared: Arc<Shared>,
    pub(super) woken: Arc<AtomicBool>,
}

/// Notes that the journey is about to go on by itself.
struct Bell {
    woken: Arc<AtomicBool>,
    task: Waker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.task.wake_by_ref();
    }
}

impl Membership {
    pub(super) fn pace(&self, pace: Pace) {
        let mut turns = self.shared.lock();
        turns.set(self.id, pace);
        if pace == Pace::Still
            && matches!(turns.turn, Turn::InFlight(ticket, _) if ticket.journey == self.id)
        {
            turns.turn = Turn::Free;
        }
        turns.choose();
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.pace(Pace::Still);
    }
}

impl<F: Future> Future for Course<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.membership.pace(Pace::Polled);
        let woken = Arc::clone(&self.membership.woken);
        woken.store(false, Ordering::SeqCst);
        let task = context.waker().clone();
        let bell = Waker::from(Arc::new(Bell { woken, task }));
        let polled = self.future.as_mut().poll(&mut Context::from_waker(&bell));
        self.membership.pace(if polled.is_ready() {
            Pace::Still
        } else {
            Pace::Waits
        });
        polled
    }
}

impl<F> fmt::Debug for Course<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Course")
            .field("id", &self.membership.id)
            .finish_non_exhaustive()
    }
}
