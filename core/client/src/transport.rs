//! Where requests go: one clonable service from a request with its whole body to an answer with its whole body.
//!
//! Three constructors give the same thing: a pool of connections over TCP and TLS, a unix socket, and any tower service in
//! this process (an axum router). Who holds an [`HttpService`] cannot tell which it is; decorators wrap it.

mod body;
mod download;
mod network;
mod tls;

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

/// Whether a request that failed may have reached the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It did not: sending it again is safe.
    No,
    /// It may have, and may have been carried out.
    Perhaps,
}

/// No answer, or no whole one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    #[error("{peer} refuses connections")]
    Refused {
        /// Host and port, or the socket's path.
        peer: String,
    },
    /// No connection could be made: the name does not resolve, no route, no socket file, no answer to the attempt.
    #[error("{peer} cannot be reached: {reason}")]
    Unreachable {
        /// Host and port, or the socket's path.
        peer: String,
        /// Why, in the system's words.
        reason: String,
    },
    /// TLS could not be set up with the service.
    #[error(
        "no TLS connection to {peer}: {reason}; the authority that signed its certificate is to be in cafile, else known \
         to this system"
    )]
    Tls {
        peer: String,
        /// Why, in the TLS library's words.
        reason: String,
    },
    /// The answer did not come in time.
    #[error("no answer within {after:?}")]
    Timeout {
        /// How long was waited.
        after: Duration,
    },
    /// A body came, but too slowly to be waited for.
    #[error("it comes too slowly: less than {least} bytes in {after:?}")]
    Slow {
        /// How many bytes were to come at the least.
        least: u64,
        /// How long was waited for them.
        after: Duration,
    },
    /// The connection ended, or what came over it was no HTTP, before the answer was whole.
    #[error("the connection ended before the answer was whole: {reason}")]
    Closed {
        /// Why, in the HTTP library's words.
        reason: String,
    },
    /// The answer is larger than this client reads.
    #[error("the answer is larger than {limit} bytes, the most this client reads")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// A certificate or key file cannot be used.
    #[error("{option}: {} cannot be used: {reason}", path.display())]
    File {
        /// The option that names it: `cafile`, `certfile`, `keyfile`.
        option: &'static str,
        path: PathBuf,
        reason: String,
    },
    /// The request could not be made at all.
    #[error("the request cannot be sent: {reason}")]
    Unsendable {
        reason: String,
    },
}

impl TransportError {
    /// Whether the request may have reached the service.
    #[must_use]
    pub fn sent(&self) -> Sent {
        match self {
            Self::Refused { .. }
            | Self::Unreachable { .. }
            | Self::Tls { .. }
            | Self::File { .. }
            | Self::Unsendable { .. } => Sent::No,
            Self::Timeout { .. }
            | Self::Slow { .. }
            | Self::Closed { .. }
            | Self::TooLarge { .. } => Sent::Perhaps,
        }
    }

    /// Whether the same request may get an answer another time.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        !matches!(self, Self::File { .. } | Self::Unsendable { .. })
    }

    /// Whether to send the same request again at once. An answer that is too large is what something before the service
    /// makes up; the next is asked for with the caller's pauses, not a few times in a row.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.is_passing() && !matches!(self, Self::TooLarge { .. })
    }

    /// One word for metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Refused { .. } => "refused",
            Self::Unreachable { .. } => "unreachable",
            Self::Tls { .. } => "tls",
            Self::Timeout { .. } => "timeout",
            Self::Slow { .. } => "slow",
            Self::Closed { .. } => "closed",
            Self::TooLarge { .. } => "too_large",
            Self::File { .. } => "file",
            Self::Unsendable { .. } => "unsendable",
        }
    }
}

/// An HTTP service, wherever it is. Clones share its connections.
#[derive(Debug, Clone)]
pub struct HttpService(BoxCloneSyncService<Request<Bytes>, Response<Bytes>, TransportError>);

impl HttpService {
    /// A service that already speaks in whole bodies: a decorator, a scripted service of a test.
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

    /// A tower service in this process, an axum router for instance. Bodies of answers are read up to `body_limit` bytes.
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
                body::read_whole(answer, body_limit).await
            }
        }))
    }

    /// A pool of connections over TCP, with TLS where a request's URI says `https`.
    ///
    /// # Errors
    /// A file named in the options cannot be read or holds no certificate or key.
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
