//! Serves HTTP/1 on TCP, on a unix socket, or over TLS with or without client certificates, with limits on connections and times.
//!
//! [`serve`], [`serve_https`] and [`serve_tls`] accept connections up to [`ServeLimits::connections`], each with a deadline
//! for the head of a request and a least rate for bodies and responses. A slow client is disconnected. If all connections
//! are in use, the slowest one is closed for a new one, so that slow clients cannot block others. At the stop, requests in
//! progress get [`ServeLimits::grace`] to finish.
//!
//! | module | contents |
//! |---|---|
//! | `client_address` | the address that limits count by |
//! | `connections` | how many connections an address may have, and which one is closed for a new one; pure |
//! | `pace` | how far a peer is behind a rate; pure |
//! | `memory` | the memory of all unfinished request bodies; pure |
//! | `body`, `socket` | the body of a request and the socket, with a least rate |
//! | `refusal` | the answer to a malformed head |
//! | `host_header` | refuses requests without exactly one `Host` header, or for other names than those of the loopback interface |
//! | `tls`, `certificate` | TLS, and certificates of clients |
//!
//! Callers: the services (`services/http`) and the agent's API.

mod body;
mod certificate;
mod client_address;
mod connections;
mod host_header;
mod memory;
mod pace;
mod refusal;
mod socket;
mod tls;

use std::collections::{HashSet, VecDeque};
use std::convert::Infallible;
use std::fmt;
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
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt, service_fn};

pub use body::{RequestBody, RequestBodyError};
pub use certificate::{
    Certificate, CertificateHolder, CertificatePurpose, DateTime, SubjectName, SubjectNameError,
};
pub use client_address::{ClientAddress, PeerAddress};
pub use host_header::for_loopback_names;
pub use memory::BodyShare;
pub use tls::{ClientFiles, ReloadableTls, TlsError, TlsFile, TlsFiles, TlsSettings};

use body::LeastRate;
use connections::{Admission, ClosedConnection, Connections, ServedConnection, Slot};
use host_header::refuse_without_one_host;
use memory::BodyMemory;
use refusal::ExplainedRefusals;
use socket::ServedSocket;

/// The most bytes of a connection that are read before a handler asks for them. It limits the head of a request, too.
const READ_BUFFER: usize = 128 << 10;
/// How often closed connections are logged.
const LOG_INTERVAL: Duration = Duration::from_mins(1);
/// The least time between two looks for a connection to close.
const SHORTEST_WAIT: Duration = Duration::from_millis(10);

/// The limits of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServeLimits {
    /// The maximum number of connections. One more closes the slowest connection, if its peer kept this side waiting for
    /// [`ServeLimits::idle`]. Until then it waits, and further ones wait in the kernel's queue. A client address may have half
    /// of what other addresses leave; this host's own address has no such limit.
    pub connections: usize,
    /// How long a peer may keep this side waiting before a new connection may replace its own.
    pub idle: Duration,
    /// The deadline for the complete head of the next request, from the opening or the end of the previous response. An idle connection is
    /// closed after it, too.
    pub head: Duration,
    /// How far a body, or a peer that reads a response, may be behind [`ServeLimits::least_rate`]. Only time in which this side
    /// waits for the peer counts.
    pub body: Duration,
    /// The least rate of bodies and responses, in bytes per second.
    pub least_rate: u32,
    /// The maximum memory of all request bodies whose requests are not answered yet, in bytes, without the first 128 KiB of
    /// each body. An account ([`BodyShare`]), or else a client address, may have half of what others leave.
    pub bodies: usize,
    /// How long requests in progress may continue after the stop.
    pub grace: Duration,
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self {
            connections: 512,
            idle: Duration::from_secs(1),
            head: Duration::from_secs(30),
            body: Duration::from_secs(20),
            least_rate: 500,
            bodies: 64 << 20,
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
    L: Listener<Addr: PeerAddress>,
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
            let stream = handshake(socket, &address, &tls, limits.head).await?;
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
    service: impl Fn(L::Addr, Option<SocketAddr>) -> S + Clone + Send + 'static,
    stop: impl Future<Output = ()>,
) where
    L: Listener<Io = TcpStream, Addr: PeerAddress + fmt::Display + Sync>,
    S: Service<Request<RequestBody>, Response = Response, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let open = |socket: TcpStream, address: L::Addr| {
        let (tls, service) = (tls.clone(), service.clone());
        async move {
            let local = socket.local_addr().ok();
            let stream = handshake(socket, &address, &tls, limits.head).await?;
            Some((stream, service(address, local)))
        }
    };
    serve_opened(listener, limits, open, stop).await;
}

/// The TLS stream of an accepted connection; `None` if there is none within `limit`.
async fn handshake(
    mut socket: TcpStream,
    address: &impl fmt::Display,
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
    L: Listener<Addr: PeerAddress>,
    I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<RequestBody>, Response = Response, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
    F: Future<Output = Option<(I, S)>> + Send + 'static,
{
    let slots = Connections::new(limits.connections, limits.idle);
    let memory = BodyMemory::new(limits.bodies);
    let closing = CancellationToken::new();
    let mut connections = JoinSet::new();
    let mut waiting = WaitingList::new(limits.connections);
    let mut log = ClosedLog::default();
    let mut stop = pin!(stop);
    loop {
        let mut admitted = Vec::new();
        let again = waiting.admit(&slots, &mut admitted, &mut log);
        for (slot, socket, address) in admitted {
            let opened = open(socket, address);
            let closing = closing.clone();
            let memory = Arc::clone(&memory);
            connections.spawn(async move {
                let connection = &slot.connection;
                let serving = async {
                    // There is no request yet, so the stop does not wait for it.
                    let opened = closing.run_until_cancelled(opened).await.flatten();
                    if let Some((socket, service)) = opened {
                        serve_connection(socket, limits, service, connection, &memory, &closing)
                            .await;
                    }
                };
                connection.unless_closed(serving).await;
            });
        }
        let again = async {
            match again {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = &mut stop => break,
            Some(_) = connections.join_next() => {}
            (socket, address) = listener.accept(), if !waiting.is_full() => waiting.push(socket, address),
            () = again => {}
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

/// Accepted connections that have no slot yet, in the order of their arrival.
struct WaitingList<I, A> {
    connections: VecDeque<(ClientAddress, I, A)>,
    /// The maximum of all, and of one address.
    limits: (usize, usize),
}

impl<I, A: PeerAddress> WaitingList<I, A> {
    /// A list for a listener with this many slots.
    fn new(slots: usize) -> Self {
        Self {
            connections: VecDeque::new(),
            limits: ((slots / 2).max(1), (slots / 8).max(1)),
        }
    }

    /// Whether further connections wait in the kernel's queue.
    fn is_full(&self) -> bool {
        self.connections.len() >= self.limits.0
    }

    /// Adds a connection. It is closed instead if too many of its address wait, because those would block others.
    fn push(&mut self, socket: I, address: A) {
        let client = address.client();
        let others = self.connections.iter().filter(|(it, ..)| *it == client);
        if others.count() < self.limits.1 || client.is_shared() {
            self.connections.push_back((client, socket, address));
        }
    }

    /// Moves connections that get a slot to `admitted`. Returns the time of the next attempt for the others.
    fn admit(
        &mut self,
        slots: &Arc<Connections>,
        admitted: &mut Vec<(Slot, I, A)>,
        log: &mut ClosedLog,
    ) -> Option<Instant> {
        let now = Instant::now();
        let mut again = None;
        let mut refused = HashSet::new();
        let mut rest = VecDeque::new();
        for (client, socket, address) in self.connections.drain(..) {
            // What holds for one connection of an address holds for the next.
            if !refused.contains(&client) {
                match slots.admit(client, now) {
                    Admission::Admitted(slot) => {
                        admitted.push((slot, socket, address));
                        continue;
                    }
                    Admission::AfterClose(closed) => log.add(&closed, now),
                    // The end of that connection wakes the listener.
                    Admission::AfterEarlierClose => {}
                    Admission::Later(due) => {
                        let due = due.max(now + SHORTEST_WAIT);
                        again = Some(again.map_or(due, |again: Instant| again.min(due)));
                    }
                }
                refused.insert(client);
            }
            rest.push_back((client, socket, address));
        }
        self.connections = rest;
        again
    }
}

/// Logs that connections were closed for others, at most once per [`LOG_INTERVAL`].
#[derive(Debug, Default)]
struct ClosedLog {
    last: Option<Instant>,
    closed: u64,
}

impl ClosedLog {
    fn add(&mut self, closed: &ClosedConnection, now: Instant) {
        self.closed += 1;
        if self.last.is_some_and(|last| now < last + LOG_INTERVAL) {
            return;
        }
        let ClosedConnection { client, behind } = closed;
        tracing::warn!(
            %client, ?behind, closed = self.closed,
            "connection limit reached: slow connections closed for new ones"
        );
        (self.last, self.closed) = (Some(now), 0);
    }
}

/// Serves one connection to its end.
async fn serve_connection<I, S>(
    socket: I,
    limits: ServeLimits,
    service: S,
    served: &Arc<ServedConnection>,
    memory: &Arc<BodyMemory>,
    closing: &CancellationToken,
) where
    I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<RequestBody>, Response = Response, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let rate = LeastRate {
        rate: limits.least_rate,
        allowed: limits.body,
    };
    let answer = move |request: Request<hyper::body::Incoming>| {
        let client = served.client();
        let memory = Arc::new(memory.reserved(client));
        let mut request = request.map(|body| RequestBody::new(body, rate, served, &memory));
        let remainder = request.body().remainder();
        if remainder.is_left() {
            let share = BodyShare::new(Arc::clone(&memory));
            request.extensions_mut().insert(share);
        }
        let refusal = match client.is_of_network() {
            true => refuse_without_one_host(&request),
            false => None,
        };
        let active = served.begin_request(memory, Instant::now());
        let service = service.clone();
        async move {
            let Some(active) = active else {
                // The connection is closed for another one, which drops this.
                return std::future::pending().await;
            };
            let mut response = match refusal {
                None => service.oneshot(request).await?,
                Some(refusal) => {
                    tracing::info!(%client, "request refused: it does not have exactly one valid Host header");
                    refusal
                }
            };
            // The unread body makes the connection unusable, so tell the client not to send another request on it.
            if remainder.is_left() {
                served.leave_body_unread();
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            Ok::<_, Infallible>(active.answered(response))
        }
    };
    let service = TowerToHyperService::new(service_fn(answer));
    let socket = ExplainedRefusals::new(ServedSocket::new(socket, rate, served));
    let mut serving = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head)
            .max_buf_size(READ_BUFFER)
            .serve_connection(TokioIo::new(socket), service)
            // An upgraded connection no longer counts here: its handler has limits of its own.
            .with_upgrades()
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
