//! Generates `docs/api/compute.json`, the OpenAPI document of the compute API, from the declarations of the
//! operations. It is documentation only; the handlers validate requests.
//!
//! Used by the test of generated files. Other tests read the file to generate requests.

pub(crate) mod schemas;

use berth_http::openapi::{AppliesTo, ErrorExample, OpenApiService, any_text, to_text};
use serde_json::{Value, json};

use crate::handlers::operations;
use crate::microversions::RANGE;

const REFUSALS: [ErrorExample; 10] = [
    ErrorExample::new(
        400,
        AppliesTo::Always,
        "The path, the query string, the body or the microversion header is malformed; the message names the place.",
    ),
    ErrorExample::new(401, AppliesTo::Always, "The token is missing or invalid."),
    ErrorExample::new(
        403,
        AppliesTo::Always,
        "A policy rule or a quota refuses the request, or the server is locked.",
    ),
    ErrorExample::new(
        404,
        AppliesTo::Always,
        "The resource does not exist, or the microversion does not have the path.",
    ),
    ErrorExample::new(406, AppliesTo::Always, "The microversion is not supported."),
    ErrorExample::new(
        409,
        AppliesTo::OnWrites,
        "The request conflicts with the current state.",
    ),
    ErrorExample::new(413, AppliesTo::WithBody, "The body exceeds the size limit."),
    ErrorExample::new(
        415,
        AppliesTo::WithBody,
        "The body is not application/json.",
    ),
    ErrorExample::new(
        501,
        AppliesTo::IfDeclared,
        "Nova supports this, Berth does not.",
    ),
    ErrorExample::new(
        503,
        AppliesTo::Always,
        "A database, a host's agent or another service is unavailable; retry later.",
    ),
];

/// Returns the document, `docs/api/compute.json`.
#[must_use]
pub fn openapi() -> String {
    let service = OpenApiService {
        title: "Compute",
        version: RANGE.max.to_string(),
        description: "The part of OpenStack's compute API that Berth serves, microversions 2.1 to 2.82. All paths below /v2.1/ also \
                      exist below /v2.1/{project_id}/, for the caller's own project.",
        served_by: "`berth up` and `berth controller`: /compute behind [api] listen, or [compute_service] listen",
        versions: Some(RANGE),
        refusals: &REFUSALS,
        fault: |shapes, _| shapes.named("Fault", fault()),
        path: any_text,
        query: of_query,
    };
    to_text(&service.document(&operations()))
}

/// The schema of a query key.
fn of_query(name: &str) -> Value {
    match name {
        "limit" | "offset" | "minRam" | "minDisk" => {
            json!({"type": "integer", "minimum": 0, "maximum": 2_147_483_647})
        }
        "sort_dir" => json!({"enum": ["asc", "desc"]}),
        "all_tenants" | "locked" | "deleted" | "with_servers" | "reserved" => {
            json!({"enum": ["true", "false", "1", "0"]})
        }
        "hypervisor_hostname_pattern" => {
            json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[A-Za-z0-9._-]*$"})
        }
        "is_public" => json!({"enum": ["true", "false", "none"]}),
        "uuid" => json!({"type": "string", "format": "uuid"}),
        "changes-since" | "changes-before" => json!({"type": "string", "format": "date-time"}),
        _ => json!({"type": "string", "maxLength": 255}),
    }
}

/// The schema of an error response: an object with one key named after the status, as in Nova. Errors before the API
/// have the format of OpenStack's middleware.
fn fault() -> Value {
    json!({
        "type": "object",
        "anyOf": [
            {"additionalProperties": {
                "type": "object",
                "properties": {"code": {"type": "integer"}, "message": {"type": "string"}},
                "required": ["code", "message"],
            }},
            {"required": ["message", "code", "title"]},
            {"required": ["errors"]},
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_a_body_says_which() {
        for one in operations().declarations() {
            let by_path = one.path == "/v2.1/servers/{server}/tags/{tag}";
            let writes = matches!(one.method, Some("POST" | "PUT")) && !by_path;
            assert_eq!(one.body.is_some(), writes, "{:?} {}", one.method, one.path);
        }
    }
}
