//! The door before a router of its own: panics, missing doors, unavailable identity.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::{get, post};
use berth_http::auth::Validation;
use berth_http::{
    ApiDialect, ApiRequest, ApiResponse, Fault, Microversion, MicroversionRange, NoAuth2, Policy,
    ServiceLayer, TokenError, TokenRequest, ValidateToken, found_at, mount, serve_tcp,
    with_service_layer,
};
use berth_serve::ServeLimits;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower::ServiceExt;

const RANGE: MicroversionRange = MicroversionRange {
    service: "placement",
    min: Microversion::new(1, 0),
    max: Microversion::new(1, 39),
    error_codes_since: Microversion::new(1, 23),
};

fn entrance(tokens: impl ValidateToken + 'static) -> ServiceLayer {
    ServiceLayer {
        dialect: ApiDialect::Placement,
        versions: RANGE,
        tokens: Arc::new(tokens),
        policy: Arc::new(Policy::new([])),
        body_limit: 1024,
    }
}

async fn panics() -> Fault {
    panic!("on purpose");
}

async fn echo(call: ApiRequest) -> Result<ApiResponse, Fault> {
    ApiResponse::ok(&call.caller.user_id)
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
    let router = with_service_layer(routes(), entrance(NoAuth2::default()));
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
    let (status, body) = ask(with_service_layer(routes(), entrance(Away)), "/echo").await;
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

#[tokio::test]
async fn links_repeat_neither_the_host_nor_the_scheme_that_a_request_names() {
    let link = |call: ApiRequest| async move { ApiResponse::ok(&call.absolute("/echo")) };
    let service = || {
        let routes = Router::new().route("/link", get(link));
        with_service_layer(routes, entrance(NoAuth2::default()))
    };
    let several = || mount(Router::new(), &"/placement".parse().unwrap(), service());
    let public = found_at(several(), "https://cloud.example.org/");
    for (router, expected) in [
        (public, "https://cloud.example.org/placement/echo"),
        (several(), "/placement/echo"),
    ] {
        let request = Request::get("/placement/link")
            .header("x-auth-token", "alice")
            .header("host", "evil.example")
            .header("x-forwarded-host", "evil.example")
            .header("x-forwarded-proto", "https");
        let response = router.oneshot(request.body(Body::empty()).unwrap()).await;
        let body = response.unwrap().into_body().collect().await.unwrap();
        assert_eq!(body.to_bytes(), format!("\"{expected}\""));
    }
}

const CYBORG: MicroversionRange = MicroversionRange {
    service: "accelerator",
    min: Microversion::new(2, 0),
    max: Microversion::new(2, 3),
    error_codes_since: Microversion::new(2, 99),
};

async fn version(call: ApiRequest) -> Result<ApiResponse, Fault> {
    let service = call.service.map(|service| service.user_id);
    ApiResponse::ok(&(call.version.to_string(), service))
}

async fn asked(headers: &[(&str, &str)], path: &str) -> (StatusCode, http::HeaderMap, String) {
    let routes = Router::new()
        .route("/v2", get(version))
        .route("/v2/devices", get(version));
    let entrance = ServiceLayer {
        dialect: ApiDialect::Cyborg,
        versions: CYBORG,
        tokens: Arc::new(NoAuth2::default()),
        policy: Arc::new(Policy::new([])),
        body_limit: 1024,
    };
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::empty()).unwrap();
    let response = with_service_layer(routes, entrance)
        .oneshot(request)
        .await
        .unwrap();
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let text = String::from_utf8(body.to_vec()).unwrap();
    (parts.status, parts.headers, text)
}

#[tokio::test]
async fn a_body_that_breaks_is_refused_with_what_the_connection_says() {
    let routes = Router::new().route("/echo", post(echo));
    // Stands for a connection that ends, or takes too long.
    let broken = http_body_util::Limited::new(http_body_util::Full::from("{}"), 1);
    let request = Request::post("/echo")
        .header("x-auth-token", "alice")
        .header("content-type", "application/json")
        .body(Body::new(broken))
        .unwrap();
    let door = with_service_layer(routes, entrance(NoAuth2::default()));
    let response = door.oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&body);
    let expected = "The body did not come: length limit exceeded.";
    assert!(text.contains(expected), "{text}");
}

#[tokio::test]
async fn cyborgs_versions_may_stand_alone_and_what_is_none_is_a_406() {
    let token = ("x-auth-token", "alice");
    for (header, answer) in [
        ("accelerator 2.2", "[\"2.2\",null]"),
        ("accelerator latest", "[\"2.3\",null]"),
        ("2.1", "[\"2.1\",null]"),
        ("latest", "[\"2.3\",null]"),
        ("compute 2.82", "[\"2.0\",null]"),
    ] {
        let given = [token, ("openstack-api-version", header)];
        let (status, headers, body) = asked(&given, "/v2/devices").await;
        assert_eq!((status.as_u16(), body.as_str()), (200, answer), "{header}");
        assert_eq!(headers["openstack-api-minimum-version"], "2.0");
        assert_eq!(headers["openstack-api-maximum-version"], "2.3");
    }
    for header in ["accelerator 2.99", "accelerator bogus", "bogus", "3.0", "2"] {
        let given = [token, ("openstack-api-version", header)];
        let (status, _, body) = asked(&given, "/v2/devices").await;
        assert_eq!(status, 406, "{header}");
        let outer: serde_json::Value = serde_json::from_str(&body).unwrap();
        let inner: serde_json::Value =
            serde_json::from_str(outer["error_message"].as_str().unwrap()).unwrap();
        assert_eq!(inner["code"], 406, "{header}: {body}");
    }
}

#[tokio::test]
async fn cyborgs_root_is_open_the_rest_is_not_and_a_service_token_is_checked() {
    assert_eq!(asked(&[], "/v2").await.0, 200);
    let (status, headers, body) = asked(&[], "/v2/devices").await;
    assert_eq!(status, 401);
    assert!(body.starts_with("{\"error\":{\"code\":401"), "{body}");
    assert!(headers.contains_key("www-authenticate"));
    let both = [("x-auth-token", "alice"), ("x-service-token", "nova")];
    let (_, _, body) = asked(&both, "/v2/devices").await;
    assert_eq!(body, "[\"2.0\",\"nova\"]");
    let empty = [("x-auth-token", "alice"), ("x-service-token", "")];
    assert_eq!(asked(&empty, "/v2/devices").await.0, 401);
}

/// Sends a request with a forged origin to a listener, and gives its answer.
fn answer_to_a_forged_origin(address: std::net::SocketAddr) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream
        .write_all(
            b"GET /link HTTP/1.1\r\nhost: evil.example\r\nx-forwarded-proto: https\r\n\
              x-forwarded-host: evil.example\r\nx-auth-token: alice\r\nconnection: close\r\n\r\n",
        )
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test]
async fn over_tcp_links_name_the_address_that_the_client_connected_to() {
    let link = |call: ApiRequest| async move { ApiResponse::ok(&call.absolute("/echo")) };
    let routes = Router::new().route("/link", get(link));
    let router = with_service_layer(routes, entrance(NoAuth2::default()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(serve_tcp(listener, router, async {
        stopped.await.ok();
    }));
    let answer = tokio::task::spawn_blocking(move || answer_to_a_forged_origin(address));
    let answer = answer.await.unwrap();
    let link = format!("\"http://{address}/echo\"");
    assert!(answer.ends_with(&link), "{answer}");
    assert!(!answer.contains("evil"), "{answer}");
    stop.send(()).unwrap();
    serving.await.unwrap();
}

/// Begins a request with a body of this length, of which this part is sent.
async fn begin_body(
    address: std::net::SocketAddr,
    user: &str,
    length: usize,
    sent: usize,
) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "POST /echo HTTP/1.1\r\nhost: here\r\nx-auth-token: {user}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{}",
        " ".repeat(sent)
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn the_bodies_of_one_account_leave_memory_for_those_of_others() {
    // Each body has so much in any case.
    const SMALL: usize = 128 << 10;
    let layer = ServiceLayer {
        body_limit: 1 << 20,
        ..entrance(NoAuth2::default())
    };
    let router = with_service_layer(Router::new().route("/echo", post(echo)), layer);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let limits = ServeLimits {
        bodies: 400,
        ..ServeLimits::default()
    };
    tokio::spawn(async move {
        berth_serve::serve(listener, limits, |_| router.clone(), std::future::pending()).await;
    });
    let answer = async |user: &str, more: usize| {
        let mut stream = begin_body(address, user, SMALL + more, SMALL + more).await;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let _unfinished = begin_body(address, "alice", SMALL + 200, SMALL + 150).await;
    // Until the server has read it.
    let refused = timeout(Duration::from_secs(60), async {
        loop {
            let answer = answer("alice", 100).await;
            if !answer.starts_with("HTTP/1.1 200") {
                return answer;
            }
        }
    });
    let refused = refused.await.unwrap();
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert!(
        refused.contains("The request bodies of your account"),
        "{refused}"
    );
    assert!(
        refused.to_lowercase().contains("retry-after: 1\r\n"),
        "{refused}"
    );
    let other = answer("bob", 100).await;
    assert!(other.starts_with("HTTP/1.1 200"), "{other}");
}
