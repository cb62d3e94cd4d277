//! One router, two kinds of sockets. In process no server is needed: call the router itself.

use std::future::Future;
use std::io;
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::oneshot;

/// How long requests under way may go on after the shutdown signal.
pub const GRACE: Duration = Duration::from_secs(30);

/// Serves on a TCP listener until `shutdown` is ready, then lets requests under way end, at most
/// [`GRACE`] long.
///
/// # Errors
/// The listener's error when it can no longer accept.
pub async fn serve_tcp(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    serve(listener, router, shutdown).await
}

/// Serves on a unix socket; as [`serve_tcp`].
///
/// # Errors
/// The listener's error when it can no longer accept.
pub async fn serve_unix(
    listener: UnixListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    serve(listener, router, shutdown).await
}

async fn serve<L>(
    listener: L,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()>
where
    L: Listener,
    L::Addr: std::fmt::Debug,
{
    let (told, stopping) = oneshot::channel();
    let signal = async move {
        shutdown.await;
        // The receiver is gone only when serving already ended.
        told.send(()).ok();
    };
    let served = axum::serve(listener, router).with_graceful_shutdown(signal);
    let overdue = async {
        match stopping.await {
            Ok(()) => tokio::time::sleep(GRACE).await,
            // Serving ended before the signal: the other branch has the result.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        outcome = served => outcome,
        () = overdue => Ok(()),
    }
}
