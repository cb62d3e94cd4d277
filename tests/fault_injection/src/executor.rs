//! A minimal executor for the tests of this crate: one thread, polls each task that was woken.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// The result of a future that is ready at its first poll.
pub(crate) fn finish<T>(future: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the future waits"),
    }
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Polls tasks until none of them is woken. Returns how many are still pending.
pub(crate) fn run(tasks: Vec<Pin<Box<dyn Future<Output = ()> + Send>>>) -> usize {
    let mut waiting: Vec<_> = tasks
        .into_iter()
        .map(|task| (task, Arc::new(Flag(AtomicBool::new(true)))))
        .collect();
    loop {
        let mut polled = 0;
        waiting.retain_mut(|(task, flag)| {
            if !flag.0.swap(false, Ordering::SeqCst) {
                return true;
            }
            polled += 1;
            let waker = Waker::from(Arc::clone(flag));
            task.as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        });
        if polled == 0 {
            return waiting.len();
        }
    }
}
