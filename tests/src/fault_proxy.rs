//! A proxy on loopback between a client and a service that corrupts chosen requests: the HTTP faults of the fault
//! matrix, for real processes. It counts and records every request, so a clean run lists the injection points.
//!
//! ```no_run
//! # use berth_tests::fault_proxy::*;
//! # fn upstream() -> String { String::new() }
//! let proxy = FaultProxy::start(&upstream())?;
//! proxy.spoil(ProxyRule::new(ProxyFault::Answer(ErrorAnswer::CONFLICT)).on("POST", "/reshaper").nth(1));
//! // … point the client at proxy.url(), run it …
//! assert_eq!(proxy.count("POST", "/reshaper"), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::exchange::{ExchangeError, address_of, runtime};

mod forward;
mod rule;

use forward::{Body, ConnectionCut};
pub use rule::{ErrorAnswer, ProxyFault, ProxyRule};

/// One request as the proxy saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxiedRequest {
    /// From 1, in order of arrival.
    pub number: usize,
    pub method: String,
    pub path: String,
    /// What the client was answered; `None` while under way, or where the connection was cut.
    pub status: Option<u16>,
    /// The fault that was put in, by name.
    pub fault: Option<&'static str>,
}

#[derive(Debug, Default)]
struct ProxyState {
    rules: Vec<ProxyRule>,
    trace: Vec<ProxiedRequest>,
}

#[derive(Debug)]
struct ProxyShared {
    upstream: SocketAddr,
    state: Mutex<ProxyState>,
}

impl ProxyShared {
    fn state(&self) -> MutexGuard<'_, ProxyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running proxy. It ends when dropped, its open connections with it.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<ProxyShared>,
    accepting: JoinHandle<()>,
}

/// Why there is no proxy.
#[derive(Debug, thiserror::Error)]
pub enum FaultProxyError {
    /// The upstream's URL has no address.
    #[error(transparent)]
    Upstream(#[from] ExchangeError),
    /// It could not listen.
    #[error("the fault proxy could not listen on loopback: {0}")]
    Listen(#[from] io::Error),
}

impl FaultProxy {
    /// Listens on a free port, and forwards to the service at `upstream` (its path, if any, is the client's matter).
    pub fn start(upstream: &str) -> Result<Self, FaultProxyError> {
        let shared = Arc::new(ProxyShared {
            upstream: address_of(upstream)?,
            state: Mutex::default(),
        });
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let listener = {
            let _entered = runtime().enter();
            TcpListener::from_std(listener)?
        };
        let accepting = runtime().spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self {
            address,
            shared,
            accepting,
        })
    }

    /// `http://127.0.0.1:PORT`, what the client is to talk to.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds a rule. Of several that match a request the first added acts.
    pub fn add_rule(&self, rule: ProxyRule) {
        self.shared.state().rules.push(rule);
    }

    /// Takes all rules away: the service is healthy again.
    pub fn heal(&self) {
        self.shared.state().rules.clear();
    }

    /// Every request so far.
    #[must_use]
    pub fn trace(&self) -> Vec<ProxiedRequest> {
        self.shared.state().trace.clone()
    }

    /// Forgets the requests so far; numbers start at 1 again.
    pub fn forget(&self) {
        self.shared.state().trace.clear();
    }

    /// How many requests had this method (`*`: any) and path template, as in [`ProxyRule::on`].
    #[must_use]
    pub fn count(&self, method: &str, template: &str) -> usize {
        let state = self.shared.state();
        state
            .trace
            .iter()
            .filter(|crossing| rule::matches(method, template, &crossing.method, &crossing.path))
            .count()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Connections belong to the set, so they end with the task that accepts.
async fn accept(listener: TcpListener, shared: Arc<ProxyShared>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                connections.spawn(serve(stream, Arc::clone(&shared)));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, shared: Arc<ProxyShared>) {
    let service = service_fn(move |request| handle(Arc::clone(&shared), request));
    // Cut connections are intended here, so the error is ignored.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn handle(
    shared: Arc<ProxyShared>,
    request: Request<Incoming>,
) -> Result<Response<Body>, ConnectionCut> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| ConnectionCut)?.to_bytes();
    let request = Request::from_parts(parts, body);
    let (number, fault) = arrive(&shared, &request);
    // In a task of its own: a client that gives up must not undo what the service is already doing.
    let work = tokio::spawn(forward::answer(shared.upstream, request, fault));
    let answer = work.await.unwrap_or(Err(ConnectionCut));
    let status = answer.as_ref().ok().map(|answer| answer.status().as_u16());
    // Not found when the trace was forgotten meanwhile.
    if let Some(crossing) = shared
        .state()
        .trace
        .iter_mut()
        .find(|crossing| crossing.number == number)
    {
        crossing.status = status;
    }
    answer
}

/// Records a request and finds the fault for it.
fn arrive(shared: &ProxyShared, request: &Request<Bytes>) -> (usize, Option<ProxyFault>) {
    let mut state = shared.state();
    let method = request.method().as_str();
    let path = request.uri().path_and_query().map_or("/", |it| it.as_str());
    let fault = state
        .rules
        .iter_mut()
        .fold(None, |found: Option<ProxyFault>, rule| {
            // Each rule counts its own requests, also those that another rule corrupts.
            let hit = rule.arrive(method, path);
            found.or(hit)
        });
    let number = state.trace.len() + 1;
    let name = fault.as_ref().map(ProxyFault::name);
    state.trace.push(ProxiedRequest {
        number,
        method: method.to_owned(),
        path: path.to_owned(),
        status: None,
        fault: name,
    });
    (number, fault)
}

#[cfg(test)]
mod tests;
