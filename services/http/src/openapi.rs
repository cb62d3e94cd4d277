//! The OpenAPI document (3.1) of a service whose requests its handlers judge: what there is and what may be asked, for readers
//! and for programs that make up requests. OpenStack's reference says what each field means.
//!
//! Callers: `services/compute` and `services/identity`. Placement, whose requests are judged by schemas, writes its own.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::microversion::MicroversionRange;

const JSON: &str = "application/json";

/// One method of one path.
#[derive(Debug)]
pub struct Operation {
    pub method: &'static str,
    /// As the router has it.
    pub path: &'static str,
    /// Unlike that of all others of the service.
    pub name: &'static str,
    pub does: &'static str,
    /// When all went well; which one goes by the microversion or by what there was before.
    pub statuses: &'static [u16],
    /// The key that the answer's body has; none where there is no body, or where keys are names that somebody chose.
    pub answers: Option<&'static str>,
    /// What the query string may have.
    pub query: &'static [&'static str],
}

/// A status that says no.
#[derive(Debug, Clone, Copy)]
pub struct Refusal {
    pub status: u16,
    pub says: &'static str,
    pub comes: Comes,
}

/// Where a refusal comes.
#[derive(Debug, Clone, Copy)]
pub enum Comes {
    Always,
    /// Where something is changed.
    OnWrites,
    /// Where there is a body.
    WithBody,
    /// On one path alone.
    At(&'static str),
}

#[derive(Debug)]
pub struct Service<'a> {
    /// What it is called.
    pub title: &'a str,
    pub version: String,
    pub description: &'a str,
    /// What serves it, and where.
    pub served_by: &'a str,
    /// Its microversions, where it has any.
    pub versions: Option<MicroversionRange>,
    /// How it says no.
    pub refusals: &'a [Refusal],
    /// The shape of an answer that says no.
    pub fault: Value,
    /// The shape of something in a query string, by its name.
    pub query: fn(&str) -> Value,
    /// The shape of a body, by method and path; none where there is none.
    pub body: fn(&str, &str) -> Option<Value>,
}

impl Service<'_> {
    #[must_use]
    pub fn document<'o>(&self, operations: impl IntoIterator<Item = &'o Operation>) -> String {
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
        // What serde_json writes of a document of texts and numbers cannot fail.
        let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
        text.push('\n');
        text
    }

    fn operation(&self, operation: &Operation) -> Value {
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

    fn parameters(&self, operation: &Operation) -> Vec<Value> {
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

    fn responses(&self, operation: &Operation, has_body: bool) -> Map<String, Value> {
        let mut done = json!({"description": "It is done, or is told."});
        if let Some(key) = operation.answers {
            let shape = json!({"type": "object", "required": [key]});
            done["content"] = json!({JSON: {"schema": shape}});
        }
        let done = operation
            .statuses
            .iter()
            .map(|status| (status.to_string(), done.clone()));
        let refused = self.refusals.iter().filter(|refusal| match refusal.comes {
            Comes::Always => true,
            Comes::OnWrites => operation.method != "GET",
            Comes::WithBody => has_body,
            Comes::At(path) => operation.path == path,
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
