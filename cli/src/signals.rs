//! The signals that end a service: SIGTERM and Ctrl-C.

use tokio::signal::unix::{SignalKind, signal};

/// Ready when the process is told to end.
pub async fn end() {
    // A system that gives out no signals cannot send one either: wait for ever, SIGKILL is left.
    let (Ok(mut terminate), Ok(mut interrupt)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
