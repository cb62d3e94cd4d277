//! Serves a router on a TCP or a unix socket. In-process callers need no server: they call the router.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::serve::{Listener, ListenerExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tower::ServiceExt as _;

use berth_serve::{PeerAddress, ReloadableTls, RequestBody};

use crate::client_address::{RequestOrigin, TrustedProxies};
use crate::mount::PublicEndpoint;

pub use berth_serve::{ClientAddress, ServeLimits, for_loopback_names};

/// An open TCP port: HTTP, or HTTPS with a certificate.
#[derive(Debug)]
pub struct HttpListener {
    listener: TcpListener,
    tls: Option<ReloadableTls>,
    trusted_proxies: TrustedProxies,
}

impl From<TcpListener> for HttpListener {
    /// Plain HTTP, and no proxy is trusted.
    fn from(listener: TcpListener) -> Self {
        Self {
            listener,
            tls: None,
            trusted_proxies: TrustedProxies::default(),
        }
    }
}

impl HttpListener {
    /// Speaks TLS with these settings, without certificates of clients.
    #[must_use]
    pub fn with_tls(self, tls: ReloadableTls) -> Self {
        Self {
            tls: Some(tls),
            ..self
        }
    }

    /// Trusts what these proxies write about their clients.
    #[must_use]
    pub fn with_trusted_proxies(self, trusted_proxies: TrustedProxies) -> Self {
        Self {
            trusted_proxies,
            ..self
        }
    }

    /// The address with the port that the kernel chose, if the configured one is 0.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Serves on a TCP listener until `shutdown` resolves, then lets requests in progress finish. [`ServeLimits`] sets the
/// bounds on connections. Each request carries its peer address as [`ConnectInfo`], its client's for
/// [`client_address`](crate::client_address()), and the URL for links.
pub async fn serve_tcp(
    listener: impl Into<HttpListener>,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) {
    let HttpListener {
        listener,
        tls,
        trusted_proxies,
    } = listener.into();
    // TCP_NODELAY: the last packet of a long response must not wait for the acknowledgement of the previous one.
    let listener = listener.tap_io(|socket| drop(socket.set_nodelay(true)));
    let listener = ProxiedListener {
        listener,
        trusted_proxies: trusted_proxies.clone(),
    };
    let is_tls = tls.is_some();
    let service = move |peer: Option<SocketAddr>, local: Option<SocketAddr>| {
        let trusted_proxies = trusted_proxies.clone();
        let endpoint = local.map(|local| endpoint_at(local, is_tls));
        router
            .clone()
            .map_request(move |mut request: Request<RequestBody>| {
                if let Some(endpoint) = endpoint.clone() {
                    request.extensions_mut().insert(endpoint);
                }
                if let Some(peer) = peer {
                    let headers = request.headers_mut();
                    let origin =
                        RequestOrigin::identify(peer.ip(), is_tls, &trusted_proxies, headers);
                    request.extensions_mut().insert(ConnectInfo(peer));
                    request.extensions_mut().insert(origin);
                }
                request
            })
    };
    let limits = ServeLimits::default();
    match tls {
        None => {
            let service =
                |socket: &TcpStream| service(socket.peer_addr().ok(), socket.local_addr().ok());
            berth_serve::serve(listener, limits, service, shutdown).await;
        }
        Some(tls) => {
            let service = move |peer: TcpPeer, local| service(Some(peer.address), local);
            berth_serve::serve_https(listener, tls, limits, service, shutdown).await;
        }
    }
}

/// A TCP listener that tells the connections of trusted proxies from those of clients.
struct ProxiedListener<L> {
    listener: L,
    trusted_proxies: TrustedProxies,
}

impl<L: Listener<Addr = SocketAddr>> Listener for ProxiedListener<L> {
    type Io = L::Io;
    type Addr = TcpPeer;

    async fn accept(&mut self) -> (Self::Io, TcpPeer) {
        let (socket, address) = self.listener.accept().await;
        let is_proxy = self.trusted_proxies.contain(address.ip().to_canonical());
        (socket, TcpPeer { address, is_proxy })
    }

    fn local_addr(&self) -> io::Result<TcpPeer> {
        let address = self.listener.local_addr()?;
        let is_proxy = false;
        Ok(TcpPeer { address, is_proxy })
    }
}

/// The other end of a TCP connection.
#[derive(Debug, Clone, Copy)]
struct TcpPeer {
    address: SocketAddr,
    is_proxy: bool,
}

impl PeerAddress for TcpPeer {
    /// All clients of a proxy have its address, so no share of the connections limits them together.
    fn client(&self) -> ClientAddress {
        let client = self.address.client();
        if self.is_proxy {
            client.of_many()
        } else {
            client
        }
    }
}

impl fmt::Display for TcpPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

/// The URL in links for the requests of a connection, unless the listener has a public endpoint
/// ([`found_at`](crate::found_at)): the address that the client connected to. `Host` and `X-Forwarded-*` do not count,
/// because every client can write them.
fn endpoint_at(local: SocketAddr, is_tls: bool) -> PublicEndpoint {
    let scheme = if is_tls { "https" } else { "http" };
    PublicEndpoint(format!("{scheme}://{local}").into())
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
