//! Downloads of bodies that are too large to hold in memory, read piece by piece with a timeout for each.

use std::sync::Arc;
use std::time::Duration;

use berth_model::error_chain;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use reqwest::Url;
use tokio::time::{Instant, timeout};
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt};

use super::network::{NetworkTransport, execute};
use super::{TransportError, TransportOptions};

/// The minimum number of bytes per timeout (256 KiB). Without it, a source that sends a byte now and then
/// would never time out.
const LEAST: u64 = 256 << 10;

/// The maximum number of redirects.
const MOST_REDIRECTS: u32 = 5;

/// A download that does not go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DownloadError {
    /// No answer, or an incomplete one.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// Another status than 200.
    #[error("the answer is {}, not 200", status.as_u16())]
    Status { status: StatusCode },
    /// A redirect that is not followed.
    #[error("the answer points to {place}: {reason}")]
    Redirect {
        /// The target, without its query.
        place: String,
        /// Why it is not followed.
        reason: &'static str,
    },
}

impl DownloadError {
    /// Whether repeating the download may succeed.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Transport(error) => error.is_passing(),
            Self::Status { status } => {
                status.is_server_error()
                    || matches!(
                        *status,
                        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS
                    )
            }
            Self::Redirect { .. } => false,
        }
    }
}

/// A streaming body; errors are messages.
type DownloadBody = UnsyncBoxBody<Bytes, String>;

/// The source of downloads.
#[derive(Clone)]
enum DownloadSource {
    Network(Arc<NetworkTransport>),
    /// A service in this process, whatever host a URL names.
    Here(BoxCloneSyncService<Request<Bytes>, Response<DownloadBody>, TransportError>),
}

/// Large files over TCP and TLS, or of a service in this process. Clones share connections.
#[derive(Clone)]
pub struct Downloads {
    source: DownloadSource,
    patience: Duration,
}

impl Downloads {
    /// The default timeout for one piece.
    pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(60);

    /// Downloads over the network. The response head, and then each piece, must arrive within `patience`.
    ///
    /// Errors: A file named in the options cannot be read or has no certificate or key.
    pub fn network(options: &TransportOptions, patience: Duration) -> Result<Self, TransportError> {
        Ok(Self {
            source: DownloadSource::Network(Arc::new(NetworkTransport::new(options)?)),
            patience,
        })
    }

    /// Downloads of a tower service in this process, an axum router for instance.
    pub fn in_process<S, Q, A>(service: S) -> Self
    where
        S: Service<Request<Q>, Response = Response<A>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<tower::BoxError> + Send + 'static,
        Q: From<Bytes> + Send + 'static,
        A: http_body::Body<Data = Bytes> + Send + 'static,
        A::Error: Into<tower::BoxError>,
    {
        let asked = tower::service_fn(move |request: Request<Bytes>| {
            let service = service.clone();
            async move {
                let answer = service.oneshot(request.map(Q::from)).await;
                let answer = answer.map_err(|error| TransportError::Closed {
                    reason: error_chain(error.into().as_ref()),
                })?;
                let text_of = |error: A::Error| error_chain(error.into().as_ref());
                Ok(answer.map(|body| body.map_err(text_of).boxed_unsync()))
            }
        });
        Self {
            source: DownloadSource::Here(BoxCloneSyncService::new(asked)),
            patience: Self::DEFAULT_PATIENCE,
        }
    }

    /// GET of an `http` or `https` URL. Follows up to five redirects, and changes the scheme only
    /// from `http` to `https`.
    ///
    /// Errors: No answer, a status other than 200, or a redirect that is not followed.
    pub async fn get(&self, url: &str) -> Result<Download, DownloadError> {
        let mut url = parsed(url)?;
        for _ in 0..=MOST_REDIRECTS {
            let answer = self.ask(&url, HeaderMap::new()).await?;
            if !answer.status().is_redirection() {
                return self.download(answer);
            }
            url = next(&url, answer.headers())?;
        }
        Err(DownloadError::Redirect {
            place: shown(&url),
            reason: "too many redirects; at most five are followed",
        })
    }

    /// GET with headers that go to this place alone: no redirect is followed.
    pub(crate) async fn get_with(
        &self,
        url: &str,
        headers: HeaderMap,
    ) -> Result<Download, DownloadError> {
        let url = parsed(url)?;
        let answer = self.ask(&url, headers).await?;
        self.download(answer)
    }

    async fn ask(
        &self,
        url: &Url,
        headers: HeaderMap,
    ) -> Result<Response<DownloadBody>, TransportError> {
        let unsendable = |reason: String| TransportError::Unsendable { reason };
        let mut request = Request::builder()
            .method(Method::GET)
            .uri(url.as_str())
            .header(
                header::USER_AGENT,
                concat!("berth/", env!("CARGO_PKG_VERSION")),
            )
            .body(Bytes::new())
            .map_err(|error| unsendable(error.to_string()))?;
        request.headers_mut().extend(headers);
        let after = self.patience;
        let answer = async {
            match &self.source {
                DownloadSource::Network(network) => {
                    let client = network.client(url.scheme() == "https")?;
                    let answer = execute(client, request, &peer(url)).await?;
                    let text_of = |error: reqwest::Error| error_chain(&error.without_url());
                    Ok(answer.map(|body| body.map_err(text_of).boxed_unsync()))
                }
                DownloadSource::Here(service) => service.clone().oneshot(request).await,
            }
        };
        timeout(after, answer)
            .await
            .map_err(|_| TransportError::Timeout { after })?
    }

    fn download(&self, answer: Response<DownloadBody>) -> Result<Download, DownloadError> {
        let status = answer.status();
        if status != StatusCode::OK {
            return Err(DownloadError::Status { status });
        }
        let length = answer.headers().get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
        Ok(Download {
            length,
            body: answer.into_body(),
            patience: self.patience,
            waited: Duration::ZERO,
            came: 0,
        })
    }
}

/// Host and port, without the rest of the authority, which may contain a password.
fn peer(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port_or_known_default() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

fn parsed(url: &str) -> Result<Url, TransportError> {
    Url::parse(url).map_err(|error| TransportError::Unsendable {
        reason: error.to_string(),
    })
}

/// The URL without parts that may contain a signature or a password.
fn shown(url: &Url) -> String {
    let port = url
        .port()
        .map_or_else(String::new, |port| format!(":{port}"));
    let host = url.host_str().unwrap_or_default();
    let place = format!("{}://{host}{port}{}", url.scheme(), url.path());
    place
        .chars()
        .filter(|c| !c.is_control())
        .take(200)
        .collect()
}

fn next(from: &Url, headers: &HeaderMap) -> Result<Url, DownloadError> {
    let refuse = |place: String, reason| Err(DownloadError::Redirect { place, reason });
    let location = headers.get(header::LOCATION).and_then(|l| l.to_str().ok());
    let Some(Ok(to)) = location.map(|location| from.join(location)) else {
        return refuse(
            "nowhere".to_owned(),
            "it has no Location that could be followed",
        );
    };
    match (from.scheme(), to.scheme()) {
        ("http", "http" | "https") | ("https", "https") => Ok(to),
        (_, "http") => refuse(shown(&to), "from https nothing is followed to http"),
        _ => refuse(shown(&to), "only http and https are followed"),
    }
}

/// A download in progress.
pub struct Download {
    length: Option<u64>,
    body: DownloadBody,
    patience: Duration,
    /// Time waited and bytes received since the last check.
    waited: Duration,
    came: u64,
}

impl Download {
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// The next piece; `None` at the end. A body that is shorter than announced is an error.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, TransportError> {
        let after = self.patience;
        loop {
            let asked = Instant::now();
            let frame = timeout(after, self.body.frame()).await;
            // The time that the caller takes over a piece is not the source's.
            self.waited += asked.elapsed();
            match frame.map_err(|_| TransportError::Timeout { after })? {
                None => return Ok(None),
                Some(Err(reason)) => return Err(TransportError::Closed { reason }),
                Some(Ok(frame)) => {
                    if let Ok(piece) = frame.into_data() {
                        self.is_quick_enough(piece.len())?;
                        return Ok(Some(piece));
                    }
                }
            }
        }
    }

    /// Counts a piece and checks the rate.
    fn is_quick_enough(&mut self, piece: usize) -> Result<(), TransportError> {
        self.came += piece as u64;
        if self.waited < self.patience {
            return Ok(());
        }
        if self.came < LEAST {
            return Err(TransportError::Slow {
                least: LEAST,
                after: self.patience,
            });
        }
        (self.waited, self.came) = (Duration::ZERO, 0);
        Ok(())
    }
}
