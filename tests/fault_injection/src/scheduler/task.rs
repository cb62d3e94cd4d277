//! The run of one task: polls its future and reports to the scheduler whether it runs, waits or has finished.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::Shared;
use super::run_queue::{RunningEffect, TaskState};

/// A running task. Dropping it kills it.
#[must_use = "a task makes progress only when it is polled"]
pub struct ScheduledTask<F> {
    // Dropped first, so that its effects leave the queue before the task counts as finished.
    pub(super) future: Pin<Box<F>>,
    pub(super) membership: TaskRegistration,
}

pub(super) struct TaskRegistration {
    pub(super) id: usize,
    pub(super) shared: Arc<Shared>,
    pub(super) woken: Arc<AtomicBool>,
}

/// Records that the task was woken, so that no effect is chosen before it is polled again.
struct WakeFlag {
    woken: Arc<AtomicBool>,
    task: Waker,
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.task.wake_by_ref();
    }
}

impl TaskRegistration {
    pub(super) fn set_state(&self, state: TaskState) {
        let mut queue = self.shared.lock();
        queue.set(self.id, state);
        if state == TaskState::Still
            && matches!(queue.running, RunningEffect::InFlight(ticket, _) if ticket.task == self.id)
        {
            queue.running = RunningEffect::Free;
        }
        queue.choose();
    }
}

impl Drop for TaskRegistration {
    fn drop(&mut self) {
        self.set_state(TaskState::Still);
    }
}

impl<F: Future> Future for ScheduledTask<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.membership.set_state(TaskState::Polled);
        let woken = Arc::clone(&self.membership.woken);
        woken.store(false, Ordering::SeqCst);
        let task = context.waker().clone();
        let waker = Waker::from(Arc::new(WakeFlag { woken, task }));
        let polled = self.future.as_mut().poll(&mut Context::from_waker(&waker));
        self.membership.set_state(if polled.is_ready() {
            TaskState::Still
        } else {
            TaskState::Waits
        });
        polled
    }
}

impl<F> fmt::Debug for ScheduledTask<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduledTask")
            .field("id", &self.membership.id)
            .finish_non_exhaustive()
    }
}
