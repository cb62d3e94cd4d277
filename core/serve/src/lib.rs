//! Serves HTTP/1 to connections that others open, on TCP, on a unix socket or over TLS with certificates on both sides: how
//! many at once, how long each may take to send a request, and how the end comes. Whoever holds connections open without
//! asking anything is cut off, and gives way where there are too many, so that the others get their turn.
//!
//! Callers: the services' door (`services/http`) and the agent's admin API, which may not import each other.

mod body;
mod certificate;
mod giving_way;
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
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt, service_fn};

pub use body::{RequestBody, RequestBodyError};
pub use certificate::Holder;
pub use tls::{TlsDoor, TlsError, TlsFile, TlsFiles, TlsSettings};

use certificate::Certificate;
use giving_way::{Connection, Waiting};
use refusal::Worded;
use unread::Taken;

/// What a listener bears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections that are served at once. One more ends the one that has waited longest for a request, if that is at least
    /// [`Limits::idle`]; until then it waits, and those after it in the kernel's queue.
    pub connections: usize,
    /// How long a connection that waits for a request is left alone where others want in.
    pub idle: Duration,
    /// How long a connection may take until the head of its next request is whole, counted from its opening or from the
    /// end of the last answer: an idle connection is closed after this, too.
    pub head: Duration,
    /// How long a request's body may take until it is whole, counted from when it is first waited for; and how long a peer may
    /// take nothing at all of its answer.
    pub body: Duration,
    /// How long requests under way may go on after the stop.
    pub grace: Duration,
}

impl Default for Limits {
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

/// Serves until `stop` is ready, then lets requests under way end, at most [`Limits::grace`] long. `service` makes what
/// answers on one connection, from its socket (an [`axum::Router`], say).
pub async fn serve<L, S>(
    listener: L,
    limits: Limits,
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

/// Who is at the other end of a TLS connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsClient {
    /// Whose certificate was shown; the door's authority has signed it.
    pub holder: Holder,
    /// Where the connection comes from.
    pub address: SocketAddr,
}

/// The same over TLS: only who shows a certificate that the door's authority signed is served. The handshake may take as
/// long as the head of a request.
pub async fn serve_tls<S>(
    listener: TcpListener,
    door: TlsDoor,
    limits: Limits,
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
        let acceptor = TlsAcceptor::from(door.config());
        let service = service.clone();
        async move {
            let shaken = timeout(limits.head, acceptor.accept(socket)).await;
            let stream = match shaken {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => {
                    tracing::info!(%address, %error, "a TLS connection was refused");
                    return None;
                }
                Err(_) => {
                    tracing::info!(%address, after = ?limits.head, "a TLS handshake was cut off");
                    return None;
                }
            };
            let holder = holder(&stream)?;
            Some((stream, service(TlsClient { holder, address })))
        }
    };
    serve_opened(listener, limits, open, stop).await;
}

/// Whose certificate the client showed. None: nobody is served without, whatever the TLS library let through.
fn holder(stream: &TlsStream<TcpStream>) -> Option<Holder> {
    let shown = stream.get_ref().1.peer_certificates()?.first()?;
    Some(Certificate::read(shown)?.holder)
}

/// Serves what `open` makes of each connection, in the connection's own task.
async fn serve_opened<L, I, S, F>(
    mut listener: L,
    limits: Limits,
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
    let waiting = Arc::new(Waiting::default());
    let mut stop = pin!(stop);
    // One that has come and is not served yet.
    let mut next = None;
    loop {
        // Begun anew whenever a connection ended: then there is a slot.
        let slot = async {
            match Arc::clone(&slots).try_acquire_owned() {
                Ok(slot) => Ok(slot),
                Err(_) => {
                    waiting.give_way(limits.idle).await;
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
                let place = Connection::of(&waiting);
                connections.spawn(async move {
                    let serving = async {
                        // Nothing was asked yet, so at the stop nothing is waited for.
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
    // Nobody new comes in; who is left is told.
    drop(listener);
    closing.cancel();
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(limits.grace, all).await.is_err() {
        tracing::debug!("answers under way were cut off at the stop");
    }
}

/// Serves one connection to its end.
async fn connection<I, S>(
    socket: I,
    limits: Limits,
    service: S,
    place: &Arc<Connection>,
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
            // The connection cannot go on; a client that is not told would send its next request into it.
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
                TokioIo::new(Worded::new(Taken::new(socket, limits.body))),
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
