//! /, /versions and /v2: the version documents.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use http::StatusCode;
use serde_json::{Value, json};

use crate::router::{ImageApi, ImageOperation};

pub(super) fn operations() -> Vec<ImageOperation> {
    vec![
        ImageOperation::get("/", choices),
        ImageOperation::get("/versions", list),
        ImageOperation::get("/versions/", list),
        ImageOperation::get("/v2", choices),
        ImageOperation::get("/v2/", choices),
    ]
}

/// Newest first. Later versions concern stores and caches, which this service does not have.
const VERSIONS: [&str; 9] = [
    "v2.9", "v2.7", "v2.6", "v2.5", "v2.4", "v2.3", "v2.2", "v2.1", "v2.0",
];

fn document(call: &ApiRequest) -> Value {
    let href = call.absolute("/v2/");
    let versions = VERSIONS.iter().enumerate().map(|(age, id)| {
        let status = if age == 0 { "CURRENT" } else { "SUPPORTED" };
        json!({"id": id, "status": status, "links": [{"rel": "self", "href": href}]})
    });
    json!({"versions": versions.collect::<Vec<_>>()})
}

async fn choices(State(_): State<ImageApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    ApiResponse::with_body(StatusCode::MULTIPLE_CHOICES, &document(&call))
}

async fn list(State(_): State<ImageApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    ApiResponse::ok(&document(&call))
}
