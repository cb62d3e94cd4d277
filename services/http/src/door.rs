//! The door: what every request passes on its way in and every answer on its way out.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, header};

use crate::auth::{Caller, Scope, TOKEN_HEADER, TokenError, TokenRequest, ValidateToken};
use crate::call::{BodyLimit, ServiceCaller, absolute};
use crate::fault::{self, Asked, ErrorCodes, Fault};
use crate::manners::{Manners, SERVICE_TOKEN_HEADER};
use crate::microversion::{self, Microversion, MicroversionRange};
use crate::mount::PublicEndpoint;
use crate::prefix::Prefix;
use crate::request_id::{self, RequestId};

/// How a service receives its callers.
#[derive(Clone)]
pub struct Door {
    /// Whose manners it has.
    pub manners: Manners,
    /// The versions it speaks.
    pub versions: MicroversionRange,
    pub tokens: Arc<dyn ValidateToken>,
    /// The largest body taken, in bytes.
    pub body_limit: usize,
}

/// Puts the door before a router. Every path needs a token, but for those that the [`Manners`] leave open.
pub fn door(router: Router, door: Door) -> Router {
    router.layer(from_fn_with_state(door, enter))
}

async fn enter(State(door): State<Door>, request: Request, next: Next) -> Response {
    let request_id = RequestId::make(request.headers());
    let asked = Asked::of(request.method(), request.headers());
    let path = request.uri().path().to_owned();
    if let Some(global_request_id) = request_id.global() {
        let (method, request_id) = (request.method(), request_id.as_str());
        tracing::debug!(request_id, global_request_id, %method, path, "a caller's own id");
    }
    let keystone = door.keystone(&request);
    let (version, mut response) = match door.admit(request, &request_id).await {
        Err(Turned::Away(response)) => (None, *response),
        Err(Turned::Fault(version, fault)) => (version, fault.into_response()),
        Ok((version, request)) => (Some(version), guarded(next, request, &request_id).await),
    };
    if let Some(fault) = response.extensions_mut().remove::<Fault>() {
        let codes = match version {
            Some(version) if version.has(door.versions.error_codes_since) => ErrorCodes::Shown,
            _ => ErrorCodes::Hidden,
        };
        response = match door.manners {
            Manners::Placement => fault.render(&asked, &request_id, codes),
            Manners::Cyborg => fault.render_wsme(),
            Manners::Keystone => fault.render_keystone(keystone.as_deref()),
            Manners::Compute => fault.render_compute(),
            Manners::Image => fault.render_image(&asked),
        };
    }
    door.stamp(response.headers_mut(), version, &request_id);
    door.manners
        .stamp(&path, &door.versions, response.headers_mut());
    response
}

/// Why a request did not reach its handler.
enum Turned {
    /// With an answer that is not in the service's own shape.
    Away(Box<Response>),
    /// With a fault, at this version if it was known.
    Fault(Option<Microversion>, Fault),
}

impl Door {
    async fn admit(
        &self,
        request: Request,
        request_id: &RequestId,
    ) -> Result<(Microversion, Request), Turned> {
        let (mut parts, body) = request.into_parts();
        let open = self.manners.is_open(&parts.method, parts.uri.path());
        let caller = self.caller(open, &parts.headers).await?;
        let service = self.service(open, &parts.headers).await?;
        let version = match self.manners {
            Manners::Placement => self.versions.negotiate(&parts.headers),
            Manners::Cyborg => self.versions.negotiate_bare(&parts.headers),
            Manners::Keystone | Manners::Image => Ok(self.versions.min),
            // What versions there are is told to whoever asks, in whatever version.
            Manners::Compute if open => Ok(self.versions.min),
            Manners::Compute => self.versions.negotiate_nova(&parts.headers),
        }
        .map_err(|fault| Turned::Fault(None, fault))?;
        check_content_headers(&parts.headers)
            .map_err(|fault| Turned::Fault(Some(version), fault))?;
        parts.extensions.insert(version);
        parts.extensions.insert(caller);
        parts.extensions.insert(ServiceCaller(service));
        parts.extensions.insert(request_id.clone());
        parts.extensions.insert(BodyLimit(self.body_limit));
        Ok((version, Request::from_parts(parts, body)))
    }

    async fn caller(&self, open: bool, headers: &HeaderMap) -> Result<Caller, Turned> {
        if open {
            return Ok(Caller {
                user_id: String::new(),
                scope: Scope::Unscoped,
                roles: Vec::new(),
            });
        }
        let token = headers
            .get(TOKEN_HEADER)
            .and_then(|token| token.to_str().ok());
        let token = token.filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| self.turned_away())?;
        self.believe(TokenRequest { token, headers }).await
    }

    /// The service that passes its caller's request on, where it says so by a token of its own.
    async fn service(&self, open: bool, headers: &HeaderMap) -> Result<Option<Caller>, Turned> {
        let token = headers
            .get(SERVICE_TOKEN_HEADER)
            .filter(|_| self.manners == Manners::Cyborg && !open);
        let Some(token) = token else {
            return Ok(None);
        };
        let token = token.to_str().map_err(|_| self.turned_away())?;
        // The other headers are about the caller.
        let headers = &HeaderMap::new();
        self.believe(TokenRequest { token, headers })
            .await
            .map(Some)
    }

    async fn believe(&self, request: TokenRequest<'_>) -> Result<Caller, Turned> {
        match self.tokens.validate(request).await {
            Ok(caller) => Ok(caller),
            Err(TokenError::Refused) => Err(self.turned_away()),
            Err(error @ TokenError::Unavailable(_)) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "token not validated"
                );
                let fault = Fault::unavailable("The identity service cannot be asked.");
                Err(Turned::Fault(None, fault))
            }
        }
    }

    /// Where tokens are from, as a 401 of Keystone's own says it.
    fn keystone(&self, request: &Request) -> Option<String> {
        if self.manners != Manners::Keystone {
            return None;
        }
        let named = self.tokens.keystone().map(str::to_owned);
        let extensions = request.extensions();
        let prefix = extensions.get::<Prefix>().cloned().unwrap_or_default();
        let public = extensions.get::<PublicEndpoint>();
        Some(named.unwrap_or_else(|| absolute(request.headers(), public, &prefix, "/v3")))
    }

    fn turned_away(&self) -> Turned {
        if self.manners == Manners::Keystone {
            return Turned::Fault(None, Fault::unauthorized());
        }
        Turned::Away(Box::new(match (self.manners, self.tokens.keystone()) {
            (Manners::Placement, None) => fault::unauthorized(),
            (_, url) => fault::unauthorized_by_keystone(url),
        }))
    }

    fn stamp(
        &self,
        headers: &mut HeaderMap,
        version: Option<Microversion>,
        request_id: &RequestId,
    ) {
        let mut set = |name: &'static str, value: &str| {
            // Both are ASCII by construction.
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        set(request_id::HEADER, request_id.as_str());
        if let Some(version) = version.filter(|_| self.manners.has_microversions()) {
            set(
                microversion::HEADER,
                &format!("{} {version}", self.versions.service),
            );
            set(header::VARY.as_str(), microversion::HEADER);
            if self.manners == Manners::Compute {
                set(microversion::NOVA_HEADER, &version.to_string());
                let both = format!("{}, {}", microversion::HEADER, microversion::NOVA_HEADER);
                set(header::VARY.as_str(), &both);
            }
        }
        if self.manners == Manners::Compute {
            set(request_id::NOVA_HEADER, request_id.as_str());
        }
    }
}

/// A body needs a content type.
fn check_content_headers(headers: &HeaderMap) -> Result<(), Fault> {
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str());
    let length = match text(header::CONTENT_LENGTH) {
        None => 0,
        Some(length) => length
            .ok()
            .and_then(|length| length.trim().parse::<u64>().ok())
            .ok_or_else(|| Fault::bad_request("content-length header must be an integer"))?,
    };
    let typed = matches!(text(header::CONTENT_TYPE), Some(Ok(media)) if !media.is_empty());
    if length > 0 && !typed {
        return Err(Fault::bad_request(
            "content-type header required when content-length > 0",
        ));
    }
    Ok(())
}

/// Runs the handler; a panic in it becomes a 500.
async fn guarded(next: Next, request: Request, request_id: &RequestId) -> Response {
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    match CatchPanic(Box::pin(next.run(request))).await {
        Ok(response) => response,
        Err(()) => {
            let global_request_id = request_id.global();
            let request_id = request_id.as_str();
            tracing::error!(request_id, global_request_id, %method, path, "handler panicked");
            Fault::internal("The request could not be completed.").into_response()
        }
    }
}

struct CatchPanic<F>(Pin<Box<F>>);

impl<F: Future> Future for CatchPanic<F> {
    type Output = Result<F::Output, ()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let inner = self.0.as_mut();
        // The future is dropped after a panic and never polled again.
        match std::panic::catch_unwind(AssertUnwindSafe(|| inner.poll(context))) {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(())),
        }
    }
}
