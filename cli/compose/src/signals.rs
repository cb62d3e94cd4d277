//! The signals that end a service: SIGTERM and Ctrl-C.

use tokio::signal::unix::{SignalKind, signal};

/// Ready when the process gets a signal to end. The signals are caught from this call on, not from the first poll on.
/// SIGHUP is caught, too, and ignored until another part handles it. Call it first, on the runtime.
pub fn end() -> impl Future<Output = ()> + Send + 'static {
    let terminate = signal(SignalKind::terminate());
    let interrupt = signal(SignalKind::interrupt());
    // Once caught, it does not end the process any more.
    let _ = signal(SignalKind::hangup());
    async move {
        // If signals cannot be caught, wait without end; SIGKILL still ends the process.
        let (Ok(mut terminate), Ok(mut interrupt)) = (terminate, interrupt) else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}
