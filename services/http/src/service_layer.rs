//! The service layer: the middleware around every router of a service. It authenticates, negotiates the microversion,
//! calls the handler, and renders faults.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use berth_serve::BodyShare;
use http::{HeaderMap, HeaderValue, header};

use crate::audit::{RequestAudit, initiator};
use crate::auth::{Caller, TOKEN_HEADER, TokenError, TokenRequest, ValidateToken};
use crate::call::{BodyChecks, CallingService, absolute};
use crate::dialect::{ApiDialect, SERVICE_TOKEN_HEADER};
use crate::fault::{self, ErrorCodes, ErrorContext, Fault};
use crate::microversion::{self, Microversion, MicroversionRange};
use crate::mount::PublicEndpoint;
use crate::policy::Policy;
use crate::prefix::Prefix;
use crate::request_id::{self, RequestId};

/// How a service receives its callers.
#[derive(Clone)]
pub struct ServiceLayer {
    pub dialect: ApiDialect,
    pub versions: MicroversionRange,
    pub tokens: Arc<dyn ValidateToken>,
    /// The rules that are checked before a body is read.
    pub policy: Arc<Policy>,
    /// The maximum size of a body, in bytes. Operations may declare a larger one.
    pub body_limit: usize,
}

/// The default of [`ServiceLayer::body_limit`], which is that of OpenStack's `max_request_body_size`.
pub const BODY_LIMIT: usize = 112 << 10;

/// Wraps a router with the service layer. Every path needs a token unless the [`ApiDialect`] exempts it.
pub fn with_service_layer(router: Router, layer: ServiceLayer) -> Router {
    router.layer(from_fn_with_state(layer, handle))
}

async fn handle(State(layer): State<ServiceLayer>, request: Request, next: Next) -> Response {
    let request_id = RequestId::make(request.headers());
    let asked = ErrorContext::of(request.method(), request.headers());
    let path = request.uri().path().to_owned();
    if let Some(global_request_id) = request_id.global() {
        let (method, request_id) = (request.method(), request_id.as_str());
        tracing::debug!(request_id, global_request_id, %method, path, "request has a global request id");
    }
    let audit = request.extensions().get::<RequestAudit>().cloned();
    if let Some(audit) = &audit {
        audit.observe(format!("service/{}", layer.versions.service));
        audit.set_request_ids(request_id.as_str(), request_id.global());
    }
    let keystone = layer.keystone(&request);
    let (version, mut response) = match layer.admit(request, &request_id).await {
        Err(Rejection::Response(response)) => (None, *response),
        Err(Rejection::Fault(version, fault)) => (version, fault.into_response()),
        Ok((version, request)) => (Some(version), guarded(next, request, &request_id).await),
    };
    if let Some(fault) = response.extensions_mut().remove::<Fault>() {
        if let Some((audit, rule)) = audit.as_ref().zip(fault.refused_by()) {
            audit.set_refused_by(rule);
        }
        let retry_after = fault.retry_after();
        let codes = match version {
            Some(version) if version.has(layer.versions.error_codes_since) => ErrorCodes::Shown,
            _ => ErrorCodes::Hidden,
        };
        response = match layer.dialect {
            ApiDialect::Placement => fault.render(&asked, &request_id, codes),
            ApiDialect::Cyborg => fault.render_wsme(),
            ApiDialect::Keystone => fault.render_keystone(keystone.as_deref()),
            ApiDialect::Compute => fault.render_compute(),
            ApiDialect::Image => fault.render_image(&asked),
        };
        if let Some(retry_after) = retry_after {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, retry_after);
        }
    }
    layer.stamp(response.headers_mut(), version, &request_id);
    layer
        .dialect
        .stamp(&path, &layer.versions, response.headers_mut());
    response
}

/// Why a request did not reach its handler.
enum Rejection {
    /// A response that is not in the service's own error shape.
    Response(Box<Response>),
    /// A fault, with the negotiated version if it is known.
    Fault(Option<Microversion>, Fault),
}

impl ServiceLayer {
    async fn admit(
        &self,
        request: Request,
        request_id: &RequestId,
    ) -> Result<(Microversion, Request), Rejection> {
        let (mut parts, body) = request.into_parts();
        let open = self.dialect.is_open(&parts.method, parts.uri.path());
        let caller = self.caller(open, &parts.headers).await?;
        if let Some(audit) = parts.extensions.get::<RequestAudit>().filter(|_| !open) {
            audit.identify(initiator(&caller));
        }
        if let Some(share) = parts.extensions.remove::<BodyShare>().filter(|_| !open) {
            share.count_for_account(&caller.user_id);
        }
        let service = self.service(open, &parts.headers).await?;
        let version = match self.dialect {
            ApiDialect::Placement => self.versions.negotiate(&parts.headers),
            ApiDialect::Cyborg => self.versions.negotiate_bare(&parts.headers),
            ApiDialect::Keystone | ApiDialect::Image => Ok(self.versions.min),
            // The version document is served whatever version the request names.
            ApiDialect::Compute if open => Ok(self.versions.min),
            ApiDialect::Compute => self.versions.negotiate_nova(&parts.headers),
        }
        .map_err(|fault| Rejection::Fault(None, fault))?;
        check_content_headers(&parts.headers)
            .map_err(|fault| Rejection::Fault(Some(version), fault))?;
        parts.extensions.insert(version);
        parts.extensions.insert(caller);
        parts.extensions.insert(CallingService(service));
        parts.extensions.insert(request_id.clone());
        parts.extensions.insert(BodyChecks {
            limit: self.body_limit,
            policy: Arc::clone(&self.policy),
        });
        Ok((version, Request::from_parts(parts, body)))
    }

    async fn caller(&self, open: bool, headers: &HeaderMap) -> Result<Caller, Rejection> {
        if open {
            return Ok(Caller::default());
        }
        let token = headers
            .get(TOKEN_HEADER)
            .and_then(|token| token.to_str().ok());
        let token = token.filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| self.unauthorized())?;
        self.validate(TokenRequest { token, headers }).await
    }

    /// Validates the service token of a forwarded request, if there is one.
    async fn service(&self, open: bool, headers: &HeaderMap) -> Result<Option<Caller>, Rejection> {
        let token = headers
            .get(SERVICE_TOKEN_HEADER)
            .filter(|_| self.dialect == ApiDialect::Cyborg && !open);
        let Some(token) = token else {
            return Ok(None);
        };
        let token = token.to_str().map_err(|_| self.unauthorized())?;
        // The other headers describe the caller, not the service.
        let headers = &HeaderMap::new();
        self.validate(TokenRequest { token, headers })
            .await
            .map(Some)
    }

    async fn validate(&self, request: TokenRequest<'_>) -> Result<Caller, Rejection> {
        match self.tokens.validate(request).await {
            Ok(caller) => Ok(caller),
            Err(TokenError::Refused) => Err(self.unauthorized()),
            Err(error @ TokenError::Unavailable(_)) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "token not validated"
                );
                let fault = Fault::unavailable("The identity service cannot be asked.");
                Err(Rejection::Fault(None, fault))
            }
        }
    }

    /// The URL of the identity service for a 401 in Keystone's shape.
    fn keystone(&self, request: &Request) -> Option<String> {
        if self.dialect != ApiDialect::Keystone {
            return None;
        }
        let named = self.tokens.keystone().map(str::to_owned);
        let extensions = request.extensions();
        let prefix = extensions.get::<Prefix>().cloned().unwrap_or_default();
        let public = extensions.get::<PublicEndpoint>();
        Some(named.unwrap_or_else(|| absolute(public, &prefix, "/v3")))
    }

    fn unauthorized(&self) -> Rejection {
        if self.dialect == ApiDialect::Keystone {
            return Rejection::Fault(None, Fault::unauthorized());
        }
        Rejection::Response(Box::new(match (self.dialect, self.tokens.keystone()) {
            (ApiDialect::Placement, None) => fault::unauthorized(),
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
        if let Some(version) = version.filter(|_| self.dialect.has_microversions()) {
            set(
                microversion::HEADER,
                &format!("{} {version}", self.versions.service),
            );
            set(header::VARY.as_str(), microversion::HEADER);
            if self.dialect == ApiDialect::Compute {
                set(microversion::NOVA_HEADER, &version.to_string());
                let both = format!("{}, {}", microversion::HEADER, microversion::NOVA_HEADER);
                set(header::VARY.as_str(), &both);
            }
        }
        if self.dialect == ApiDialect::Compute {
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

/// Calls the handler; a panic in it becomes a 500.
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
