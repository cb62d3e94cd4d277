//! One HTTP exchange: request id, timeout, log line, retries and metrics.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response, header};
use tokio::time::{Instant, sleep, timeout};

use crate::keystone::AuthError;
use crate::{
    AdapterOptions, Delivery, Disposition, ExchangeOutcome, HttpExchange, HttpService, JitterRng,
    RequestObserver, RetryPolicy, TransportError,
};

static REQUEST_ID: HeaderName = HeaderName::from_static("x-openstack-request-id");

/// Whether a request with an unknown outcome may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Repeat {
    /// Safe: a read, or a write that can be repeated.
    Safe,
    /// Not safe: the caller checks the outcome and decides.
    Once,
}

/// The route template, for example `/resource_providers/{uuid}/inventories`. Every request carries it as an extension,
/// so that decorators of [`HttpService`] can label it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RouteTemplate(pub &'static str);

/// The request of an error or an answer: enough to find it in the service's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestLine {
    /// The service's type: `placement`, `accelerator`.
    pub service: &'static str,
    pub method: Method,
    pub route: &'static str,
    /// The path with its query.
    pub path: String,
    /// The request id that was sent along (`X-OpenStack-Request-ID`).
    pub id: String,
    /// Whether it may be sent again if its outcome is unknown.
    pub repeat: Repeat,
}

impl RequestLine {
    /// What to do after the service was unavailable. It may have carried out the request behind a proxy that timed out.
    pub(crate) fn if_unavailable(&self) -> Disposition {
        match self.repeat {
            Repeat::Safe => Disposition::Retry,
            Repeat::Once => Disposition::Refresh,
        }
    }

    /// What to do after an answer that cannot be read: the service carried out a request that is no read.
    pub(crate) fn if_malformed(&self) -> Disposition {
        match self.method == Method::GET {
            true => Disposition::Retry,
            false => Disposition::Refresh,
        }
    }
}

impl fmt::Display for RequestLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A query with hundreds of UUIDs is no help to a reader.
        let path = self.path.split('?').next().unwrap_or_default();
        write!(f, "{} {path}", self.method)
    }
}

/// A call without an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServiceCallError {
    /// No token or no endpoint is available.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// The request was not carried out, or it is safe to repeat.
    #[error("{} did not answer {request}: {reason}", request.service)]
    Transport {
        request: Box<RequestLine>,
        reason: TransportError,
    },
    /// The request may have been carried out and must not simply be repeated.
    #[error(
        "{}'s answer to {request} was lost: {reason}; it may have been executed", request.service
    )]
    AnswerLost {
        request: Box<RequestLine>,
        reason: TransportError,
    },
}

impl ServiceCallError {
    /// Whether it is a call of the service of this type; a login is not.
    #[must_use]
    pub fn is_of(&self, service: &str) -> bool {
        match self {
            Self::Auth(_) => false,
            Self::Transport { request, .. } | Self::AnswerLost { request, .. } => {
                request.service == service
            }
        }
    }

    /// What failed, for a user who does not know the request: `cannot reach Placement: …`.
    #[must_use]
    pub fn what(&self) -> String {
        match self {
            Self::Auth(error) => error.to_string(),
            Self::Transport { request, reason } | Self::AnswerLost { request, reason } => {
                let service = service_name(request.service);
                match reason {
                    TransportError::Denied { .. } => reason.to_string(),
                    _ => format!("cannot reach {service}: {reason}"),
                }
            }
        }
    }

    /// What the user can do, with the option that names the service in `section`.
    #[must_use]
    pub fn hint(&self, section: &str) -> Option<String> {
        match self {
            Self::Auth(AuthError::Transport { reason, .. }) => reason.hint(section, "auth_url"),
            Self::Auth(_) => None,
            Self::Transport { reason, .. } | Self::AnswerLost { reason, .. } => {
                reason.hint(section, "endpoint_override")
            }
        }
    }

    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Auth(error) => error.disposition(),
            Self::Transport { reason, .. } if reason.is_passing() => Disposition::Retry,
            Self::Transport { .. } => Disposition::Fatal,
            Self::AnswerLost { .. } => Disposition::Refresh,
        }
    }

    /// The disposition if the service allows every request to be repeated.
    pub(crate) fn if_repeatable(&self) -> Disposition {
        match self.disposition() {
            Disposition::Fatal => Disposition::Fatal,
            Disposition::Retry | Disposition::Refresh => Disposition::Retry,
        }
    }
}

/// The name of a service for users.
pub(crate) fn service_name(service_type: &str) -> &str {
    match service_type {
        "placement" => "Placement",
        "accelerator" => "the accelerator service",
        "image" => "the image service",
        "network" => "the network service",
        "conductor" => "the conductor",
        "agent" => "the agent",
        other => other,
    }
}

/// A request that can be sent repeatedly.
pub(crate) struct PreparedRequest {
    pub(crate) method: Method,
    pub(crate) route: &'static str,
    pub(crate) url: String,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Option<Bytes>,
    pub(crate) repeat: Repeat,
    /// The timeout, as a multiple of the usual one.
    pub(crate) patience: u32,
    pub(crate) id: String,
}

/// An HTTP service with timeouts, retries, logging and metrics.
#[derive(Clone)]
pub(crate) struct ServiceLink {
    service: Arc<str>,
    http: HttpService,
    rng: Arc<JitterRng>,
    observers: Vec<Arc<dyn RequestObserver>>,
    retry: RetryPolicy,
    timeout: Duration,
}

impl ServiceLink {
    pub(crate) fn new(service: &str, http: HttpService, options: &AdapterOptions) -> Self {
        Self {
            service: service.into(),
            http,
            rng: Arc::clone(&options.rng),
            observers: options.observer.iter().cloned().collect(),
            retry: options.retry.clone(),
            timeout: options.timeout,
        }
    }

    pub(crate) fn observing(&mut self, observer: Arc<dyn RequestObserver>) {
        self.observers.push(observer);
    }

    /// The longest time without a notification to observers: one exchange of this patience, and the
    /// delay before the next.
    pub(crate) fn longest_quiet(&self, patience: u32) -> Duration {
        self.timeout
            .saturating_mul(patience)
            .saturating_add(self.retry.longest_pause())
    }

    /// The longest duration of a request with all its retries.
    pub(crate) fn longest_request(&self) -> Duration {
        self.longest_quiet(1).saturating_mul(self.retry.attempts())
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(crate) fn new_id(&self) -> String {
        self.rng.request_id()
    }

    /// Sends the request, and retries within the policy: always if it never arrived, and if it may have arrived only
    /// when that is safe.
    pub(crate) async fn send(
        &self,
        request: &PreparedRequest,
    ) -> Result<Response<Bytes>, TransportError> {
        let (mut unconnected, mut refused) = (0, 0);
        loop {
            let pause = match self.exchange(request).await {
                Ok(answer) => {
                    refused += 1;
                    let asked = retry_after(&answer);
                    let pause = self
                        .retry
                        .after_status(answer.status(), refused, asked, &self.rng);
                    match pause.filter(|_| request.repeat == Repeat::Safe) {
                        Some(pause) => pause,
                        None => return Ok(answer),
                    }
                }
                Err(error) => {
                    unconnected += 1;
                    let safe = request.repeat == Repeat::Safe || error.sent() == Delivery::No;
                    let pause = self.retry.after_connect(unconnected, &self.rng);
                    match pause.filter(|_| safe && error.is_repeatable()) {
                        Some(pause) => pause,
                        None => return Err(error),
                    }
                }
            };
            sleep(pause).await;
        }
    }

    async fn exchange(
        &self,
        outgoing: &PreparedRequest,
    ) -> Result<Response<Bytes>, TransportError> {
        let request = build(outgoing)?;
        let sent_bytes = request.body().len();
        let after = self.timeout.saturating_mul(outgoing.patience);
        let start = Instant::now();
        let result = match timeout(after, self.http.send(request)).await {
            Ok(result) => result,
            Err(_) => Err(TransportError::Timeout { after }),
        };
        self.notify_observer(outgoing, sent_bytes, start.elapsed(), &result);
        result
    }

    fn notify_observer(
        &self,
        request: &PreparedRequest,
        sent_bytes: usize,
        duration: Duration,
        result: &Result<Response<Bytes>, TransportError>,
    ) {
        let (service, method, route) = (&*self.service, &request.method, request.route);
        let (outcome, received_bytes) = match result {
            Ok(answer) => {
                let status = answer.status();
                tracing::debug!(
                    service, %method, route, status = status.as_u16(), ?duration,
                    request_id = %request.id, answer_request_id = %request_id(answer), "answered"
                );
                (ExchangeOutcome::Answered(status), answer.body().len())
            }
            Err(error) => {
                tracing::debug!(service, %method, route, %error, ?duration, request_id = %request.id, "no answer");
                (ExchangeOutcome::Failed(error.kind()), 0)
            }
        };
        for observer in &self.observers {
            observer.observed(&HttpExchange {
                service,
                method,
                route,
                outcome,
                sent_bytes,
                received_bytes,
                duration,
            });
        }
    }
}

fn build(outgoing: &PreparedRequest) -> Result<Request<Bytes>, TransportError> {
    let mut request = Request::builder()
        .method(outgoing.method.clone())
        .uri(&outgoing.url)
        .extension(RouteTemplate(outgoing.route))
        .header(&REQUEST_ID, &outgoing.id)
        .header(header::ACCEPT, "application/json")
        .header(
            header::USER_AGENT,
            concat!("berth/", env!("CARGO_PKG_VERSION")),
        );
    if outgoing.body.is_some() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    for (name, value) in &outgoing.headers {
        request = request.header(name, value);
    }
    request
        .body(outgoing.body.clone().unwrap_or_default())
        .map_err(|error| TransportError::Unsendable {
            reason: error.to_string(),
        })
}

/// The answer's request id; `-` if it has none.
pub(crate) fn request_id(answer: &Response<Bytes>) -> String {
    let id = answer
        .headers()
        .get(&REQUEST_ID)
        .and_then(|id| id.to_str().ok());
    id.map_or_else(|| "-".to_owned(), |id| id.chars().take(80).collect())
}

fn retry_after(answer: &Response<Bytes>) -> Option<Duration> {
    let seconds = answer.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}
