//! Generates `docs/api/compute.json`, the OpenAPI document of the compute API, from the operations and body schemas
//! listed here. It is documentation only; the handlers validate requests.
//!
//! Used by the test of generated files. Other tests read the file to generate requests.

mod bodies;
mod operations;

use berth_http::openapi::{AppliesTo, ErrorExample, OpenApiService};
use serde_json::{Value, json};

use crate::microversions::RANGE;

const fn refusal(status: u16, comes: AppliesTo, says: &'static str) -> ErrorExample {
    ErrorExample {
        status,
        says,
        comes,
    }
}

const REFUSALS: [ErrorExample; 11] = [
    refusal(
        400,
        AppliesTo::Always,
        "The path, the query string, the body or the microversion header is malformed; the message names the place.",
    ),
    refusal(401, AppliesTo::Always, "The token is missing or invalid."),
    refusal(
        403,
        AppliesTo::Always,
        "A policy rule or a quota refuses the request, or the server is locked.",
    ),
    refusal(
        404,
        AppliesTo::Always,
        "The resource does not exist, or the microversion does not have the path.",
    ),
    refusal(406, AppliesTo::Always, "The microversion is not supported."),
    refusal(
        409,
        AppliesTo::OnWrites,
        "The request conflicts with the current state.",
    ),
    refusal(413, AppliesTo::WithBody, "The body exceeds the size limit."),
    refusal(
        415,
        AppliesTo::WithBody,
        "The body is not application/json.",
    ),
    refusal(
        501,
        AppliesTo::At("/v2.1/servers/{server}/action"),
        "Berth does not support this action of Nova.",
    ),
    refusal(
        501,
        AppliesTo::At("/v2.1/os-hypervisors/{hypervisor}/uptime"),
        "Agents do not report uptimes.",
    ),
    refusal(
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
        fault: fault(),
        query: operations::of_query,
        body: bodies::of,
    };
    service.document(operations::all())
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
    use std::collections::BTreeSet;

    use super::*;
    use crate::router::routes;

    #[test]
    fn every_route_is_there_and_nothing_else() {
        let mut known: BTreeSet<(&str, &str)> =
            operations::all().map(|it| (it.method, it.path)).collect();
        assert_eq!(
            known.len(),
            operations::all().count(),
            "an operation is listed twice"
        );
        for (path, methods) in routes() {
            for method in methods.allow().split(", ") {
                assert!(known.remove(&(method, path)), "{method} {path} is missing");
            }
        }
        assert!(known.is_empty(), "operations without a route: {known:?}");
    }

    #[test]
    fn what_takes_a_body_says_which() {
        for one in operations::all() {
            let by_path = ["/v2.1/servers/{server}/tags/{tag}"].contains(&one.path);
            let writes = matches!(one.method, "POST" | "PUT") && !by_path;
            let told = bodies::of(one.method, one.path).is_some();
            assert_eq!(told, writes, "{} {}", one.method, one.path);
        }
    }

    #[test]
    fn operations_have_names_of_their_own() {
        let names: BTreeSet<&str> = operations::all().map(|it| it.name).collect();
        assert_eq!(names.len(), operations::all().count());
    }
}
