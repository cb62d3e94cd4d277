//! Builds `docs/api/placement.json`, the OpenAPI 3.1 document of the Placement API, from the declarations of the operations.
//! Their request bodies are the schemas that validate requests, their response bodies the types with which clients parse
//! responses.
//!
//! Caller: the test of generated files.

pub(crate) mod query;

use berth_http::openapi::{AppliesTo, ErrorExample, OpenApiService, Shapes, to_text};
use berth_http::operation::OperationDeclaration;
use berth_wire::placement::ErrorDocument;
use serde_json::{Value, json};

use crate::handlers::operations;
use crate::microversions::RANGE;

const REFUSALS: [ErrorExample; 9] = [
    ErrorExample::new(
        400,
        AppliesTo::Always,
        "The path, the query string, the body or the microversion's header is malformed; the detail names the place.",
    ),
    ErrorExample::new(401, AppliesTo::Always, "The token is missing or invalid."),
    ErrorExample::new(403, AppliesTo::Always, "A policy rule refuses the request."),
    ErrorExample::new(
        404,
        AppliesTo::Always,
        "The object does not exist, or the microversion does not have the path.",
    ),
    ErrorExample::new(
        406,
        AppliesTo::Always,
        "The microversion is not supported, or the caller does not accept JSON.",
    ),
    ErrorExample::new(
        409,
        AppliesTo::OnWrites,
        "A generation is not the current one, or the current state forbids the change; the code tells which.",
    ),
    ErrorExample::new(413, AppliesTo::WithBody, "The body exceeds the size limit."),
    ErrorExample::new(
        415,
        AppliesTo::WithBody,
        "The body is not application/json.",
    ),
    ErrorExample::new(
        503,
        AppliesTo::Always,
        "The database is unavailable; retry later.",
    ),
];

/// The document `docs/api/placement.json`.
#[must_use]
pub fn openapi() -> String {
    let service = OpenApiService {
        title: "Placement",
        version: RANGE.max.to_string(),
        description: "OpenStack's Placement API as Berth serves it, microversions 1.0 to 1.39.",
        served_by: "`berth placement serve`: [placement_service] listen, under path_prefix",
        versions: Some(RANGE),
        refusals: &REFUSALS,
        fault,
        path: path_part,
        // All operations describe their query parameters themselves.
        query: |_| json!({}),
    };
    let mut document = service.document(&operations());
    add_links(&mut document["components"]["schemas"]);
    to_text(&document)
}

/// Adds `links`, which our client ignores.
fn add_links(schemas: &mut Value) {
    let link = json!({
        "type": "object",
        "properties": {"rel": {"type": "string"}, "href": {"type": "string"}},
        "required": ["rel", "href"],
    });
    for name in ["ProviderBody", "ResourceClassBody", "ApiVersion"] {
        schemas[name]["properties"]["links"] = json!({
            "type": "array", "items": link,
            "description": "The URLs of the provider and of its sub-resources.",
        });
    }
}

/// The body of an error. That of a 401 comes from the authentication middleware.
fn fault(shapes: &mut Shapes, status: u16) -> Value {
    if status != 401 {
        return shapes.of::<ErrorDocument>();
    }
    let text = json!({"type": "string"});
    json!({
        "type": "object",
        "properties": {"message": text, "code": text, "title": text},
        "required": ["message", "code", "title"],
    })
}

/// The shape of a part of a path.
fn path_part(operation: &OperationDeclaration, name: &str) -> Value {
    match (name, operation.path, operation.method.unwrap_or_default()) {
        // Reading and deleting accept any text as a consumer UUID.
        ("consumer_uuid", _, "GET" | "DELETE") => json!({"type": "string"}),
        ("uuid" | "consumer_uuid", ..) => json!({"type": "string", "format": "uuid"}),
        ("name", "/resource_classes/{name}" | "/traits/{name}", "PUT") => {
            json!({"type": "string", "pattern": "^CUSTOM_[A-Z0-9_]+$", "maxLength": 255})
        }
        _ => json!({"type": "string", "pattern": "^[A-Z0-9_]+$", "maxLength": 255}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Value {
        serde_json::from_str(&openapi()).unwrap()
    }

    #[test]
    fn the_documented_body_matches_the_validation() {
        let document = document();
        let at = |path: &str, method: &str| {
            let body = &document["paths"][path][method]["requestBody"];
            body["content"]["application/json"]["schema"].clone()
        };
        let claim = at("/allocations/{consumer_uuid}", "put");
        let judged = crate::schemas::put_allocations(RANGE.max);
        assert_eq!(claim, judged.to_json_schema());
        assert!(claim["required"].to_string().contains("consumer_type"));
        assert_eq!(
            at("/reshaper", "post")["required"],
            json!(["inventories", "allocations"])
        );
    }
}
