//! The signals that end a service: SIGTERM and Ctrl-C.

use tokio::signal::unix::{SignalKind, signal};

/// Ready when the process is told to end. The signals are caught from this call on, not from the first wait on, and SIGHUP
/// with them: until somebody reloads on it, it does nothing. Call it first, on the runtime.
pub fn end() -> impl Future<Output = ()> + Send + 'static {
    let terminate = signal(SignalKind::terminate());
    let interrupt = signal(SignalKind::interrupt());
    // Once asked for, it does not end the process any more.
    let _ = signal(SignalKind::hangup());
    async move {
        // A system that gives out no signals cannot send one either: wait for ever, SIGKILL is left.
        let (Ok(mut terminate), Ok(mut interrupt)) = (terminate, interrupt) else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}
