//! Connections over TCP, TLS and unix sockets.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use berth_model::error_chain;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, Uri, header};
use reqwest::{Client, ClientBuilder};

use super::body::read_body;
use super::upgrade::with_connection;
use super::{DEFAULT_BODY_LIMIT, HttpService, TransportError, tls};

/// Below the 5 s after which common front ends close idle connections, so that requests rarely meet a connection that
/// is being closed. Also, an idle connection blocks a whole worker of a small uWSGI.
const POOL_IDLE: Duration = Duration::from_secs(3);
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);
const IDLE_PER_HOST: usize = 8;
static CLOSE: HeaderValue = HeaderValue::from_static("close");

/// Options of connections; the file options are keystoneauth's.
#[derive(Debug, Clone)]
pub struct TransportOptions {
    /// A PEM file of the certificate authorities to trust, instead of the system's.
    pub cafile: Option<PathBuf>,
    /// A PEM file with this client's certificate.
    pub certfile: Option<PathBuf>,
    /// A PEM file with the certificate's key; by default it is in `certfile`.
    pub keyfile: Option<PathBuf>,
    /// The service's certificate is not checked at all.
    pub insecure: bool,
    /// The timeout of one connection attempt.
    pub connect_timeout: Duration,
    /// The limit of a response body, in bytes.
    pub body_limit: usize,
}

impl Default for TransportOptions {
    fn default() -> Self {
        Self {
            cafile: None,
            certfile: None,
            keyfile: None,
            insecure: false,
            connect_timeout: Duration::from_secs(10),
            body_limit: DEFAULT_BODY_LIMIT,
        }
    }
}

pub(super) fn network(options: &TransportOptions) -> Result<HttpService, TransportError> {
    let network = Arc::new(NetworkTransport::new(options)?);
    let limit = options.body_limit;
    let send = move |request: Request<Bytes>| {
        let network = Arc::clone(&network);
        async move {
            let peer = peer_of(request.uri());
            let connections = match request.uri().scheme_str() {
                Some("https") => network.secure()?,
                _ => &network.plain,
            };
            connections.send(request, &peer, limit).await
        }
    };
    Ok(HttpService::new(tower::service_fn(send)))
}

/// Host and port of a URL; without a port, the one of its scheme.
pub(super) fn peer_of(url: &Uri) -> String {
    let host = url.host().unwrap_or_default();
    let port = url.port_u16().unwrap_or(match url.scheme_str() {
        Some("https") => 443,
        _ => 80,
    });
    format!("{host}:{port}")
}

pub(super) fn unix(path: &Path, options: &TransportOptions) -> Result<HttpService, TransportError> {
    let connections = Connections::new(|| builder(options).unix_socket(path), tls::unused()?)?;
    let limit = options.body_limit;
    let peer: Arc<str> = path.display().to_string().into();
    let send = move |request: Request<Bytes>| {
        let (connections, peer) = (connections.clone(), Arc::clone(&peer));
        async move { connections.send(request, &peer, limit).await }
    };
    Ok(HttpService::new(tower::service_fn(send)))
}

pub(super) struct NetworkTransport {
    plain: Connections,
    secure: OnceLock<Connections>,
    options: TransportOptions,
}

impl NetworkTransport {
    pub(super) fn new(options: &TransportOptions) -> Result<Self, TransportError> {
        let network = Self {
            plain: Connections::new(|| builder(options), tls::unused()?)?,
            secure: OnceLock::new(),
            options: options.clone(),
        };
        // Named files are read now, so that a wrong path is an error at start. The system's authorities are loaded at
        // the first https request, because they need memory.
        if options.cafile.is_some() || options.certfile.is_some() || options.keyfile.is_some() {
            network.secure()?;
        }
        Ok(network)
    }

    /// A client that opens a new connection for each request.
    pub(super) fn client(&self, secure: bool) -> Result<&Client, TransportError> {
        match secure {
            true => Ok(&self.secure()?.new),
            false => Ok(&self.plain.new),
        }
    }

    fn secure(&self) -> Result<&Connections, TransportError> {
        if let Some(connections) = self.secure.get() {
            return Ok(connections);
        }
        let tls = tls::config(&self.options)?;
        let connections = Connections::new(|| builder(&self.options), tls)?;
        Ok(self.secure.get_or_init(|| connections))
    }
}

/// Kept-alive and new connections. A front end may close a kept-alive connection just when the next request is sent
/// (uWSGI's http-socket does so after every answer), and then it is unknown whether the request was read. Therefore
/// requests that must not be repeated (POST) always use a new connection, and others (RFC 9110, 9.2.2) are sent again
/// over a new one.
#[derive(Clone)]
struct Connections {
    kept: Client,
    new: Client,
}

impl Connections {
    fn new(
        builder: impl Fn() -> ClientBuilder,
        tls: rustls::ClientConfig,
    ) -> Result<Self, TransportError> {
        Ok(Self {
            kept: build(builder().pool_max_idle_per_host(IDLE_PER_HOST), tls.clone())?,
            new: build(builder().pool_max_idle_per_host(0), tls)?,
        })
    }

    async fn send(
        &self,
        request: Request<Bytes>,
        peer: &str,
        limit: usize,
    ) -> Result<Response<Bytes>, TransportError> {
        if request.method() != Method::POST {
            match execute(&self.kept, request.clone(), peer).await {
                Ok(answer) => return read_body(with_connection(answer).await?, limit).await,
                Err(TransportError::Closed { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let mut request = request;
        request
            .headers_mut()
            .insert(header::CONNECTION, CLOSE.clone());
        read_body(execute(&self.new, request, peer).await?, limit).await
    }
}

fn builder(options: &TransportOptions) -> ClientBuilder {
    let builder = Client::builder();
    // The library compares `*` with names, but not with addresses.
    let builder = match proxies_are_off() {
        true => builder.no_proxy(),
        false => builder,
    };
    builder
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(options.connect_timeout)
        .tcp_nodelay(true)
        .tcp_keepalive(TCP_KEEPALIVE)
        .pool_idle_timeout(POOL_IDLE)
        .http1_only()
}

/// Whether `no_proxy` has the entry `*`, which excludes every host.
fn proxies_are_off() -> bool {
    let excluded = ["NO_PROXY", "no_proxy"].map(std::env::var);
    let excluded = excluded.into_iter().find_map(Result::ok);
    excluded.is_some_and(|list| list.split(',').any(|entry| entry.trim() == "*"))
}

fn build(builder: ClientBuilder, tls: rustls::ClientConfig) -> Result<Client, TransportError> {
    let client = builder.tls_backend_preconfigured(tls).build();
    client.map_err(|error| TransportError::Unsendable {
        reason: error_chain(&error),
    })
}

/// Sends the request and returns the head of the answer.
pub(super) async fn execute(
    client: &Client,
    request: Request<Bytes>,
    peer: &str,
) -> Result<Response<reqwest::Body>, TransportError> {
    let request =
        reqwest::Request::try_from(request).map_err(|error| TransportError::Unsendable {
            reason: error_chain(&error.without_url()),
        })?;
    let answer = client.execute(request).await;
    answer
        .map(Response::from)
        .map_err(|error| classify(error, peer))
}

fn classify(error: reqwest::Error, peer: &str) -> TransportError {
    let error = error.without_url();
    let peer = peer.to_owned();
    if error.is_builder() {
        return TransportError::Unsendable {
            reason: error_chain(&error),
        };
    }
    if !error.is_connect() {
        return TransportError::Closed {
            reason: root_cause(&error),
        };
    }
    if error.is_dns() {
        let host = peer.rsplit_once(':').map_or(&*peer, |(host, _)| host);
        return TransportError::Unresolved {
            host: host.to_owned(),
        };
    }
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        if let Some(io) = cause.downcast_ref::<io::Error>() {
            match io.kind() {
                io::ErrorKind::ConnectionRefused => return TransportError::Refused { peer },
                io::ErrorKind::PermissionDenied => return TransportError::Denied { peer },
                _ => {}
            }
            if let Some(tls) = tls_error(io) {
                return of_tls(tls, peer);
            }
        }
        source = cause.source();
    }
    let reason = match error.is_timeout() {
        true => "timed out".to_owned(),
        false => root_cause(&error),
    };
    TransportError::Unreachable { peer, reason }
}

/// The innermost cause. The errors above it are those of the HTTP library, and say only that sending failed.
pub(super) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    let text = innermost.to_string();
    match text.split_once(" (os error ") {
        Some((text, _)) => text.to_owned(),
        None => text,
    }
}

/// The error of the TLS library in an I/O error, at any depth.
fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    let inner = error.get_ref()?;
    let tls = inner.downcast_ref::<rustls::Error>();
    tls.or_else(|| inner.downcast_ref::<io::Error>().and_then(tls_error))
}

fn of_tls(error: &rustls::Error, peer: String) -> TransportError {
    match error {
        rustls::Error::InvalidMessage(_) => TransportError::NotTls { peer },
        rustls::Error::InvalidCertificate(reason) => TransportError::Untrusted {
            peer,
            reason: certificate_problem(reason),
        },
        other => TransportError::Tls {
            peer,
            reason: other.to_string(),
        },
    }
}

fn certificate_problem(error: &rustls::CertificateError) -> String {
    use rustls::CertificateError as Problem;
    match error {
        Problem::UnknownIssuer => "its authority is unknown".to_owned(),
        Problem::Expired | Problem::ExpiredContext { .. } => "it has expired".to_owned(),
        Problem::NotValidYet | Problem::NotValidYetContext { .. } => {
            "it is not valid yet".to_owned()
        }
        Problem::NotValidForName | Problem::NotValidForNameContext { .. } => {
            "it is for another host name".to_owned()
        }
        Problem::Revoked => "it is revoked".to_owned(),
        other => other.to_string(),
    }
}
