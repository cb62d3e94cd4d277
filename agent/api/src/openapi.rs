//! Generates `docs/api/agent.json`, the OpenAPI 3.1 document of the agent's API, from the routes and from the types of
//! the bodies with their doc comments.

use berth_wire::compute::ServerExternalEvents;
use berth_wire::guest::{
    ConsoleBody, DiagnosticsBody, GuestAction, GuestBody, GuestBuild, GuestList, Places,
    PlacesAsked,
};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::body::{
    API, ConfigBody, DisableBody, DisabledBody, ErrorBody, HealthBody, PlanBody, StateBody,
    TickBody,
};
use crate::devices::body::{DeviceAction, DeviceActionResult, DeviceDocument, HostDeviceList};
use crate::reconcile::ReconcileBody;
use crate::router::ROUTES;

/// The text of `docs/api/agent.json`.
#[must_use]
pub fn openapi() -> String {
    let mut paths: Map<String, Value> = Map::new();
    let mut bodies = BodySchemas::new();
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
    // A document of strings and numbers can always be serialised.
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

/// Schemas of the bodies; each is defined once and referenced by name.
struct BodySchemas(SchemaGenerator);

impl BodySchemas {
    fn new() -> Self {
        let settings = SchemaSettings::draft2020_12()
            .with(|settings| settings.definitions_path = "/components/schemas".into());
        Self(settings.into_generator())
    }

    fn of<T: JsonSchema>(&mut self) -> Value {
        self.0.subschema_for::<T>().to_value()
    }
}

/// Request and responses of one route.
struct RouteSchema {
    request: Option<RequestSchema>,
    answers: Vec<ResponseSchema>,
    error: Value,
}

struct RequestSchema {
    body: Value,
    /// Whether the request needs a body.
    required: bool,
}

struct ResponseSchema {
    status: &'static str,
    description: &'static str,
    /// `None`: the response has no body.
    body: Option<(&'static str, Value)>,
}

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

impl RouteSchema {
    /// The schema of a route; `None` for a route without one.
    fn of(bodies: &mut BodySchemas, method: &str, path: &str) -> Option<Self> {
        let text = || (TEXT, json!({"type": "string"}));
        let route = match (method, path) {
            ("GET", "/healthz") => Self::answers(bodies)
                .json::<HealthBody>(bodies, "200", "The agent does its duty.")
                .json::<HealthBody>(
                    bodies,
                    "503",
                    "The agent starts, or a finding of severity `error` is shown.",
                ),
            ("GET", "/metrics") => Self::answers(bodies).answer("200", "The metrics.", text()),
            ("GET", "/v1/state") => Self::ok::<StateBody>(bodies),
            ("GET", "/v1/plan") => Self::ok::<PlanBody>(bodies),
            ("GET", "/v1/config") => Self::ok::<ConfigBody>(bodies),
            ("POST", "/v1/tick") => Self::answers(bodies)
                .json::<TickBody>(bodies, "200", "Result of each node's cycle.")
                .json::<ErrorBody>(bodies, "202", "The cycle is still running."),
            ("PUT", "/v1/disabled") => Self::ok::<DisabledBody>(bodies).body::<DisableBody>(bodies),
            ("DELETE", "/v1/disabled") => Self::ok::<DisabledBody>(bodies),
            ("GET", "/v1/guests") => Self::ok::<GuestList>(bodies),
            ("POST", "/v1/guests") => Self::accepted::<GuestBody>(bodies)
                .body_one_of([bodies.of::<GuestBuild>(), complete_guest()]),
            ("POST", "/v1/guests/places") => Self::ok::<Places>(bodies).body::<PlacesAsked>(bodies),
            ("GET", "/v1/guests/{uuid}") => Self::ok::<GuestBody>(bodies),
            ("DELETE", "/v1/guests/{uuid}") => {
                let mut route = Self::answers(bodies);
                route.answers.push(ResponseSchema {
                    status: "202",
                    description: "The guest will be deleted, also after a restart of the agent.",
                    body: None,
                });
                route
            }
            ("POST", "/v1/guests/{uuid}/action") => {
                Self::accepted::<GuestBody>(bodies).body::<GuestAction>(bodies)
            }
            ("GET", "/v1/guests/{uuid}/diagnostics") => Self::ok::<DiagnosticsBody>(bodies),
            ("GET", "/v1/guests/{uuid}/console") => {
                Self::answers(bodies).answer("200", "The last lines.", text())
            }
            ("GET", "/v1/guests/{uuid}/console/{kind}") => {
                let mut route = Self::ok::<ConsoleBody>(bodies);
                route.answers.push(ResponseSchema {
                    status: "101",
                    description: "The connection carries the console.",
                    body: None,
                });
                route
            }
            ("GET", "/v2.1") => Self {
                error: compute_fault(),
                ..Self::answers(bodies).answer("200", "The version.", (JSON, version()))
            },
            ("POST", "/v2.1/os-server-external-events") => Self {
                error: compute_fault(),
                ..Self::answers(bodies)
                    .json::<ServerExternalEvents>(bodies, "200", "All were heard.")
                    .json::<ServerExternalEvents>(bodies, "207", "Not all; each with its code.")
                    .body::<ServerExternalEvents>(bodies)
            },
            ("GET" | "POST", "/v1/reconcile") => Self::ok::<ReconcileBody>(bodies),
            ("GET", "/v1/devices") => Self::ok::<HostDeviceList>(bodies),
            ("GET", "/v1/devices/{name}") => Self::ok::<DeviceDocument>(bodies),
            (
                "POST",
                "/v1/devices/{name}/reset"
                | "/v1/devices/{name}/quarantine"
                | "/v1/devices/{name}/release",
            ) => {
                let mut route = Self::ok::<DeviceActionResult>(bodies).body::<DeviceAction>(bodies);
                let needs_a_reason = path.ends_with("quarantine");
                route
                    .request
                    .iter_mut()
                    .for_each(|request| request.required = needs_a_reason);
                route
            }
            _ => return None,
        };
        Some(route)
    }

    fn answers(bodies: &mut BodySchemas) -> Self {
        Self {
            request: None,
            answers: Vec::new(),
            error: bodies.of::<ErrorBody>(),
        }
    }

    fn ok<T: JsonSchema>(bodies: &mut BodySchemas) -> Self {
        Self::answers(bodies).json::<T>(bodies, "200", "The requested data.")
    }

    fn accepted<T: JsonSchema>(bodies: &mut BodySchemas) -> Self {
        let description = "The request is recorded; the work is done or running.";
        Self::answers(bodies).json::<T>(bodies, "202", description)
    }

    fn json<T: JsonSchema>(
        self,
        bodies: &mut BodySchemas,
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
        self.answers.push(ResponseSchema {
            status,
            description,
            body: Some(body),
        });
        self
    }

    fn body<T: JsonSchema>(self, bodies: &mut BodySchemas) -> Self {
        self.request_body(bodies.of::<T>())
    }

    fn body_one_of<const N: usize>(self, shapes: [Value; N]) -> Self {
        self.request_body(json!({ "oneOf": shapes.to_vec() }))
    }

    fn request_body(self, body: Value) -> Self {
        let required = true;
        Self {
            request: Some(RequestSchema { body, required }),
            ..self
        }
    }
}

fn operation(bodies: &mut BodySchemas, method: &str, path: &str, help: &str) -> Value {
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
    let Some(route) = RouteSchema::of(bodies, method, path) else {
        return operation;
    };
    if let Some(RequestSchema { body, required }) = route.request {
        operation["requestBody"] =
            json!({"required": required, "content": {JSON: {"schema": body}}});
    }
    for answer in route.answers {
        let mut response = json!({"description": answer.description});
        if let Some((kind, body)) = answer.body {
            response["content"] = json!({kind: {"schema": body}});
        }
        operation["responses"][answer.status] = response;
    }
    operation["responses"]["default"] = json!({
        "description": "A refusal, in a sentence.",
        "content": {JSON: {"schema": route.error}},
    });
    operation
}

/// Schema of a complete guest, from a caller that knows the host.
fn complete_guest() -> Value {
    let description = "The guest as the driver gets it. A GuestBuild is converted to this form.";
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

/// Schema of an error in Nova's format: one key, for example `badRequest`.
fn compute_fault() -> Value {
    let fault = json!({
        "type": "object",
        "properties": {"code": {"type": "integer"}, "message": {"type": "string"}},
        "required": ["code", "message"],
    });
    json!({"type": "object", "additionalProperties": fault, "minProperties": 1, "maxProperties": 1})
}

/// Schema of Nova's version document.
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
