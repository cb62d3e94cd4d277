//! The audit records of requests to a service.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::response::Response;
use berth_http::audit::AuditOptions;
use berth_http::policy::{Policy, PolicyRule, RuleDefault};
use berth_http::{
    ApiDialect, ApiRequest, ApiResponse, AuditTrail, Fault, HeadRequests, Microversion,
    MicroversionRange, NoAuth2, Operation, OperationSet, ServiceLayer, audited, with_service_layer,
};
use http::Request;
use serde_json::{Value, json};
use tower::ServiceExt;

const RANGE: MicroversionRange = MicroversionRange {
    service: "placement",
    min: Microversion::new(1, 0),
    max: Microversion::new(1, 39),
    error_codes_since: Microversion::new(1, 23),
};

const RULE: RuleDefault = RuleDefault {
    name: "things:create",
    default: || PolicyRule::role("admin"),
};

async fn make(State(policy): State<Arc<Policy>>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    policy.allow(&call, None)?;
    Ok(ApiResponse::no_content())
}

fn operations() -> OperationSet<Arc<Policy>> {
    let operation = Operation::post("/v1/things/{name}/parts", make).rule(RULE);
    [operation].into_iter().collect()
}

/// The record of a request by this token.
async fn record(token: Option<&str>) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.log");
    let options = AuditOptions {
        file: Some(file.clone()),
        ..AuditOptions::default()
    };
    let policy = Arc::new(Policy::of_operations(&operations(), []));
    let layer = ServiceLayer {
        dialect: ApiDialect::Placement,
        versions: RANGE,
        tokens: Arc::new(NoAuth2::default()),
        policy: Arc::clone(&policy),
        body_limit: 1024,
    };
    let routes = operations().router(HeadRequests::Refused);
    let service = with_service_layer(routes.with_state(policy), layer);
    let service = audited(service, &AuditTrail::open(&options).unwrap());
    let peer: SocketAddr = "[2001:db8::1]:4711".parse().unwrap();
    let global = "req-11111111-2222-4333-8444-000000000001";
    let mut request = Request::post("/v1/things/t1/parts?token=planted")
        .header("x-openstack-request-id", global)
        .header("content-type", "application/json")
        .extension(ConnectInfo(peer));
    if let Some(token) = token {
        request = request.header("x-auth-token", token);
    }
    let body = Body::from("{\"password\": \"planted\"}");
    let response: Response = service.oneshot(request.body(body).unwrap()).await.unwrap();
    let id = response.headers()["x-openstack-request-id"]
        .to_str()
        .unwrap();
    let text = std::fs::read_to_string(file).unwrap();
    assert!(!text.contains("planted"), "{text}");
    let record: Value = serde_json::from_str(&text).expect("one record");
    assert_eq!(record["initiator"]["request_id"], id, "{record}");
    assert_eq!(record["initiator"]["global_request_id"], global);
    assert_eq!(record["initiator"]["host"]["address"], "2001:db8::1");
    assert_eq!(record["requestPath"], "/v1/things/t1/parts?token=***");
    assert_eq!(record["observer"]["typeURI"], "service/placement");
    record
}

#[tokio::test]
async fn a_record_has_caller_target_and_outcome() {
    let record = record(Some("admin:research")).await;
    let initiator = &record["initiator"];
    assert_eq!(initiator["id"], "admin");
    assert_eq!(initiator["project_id"], "research");
    assert_eq!(initiator["roles"], json!(["admin", "service"]));
    assert_eq!(
        record["target"],
        json!({"typeURI": "service/placement/things/parts", "id": "t1"})
    );
    assert_eq!(
        (&record["action"], &record["outcome"]),
        (&json!("create"), &json!("success"))
    );
    assert_eq!(
        record["reason"],
        json!({"reasonType": "HTTP", "reasonCode": "204"})
    );
}

#[tokio::test]
async fn a_refusal_names_the_rule_and_a_request_without_a_token_nobody() {
    let refused = record(Some("alice:research")).await;
    assert_eq!(refused["outcome"], "failure");
    assert_eq!(
        refused["reason"],
        json!({"reasonType": "HTTP", "reasonCode": "403", "policyType": "oslo.policy", "policyId": "things:create"})
    );
    let nobody = record(None).await;
    assert_eq!(nobody["initiator"]["id"], "unknown", "{nobody}");
    assert_eq!(nobody["reason"]["reasonCode"], "401");
}
