//! A journey's run: its future, and the word to the gate whether it goes on, waits or is over.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

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
}

impl Membership {
    pub(super) fn pace(&self, pace: Pace) {
        let mut turns = self.shared.lock();
        turns.set(self.id, pace);
        if pace == Pace::Still && turns.turn == Turn::InFlight(self.id) {
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
        let polled = self.future.as_mut().poll(context);
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
