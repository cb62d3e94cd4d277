//! `docs/api/compute.json`: the compute API as an OpenAPI document. It says what there is and what may be asked; what judges a
//! request are the handlers.
//!
//! Caller: the test of generated files; the tests that make up requests read the file.

mod bodies;
mod operations;

use berth_http::openapi::{Comes, Refusal, Service};
use serde_json::{Value, json};

use crate::microversions::RANGE;

const fn refusal(status: u16, comes: Comes, says: &'static str) -> Refusal {
    Refusal {
        status,
        says,
        comes,
    }
}

const REFUSALS: [Refusal; 11] = [
    refusal(
        400,
        Comes::Always,
        "The path, the query string, the body or the microversion's header is malformed; the message names the place.",
    ),
    refusal(401, Comes::Always, "No token, or none that holds."),
    refusal(
        403,
        Comes::Always,
        "A rule of the policy or a quota keeps the caller out, or the server is locked.",
    ),
    refusal(
        404,
        Comes::Always,
        "There is no such thing, or the microversion has no such path.",
    ),
    refusal(406, Comes::Always, "The microversion is not spoken."),
    refusal(409, Comes::OnWrites, "What is there stands against it."),
    refusal(
        413,
        Comes::WithBody,
        "The body is larger than the service reads.",
    ),
    refusal(415, Comes::WithBody, "The body is not application/json."),
    refusal(
        501,
        Comes::At("/v2.1/servers/{server}/action"),
        "Nova has such an action, and nobody here.",
    ),
    refusal(
        501,
        Comes::At("/v2.1/os-hypervisors/{hypervisor}/uptime"),
        "No agent tells how long its host is up.",
    ),
    refusal(
        503,
        Comes::Always,
        "A database, a host's agent or another service cannot answer now; the same may be asked again.",
    ),
];

/// `docs/api/compute.json`.
#[must_use]
pub fn openapi() -> String {
    let service = Service {
        title: "Compute",
        version: RANGE.max.to_string(),
        description: "The part of OpenStack's compute API that Berth serves, microversions 2.1 to 2.82. What is below /v2.1/ is below \
                      /v2.1/{project_id}/ as well, for the caller's own project.",
        served_by: "`berth up` and `berth controller`: /compute behind [api] listen, or [compute_service] listen",
        versions: Some(RANGE),
        refusals: &REFUSALS,
        fault: fault(),
        query: operations::of_query,
        body: bodies::of,
    };
    service.document(operations::all())
}

/// What a refusal says: under a word for its status, as Nova has it, or from before the API, as OpenStack's middleware has it.
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
        assert_eq!(known.len(), operations::all().count(), "one is there twice");
        for (path, methods) in routes() {
            for method in methods.allow().split(", ") {
                assert!(known.remove(&(method, path)), "{method} {path} is missing");
            }
        }
        assert!(known.is_empty(), "no routes: {known:?}");
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
