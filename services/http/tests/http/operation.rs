//! What is derived from the declarations of operations: routes, checks, policy.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::routing::post;
use berth_http::policy::PolicyRule;
use berth_http::{
    ApiDialect, ApiRequest, ApiResponse, Fault, HeadRequests, Microversion, MicroversionRange,
    NoAuth2, Operation, OperationSet, Policy, RuleDefault, ServiceLayer, with_service_layer,
};
use http::{Request, Response, StatusCode, header};
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
    ]
    .into_iter()
    .collect()
}

async fn ask(head: HeadRequests, method: &str, path: &str, version: &str) -> Response<Body> {
    let policy = Policy::of_operations(&operations(), []);
    let routes = operations().router(head).with_state(Arc::new(policy));
    let layer = ServiceLayer {
        dialect: ApiDialect::Placement,
        versions: RANGE,
        tokens: Arc::new(NoAuth2::default()),
        body_limit: 1024,
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("x-auth-token", "alice:research")
        .header("openstack-api-version", format!("placement {version}"));
    let request = request.body(Body::empty()).unwrap();
    let service = with_service_layer(routes, layer);
    service.oneshot(request).await.unwrap()
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
