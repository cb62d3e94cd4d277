//! Builds the OpenAPI 3.1 document of a service from its operations. OpenStack's API reference defines what each field
//! means.
//!
//! Used by `services/compute`, `services/identity` and `services/placement`.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::microversion::MicroversionRange;
use crate::operation::{OperationDeclaration, OperationSet};

const JSON: &str = "application/json";

/// An error status of an operation.
#[derive(Debug, Clone, Copy)]
pub struct ErrorExample {
    pub status: u16,
    pub description: &'static str,
    pub comes: AppliesTo,
}

impl ErrorExample {
    #[must_use]
    pub const fn new(status: u16, comes: AppliesTo, description: &'static str) -> Self {
        Self {
            status,
            description,
            comes,
        }
    }
}

/// The operations that can return an error status.
#[derive(Debug, Clone, Copy)]
pub enum AppliesTo {
    Always,
    /// Operations that change something.
    OnWrites,
    /// Operations with a body.
    WithBody,
    /// Operations that declare it.
    IfDeclared,
}

#[derive(Debug)]
pub struct OpenApiService<'a> {
    pub title: &'a str,
    pub version: String,
    pub description: &'a str,
    /// The program that serves the API, and its URL.
    pub served_by: &'a str,
    /// The supported microversions, if any.
    pub versions: Option<MicroversionRange>,
    /// The error responses of all operations.
    pub refusals: &'a [ErrorExample],
    /// The schema of an error body, by its status.
    pub fault: fn(&mut Shapes, u16) -> Value,
    /// The schema of a part of a path, by its name.
    pub path: fn(&OperationDeclaration, &str) -> Value,
    /// The shape of something in a query string, by its name.
    pub query: fn(&str) -> Value,
}

/// The schema of a part of a path that may be any text.
#[must_use]
pub fn any_text(_: &OperationDeclaration, _: &str) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 255})
}

/// The schemas that a document defines once and refers to by name.
#[derive(Debug)]
pub struct Shapes {
    of_types: SchemaGenerator,
    others: Map<String, Value>,
}

impl Shapes {
    fn new() -> Self {
        let settings = SchemaSettings::draft2020_12()
            .for_serialize()
            .with(|settings| settings.definitions_path = "/components/schemas".into());
        Self {
            of_types: settings.into_generator(),
            others: Map::new(),
        }
    }

    /// A reference to the schema of a type.
    pub fn of<T: JsonSchema>(&mut self) -> Value {
        self.of_types.subschema_for::<T>().to_value()
    }

    /// A reference to this schema, which the document gets under this name.
    pub fn named(&mut self, name: &str, schema: Value) -> Value {
        self.others.insert(name.to_owned(), schema);
        json!({"$ref": format!("#/components/schemas/{name}")})
    }

    fn defined(mut self) -> Map<String, Value> {
        let mut all = self.of_types.take_definitions(true);
        all.extend(self.others);
        all
    }
}

impl OpenApiService<'_> {
    #[must_use]
    pub fn document<S>(&self, operations: &OperationSet<S>) -> Value {
        let mut shapes = Shapes::new();
        let mut paths: BTreeMap<&str, Value> = BTreeMap::new();
        for operation in operations.declarations() {
            if let (Some(method), Some(id)) = (operation.method, operation.id) {
                let at = paths.entry(operation.path).or_insert_with(|| json!({}));
                at[method.to_lowercase()] = self.operation(id, operation, &mut shapes);
            }
        }
        let refusals = self.refusals.iter();
        let refusals: Map<String, Value> = refusals
            .map(|refusal| {
                let content = json!({JSON: {"schema": (self.fault)(&mut shapes, refusal.status)}});
                let described = json!({"description": refusal.description, "content": content});
                (refusal.status.to_string(), described)
            })
            .collect();
        let mut components = json!({
            "schemas": shapes.defined(),
            "responses": refusals,
            "securitySchemes": {"token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}},
        });
        if let Some(range) = self.versions {
            components["parameters"] = json!({"version": version_header(range)});
        }
        json!({
            "openapi": "3.1.0",
            "info": {
                "title": self.title,
                "version": self.version,
                "description": self.description,
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": "/", "description": self.served_by}],
            "security": [{"token": []}],
            "paths": paths,
            "components": components,
        })
    }

    fn operation(&self, id: &str, operation: &OperationDeclaration, shapes: &mut Shapes) -> Value {
        let mut document = json!({
            "summary": operation.summary,
            "operationId": id,
            "parameters": self.parameters(operation),
            "responses": self.responses(operation, shapes),
        });
        if let Some(range) = self.versions {
            let since = operation.since.unwrap_or(range.min);
            document["x-openstack-min-version"] = json!(since.to_string());
        }
        if let Some(differences) = operation.older {
            document["description"] = json!(differences);
        }
        if let Some(schema) = operation.body {
            document["requestBody"] =
                json!({"required": true, "content": {JSON: {"schema": schema()}}});
        }
        document
    }

    fn parameters(&self, operation: &OperationDeclaration) -> Vec<Value> {
        let parts = operation.path.split('/');
        let names = parts.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let in_path = names.map(|name| {
            let schema = (self.path)(operation, name);
            json!({"name": name, "in": "path", "required": true, "schema": schema})
        });
        let in_query = operation.query.iter().map(|name| {
            let schema = (self.query)(name);
            json!({"name": name, "in": "query", "schema": schema})
        });
        let version = self
            .versions
            .map(|_| json!({"$ref": "#/components/parameters/version"}));
        let described = operation.query_parameters.map(|parameters| parameters());
        let described = described.into_iter().flatten();
        in_path
            .chain(in_query)
            .chain(described)
            .chain(version)
            .collect()
    }

    fn responses(
        &self,
        operation: &OperationDeclaration,
        shapes: &mut Shapes,
    ) -> Map<String, Value> {
        let response = |description: &str, schema: Option<Value>| {
            let mut response = json!({"description": description});
            if let Some(schema) = schema {
                response["content"] = json!({JSON: {"schema": schema}});
            }
            response
        };
        let mut done: Map<String, Value> = Map::new();
        for one in &operation.responses {
            let schema = one.schema.map(|schema| schema(shapes));
            done.insert(one.status.to_string(), response(one.description, schema));
        }
        if done.is_empty() {
            let key = operation.response_key;
            let schema = key.map(|key| json!({"type": "object", "required": [key]}));
            let response = response("The action is done, or its result is returned.", schema);
            let statuses = operation.statuses.iter().map(u16::to_string);
            done.extend(statuses.map(|status| (status, response.clone())));
        }
        let refused = self.refusals.iter().filter(|refusal| match refusal.comes {
            AppliesTo::Always => true,
            AppliesTo::OnWrites => operation.method != Some("GET"),
            AppliesTo::WithBody => operation.body.is_some(),
            AppliesTo::IfDeclared => operation.errors.contains(&refusal.status),
        });
        let refused = refused.map(|refusal| {
            let reference = format!("#/components/responses/{}", refusal.status);
            (refusal.status.to_string(), json!({"$ref": reference}))
        });
        done.into_iter().chain(refused).collect()
    }
}

/// The text of a document, as it is stored in `docs/api`.
#[must_use]
pub fn to_text(document: &Value) -> String {
    // serde_json cannot fail on a document of texts and numbers.
    let mut text = serde_json::to_string_pretty(document).unwrap_or_default();
    text.push('\n');
    text
}

fn version_header(range: MicroversionRange) -> Value {
    let (service, min) = (range.service, range.min);
    let what = format!(
        "The microversion: `{service} {}.N`, or `{service} latest`; default {min}. The bodies here are those of the newest one.",
        min.major
    );
    json!({
        "name": "OpenStack-API-Version", "in": "header", "description": what,
        "schema": {
            "type": "string",
            "pattern": format!("^{service} ({}\\.[0-9]{{1,2}}|latest)$", min.major),
            "default": format!("{service} {min}"),
        },
    })
}
