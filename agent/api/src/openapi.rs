//! `docs/api/agent.json`: the agent's API as an OpenAPI document (3.1), written from the routes and from the types that travel,
//! their documentation included. So the document cannot say of a field what the types do not.

use berth_wire::compute::ServerExternalEvents;
use berth_wire::guest::{GuestAction, GuestBody, GuestBuild, GuestList, Places, PlacesAsked};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::body::{
    API, ConfigBody, DisableBody, DisabledBody, ErrorBody, HealthBody, PlanBody, StateBody,
    TickBody,
};
use crate::devices::body::{DeviceActed, DeviceAction, DeviceDocument, DeviceList};
use crate::reconcile::ReconcileBody;
use crate::router::ROUTES;

/// `docs/api/agent.json`.
#[must_use]
pub fn openapi() -> String {
    let mut paths: Map<String, Value> = Map::new();
    let mut bodies = Bodies::new();
    for (method, path, help) in routes() {
        let at = paths.entry(path.to_owned()).or_insert_with(|| json!({}));
        at[method.to_lowercase()] = operation(&mut bodies, method, path, help);
    }
    let document = json!({
        "openapi": "3.1.0",
        "info": {"title": "The agent's API", "version": API, "license": {"name": "Apache-2.0"}},
        "servers": [{"url": "http://agent", "description": "HTTP on the unix socket [agent] admin_socket"}],
        "paths": paths,
        "components": {"schemas": bodies.0.take_definitions(true)},
    });
    // What serde_json writes of a document of texts and numbers cannot fail.
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

fn routes() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let all = ROUTES.iter().chain(crate::instances::ROUTES);
    all.chain(crate::devices::ROUTES)
        .chain(crate::reconcile::ROUTES)
        .copied()
}

/// The shapes of bodies, each written down once and referred to by its name.
struct Bodies(SchemaGenerator);

impl Bodies {
    fn new() -> Self {
        let settings = SchemaSettings::draft2020_12()
            .with(|settings| settings.definitions_path = "/components/schemas".into());
        Self(settings.into_generator())
    }

    fn of<T: JsonSchema>(&mut self) -> Value {
        self.0.subschema_for::<T>().to_value()
    }
}

/// What travels on a route.
struct Exchange {
    asks: Option<Asks>,
    answers: Vec<Answer>,
    refuses: Value,
}

struct Asks {
    body: Value,
    /// Whether there must be one.
    required: bool,
}

struct Answer {
    status: &'static str,
    description: &'static str,
    /// None: no body.
    body: Option<(&'static str, Value)>,
}

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

impl Exchange {
    /// Of a route; none of one that nobody wrote down here.
    fn of(bodies: &mut Bodies, method: &str, path: &str) -> Option<Self> {
        let text = || (TEXT, json!({"type": "string"}));
        let exchange = match (method, path) {
            ("GET", "/healthz") => Self::answers(bodies)
                .json::<HealthBody>(bodies, "200", "The agent does its duty.")
                .json::<HealthBody>(bodies, "503", "It starts, or an error is shown."),
            ("GET", "/metrics") => Self::answers(bodies).answer("200", "The metrics.", text()),
            ("GET", "/v1/state") => Self::found::<StateBody>(bodies),
            ("GET", "/v1/plan") => Self::found::<PlanBody>(bodies),
            ("GET", "/v1/config") => Self::found::<ConfigBody>(bodies),
            ("POST", "/v1/tick") => Self::answers(bodies)
                .json::<TickBody>(bodies, "200", "What came of each node's pass.")
                .json::<ErrorBody>(bodies, "202", "It is not over yet, and goes on."),
            ("PUT", "/v1/disabled") => {
                Self::found::<DisabledBody>(bodies).asks::<DisableBody>(bodies)
            }
            ("DELETE", "/v1/disabled") => Self::found::<DisabledBody>(bodies),
            ("GET", "/v1/guests") => Self::found::<GuestList>(bodies),
            ("POST", "/v1/guests") => Self::begun::<GuestBody>(bodies)
                .asks_one_of([bodies.of::<GuestBuild>(), whole_guest()]),
            ("POST", "/v1/guests/places") => {
                Self::found::<Places>(bodies).asks::<PlacesAsked>(bodies)
            }
            ("GET", "/v1/guests/{uuid}") => Self::found::<GuestBody>(bodies),
            ("DELETE", "/v1/guests/{uuid}") => {
                let mut exchange = Self::answers(bodies);
                exchange.answers.push(Answer {
                    status: "202",
                    description: "It will be gone, whatever happens to the agent.",
                    body: None,
                });
                exchange
            }
            ("POST", "/v1/guests/{uuid}/action") => {
                Self::begun::<GuestBody>(bodies).asks::<GuestAction>(bodies)
            }
            ("GET", "/v1/guests/{uuid}/console") => {
                Self::answers(bodies).answer("200", "The last lines.", text())
            }
            ("GET", "/v2.1") => Self {
                refuses: compute_fault(),
                ..Self::answers(bodies).answer("200", "The version.", (JSON, version()))
            },
            ("POST", "/v2.1/os-server-external-events") => Self {
                refuses: compute_fault(),
                ..Self::answers(bodies)
                    .json::<ServerExternalEvents>(bodies, "200", "All were heard.")
                    .json::<ServerExternalEvents>(bodies, "207", "Not all; each with its code.")
                    .asks::<ServerExternalEvents>(bodies)
            },
            ("GET" | "POST", "/v1/reconcile") => Self::found::<ReconcileBody>(bodies),
            ("GET", "/v1/devices") => Self::found::<DeviceList>(bodies),
            ("GET", "/v1/devices/{name}") => Self::found::<DeviceDocument>(bodies),
            (
                "POST",
                "/v1/devices/{name}/reset"
                | "/v1/devices/{name}/quarantine"
                | "/v1/devices/{name}/release",
            ) => {
                let mut exchange = Self::found::<DeviceActed>(bodies).asks::<DeviceAction>(bodies);
                let needs_a_reason = path.ends_with("quarantine");
                exchange
                    .asks
                    .iter_mut()
                    .for_each(|asks| asks.required = needs_a_reason);
                exchange
            }
            _ => return None,
        };
        Some(exchange)
    }

    fn answers(bodies: &mut Bodies) -> Self {
        Self {
            asks: None,
            answers: Vec::new(),
            refuses: bodies.of::<ErrorBody>(),
        }
    }

    fn found<T: JsonSchema>(bodies: &mut Bodies) -> Self {
        Self::answers(bodies).json::<T>(bodies, "200", "What was asked for.")
    }

    fn begun<T: JsonSchema>(bodies: &mut Bodies) -> Self {
        let description = "It is written down, and done or under way.";
        Self::answers(bodies).json::<T>(bodies, "202", description)
    }

    fn json<T: JsonSchema>(
        self,
        bodies: &mut Bodies,
        status: &'static str,
        description: &'static str,
    ) -> Self {
        self.answer(status, description, (JSON, bodies.of::<T>()))
    }

    fn answer(
        mut self,
        status: &'static str,
        description: &'static str,
        body: (&'static str, Value),
    ) -> Self {
        self.answers.push(Answer {
            status,
            description,
            body: Some(body),
        });
        self
    }

    fn asks<T: JsonSchema>(self, bodies: &mut Bodies) -> Self {
        self.asks_body(bodies.of::<T>())
    }

    fn asks_one_of<const N: usize>(self, shapes: [Value; N]) -> Self {
        self.asks_body(json!({ "oneOf": shapes.to_vec() }))
    }

    fn asks_body(self, body: Value) -> Self {
        let required = true;
        Self {
            asks: Some(Asks { body, required }),
            ..self
        }
    }
}

fn operation(bodies: &mut Bodies, method: &str, path: &str, help: &str) -> Value {
    let names = path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<_> = names
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    if path.ends_with("/console") {
        parameters.push(
            json!({"name": "lines", "in": "query", "schema": {"type": "integer", "minimum": 0}}),
        );
    }
    if path.ends_with("/action") {
        let id = json!({"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"});
        parameters.push(json!({"name": "id", "in": "query", "schema": id}));
    }
    let mut operation = json!({"description": help, "responses": {}});
    if !parameters.is_empty() {
        operation["parameters"] = json!(parameters);
    }
    let Some(exchange) = Exchange::of(bodies, method, path) else {
        return operation;
    };
    if let Some(Asks { body, required }) = exchange.asks {
        operation["requestBody"] =
            json!({"required": required, "content": {JSON: {"schema": body}}});
    }
    for answer in exchange.answers {
        let mut told = json!({"description": answer.description});
        if let Some((kind, body)) = answer.body {
            told["content"] = json!({kind: {"schema": body}});
        }
        operation["responses"][answer.status] = told;
    }
    operation["responses"]["default"] = json!({
        "description": "A refusal, in a sentence.",
        "content": {JSON: {"schema": exchange.refuses}},
    });
    operation
}

/// A guest as its driver takes it, of whoever knows the host himself.
fn whole_guest() -> Value {
    let description = "The guest as a driver is given it; what is built of a GuestBuild is one.";
    json!({
        "type": "object",
        "properties": {
            "node": {"type": "string"},
            "accelerator_requests": {"type": "array", "items": {"type": "string", "format": "uuid"}},
            "spec": {"type": "object", "description": description},
        },
        "required": ["node", "accelerator_requests", "spec"],
    })
}

/// A refusal in Nova's form: one key, `badRequest` for instance.
fn compute_fault() -> Value {
    let fault = json!({
        "type": "object",
        "properties": {"code": {"type": "integer"}, "message": {"type": "string"}},
        "required": ["code", "message"],
    });
    json!({"type": "object", "additionalProperties": fault, "minProperties": 1, "maxProperties": 1})
}

/// Nova's version document.
fn version() -> Value {
    let text = json!({"type": "string"});
    let of = |names: &[&str]| -> Value {
        let properties = names.iter().map(|name| ((*name).to_owned(), text.clone()));
        let properties: Map<_, _> = properties.collect();
        json!({"type": "object", "properties": properties, "required": names})
    };
    let mut version = of(&["id", "status", "version", "min_version", "updated"]);
    version["properties"]["links"] = json!({"type": "array", "items": of(&["rel", "href"])});
    version["properties"]["media-types"] = json!({"type": "array", "items": of(&["base", "type"])});
    json!({"type": "object", "properties": {"version": version}, "required": ["version"]})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Value {
        serde_json::from_str(&openapi()).unwrap()
    }

    #[test]
    fn every_route_says_what_travels() {
        let document = document();
        for (method, path, _) in routes() {
            let operation = &document["paths"][path][method.to_lowercase()];
            let answers = operation["responses"].as_object().unwrap();
            assert!(answers.contains_key("default"), "{method} {path}");
            assert!(answers.len() > 1, "{method} {path}");
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
        assert!(found.len() > 30, "{found:?}");
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    #[test]
    fn every_field_of_a_build_is_there_and_those_that_must_be_are_required() {
        let document = document();
        let schemas = &document["components"]["schemas"];
        let build = &schemas["GuestBuild"];
        assert_eq!(
            build["required"],
            json!(["uuid", "name", "project_id", "node", "flavor"])
        );
        assert_eq!(build["additionalProperties"], json!(false));
        for name in ["power", "image", "networks", "limits", "config_drive"] {
            assert!(build["properties"].get(name).is_some(), "{name}");
        }
        let flavor = &schemas["FlavorBody"];
        assert_eq!(flavor["required"], json!(["name", "vcpus", "ram_mb"]));
        assert_eq!(flavor["properties"]["vcpus"]["maximum"], json!(4096));
    }
}
