//! Builds `docs/api/identity.json`, the OpenAPI document of the Identity API. Requests that would change users,
//! projects, roles or the catalog are refused with 403 and are not in the document.
//!
//! Callers: the test of generated files, and the tests that send generated requests.

use berth_http::openapi::{AppliesTo, ErrorExample, OpenApiService, any_text, to_text};
use serde_json::{Value, json};

use crate::handlers::operations;

const REFUSALS: [ErrorExample; 9] = [
    ErrorExample::new(
        400,
        AppliesTo::Always,
        "The query string or the body is malformed; the message names the place.",
    ),
    ErrorExample::new(
        401,
        AppliesTo::Always,
        "The token, the user, the project or the password is missing or invalid.",
    ),
    ErrorExample::new(403, AppliesTo::Always, "A policy rule refuses the request."),
    ErrorExample::new(404, AppliesTo::Always, "The object does not exist."),
    ErrorExample::new(
        409,
        AppliesTo::IfDeclared,
        "The project has a limit for the resource already.",
    ),
    ErrorExample::new(413, AppliesTo::WithBody, "The body exceeds the size limit."),
    ErrorExample::new(
        415,
        AppliesTo::WithBody,
        "The body is not application/json.",
    ),
    ErrorExample::new(
        429,
        AppliesTo::WithBody,
        "Too many wrong passwords in a short time.",
    ),
    ErrorExample::new(
        503,
        AppliesTo::Always,
        "The database is unavailable; retry later.",
    ),
];

/// `docs/api/identity.json`.
#[must_use]
pub fn openapi() -> String {
    let service = OpenApiService {
        title: "Identity",
        version: "v3.14".to_owned(),
        description: "The part of OpenStack's Identity API that Berth serves: users and projects from a file, tokens, the catalog and limits of projects.",
        served_by: "`berth up` and `berth controller`: /identity behind [api] listen, or [identity_service] listen",
        versions: None,
        refusals: &REFUSALS,
        fault: |shapes, _| shapes.named("Fault", fault()),
        path: any_text,
        query: of_query,
    };
    to_text(&service.document(&operations()))
}

fn fault() -> Value {
    json!({
        "type": "object",
        "properties": {"error": {
            "type": "object",
            "properties": {"code": {"type": "integer"}, "message": {"type": "string"}, "title": {"type": "string"}},
            "required": ["code", "message", "title"],
        }},
        "required": ["error"],
    })
}

fn of_query(name: &str) -> Value {
    match name {
        "enabled" | "effective" | "include_names" | "nocatalog" => {
            json!({"enum": ["true", "false", "1", "0", ""]})
        }
        "limit" => json!({"type": "integer", "minimum": 1, "maximum": 1_000}),
        _ => json!({"type": "string", "maxLength": 255}),
    }
}
