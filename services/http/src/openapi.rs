//! Builds the OpenAPI 3.1 document of a service from its operations. OpenStack's API reference defines what each field
//! means.
//!
//! Used by `services/compute` and `services/identity`. Placement validates requests against schemas and builds its own
//! document.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::microversion::MicroversionRange;
use crate::operation::{OperationDeclaration, OperationSet};

const JSON: &str = "application/json";

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
    /// The error statuses.
    pub refusals: &'a [ErrorExample],
    /// The schema of an error body.
    pub fault: Value,
    /// The shape of something in a query string, by its name.
    pub query: fn(&str) -> Value,
}

impl OpenApiService<'_> {
    #[must_use]
    pub fn document<S>(&self, operations: &OperationSet<S>) -> String {
        let mut paths: BTreeMap<&str, Value> = BTreeMap::new();
        for operation in operations.declarations() {
            if let (Some(method), Some(id)) = (operation.method, operation.id) {
                let at = paths.entry(operation.path).or_insert_with(|| json!({}));
                at[method.to_lowercase()] = self.operation(id, operation);
            }
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

    fn operation(&self, id: &str, operation: &OperationDeclaration) -> Value {
        let mut document = json!({
            "summary": operation.summary,
            "operationId": id,
            "parameters": self.parameters(operation),
            "responses": self.responses(operation),
        });
        if let Some(version) = operation.since {
            document["x-openstack-min-version"] = json!(version.to_string());
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

    fn responses(&self, operation: &OperationDeclaration) -> Map<String, Value> {
        let mut done = json!({"description": "It is done, or is told."});
        if let Some(key) = operation.response_key {
            let shape = json!({"type": "object", "required": [key]});
            done["content"] = json!({JSON: {"schema": shape}});
        }
        let done = operation
            .statuses
            .iter()
            .map(|status| (status.to_string(), done.clone()));
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
        done.chain(refused).collect()
    }
}

fn version_header(range: MicroversionRange) -> Value {
    let (service, min) = (range.service, range.min);
    let what = format!(
        "The microversion: `{service} {}.N`, or `{service} latest`; {min} where it is left out. The bodies here are those of the newest.",
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
