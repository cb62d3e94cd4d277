//! Builds `docs/api/placement.json`, the OpenAPI 3.1 document of the Placement API, from the routes, the request
//! schemas, and the types with which clients parse responses.
//!
//! Caller: `cli`'s test of generated files.

mod operations;
mod query;

use std::collections::BTreeMap;

use berth_wire::placement::ErrorDocument;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::microversions::RANGE;
use crate::router::routes;
use operations::{Operation, SuccessResponse, of};

const JSON: &str = "application/json";

/// The error statuses with their descriptions.
const REFUSALS: [(u16, &str); 9] = [
    (
        400,
        "The path, the query string, the body or the microversion's header is malformed; the detail names the place.",
    ),
    (401, "The token is missing or invalid."),
    (403, "A policy rule refuses the request."),
    (
        404,
        "The object does not exist, or the microversion does not have the path.",
    ),
    (
        406,
        "The microversion is not supported, or the caller does not accept JSON.",
    ),
    (
        409,
        "A generation is not the current one, or the current state forbids the change; the code tells which.",
    ),
    (413, "The body exceeds the size limit."),
    (415, "The body is not application/json."),
    (503, "The database is unavailable; retry later."),
];

/// The document `docs/api/placement.json`.
#[must_use]
pub fn openapi() -> String {
    let mut shapes = Shapes::new();
    let mut paths: BTreeMap<&str, Value> = BTreeMap::new();
    for (path, methods) in routes() {
        let at = paths.entry(path).or_insert_with(|| json!({}));
        for method in methods.allow().split(", ") {
            if let Some(operation) = of(&mut shapes, method, path) {
                at[method.to_lowercase()] = operation.document(method, path);
            }
        }
    }
    let version = json!({
        "name": "OpenStack-API-Version", "in": "header",
        "description": "The microversion: `placement 1.N`, or `placement latest`; default 1.0. The bodies here are those of the newest one.",
        "schema": {"type": "string", "pattern": "^placement (1\\.[0-9]+|latest)$", "default": format!("placement {}", RANGE.min)},
    });
    let refusals: Map<String, Value> = REFUSALS
        .iter()
        .map(|(status, says)| {
            let shape = match status {
                401 => unauthorized(),
                _ => shapes.of::<ErrorDocument>(),
            };
            let content = json!({JSON: {"schema": shape}});
            (
                status.to_string(),
                json!({"description": says, "content": content}),
            )
        })
        .collect();
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Placement",
            "version": RANGE.max.to_string(),
            "description": "OpenStack's Placement API as Berth serves it, microversions 1.0 to 1.39.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "`berth placement serve`: [placement_service] listen, under path_prefix"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": shapes.named(),
            "parameters": {"version": version},
            "responses": refusals,
            "securitySchemes": {"token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}},
        },
    });
    // serde_json cannot fail on a document of texts and numbers.
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

/// The response schemas, each defined once and referred to by name.
struct Shapes(SchemaGenerator);

impl Shapes {
    fn new() -> Self {
        let settings = SchemaSettings::draft2020_12()
            .for_serialize()
            .with(|settings| settings.definitions_path = "/components/schemas".into());
        Self(settings.into_generator())
    }

    fn of<T: JsonSchema>(&mut self) -> Value {
        self.0.subschema_for::<T>().to_value()
    }

    /// All schemas that were referred to. Adds `links`, which our client ignores.
    fn named(mut self) -> Map<String, Value> {
        let mut named = self.0.take_definitions(true);
        let link = json!({
            "type": "object",
            "properties": {"rel": {"type": "string"}, "href": {"type": "string"}},
            "required": ["rel", "href"],
        });
        for name in ["ProviderBody", "ResourceClassBody", "ApiVersion"] {
            if let Some(shape) = named.get_mut(name) {
                shape["properties"]["links"] = json!({
                    "type": "array", "items": link,
                    "description": "The URLs of the provider and of its sub-resources.",
                });
            }
        }
        named
    }
}

impl Operation {
    fn document(self, method: &str, path: &str) -> Value {
        let names = path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let in_path = names.map(|name| {
            json!({"name": name, "in": "path", "required": true, "schema": path_part(method, path, name)})
        });
        let mut parameters: Vec<Value> = in_path.collect();
        parameters.extend(self.query);
        parameters.push(json!({"$ref": "#/components/parameters/version"}));
        let mut responses = Map::new();
        for answer in self.answers {
            let SuccessResponse { status, says, body } = answer;
            let mut told = json!({"description": says});
            if let Some(body) = body {
                told["content"] = json!({JSON: {"schema": body}});
            }
            responses.insert(status.to_string(), told);
        }
        let writes = method != "GET";
        for (status, _) in REFUSALS {
            let here = match status {
                409 => writes,
                413 | 415 => self.asks.is_some(),
                _ => true,
            };
            if here {
                let reference = format!("#/components/responses/{status}");
                responses.insert(status.to_string(), json!({"$ref": reference}));
            }
        }
        let mut document = json!({
            "summary": self.does,
            "operationId": self.name,
            "x-openstack-min-version": self.since.to_string(),
            "parameters": parameters,
            "responses": responses,
        });
        if let Some(note) = self.older {
            document["description"] = Value::from(note);
        }
        if let Some(body) = self.asks {
            document["requestBody"] =
                json!({"required": true, "content": {JSON: {"schema": body}}});
        }
        document
    }
}

/// The body of a 401, which the authentication middleware returns.
fn unauthorized() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object",
        "properties": {"message": text, "code": text, "title": text},
        "required": ["message", "code", "title"],
    })
}

/// The shape of a part of a path.
fn path_part(method: &str, path: &str, name: &str) -> Value {
    match (name, path, method) {
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
    fn every_route_is_there_with_what_it_answers() {
        let document = document();
        for (path, methods) in routes() {
            for method in methods.allow().split(", ") {
                let operation = &document["paths"][path][method.to_lowercase()];
                let answers = operation["responses"].as_object();
                let answers = answers.unwrap_or_else(|| panic!("{method} {path} does not exist"));
                let done = answers.keys().filter(|status| status.starts_with('2'));
                assert!(done.count() > 0, "{method} {path}");
                assert!(operation["summary"].is_string(), "{method} {path}");
            }
        }
    }

    #[test]
    fn whatever_is_referred_to_is_there() {
        fn references(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(fields) => {
                    if let Some(Value::String(reference)) = fields.get("$ref") {
                        found.push(reference.clone());
                    }
                    fields.values().for_each(|value| references(value, found));
                }
                Value::Array(items) => items.iter().for_each(|value| references(value, found)),
                _ => {}
            }
        }
        let document = document();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 200, "{found:?}");
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    #[test]
    fn the_documented_body_matches_the_validation() {
        let document = document();
        let at = |path: &str, method: &str| {
            let body = &document["paths"][path][method]["requestBody"];
            body["content"][JSON]["schema"].clone()
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
