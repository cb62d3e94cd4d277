//! [`HttpService`]: a clonable service from a request with its whole body to an answer with its whole body.
//!
//! It can be a connection pool over TCP and TLS, a unix socket, or any tower service in this process (an axum router).
//! Users cannot tell the difference, and decorators can wrap it.

mod body;
mod download;
mod network;
mod tls;
mod upgrade;

use std::path::PathBuf;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt};

pub use body::DEFAULT_BODY_LIMIT;
pub use download::{Download, DownloadError, Downloads};
pub use network::TransportOptions;
pub use upgrade::{ByteStream, UpgradedConnection};

/// Whether a failed request may have reached the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// No: repeating it is safe.
    No,
    /// It may have reached the service and been carried out.
    Perhaps,
}

/// No answer, or an incomplete one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    #[error("{peer} refuses connections")]
    Refused {
        /// Host and port, or the socket's path.
        peer: String,
    },
    /// No connection: no route, no socket file, or no response to the attempt.
    #[error("cannot connect to {peer}: {reason}")]
    Unreachable {
        /// Host and port, or the socket's path.
        peer: String,
        /// The system's error text.
        reason: String,
    },
    /// The host name has no address.
    #[error("cannot resolve {host}")]
    Unresolved { host: String },
    /// The permissions of a unix socket do not allow the connection.
    #[error("permission denied on {peer}")]
    Denied {
        /// The socket's path.
        peer: String,
    },
    /// The answer to the TLS handshake is no TLS, probably plain HTTP.
    #[error("{peer} does not speak TLS")]
    NotTls { peer: String },
    /// The certificate of the service is not accepted.
    #[error("the certificate of {peer} is not trusted: {reason}")]
    Untrusted {
        peer: String,
        /// The TLS library's error text.
        reason: String,
    },
    /// TLS could not be set up with the service for another reason.
    #[error("no TLS connection to {peer}: {reason}")]
    Tls {
        peer: String,
        /// The TLS library's error text.
        reason: String,
    },
    #[error("no answer within {after:?}")]
    Timeout {
        /// How long was waited.
        after: Duration,
    },
    /// The body arrives too slowly.
    #[error("the body arrives too slowly: less than {least} bytes in {after:?}")]
    Slow {
        /// The minimum number of bytes.
        least: u64,
        /// How long was waited for them.
        after: Duration,
    },
    /// The connection ended, or did not carry valid HTTP, before the answer was complete.
    #[error("the connection ended before the answer was complete: {reason}")]
    Closed {
        /// The HTTP library's error text.
        reason: String,
    },
    /// The answer is larger than the limit.
    #[error("the answer is larger than {limit} bytes, the limit of this client")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// A certificate or key file cannot be used.
    #[error("{option}: {} cannot be used: {reason}", path.display())]
    File {
        /// The option: `cafile`, `certfile`, `keyfile`.
        option: &'static str,
        path: PathBuf,
        reason: String,
    },
    /// The request is invalid.
    #[error("the request cannot be sent: {reason}")]
    Unsendable { reason: String },
}

impl TransportError {
    #[must_use]
    pub fn sent(&self) -> Delivery {
        match self {
            Self::Refused { .. }
            | Self::Unreachable { .. }
            | Self::Unresolved { .. }
            | Self::Denied { .. }
            | Self::NotTls { .. }
            | Self::Untrusted { .. }
            | Self::Tls { .. }
            | Self::File { .. }
            | Self::Unsendable { .. } => Delivery::No,
            Self::Timeout { .. }
            | Self::Slow { .. }
            | Self::Closed { .. }
            | Self::TooLarge { .. } => Delivery::Perhaps,
        }
    }

    /// Whether repeating the request may succeed.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        !matches!(self, Self::File { .. } | Self::Unsendable { .. })
    }

    /// Whether to repeat the request at once. An answer that is too large comes from a faulty proxy;
    /// the caller retries later.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.is_passing() && !matches!(self, Self::TooLarge { .. })
    }

    /// What the user can do, as one sentence. `url` is the option with the service's URL, and `section` the section with
    /// the options of TLS.
    #[must_use]
    pub fn hint(&self, section: &str, url: &str) -> Option<String> {
        match self {
            Self::Refused { .. }
            | Self::Unreachable { .. }
            | Self::Timeout { .. }
            | Self::Slow { .. }
            | Self::Closed { .. } => Some(format!(
                "check that the service is running, and that its URL is right: [{section}] {url}"
            )),
            Self::Unresolved { .. } => Some(format!("correct the host name in [{section}] {url}")),
            Self::NotTls { .. } => Some(format!("write http:// in [{section}] {url}")),
            Self::Untrusted { .. } => Some(format!(
                "set [{section}] cafile to the certificate of the authority that signed it"
            )),
            Self::Tls { .. } => Some(format!(
                "check the options of TLS in [{section}]: cafile, certfile, keyfile"
            )),
            Self::Denied { .. }
            | Self::TooLarge { .. }
            | Self::File { .. }
            | Self::Unsendable { .. } => None,
        }
    }

    /// A label for metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Refused { .. } => "refused",
            Self::Unreachable { .. } | Self::Unresolved { .. } | Self::Denied { .. } => {
                "unreachable"
            }
            Self::Tls { .. } | Self::NotTls { .. } | Self::Untrusted { .. } => "tls",
            Self::Timeout { .. } => "timeout",
            Self::Slow { .. } => "slow",
            Self::Closed { .. } => "closed",
            Self::TooLarge { .. } => "too_large",
            Self::File { .. } => "file",
            Self::Unsendable { .. } => "unsendable",
        }
    }
}

/// An HTTP service. Clones share its connections.
#[derive(Debug, Clone)]
pub struct HttpService(BoxCloneSyncService<Request<Bytes>, Response<Bytes>, TransportError>);

impl HttpService {
    /// Wraps a service with whole bodies: a decorator, or a scripted service in a test.
    pub fn new<S>(service: S) -> Self
    where
        S: Service<Request<Bytes>, Response = Response<Bytes>, Error = TransportError>
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        Self(BoxCloneSyncService::new(service))
    }

    /// Wraps a tower service in this process, such as an axum router. Response bodies are read
    /// up to `body_limit` bytes.
    pub fn in_process<S, Q, A>(service: S, body_limit: usize) -> Self
    where
        S: Service<Request<Q>, Response = Response<A>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<tower::BoxError> + Send + 'static,
        Q: From<Bytes> + Send + 'static,
        A: http_body::Body + Send + 'static,
        A::Data: Send,
        A::Error: Into<tower::BoxError>,
    {
        Self::new(tower::service_fn(move |request: Request<Bytes>| {
            let service = service.clone();
            async move {
                let answer = service
                    .oneshot(request.map(Q::from))
                    .await
                    .map_err(|error| TransportError::Closed {
                        reason: error.into().to_string(),
                    })?;
                body::read_body(answer, body_limit).await
            }
        }))
    }

    /// A connection pool over TCP, with TLS for `https`.
    ///
    /// Errors: A file named in the options cannot be read or has no certificate or key.
    pub fn network(options: &TransportOptions) -> Result<Self, TransportError> {
        network::network(options)
    }

    /// A unix socket: whatever host a request's URI names, the request goes there.
    pub fn unix(
        path: &std::path::Path,
        options: &TransportOptions,
    ) -> Result<Self, TransportError> {
        network::unix(path, options)
    }

    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, TransportError> {
        self.0.clone().oneshot(request).await
    }
}

impl Service<Request<Bytes>> for HttpService {
    type Response = Response<Bytes>;
    type Error = TransportError;
    type Future =
        <BoxCloneSyncService<Request<Bytes>, Response<Bytes>, TransportError> as Service<
            Request<Bytes>,
        >>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        self.0.call(request)
    }
}
