//! Connections over TCP, TLS and unix sockets.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use reqwest::{Client, ClientBuilder};

use super::body::{chain, read_whole};
use super::{DEFAULT_BODY_LIMIT, HttpService, TransportError, tls};

/// Below the 5 s after which common front ends close an idle connection, so that a request rarely meets one that is
/// being closed; and an idle connection holds a whole worker of a small uWSGI.
const POOL_IDLE: Duration = Duration::from_secs(3);
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);
const IDLE_PER_HOST: usize = 8;

/// How connections are made; the file options are keystoneauth's.
#[derive(Debug, Clone)]
pub struct TransportOptions {
    /// A PEM file of the certificate authorities to trust, instead of the system's.
    pub cafile: Option<PathBuf>,
    /// A PEM file with this client's certificate.
    pub certfile: Option<PathBuf>,
    /// A PEM file with the certificate's key; without it the key is looked for in `certfile`.
    pub keyfile: Option<PathBuf>,
    /// The service's certificate is not checked at all.
    pub insecure: bool,
    /// How long one attempt to connect may take.
    pub connect_timeout: Duration,
    /// The most bytes read of one answer.
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
    let pools = Arc::new(Pools {
        plain: build(builder(options), tls::unused()?)?,
        secure: OnceLock::new(),
        options: options.clone(),
    });
    // Named files are read now, so that a wrong path is a start-up error. The system's authorities wait until a request
    // says https: they cost memory that a plain endpoint never needs.
    if options.cafile.is_some() || options.certfile.is_some() || options.keyfile.is_some() {
        pools.secure()?;
    }
    let limit = options.body_limit;
    Ok(HttpService::new(tower::service_fn(
        move |request: Request<Bytes>| {
            let pools = Arc::clone(&pools);
            async move {
                let peer = request
                    .uri()
                    .authority()
                    .map_or_else(String::new, ToString::to_string);
                let client = match request.uri().scheme_str() {
                    Some("https") => pools.secure()?,
                    _ => &pools.plain,
                };
                execute(client, request, &peer, limit).await
            }
        },
    )))
}

pub(super) fn unix(path: &Path, options: &TransportOptions) -> Result<HttpService, TransportError> {
    let client = build(builder(options).unix_socket(path), tls::unused()?)?;
    let limit = options.body_limit;
    let peer: Arc<str> = path.display().to_string().into();
    Ok(HttpService::new(tower::service_fn(
        move |request: Request<Bytes>| {
            let (client, peer) = (client.clone(), Arc::clone(&peer));
            async move { execute(&client, request, &peer, limit).await }
        },
    )))
}

struct Pools {
    plain: Client,
    secure: OnceLock<Client>,
    options: TransportOptions,
}

impl Pools {
    fn secure(&self) -> Result<&Client, TransportError> {
        if let Some(client) = self.secure.get() {
            return Ok(client);
        }
        let client = build(builder(&self.options), tls::config(&self.options)?)?;
        Ok(self.secure.get_or_init(|| client))
    }
}

fn builder(options: &TransportOptions) -> ClientBuilder {
    Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(options.connect_timeout)
        .tcp_nodelay(true)
        .tcp_keepalive(TCP_KEEPALIVE)
        .pool_idle_timeout(POOL_IDLE)
        .pool_max_idle_per_host(IDLE_PER_HOST)
        .http1_only()
}

fn build(builder: ClientBuilder, tls: rustls::ClientConfig) -> Result<Client, TransportError> {
    builder
        .tls_backend_preconfigured(tls)
        .build()
        .map_err(|error| TransportError::Unsendable {
            reason: chain(&error),
        })
}

async fn execute(
    client: &Client,
    request: Request<Bytes>,
    peer: &str,
    limit: usize,
) -> Result<Response<Bytes>, TransportError> {
    let request =
        reqwest::Request::try_from(request).map_err(|error| TransportError::Unsendable {
            reason: chain(&error.without_url()),
        })?;
    let answer = client
        .execute(request)
        .await
        .map_err(|error| classify(error, peer))?;
    read_whole(http::Response::from(answer), limit).await
}

fn classify(error: reqwest::Error, peer: &str) -> TransportError {
    let error = error.without_url();
    let peer = peer.to_owned();
    if error.is_builder() {
        return TransportError::Unsendable {
            reason: chain(&error),
        };
    }
    if !error.is_connect() {
        return TransportError::Closed {
            reason: causes(&error),
        };
    }
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        if let Some(io) = cause.downcast_ref::<io::Error>() {
            if io.kind() == io::ErrorKind::ConnectionRefused {
                return TransportError::Refused { peer };
            }
            if is_tls(io) {
                return TransportError::Tls {
                    peer,
                    reason: io.to_string(),
                };
            }
        }
        source = cause.source();
    }
    TransportError::Unreachable {
        peer,
        reason: causes(&error),
    }
}

/// What lies beneath reqwest's own sentence, which only says that sending failed.
fn causes(error: &reqwest::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), chain)
}

/// Whether an I/O error is the TLS library's, however often it was wrapped.
fn is_tls(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| {
        inner.is::<rustls::Error>() || inner.downcast_ref::<io::Error>().is_some_and(is_tls)
    })
}
