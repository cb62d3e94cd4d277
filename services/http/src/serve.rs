//! Serves a router on a TCP or a unix socket. In-process callers need no server: they call the router.

use std::future::Future;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::serve::ListenerExt as _;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tower::ServiceExt as _;

pub use berth_serve::{ClientAddress, ServeLimits};

/// Serves on a TCP listener until `shutdown` resolves, then lets requests in progress finish. [`ServeLimits`] sets the
/// bounds on connections. Each request carries its peer address as [`ConnectInfo`].
pub async fn serve_tcp(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) {
    // TCP_NODELAY: the last packet of a long response must not wait for the acknowledgement of the previous one.
    let listener = listener.tap_io(|socket| drop(socket.set_nodelay(true)));
    let service = |socket: &TcpStream| {
        let peer = socket.peer_addr().ok();
        router.clone().map_request(move |mut request: Request<_>| {
            if let Some(peer) = peer {
                request.extensions_mut().insert(ConnectInfo(peer));
            }
            request
        })
    };
    berth_serve::serve(listener, ServeLimits::default(), service, shutdown).await;
}

/// Serves on a unix socket; as [`serve_tcp`].
pub async fn serve_unix(
    listener: UnixListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) {
    berth_serve::serve(
        listener,
        ServeLimits::default(),
        |_| router.clone(),
        shutdown,
    )
    .await;
}
