//! Serves a router on a TCP or a unix socket. In-process callers need no server: they call the router.

use std::future::Future;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::serve::ListenerExt as _;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tower::ServiceExt as _;

use crate::mount::PublicEndpoint;

pub use berth_serve::{ServeLimits, for_loopback_names};

/// Serves on a TCP listener until `shutdown` resolves, then lets requests in progress finish. [`ServeLimits`] sets the
/// bounds on connections. Each request carries its peer address as [`ConnectInfo`], and the URL for links.
pub async fn serve_tcp(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) {
    // TCP_NODELAY: the last packet of a long response must not wait for the acknowledgement of the previous one.
    let listener = listener.tap_io(|socket| drop(socket.set_nodelay(true)));
    let service = |socket: &TcpStream| {
        let (peer, endpoint) = (socket.peer_addr().ok(), endpoint_of(socket));
        router.clone().map_request(move |mut request: Request<_>| {
            if let Some(endpoint) = endpoint.clone() {
                request.extensions_mut().insert(endpoint);
            }
            if let Some(peer) = peer {
                request.extensions_mut().insert(ConnectInfo(peer));
            }
            request
        })
    };
    berth_serve::serve(listener, ServeLimits::default(), service, shutdown).await;
}

/// The URL in links for the requests of a connection, unless the listener has a public endpoint
/// ([`found_at`](crate::found_at)): the address that the client connected to. `Host` and `X-Forwarded-*` do not count,
/// because every client can write them.
fn endpoint_of(socket: &TcpStream) -> Option<PublicEndpoint> {
    let address = socket.local_addr().ok()?;
    Some(PublicEndpoint(format!("http://{address}").into()))
}

/// Serves on a unix socket; as [`serve_tcp`]. Links are paths.
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
