//! Names a request in a trace: the route's template, with names in place of UUIDs.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use berth_client::RouteTemplate;
use berth_fault_injection::{Boundary, Effect};
use bytes::Bytes;
use http::{Method, Request};
use serde_json::Value;

/// Names of providers by UUID, as they were first seen in a body.
#[derive(Debug, Default)]
pub(super) struct Names(Mutex<HashMap<String, String>>);

impl Names {
    /// Learns from a body that may name providers.
    pub(super) fn learn(&self, body: &[u8]) {
        if let Ok(body) = serde_json::from_slice::<Value>(body) {
            self.learn_one(&body);
            for provider in body["resource_providers"].as_array().into_iter().flatten() {
                self.learn_one(provider);
            }
        }
    }

    fn learn_one(&self, provider: &Value) {
        if let (Some(uuid), Some(name)) = (provider["uuid"].as_str(), provider["name"].as_str()) {
            let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            names
                .entry(uuid.to_owned())
                .or_insert_with(|| name.to_owned());
        }
    }

    fn of(&self, uuid: &str) -> String {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(uuid).cloned().unwrap_or_else(|| "?".to_owned())
    }
}

/// The effect of a request.
pub(super) fn crossing(request: &Request<Bytes>, names: &Names) -> Effect {
    let path = request.uri().path();
    let query = request.uri().query().unwrap_or_default();
    let segments: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (route, subject) = match segments[..] {
        [] => ("/".to_owned(), String::new()),
        ["v3", "auth", "tokens"] => ("/v3/auth/tokens".to_owned(), String::new()),
        ["resource_providers"] => listing(query, names),
        ["resource_providers", uuid] => ("/resource_providers/{uuid}".to_owned(), names.of(uuid)),
        ["resource_providers", uuid, what] => {
            let route = format!("/resource_providers/{{uuid}}/{what}");
            (route, names.of(uuid))
        }
        ["allocations", consumer] => ("/allocations/{consumer}".to_owned(), consumer.to_owned()),
        [noun @ ("traits" | "resource_classes"), name] => {
            (format!("/{noun}/{{name}}"), name.to_owned())
        }
        // Of the other services' the client says what the template is.
        ["v1" | "v2" | "v2.1" | "internal", ..] => {
            let template = request.extensions().get::<RouteTemplate>();
            (template.map_or(path, |it| it.0).to_owned(), String::new())
        }
        _ => (path.to_owned(), String::new()),
    };
    let subject = match (request.method(), segments.as_slice()) {
        (&Method::POST, ["resource_providers"]) => created(request.body()),
        _ => subject,
    };
    let operation = format!("{} {route}", request.method());
    if request.method() == Method::GET || route == "/v3/auth/tokens" {
        Effect::read(Boundary::Http, operation, subject)
    } else {
        Effect::write(Boundary::Http, operation, subject)
    }
}

fn listing(query: &str, names: &Names) -> (String, String) {
    let (key, value) = query.split_once('=').unwrap_or((query, ""));
    let subject = match key {
        "in_tree" => names.of(value),
        "name" => value.to_owned(),
        _ => String::new(),
    };
    let route = match key {
        "" => "/resource_providers".to_owned(),
        key => format!("/resource_providers?{key}"),
    };
    (route, subject)
}

fn created(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    body["name"].as_str().unwrap_or_default().to_owned()
}
