//! One router, two kinds of sockets. In process no server is needed: call the router itself.

use std::future::Future;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::serve::ListenerExt as _;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tower::ServiceExt as _;

pub use berth_serve::Limits;

/// Serves on a TCP listener until `shutdown` is ready, then lets requests under way end. How many connections it bears, and
/// for how long, is [`Limits`]' default. Each request has the address at the other end as its [`ConnectInfo`].
pub async fn serve_tcp(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) {
    // The end of a long answer does not wait until what is before it has been taken.
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
    berth_serve::serve(listener, Limits::default(), service, shutdown).await;
}

/// Serves on a unix socket; as [`serve_tcp`].
pub async fn serve_unix(
    listener: UnixListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) {
    berth_serve::serve(listener, Limits::default(), |_| router.clone(), shutdown).await;
}
