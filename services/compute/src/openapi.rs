//! `docs/api/compute.json`: the compute API as an OpenAPI document (3.1), written from the routes. It says what there is and
//! what may be asked; what judges a request are the handlers, and OpenStack's reference says what each field means.
//!
//! Caller: `cli`'s test of generated files; the tests that make up requests read the file.

mod bodies;
mod operations;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::microversions::RANGE;
use crate::router::routes;
use operations::Operation;

const JSON: &str = "application/json";

/// The statuses of a refusal, with what each says.
const REFUSALS: [(u16, &str); 9] = [
    (
        400,
        "The path, the query string, the body or the microversion's header is malformed; the message names the place.",
    ),
    (401, "No token, or none that holds."),
    (
        403,
        "A rule of the policy or a quota keeps the caller out, or the server is locked.",
    ),
    (
        404,
        "There is no such thing, or the microversion has no such path.",
    ),
    (406, "The microversion is not spoken."),
    (409, "What is there stands against it."),
    (413, "The body is larger than the service reads."),
    (415, "The body is not application/json."),
    (
        503,
        "A database, a host's agent or another service cannot answer now; the same may be asked again.",
    ),
];

/// `docs/api/compute.json`.
#[must_use]
pub fn openapi() -> String {
    let mut paths: BTreeMap<&str, Value> = BTreeMap::new();
    for (path, methods) in routes() {
        let at = paths.entry(path).or_insert_with(|| json!({}));
        for method in methods.allow().split(", ") {
            if let Some(operation) = of(method, path) {
                at[method.to_lowercase()] = operation.document();
            }
        }
    }
    let version = json!({
        "name": "OpenStack-API-Version", "in": "header",
        "description": "The microversion: `compute 2.N`, or `compute latest`; 2.1 where it is left out. The bodies here are those of the newest.",
        "schema": {"type": "string", "pattern": "^compute (2\\.[0-9]{1,2}|latest)$", "default": format!("compute {}", RANGE.min)},
    });
    let refusals: Map<String, Value> = REFUSALS
        .iter()
        .map(|(status, says)| {
            let content = json!({JSON: {"schema": {"$ref": "#/components/schemas/Fault"}}});
            (
                status.to_string(),
                json!({"description": says, "content": content}),
            )
        })
        .collect();
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Compute",
            "version": RANGE.max.to_string(),
            "description": "The part of OpenStack's compute API that Berth serves, microversions 2.1 to 2.82.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "`berth up` and `berth controller`: /compute behind [api] listen, or [compute_service] listen"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": {"Fault": fault()},
            "parameters": {"version": version},
            "responses": refusals,
            "securitySchemes": {"token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}},
        },
    });
    // What serde_json writes of a document of texts and numbers cannot fail.
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

fn of(method: &str, path: &str) -> Option<&'static Operation> {
    operations::all().find(|it| it.method == method && it.path == path)
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

impl Operation {
    fn document(&self) -> Value {
        let names = self
            .path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let in_path = names.map(|name| {
            json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "minLength": 1, "maxLength": 255}})
        });
        let mut parameters: Vec<Value> = in_path.collect();
        parameters.extend(self.query.iter().map(
            |name| json!({"name": name, "in": "query", "schema": operations::of_query(name)}),
        ));
        parameters.push(json!({"$ref": "#/components/parameters/version"}));
        let mut done = json!({"description": "It is done, or is told."});
        if let Some(key) = self.answers {
            let shape = json!({"type": "object", "required": [key]});
            done["content"] = json!({JSON: {"schema": shape}});
        }
        let mut responses = Map::new();
        for status in self.statuses {
            responses.insert(status.to_string(), done.clone());
        }
        let asks = bodies::of(self.method, self.path);
        for (status, _) in REFUSALS {
            let here = match status {
                409 => self.method != "GET",
                413 | 415 => asks.is_some(),
                _ => true,
            };
            if here {
                let reference = format!("#/components/responses/{status}");
                responses.insert(status.to_string(), json!({"$ref": reference}));
            }
        }
        if self.path == "/v2.1/servers/{server}/action" {
            let says = "Nova has such an action, and nobody here.";
            let content = json!({JSON: {"schema": {"$ref": "#/components/schemas/Fault"}}});
            responses.insert(
                "501".to_owned(),
                json!({"description": says, "content": content}),
            );
        }
        let mut document = json!({
            "summary": self.does,
            "operationId": self.name,
            "parameters": parameters,
            "responses": responses,
        });
        if let Some(body) = asks {
            document["requestBody"] =
                json!({"required": true, "content": {JSON: {"schema": body}}});
        }
        document
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

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
