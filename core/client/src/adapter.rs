//! [`Adapter`]: requests to one service, with authentication, retries and request ids, like keystoneauth's adapter.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderName};
use http::{HeaderValue, Method, Response, StatusCode};

use crate::answer::AdapterAnswer;
use crate::call::{PreparedRequest, Repeat, ServiceLink, request_id};
use crate::keystone::{Renewal, system_clock};
use crate::sanitize;
use crate::{
    Auth, AuthOptions, HttpService, JitterRng, OptionsError, RequestLine, RequestObserver,
    RetryPolicy, ServiceCallError, TransportError, UpgradedConnection,
};

static AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
static SERVICE_TOKEN: HeaderName = HeaderName::from_static("x-service-token");
static SUBJECT_TOKEN: HeaderName = HeaderName::from_static("x-subject-token");
static API_VERSION: HeaderName = HeaderName::from_static("openstack-api-version");

#[derive(Clone)]
pub struct AdapterOptions {
    /// How often requests are repeated.
    pub retry: RetryPolicy,
    /// The timeout of one request (default 60 s; ten times as long for a reshape).
    pub timeout: Duration,
    /// The random source for jitter and request ids. A seeded one makes a run reproducible.
    pub rng: Arc<JitterRng>,
    pub observer: Option<Arc<dyn RequestObserver>>,
}

impl AdapterOptions {
    /// The default timeout of a request.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
}

impl Default for AdapterOptions {
    fn default() -> Self {
        Self {
            retry: RetryPolicy::default(),
            timeout: Self::DEFAULT_TIMEOUT,
            rng: Arc::new(JitterRng::from_os()),
            observer: None,
        }
    }
}

impl From<&AuthOptions> for AdapterOptions {
    fn from(options: &AuthOptions) -> Self {
        Self {
            retry: options.retry(),
            timeout: options.timeout.unwrap_or(Self::DEFAULT_TIMEOUT),
            ..Self::default()
        }
    }
}

/// The client cannot be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// Options are missing or contradictory.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// A certificate or key file cannot be used.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

/// A client of one OpenStack service with an account. Clones share connections and session.
#[derive(Clone)]
pub struct Adapter {
    service_type: &'static str,
    link: ServiceLink,
    auth: Auth,
    service_token: ServiceToken,
}

/// Whether requests carry a service token (`X-Service-Token`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServiceToken {
    None,
    /// The account's own token.
    Own,
}

/// One call of a service's API.
pub(crate) struct AdapterCall {
    pub(crate) method: Method,
    pub(crate) route: &'static str,
    /// The path below the endpoint, with its query.
    pub(crate) path: String,
    /// The microversion, major and minor; none sends no version.
    pub(crate) microversion: Option<(u16, u16)>,
    pub(crate) body: Option<Vec<u8>>,
    /// `If-Match`: the state of the object for which the call is meant.
    pub(crate) precondition: Option<HeaderValue>,
    pub(crate) repeat: Repeat,
    pub(crate) patience: u32,
    /// The protocol that the connection is to carry after the request.
    pub(crate) upgrade: Option<&'static str>,
}

impl AdapterCall {
    /// A call without a version that may be repeated.
    pub(crate) fn new(
        method: Method,
        route: &'static str,
        path: String,
        body: Option<Vec<u8>>,
    ) -> Self {
        Self {
            method,
            route,
            path,
            microversion: None,
            body,
            precondition: None,
            repeat: Repeat::Safe,
            patience: 1,
            upgrade: None,
        }
    }
}

impl Adapter {
    /// The service of this type (`placement`, `accelerator`) reached through `http`.
    #[must_use]
    pub fn new(
        service_type: &'static str,
        http: HttpService,
        auth: Auth,
        options: &AdapterOptions,
    ) -> Self {
        Self {
            service_type,
            link: ServiceLink::new(service_type, http, options),
            auth,
            service_token: ServiceToken::None,
        }
    }

    /// The service over the network, all by the options. Nothing is sent yet.
    pub(crate) fn from_options(
        service_type: &'static str,
        options: &AuthOptions,
        observer: Option<Arc<dyn RequestObserver>>,
    ) -> Result<Self, ConnectError> {
        options.check()?;
        let http = HttpService::network(&options.transport())?;
        Ok(Self::from_options_over(
            service_type,
            http,
            options,
            observer,
        )?)
    }

    /// Creates the adapter over a given HTTP service.
    pub(crate) fn from_options_over(
        service_type: &'static str,
        http: HttpService,
        options: &AuthOptions,
        observer: Option<Arc<dyn RequestObserver>>,
    ) -> Result<Self, OptionsError> {
        let adapter = AdapterOptions {
            observer,
            ..AdapterOptions::from(options)
        };
        let auth = Auth::from_options(options, &http, system_clock(), &adapter)?;
        Ok(Self::new(service_type, http, auth, &adapter))
    }

    /// Sends a service token with each request.
    pub(crate) fn with_service_token(mut self) -> Self {
        self.service_token = ServiceToken::Own;
        self
    }

    /// Adds an observer of its requests. Logins are observed through the options of [`Auth`].
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn RequestObserver>) -> Self {
        self.link.observing(observer);
        self
    }

    /// The longest time without any notification to observers during a call: one exchange, the delay before the next,
    /// and `logins` consecutive logins, which are not observed.
    pub(crate) fn longest_quiet(&self, patience: u32, logins: u32) -> Duration {
        let login = self.link.longest_request().saturating_mul(logins);
        self.link.longest_quiet(patience).saturating_add(login)
    }

    /// The timeout of one exchange.
    pub(crate) fn timeout(&self) -> Duration {
        self.link.timeout()
    }

    pub(crate) fn auth(&self) -> &Auth {
        &self.auth
    }

    /// Sends a call; after a 401 once more with a new token, if there can be one.
    pub(crate) async fn call(&self, call: AdapterCall) -> Result<AdapterAnswer, ServiceCallError> {
        self.call_about(call, None).await
    }

    /// Calls with `X-Subject-Token`.
    pub(crate) async fn call_about(
        &self,
        call: AdapterCall,
        subject: Option<HeaderValue>,
    ) -> Result<AdapterAnswer, ServiceCallError> {
        let body = call.body.map(Bytes::from);
        let line = RequestLine {
            service: self.service_type,
            method: call.method,
            route: call.route,
            path: call.path,
            id: self.link.new_id(),
            repeat: call.repeat,
        };
        let mut renewals = 0;
        loop {
            let access = self.auth.access().await?;
            let mut headers = Vec::with_capacity(3);
            headers.extend(
                access
                    .token
                    .clone()
                    .map(|token| (AUTH_TOKEN.clone(), token)),
            );
            if self.service_token == ServiceToken::Own {
                let own = access.token.clone();
                headers.extend(own.map(|token| (SERVICE_TOKEN.clone(), token)));
            }
            headers.extend(call.microversion.and_then(|wanted| self.version(wanted)));
            headers.extend(call.upgrade.into_iter().flat_map(|protocol| {
                [
                    (header::CONNECTION, HeaderValue::from_static("upgrade")),
                    (header::UPGRADE, HeaderValue::from_static(protocol)),
                ]
            }));
            headers.extend(subject.clone().map(|token| (SUBJECT_TOKEN.clone(), token)));
            let precondition = call.precondition.clone();
            headers.extend(precondition.map(|state| (header::IF_MATCH, state)));
            let outgoing = PreparedRequest {
                method: line.method.clone(),
                route: line.route,
                url: joined(access.endpoint.as_str(), &line.path),
                headers,
                body: body.clone(),
                repeat: line.repeat,
                patience: call.patience,
                id: line.id.clone(),
            };
            let answer = match self.link.send(&outgoing).await {
                Ok(answer) => answer,
                Err(reason) => return Err(lost(line, reason)),
            };
            let refused = answer.status() == StatusCode::UNAUTHORIZED && renewals == 0;
            if refused && matches!(self.auth.refused(&access), Renewal::Possible) {
                renewals += 1;
                continue;
            }
            return Ok(answered(line, answer, access.token.as_ref()));
        }
    }

    fn version(&self, (major, minor): (u16, u16)) -> Option<(HeaderName, HeaderValue)> {
        let service = self.service_type;
        let value = HeaderValue::from_str(&format!("{service} {major}.{minor}")).ok()?;
        Some((API_VERSION.clone(), value))
    }
}

/// Joins endpoint and path. Some services have the API version in their catalog URL (`http://host:6666/v2`), others do
/// not; the path always has it. Berth's internal routes (`/internal`) are next to the version, not below it.
fn joined(endpoint: &str, path: &str) -> String {
    let first = path.split('/').nth(1).unwrap_or_default();
    let below = endpoint
        .rsplit_once('/')
        .filter(|(_, last)| is_version(last) && (first == "internal" || first == *last))
        .map(|(below, _)| below);
    format!("{}{path}", below.unwrap_or(endpoint))
}

fn is_version(segment: &str) -> bool {
    let digits = segment.strip_prefix('v');
    digits.is_some_and(|digits| digits.starts_with(|c: char| c.is_ascii_digit()))
}

fn lost(line: RequestLine, reason: TransportError) -> ServiceCallError {
    let unknown = line.repeat == Repeat::Once && reason.sent() == crate::Delivery::Perhaps;
    let request = Box::new(line);
    if unknown {
        ServiceCallError::AnswerLost { request, reason }
    } else {
        ServiceCallError::Transport { request, reason }
    }
}

/// The answer with the token masked, because its text appears in error messages.
fn answered(
    request: RequestLine,
    answer: Response<Bytes>,
    token: Option<&HeaderValue>,
) -> AdapterAnswer {
    let (request_id, status) = (request_id(&answer), answer.status());
    let upgraded = answer.extensions().get::<UpgradedConnection>().cloned();
    let body = answer.into_body();
    let body = match token {
        Some(token) if !status.is_success() => sanitize::without(body, token.as_bytes()),
        _ => body,
    };
    AdapterAnswer {
        request,
        status,
        request_id,
        body,
        upgraded,
    }
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn a_version_that_the_endpoint_names_is_not_named_twice() {
        for (endpoint, path, url) in [
            ("http://h:6666", "/v2/devices", "http://h:6666/v2/devices"),
            (
                "http://h:6666/v2",
                "/v2/devices",
                "http://h:6666/v2/devices",
            ),
            (
                "http://h/accelerator/v2",
                "/v2/devices?x=/v2",
                "http://h/accelerator/v2/devices?x=/v2",
            ),
            ("http://h/v2.1", "/v2/devices", "http://h/v2.1/v2/devices"),
            ("http://hv2", "/v2/devices", "http://hv2/v2/devices"),
            (
                "http://h/placement",
                "/placement/x",
                "http://h/placement/placement/x",
            ),
            ("http://h", "/", "http://h/"),
            (
                "http://h/accelerator/v2",
                "/internal/v1/hosts/n/devices",
                "http://h/accelerator/internal/v1/hosts/n/devices",
            ),
            (
                "http://h:6666",
                "/internal/v1/hosts/n/devices",
                "http://h:6666/internal/v1/hosts/n/devices",
            ),
        ] {
            assert_eq!(joined(endpoint, path), url, "{endpoint} {path}");
        }
    }
}
