//! Builds the OpenAPI 3.1 document of a service from its list of operations. OpenStack's API reference defines what
//! each field means.
//!
//! Used by `services/compute` and `services/identity`. Placement validates requests against schemas and builds its own
//! document.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::microversion::MicroversionRange;

const JSON: &str = "application/json";

/// One method of one path.
#[derive(Debug)]
pub struct OpenApiOperation {
    pub method: &'static str,
    /// The path, as in the router.
    pub path: &'static str,
    /// The operation id, unique in the service.
    pub name: &'static str,
    pub does: &'static str,
    /// The statuses of success. Which one is returned depends on the microversion or on the previous state.
    pub statuses: &'static [u16],
    /// The single top-level key of the response body; `None` if there is no body or its keys are names chosen by users.
    pub answers: Option<&'static str>,
    /// The allowed keys of the query string.
    pub query: &'static [&'static str],
}

/// An error status of an operation.
#[derive(Debug, Clone, Copy)]
pub struct ErrorExample {
    pub status: u16,
    pub says: &'static str,
    pub comes: AppliesTo,
}

/// The operations that can return an error status.
#[derive(Debug, Clone, Copy)]
pub enum AppliesTo {
    Always,
    /// Operations that change something.
    OnWrites,
    /// Operations with a body.
    WithBody,
    /// On one path alone.
    At(&'static str),
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
    /// The schema of an error body.
    pub fault: Value,
    /// The shape of something in a query string, by its name.
    pub query: fn(&str) -> Value,
    /// The schema of a request body, by method and path.
    pub body: fn(&str, &str) -> Option<Value>,
}

impl OpenApiService<'_> {
    #[must_use]
    pub fn document<'o>(
        &self,
        operations: impl IntoIterator<Item = &'o OpenApiOperation>,
    ) -> String {
        let mut paths: BTreeMap<&str, Value> = BTreeMap::new();
        for operation in operations {
            let at = paths.entry(operation.path).or_insert_with(|| json!({}));
            at[operation.method.to_lowercase()] = self.operation(operation);
        }
        let refusals = self.refusals.iter();
        let refusals: Map<String, Value> = refusals
            .map(|refusal| {
                let content = json!({JSON: {"schema": {"$ref": "#/components/schemas/Fault"}}});
                let told = json!({"description": refusal.says, "content": content});
                (refusal.status.to_string(), told)
            })
            .collect();
        let mut components = json!({
            "schemas": {"Fault": self.fault},
            "responses": refusals,
            "securitySchemes": {"token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}},
        });
        if let Some(range) = self.versions {
            components["parameters"] = json!({"version": version_header(range)});
        }
        let document = json!({
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
        });
        // serde_json cannot fail on a document of texts and numbers.
        let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
        text.push('\n');
        text
    }

    fn operation(&self, operation: &OpenApiOperation) -> Value {
        let asks = (self.body)(operation.method, operation.path);
        let mut document = json!({
            "summary": operation.does,
            "operationId": operation.name,
            "parameters": self.parameters(operation),
            "responses": self.responses(operation, asks.is_some()),
        });
        if let Some(body) = asks {
            document["requestBody"] =
                json!({"required": true, "content": {JSON: {"schema": body}}});
        }
        document
    }

    fn parameters(&self, operation: &OpenApiOperation) -> Vec<Value> {
        let parts = operation.path.split('/');
        let names = parts.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let in_path = names.map(|name| {
            let schema = json!({"type": "string", "minLength": 1, "maxLength": 255});
            json!({"name": name, "in": "path", "required": true, "schema": schema})
        });
        let in_query = operation.query.iter().map(|name| {
            let schema = (self.query)(name);
            json!({"name": name, "in": "query", "schema": schema})
        });
        let version = self
            .versions
            .map(|_| json!({"$ref": "#/components/parameters/version"}));
        in_path.chain(in_query).chain(version).collect()
    }

    fn responses(&self, operation: &OpenApiOperation, has_body: bool) -> Map<String, Value> {
        let mut done = json!({"description": "The action is done, or its result is returned."});
        if let Some(key) = operation.answers {
            let shape = json!({"type": "object", "required": [key]});
            done["content"] = json!({JSON: {"schema": shape}});
        }
        let done = operation
            .statuses
            .iter()
            .map(|status| (status.to_string(), done.clone()));
        let refused = self.refusals.iter().filter(|refusal| match refusal.comes {
            AppliesTo::Always => true,
            AppliesTo::OnWrites => operation.method != "GET",
            AppliesTo::WithBody => has_body,
            AppliesTo::At(path) => operation.path == path,
        });
        let refused = refused.map(|refusal| {
            let reference = format!("#/components/responses/{}", refusal.status);
            (refusal.status.to_string(), json!({"$ref": reference}))
        });
        done.chain(refused).collect()
    }
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
