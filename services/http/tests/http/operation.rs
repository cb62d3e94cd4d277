//! What is derived from the declarations of operations: routes, checks, policy.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::State;
use axum::routing::post;
use berth_http::policy::PolicyRule;
use berth_http::{
    ApiDialect, ApiRequest, ApiResponse, Fault, HeadRequests, LARGE_BODY, Microversion,
    MicroversionRange, NoAuth2, Operation, OperationSet, Policy, RuleDefault, ServiceLayer, mount,
    with_service_layer, without_internal_routes,
};
use berth_serve::RequestBodyError;
use http::{Request, Response, StatusCode, header};
use http_body::Frame;
use tower::ServiceExt;

const RANGE: MicroversionRange = MicroversionRange {
    service: "placement",
    min: Microversion::new(1, 0),
    max: Microversion::new(1, 39),
    error_codes_since: Microversion::new(1, 23),
};

const EVERYBODY: RuleDefault = RuleDefault {
    name: "things:list",
    default: || PolicyRule::Everybody,
};

const NEVER: RuleDefault = RuleDefault {
    name: "things:create",
    default: || PolicyRule::Nobody,
};

type Api = Arc<Policy>;

async fn checked(State(policy): State<Api>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    policy.allow(&call, None)?;
    ApiResponse::ok(&call.rule()?)
}

async fn refuse() -> Fault {
    Fault::forbidden("read-only")
}

fn operations() -> OperationSet<Api> {
    [
        Operation::get("/things", checked).rule(EVERYBODY),
        Operation::post("/things", checked).rule(NEVER),
        Operation::get("/new", checked)
            .rule(EVERYBODY)
            .since(Microversion::new(1, 39)),
        Operation::get("/forgotten", checked),
        Operation::get("/fixed", checked).rule(EVERYBODY),
        Operation::refused("/fixed", post(refuse)),
        Operation::post("/small", checked).rule(EVERYBODY),
        Operation::post("/large", checked)
            .rule(EVERYBODY)
            .large_body(),
        Operation::post("/for/nobody", checked)
            .rule(NEVER)
            .large_body(),
        Operation::post("/without/rule", checked).large_body(),
        Operation::post("/quick", checked)
            .rule(EVERYBODY)
            .body_deadline(Duration::from_millis(50)),
        Operation::get("/internal/v1/things", checked).rule(EVERYBODY),
    ]
    .into_iter()
    .collect()
}

fn service(head: HeadRequests) -> Router {
    let policy = Arc::new(Policy::of_operations(&operations(), []));
    let routes = operations().router(head).with_state(Arc::clone(&policy));
    let layer = ServiceLayer {
        dialect: ApiDialect::Placement,
        versions: RANGE,
        tokens: Arc::new(NoAuth2::default()),
        policy,
        body_limit: 1024,
    };
    with_service_layer(routes, layer)
}

async fn ask(head: HeadRequests, method: &str, path: &str, version: &str) -> Response<Body> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("x-auth-token", "alice:research")
        .header("openstack-api-version", format!("placement {version}"));
    let request = request.body(Body::empty()).unwrap();
    service(head).oneshot(request).await.unwrap()
}

/// The answer to a POST with this body.
async fn post_body(path: &str, body: Body) -> Response<Body> {
    let request = Request::post(path)
        .header("x-auth-token", "alice:research")
        .header("content-type", "application/json");
    let request = request.body(body).unwrap();
    let service = service(HeadRequests::Refused);
    service.oneshot(request).await.unwrap()
}

/// A body that never comes, or comes with an error.
struct BrokenBody(Option<RequestBodyError>);

impl HttpBody for BrokenBody {
    type Data = Bytes;
    type Error = RequestBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        match self.0.take() {
            None => Poll::Pending,
            Some(error) => Poll::Ready(Some(Err(error))),
        }
    }
}

async fn status(method: &str, path: &str, version: &str) -> StatusCode {
    ask(HeadRequests::Refused, method, path, version)
        .await
        .status()
}

#[tokio::test]
async fn each_method_of_a_path_checks_its_own_rule() {
    assert_eq!(status("GET", "/things", "1.39").await, StatusCode::OK);
    assert_eq!(
        status("POST", "/things", "1.39").await,
        StatusCode::FORBIDDEN
    );
}

#[tokio::test]
async fn an_operation_without_a_rule_admits_no_caller() {
    let answer = status("GET", "/forgotten", "1.39").await;
    assert_eq!(answer, StatusCode::INTERNAL_SERVER_ERROR);
}

#[tokio::test]
async fn an_operation_is_not_found_before_its_first_version() {
    assert_eq!(status("GET", "/new", "1.38").await, StatusCode::NOT_FOUND);
    assert_eq!(status("GET", "/new", "1.39").await, StatusCode::OK);
}

#[tokio::test]
async fn other_methods_are_refused_with_the_declared_ones() {
    for (head, path, allowed) in [
        (HeadRequests::Refused, "/things", "GET, POST"),
        (HeadRequests::Served, "/things", "GET, HEAD, POST"),
        (HeadRequests::Served, "/fixed", "GET, HEAD"),
    ] {
        let response = ask(head, "PUT", path, "1.39").await;
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(response.headers()[header::ALLOW], allowed, "{path}");
    }
    assert_eq!(
        status("POST", "/fixed", "1.39").await,
        StatusCode::FORBIDDEN
    );
}

#[tokio::test]
async fn head_is_served_only_where_the_service_does() {
    let refused = ask(HeadRequests::Refused, "HEAD", "/things", "1.39").await;
    assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
    let served = ask(HeadRequests::Served, "HEAD", "/things", "1.39").await;
    assert_eq!(served.status(), StatusCode::OK);
}

#[tokio::test]
async fn the_policy_is_asked_before_the_body_is_read() {
    let never = || Body::new(BrokenBody(None));
    let refused = post_body("/for/nobody", never()).await;
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    let refused = post_body("/things", never()).await;
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_large_body_is_read_only_where_the_operation_and_a_rule_allow_it() {
    for (path, length, status) in [
        ("/small", 1024, StatusCode::OK),
        ("/small", 1025, StatusCode::PAYLOAD_TOO_LARGE),
        ("/large", 1025, StatusCode::OK),
        ("/large", LARGE_BODY, StatusCode::OK),
        ("/large", LARGE_BODY + 1, StatusCode::PAYLOAD_TOO_LARGE),
        ("/for/nobody", 1025, StatusCode::FORBIDDEN),
        ("/without/rule", 1025, StatusCode::PAYLOAD_TOO_LARGE),
    ] {
        let response = post_body(path, Body::from(vec![b' '; length])).await;
        assert_eq!(response.status(), status, "{path} {length}");
    }
}

#[tokio::test]
async fn a_body_that_misses_its_deadline_is_refused() {
    let response = post_body("/quick", Body::new(BrokenBody(None))).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn without_memory_for_the_body_the_client_is_asked_to_come_again() {
    let body = Body::new(BrokenBody(Some(RequestBodyError::NoMemory)));
    let response = post_body("/small", body).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()[header::RETRY_AFTER], "1");
}

#[tokio::test]
async fn internal_routes_are_missing_where_they_are_switched_off() {
    let ask = async |service: Router, path: &str| {
        let request = Request::get(path).header("x-auth-token", "alice:research");
        let request = request.body(Body::empty()).unwrap();
        service.oneshot(request).await.unwrap().status()
    };
    let whole = || service(HeadRequests::Refused);
    let below = "/compute".parse().unwrap();
    let without = without_internal_routes(mount(Router::new(), &below, whole()));
    let path = "/internal/v1/things";
    assert_eq!(ask(whole(), path).await, StatusCode::OK);
    let mounted = format!("/compute{path}");
    assert_eq!(ask(without.clone(), &mounted).await, StatusCode::NOT_FOUND);
    assert_eq!(ask(without, "/compute/things").await, StatusCode::OK);
}
