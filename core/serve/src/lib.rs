//! Serves HTTP/1 on TCP, on a unix socket, or over TLS with or without client certificates, with limits on connections and times.
//!
//! [`serve`], [`serve_https`] and [`serve_tls`] accept connections up to [`ServeLimits::connections`], each with a deadline for the head
//! and the body of a request. A slow client is disconnected. If all connections are in use, the connection that has
//! been idle longest is closed for a new one, so that idle clients cannot block others. At the stop, requests in
//! progress get [`ServeLimits::grace`] to finish.
//!
//! Callers: the services (`services/http`) and the agent's API.

mod body;
mod certificate;
mod giving_way;
mod host_header;
mod refusal;
mod tls;
mod unread;

use std::convert::Infallible;
use std::future::{Future, ready};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use axum::serve::Listener;
use http::{HeaderValue, Request, header};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt, service_fn};

pub use body::{RequestBody, RequestBodyError};
pub use certificate::{
    Certificate, CertificateHolder, CertificatePurpose, DateTime, SubjectName, SubjectNameError,
};
pub use host_header::for_loopback_names;
pub use tls::{ClientFiles, ReloadableTls, TlsError, TlsFile, TlsFiles, TlsSettings};

use giving_way::{IdleConnections, ServedConnection};
use refusal::ExplainedRefusals;
use unread::WriteTimeout;

/// The limits of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServeLimits {
    /// The maximum number of connections. One more closes the connection that has been idle longest, if it has been idle for
    /// [`ServeLimits::idle`]. Until then it waits, and further ones wait in the kernel's queue.
    pub connections: usize,
    /// How long a connection may be idle before a new one may replace it.
    pub idle: Duration,
    /// The deadline for the complete head of the next request, from the opening or the end of the previous response. An idle connection is
    /// closed after it, too.
    pub head: Duration,
    /// The deadline for the complete body of a request, from its first read; and how long a peer may read nothing of its response.
    pub body: Duration,
    /// How long requests in progress may continue after the stop.
    pub grace: Duration,
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self {
            connections: 512,
            idle: Duration::from_secs(1),
            head: Duration::from_secs(30),
            body: Duration::from_mins(1),
            grace: Duration::from_secs(30),
        }
    }
}

/// Serves until `stop` is ready, then lets requests in progress finish, for at most [`ServeLimits::grace`]. `service`
/// creates the service of one connection from its socket (for example an [`axum::Router`]).
pub async fn serve<L, S>(
    listener: L,
    limits: ServeLimits,
    service: impl Fn(&L::Io) -> S,
    stop: impl Future<Output = ()>,
) where
    L: Listener,
    S: Service<Request<RequestBody>, Response = Response, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let open = |socket: L::Io, _| {
        let service = service(&socket);
        ready(Some((socket, service)))
    };
    serve_opened(listener, limits, open, stop).await;
}

/// The client of a TLS connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsClient {
    /// The holder of its certificate, which an authority of the listener has signed.
    pub holder: CertificateHolder,
    /// The alternative names in it.
    pub names: Vec<SubjectName>,
    /// The address of the client.
    pub address: SocketAddr,
}

/// Like [`serve`], over TLS: only clients with a certificate of an authority of the listener are served. The handshake has the same
/// deadline as the head of a request.
pub async fn serve_tls<S>(
    listener: TcpListener,
    tls: ReloadableTls,
    limits: ServeLimits,
    service: impl Fn(TlsClient) -> S + Clone + Send + 'static,
    stop: impl Future<Output = ()>,
) where
    S: Service<Request<RequestBody>, Response = Response, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let open = |socket: TcpStream, address: SocketAddr| {
        let (tls, service) = (tls.clone(), service.clone());
        async move {
            let stream = handshake(socket, address, &tls, limits.head).await?;
            // Without one the connection is refused, even if the TLS library accepted it.
            let shown = stream.get_ref().1.peer_certificates()?.first()?;
            let Certificate { holder, names, .. } = Certificate::read(shown)?;
            let client = TlsClient {
                holder,
                names,
                address,
            };
            Some((stream, service(client)))
        }
    };
    serve_opened(listener, limits, open, stop).await;
}

/// Like [`serve`], over TLS without certificates of clients. `service` gets the address of the client, and the one that it
/// connected to.
pub async fn serve_https<L, S>(
    listener: L,
    tls: ReloadableTls,
    limits: ServeLimits,
    service: impl Fn(SocketAddr, Option<SocketAddr>) -> S + Clone + Send + 'static,
    stop: impl Future<Output = ()>,
) where
    L: Listener<Io = TcpStream, Addr = SocketAddr>,
    S: Service<Request<RequestBody>, Response = Response, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let open = |socket: TcpStream, address: SocketAddr| {
        let (tls, service) = (tls.clone(), service.clone());
        async move {
            let local = socket.local_addr().ok();
            let stream = handshake(socket, address, &tls, limits.head).await?;
            Some((stream, service(address, local)))
        }
    };
    serve_opened(listener, limits, open, stop).await;
}

/// The TLS stream of an accepted connection; `None` if there is none within `limit`.
async fn handshake(
    mut socket: TcpStream,
    address: SocketAddr,
    tls: &ReloadableTls,
    limit: Duration,
) -> Option<TlsStream<TcpStream>> {
    let acceptor = TlsAcceptor::from(tls.config());
    let accepted = timeout(limit, async {
        let mut first = [0];
        // A TLS record begins with a number below 32, a request with the capital letter of its method.
        if socket.peek(&mut first).await? == 1 && first[0].is_ascii_uppercase() {
            refuse_plain_http(&mut socket).await?;
            return Ok(None);
        }
        acceptor.accept(socket).await.map(Some)
    });
    match accepted.await {
        Ok(Ok(Some(stream))) => Some(stream),
        Ok(Ok(None)) => {
            tracing::info!(%address, "plain HTTP on a TLS port: connection refused");
            None
        }
        Ok(Err(error)) => {
            tracing::info!(%address, %error, "TLS handshake failed: connection refused");
            None
        }
        Err(_) => {
            tracing::info!(%address, after = ?limit, "TLS handshake timed out");
            None
        }
    }
}

/// Answers a plain HTTP request with an explanation, because its client cannot read a TLS alert.
async fn refuse_plain_http(socket: &mut TcpStream) -> std::io::Result<()> {
    const REASON: &str = "This port speaks HTTPS: write https:// in the URL.\n";
    /// The most bytes of the request that are read before the connection is closed.
    const MOST: u64 = 64 << 10;
    let length = REASON.len();
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{REASON}"
    );
    socket.write_all(answer.as_bytes()).await?;
    socket.shutdown().await?;
    // Closing a socket with unread bytes resets the connection, and the client loses the answer.
    tokio::io::copy(&mut socket.take(MOST), &mut tokio::io::sink()).await?;
    Ok(())
}

/// Serves each connection in a task of its own, after `open` has prepared it.
async fn serve_opened<L, I, S, F>(
    mut listener: L,
    limits: ServeLimits,
    open: impl Fn(L::Io, L::Addr) -> F,
    stop: impl Future<Output = ()>,
) where
    L: Listener,
    I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<RequestBody>, Response = Response, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
    F: Future<Output = Option<(I, S)>> + Send + 'static,
{
    let slots = Arc::new(Semaphore::new(limits.connections));
    let closing = CancellationToken::new();
    let mut connections = JoinSet::new();
    let waiting = Arc::new(IdleConnections::default());
    let mut stop = pin!(stop);
    // An accepted connection that waits for a slot.
    let mut next = None;
    loop {
        // Restarted whenever a connection ends, because then there is a slot.
        let slot = async {
            match Arc::clone(&slots).try_acquire_owned() {
                Ok(slot) => Ok(slot),
                Err(_) => {
                    waiting.close_idlest(limits.idle).await;
                    Arc::clone(&slots).acquire_owned().await
                }
            }
        };
        tokio::select! {
            () = &mut stop => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if next.is_none() => next = Some(accepted),
            slot = slot, if next.is_some() => {
                let Some((socket, address)) = next.take() else { continue };
                let opened = open(socket, address);
                let closing = closing.clone();
                let place = ServedConnection::of(&waiting);
                connections.spawn(async move {
                    let serving = async {
                        // There is no request yet, so the stop does not wait for it.
                        let opened = closing.run_until_cancelled(opened).await.flatten();
                        if let Some((socket, service)) = opened {
                            connection(socket, limits, service, &place, &closing).await;
                        }
                    };
                    place.unless_ended(serving).await;
                    drop(slot);
                });
            }
        }
    }
    // Accept no more connections, and tell the open ones to finish.
    drop(listener);
    closing.cancel();
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(limits.grace, all).await.is_err() {
        tracing::debug!("requests in progress timed out at the stop");
    }
}

/// Serves one connection to its end.
async fn connection<I, S>(
    socket: I,
    limits: ServeLimits,
    service: S,
    place: &Arc<ServedConnection>,
    closing: &CancellationToken,
) where
    I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<RequestBody>, Response = Response, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let answer = move |request: Request<hyper::body::Incoming>| {
        let request = request.map(|body| RequestBody::new(body, limits.body));
        let remainder = request.body().remainder();
        let asking = place.asks();
        let answered = service.clone().oneshot(request);
        async move {
            let mut response = answered.await?;
            // The unread body makes the connection unusable, so tell the client not to send another request on it.
            if remainder.is_left() {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            Ok::<_, Infallible>(asking.answered(response))
        }
    };
    let service = TowerToHyperService::new(service_fn(answer));
    let mut serving = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head)
            .serve_connection(
                TokioIo::new(ExplainedRefusals::new(WriteTimeout::new(
                    socket,
                    limits.body
                ))),
                service
            )
    );
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = closing.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}
