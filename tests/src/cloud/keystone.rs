//! A minimal Keystone in this process: it issues numbered tokens that are valid for an hour, and forwards requests with
//! a valid token to Placement. For runs with a jumping wall clock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use berth_client::{AuthOptions, AuthType, HttpService, Secret, TransportError};
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use serde_json::json;

use crate::fault::HarnessClock;

const LIFE: Duration = Duration::from_secs(3600);

#[derive(Default)]
struct Tokens(Mutex<HashMap<String, SystemTime>>);

/// Placement behind this Keystone.
pub(super) fn guard(placement: HttpService, clock: &HarnessClock) -> HttpService {
    let (tokens, clock) = (Arc::new(Tokens::default()), clock.clone());
    HttpService::new(tower::service_fn(move |request: Request<Bytes>| {
        let (placement, tokens, clock) = (placement.clone(), Arc::clone(&tokens), clock.clone());
        async move { tokens.answer(request, &placement, &clock).await }
    }))
}

/// How a client logs in to it.
pub(super) fn login(endpoint: &str) -> AuthOptions {
    let mut options = AuthOptions::for_service("placement");
    options.auth_type = Some(AuthType::Password);
    options.auth_url = Some("http://keystone:5000".to_owned());
    options.endpoint_override = Some(endpoint.to_owned());
    options.username = Some("nova".to_owned());
    options.password = Some(Secret::from("planted-secret"));
    options.user_domain_name = Some("Default".to_owned());
    options.project_name = Some("service".to_owned());
    options.project_domain_name = Some("Default".to_owned());
    options
}

impl Tokens {
    async fn answer(
        &self,
        mut request: Request<Bytes>,
        placement: &HttpService,
        clock: &HarnessClock,
    ) -> Result<Response<Bytes>, TransportError> {
        if request.uri().path().ends_with("/auth/tokens") {
            return Ok(self.issue(clock.now()));
        }
        let token = request.headers().get("x-auth-token");
        let token = token
            .and_then(|token| token.to_str().ok())
            .unwrap_or_default();
        if !self.holds(token, clock.now()) {
            return Ok(refused());
        }
        let admin = HeaderValue::from_static("admin");
        request.headers_mut().insert("x-auth-token", admin);
        placement.send(request).await
    }

    fn issue(&self, now: SystemTime) -> Response<Bytes> {
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let token = format!("token-{}", tokens.len() + 1);
        tokens.insert(token.clone(), now + LIFE);
        let expires = humantime::format_rfc3339_micros(now + LIFE).to_string();
        let body = json!({"token": {"expires_at": expires, "catalog": []}});
        let mut answer = Response::new(Bytes::from(body.to_string()));
        *answer.status_mut() = StatusCode::CREATED;
        if let Ok(token) = HeaderValue::from_str(&token) {
            answer.headers_mut().insert("x-subject-token", token);
        }
        answer
    }

    fn holds(&self, token: &str, now: SystemTime) -> bool {
        let tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.get(token).is_some_and(|ends| now < *ends)
    }
}

fn refused() -> Response<Bytes> {
    let body = json!({"error": {"code": 401, "message": "the token does not hold", "title": "Unauthorized"}});
    let mut answer = Response::new(Bytes::from(body.to_string()));
    *answer.status_mut() = StatusCode::UNAUTHORIZED;
    answer
}
