//! The door before a router of its own: panics, missing doors, unavailable identity.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use berth_http::auth::Validation;
use berth_http::{
    Answer, Call, Door, Fault, Microversion, MicroversionRange, NoAuth2, TokenError, TokenRequest,
    ValidateToken, door,
};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use tower::ServiceExt;

const RANGE: MicroversionRange = MicroversionRange {
    service: "placement",
    min: Microversion::new(1, 0),
    max: Microversion::new(1, 39),
    error_codes_since: Microversion::new(1, 23),
};

fn entrance(tokens: impl ValidateToken + 'static) -> Door {
    Door {
        versions: RANGE,
        tokens: Arc::new(tokens),
        body_limit: 1024,
    }
}

async fn panics() -> Fault {
    panic!("on purpose");
}

async fn echo(call: Call) -> Result<Answer, Fault> {
    Answer::ok(&call.caller.user_id)
}

fn routes() -> Router {
    Router::new()
        .route("/panics", get(panics))
        .route("/echo", get(echo))
}

async fn ask(router: Router, path: &str) -> (StatusCode, String) {
    let request = Request::get(path).header("x-auth-token", "alice:research");
    let response = router
        .oneshot(request.body(Body::empty()).unwrap())
        .await
        .unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_panic_is_a_500_document_and_the_next_request_is_served() {
    let router = door(routes(), entrance(NoAuth2::default()));
    let (status, body) = ask(router.clone(), "/panics").await;
    assert_eq!(status, 500);
    assert!(
        body.contains("\"title\":\"Internal Server Error\""),
        "{body}"
    );
    assert!(!body.contains("on purpose"), "{body}");
    assert_eq!(
        ask(router, "/echo").await,
        (StatusCode::OK, "\"alice\"".to_owned())
    );
}

#[tokio::test]
async fn a_router_without_a_door_refuses() {
    assert_eq!(ask(routes(), "/echo").await.0, 500);
}

struct Away;

impl ValidateToken for Away {
    fn validate<'a>(&'a self, _: TokenRequest<'a>) -> Validation<'a> {
        Box::pin(async { Err(TokenError::Unavailable("no route to host".into())) })
    }
}

#[tokio::test]
async fn an_identity_service_that_is_away_is_a_503() {
    let (status, body) = ask(door(routes(), entrance(Away)), "/echo").await;
    assert_eq!(status, 503);
    assert!(!body.contains("no route"), "{body}");
}

#[test]
fn a_token_is_never_shown() {
    let headers = http::HeaderMap::new();
    let request = TokenRequest {
        token: "secret",
        headers: &headers,
    };
    assert!(!format!("{request:?}").contains("secret"));
}
