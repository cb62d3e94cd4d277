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
use crate::call::BodyLimit;
use crate::fault::{self, Asked, ErrorCodes, Fault};
use crate::microversion::{self, Microversion, MicroversionRange};
use crate::request_id::{self, RequestId};

/// How a service receives its callers.
#[derive(Clone)]
pub struct Door {
    /// The versions it speaks.
    pub versions: MicroversionRange,
    /// Who believes tokens.
    pub tokens: Arc<dyn ValidateToken>,
    /// The largest body taken, in bytes.
    pub body_limit: usize,
}

/// Puts the door before a router. Every path but `/` needs a token.
pub fn door(router: Router, door: Door) -> Router {
    router.layer(from_fn_with_state(door, enter))
}

async fn enter(State(door): State<Door>, request: Request, next: Next) -> Response {
    let request_id = RequestId::take_or_make(request.headers());
    let asked = Asked::of(request.method(), request.headers());
    let (version, mut response) = match door.admit(request, &request_id).await {
        Err(Turned::Away(response)) => (None, *response),
        Err(Turned::Fault(version, fault)) => (version, fault.into_response()),
        Ok((version, request)) => (Some(version), guarded(next, request).await),
    };
    if let Some(fault) = response.extensions_mut().remove::<Fault>() {
        let codes = match version {
            Some(version) if version.has(door.versions.error_codes_since) => ErrorCodes::Shown,
            _ => ErrorCodes::Hidden,
        };
        response = fault.render(&asked, &request_id, codes);
    }
    door.stamp(response.headers_mut(), version, &request_id);
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
        let caller = self.caller(parts.uri.path(), &parts.headers).await?;
        let version = self
            .versions
            .negotiate(&parts.headers)
            .map_err(|fault| Turned::Fault(None, fault))?;
        check_content_headers(&parts.headers)
            .map_err(|fault| Turned::Fault(Some(version), fault))?;
        parts.extensions.insert(version);
        parts.extensions.insert(caller);
        parts.extensions.insert(request_id.clone());
        parts.extensions.insert(BodyLimit(self.body_limit));
        Ok((version, Request::from_parts(parts, body)))
    }

    async fn caller(&self, path: &str, headers: &HeaderMap) -> Result<Caller, Turned> {
        if matches!(path, "/" | "") {
            return Ok(Caller {
                user_id: String::new(),
                scope: Scope::Unscoped,
                roles: Vec::new(),
            });
        }
        let away = || Turned::Away(Box::new(fault::unauthorized()));
        let token = headers
            .get(TOKEN_HEADER)
            .and_then(|token| token.to_str().ok());
        let token = token.filter(|token| !token.is_empty()).ok_or_else(away)?;
        match self.tokens.validate(TokenRequest { token, headers }).await {
            Ok(caller) => Ok(caller),
            Err(TokenError::Refused) => Err(away()),
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
        if let Some(version) = version {
            set(
                microversion::HEADER,
                &format!("{} {version}", self.versions.service),
            );
            set(header::VARY.as_str(), microversion::HEADER);
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
async fn guarded(next: Next, request: Request) -> Response {
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    match CatchPanic(Box::pin(next.run(request))).await {
        Ok(response) => response,
        Err(()) => {
            tracing::error!(%method, path, "handler panicked");
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
