//! Tests of the answers to cross-origin requests of browsers.

use axum::body::Body;
use berth_http::CorsOptions;
use berth_placement::PlacementApiOptions;
use http::Request;

use crate::service::{Reply, Service};

const DASHBOARD: &str = "https://dashboard.example.org";

async fn asked(service: &Service, method: &str, origin: &str, headers: &str) -> Reply {
    let request = Request::builder()
        .method(method)
        .uri("/traits")
        .header("x-auth-token", "admin")
        .header("origin", origin)
        .header("access-control-request-method", "GET")
        .header("access-control-request-headers", headers);
    service.send(request.body(Body::empty()).unwrap()).await
}

async fn service(allowed: &[&str]) -> Service {
    let cors = CorsOptions {
        allowed_origin: allowed.iter().map(|&origin| origin.to_owned()).collect(),
        ..CorsOptions::default()
    };
    Service::with(PlacementApiOptions {
        cors,
        ..PlacementApiOptions::default()
    })
    .await
}

#[tokio::test]
async fn only_sites_that_are_allowed_may_call() {
    let service = service(&[DASHBOARD]).await;
    let reply = asked(&service, "OPTIONS", DASHBOARD, "X-Auth-Token, content-type").await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("access-control-allow-origin"), DASHBOARD);
    assert_eq!(reply.header("access-control-allow-methods"), "GET");
    assert_eq!(
        reply.header("access-control-allow-headers"),
        "X-Auth-Token,content-type"
    );
    for (origin, headers) in [("https://elsewhere.example.org", ""), (DASHBOARD, "x-own")] {
        let reply = asked(&service, "OPTIONS", origin, headers).await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("access-control-allow-origin"), "");
    }
    let reply = asked(&service, "GET", DASHBOARD, "").await;
    assert_eq!(reply.header("access-control-allow-origin"), DASHBOARD);
    let reply = asked(&service, "GET", "https://elsewhere.example.org", "").await;
    assert_eq!(reply.header("access-control-allow-origin"), "");
}

#[tokio::test]
async fn any_site_is_never_trusted_with_cookies() {
    let reply = asked(&service(&["*"]).await, "GET", DASHBOARD, "").await;
    assert_eq!(reply.header("access-control-allow-origin"), DASHBOARD);
    assert_eq!(reply.header("access-control-allow-credentials"), "");
}

#[tokio::test]
async fn without_an_allowed_origin_no_headers_are_sent() {
    let service = service(&[]).await;
    let reply = asked(&service, "OPTIONS", DASHBOARD, "").await;
    assert_eq!(reply.status, 405);
    let reply = asked(&service, "GET", DASHBOARD, "").await;
    assert_eq!(reply.header("access-control-allow-origin"), "");
}
