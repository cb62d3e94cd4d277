//! `docs/api/agent.json`: the agent's API as an OpenAPI document, written from the routes and from bodies of the types that travel.
//!
//! The shape of a body is read off one that has every field: what a field is called, of what type it is, and, by a body with as
//! little as possible, whether it must be there. So the document cannot say of a field what the types do not.

use berth_wire::guest::{GuestAction, GuestBody, GuestBuild, GuestList, ImageComing, StepBody};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::admin::{self, body::API};
use crate::device;
use crate::guest::reconcile;

use super::ROUTES;

/// Fields whose keys are the caller's.
const MAPS: [&str; 4] = ["extra_specs", "allocations", "metadata", "properties"];

/// A build with every field.
const WHOLE_BUILD: &str = r#"{
  "uuid": "11111111-2222-4333-8444-000000000001", "name": "vm", "project_id": "p", "user_id": "u", "node": "n",
  "flavor": {"name": "f", "vcpus": 1, "ram_mb": 1, "disk_gb": 1, "ephemeral_gb": 1, "extra_specs": {"hw:cpu_policy": "dedicated"}},
  "image": {"location": {"path": "/images/a"}, "checksum": "sha256:0", "format": "raw", "properties": {"hw_firmware_type": "uefi"}},
  "kernel": {"kernel": "/boot/vmlinuz", "ramdisk": "/boot/initrd", "command_line": "quiet"},
  "networks": [{"source": {"network": "default"}, "mac": "52:54:00:00:00:01"}],
  "accelerator_requests": ["aaaaaaaa-bbbb-4ccc-8ddd-000000000001"],
  "allocations": {"11111111-2222-4333-8444-0000000000ff": {"VGPU": 1}},
  "limits": {"host_cells": [0], "cpu_allocation_ratio": 1.5, "ram_allocation_ratio": 1.5},
  "config_drive": {"hostname": "vm", "metadata": {"a": "b"}, "user_data": "YQ==", "ssh_keys": [{"name": "k", "public_key": "ssh-ed25519 A"}]},
  "power": "running"
}"#;

/// A build with the fields that must be there.
const LEAST_BUILD: &str = r#"{
  "uuid": "11111111-2222-4333-8444-000000000001", "name": "vm", "project_id": "p", "node": "n",
  "flavor": {"name": "f", "vcpus": 1, "ram_mb": 1},
  "image": {"location": {"glance": "11111111-2222-4333-8444-000000000001"}, "format": "raw"},
  "kernel": {"kernel": "/boot/vmlinuz"}, "networks": [{"source": {"bridge": "br0"}}],
  "config_drive": {"ssh_keys": [{"name": "k", "public_key": "ssh-ed25519 A"}]}
}"#;

/// Fields of a build that need not be there although [`LEAST_BUILD`] has them, to say what they need themselves.
const OPTIONAL: [&str; 5] = ["image", "kernel", "networks", "config_drive", "ssh_keys"];

/// The fields whose value has one key of several.
const VARIANTS: [(&str, &[(&str, &str)]); 2] = [
    (
        "location",
        &[("path", "string"), ("url", "string"), ("glance", "uuid")],
    ),
    ("source", &[("network", "string"), ("bridge", "string")]),
];

/// `docs/api/agent.json`.
#[must_use]
pub fn openapi() -> String {
    let mut paths: Map<String, Value> = Map::new();
    let all = admin::ROUTES.iter().chain(ROUTES);
    let all = all.chain(device::api::ROUTES).chain(reconcile::api::ROUTES);
    for (method, path, help) in all {
        let at = paths.entry((*path).to_owned()).or_insert_with(|| json!({}));
        at[method.to_lowercase()] = operation(method, path, help);
    }
    let whole = serde_json::from_str::<GuestBuild>(WHOLE_BUILD);
    let whole = whole.map_or(Value::Null, |build| value(&build));
    // As it is written: what a type fills in by itself must not be there.
    let least: Value = serde_json::from_str(LEAST_BUILD).unwrap_or_default();
    let guest = value(&sample_guest());
    let list = |guest: GuestBody| {
        value(&GuestList {
            api: API.to_owned(),
            guests: vec![guest],
        })
    };
    // It is there only while an image comes.
    let settled = GuestBody {
        image: None,
        ..sample_guest()
    };
    let document = json!({
        "openapi": "3.1.0",
        "info": {"title": "The agent's API", "version": API, "license": {"name": "Apache-2.0"}},
        "servers": [{"url": "http://agent", "description": "HTTP on the unix socket [agent] admin_socket"}],
        "paths": paths,
        "components": {"schemas": {
            "GuestBuild": schema("", &whole, Some(&least)),
            "Guest": schema("", &guest, Some(&value(&settled))),
            "GuestList": schema("", &list(sample_guest()), Some(&list(settled))),
            "GuestAction": actions(),
            "Refusal": schema("", &json!({"api": API, "error": {"code": "c", "message": "m"}}), None),
        }},
    });
    // What serde_json writes of a document of texts and numbers cannot fail.
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

fn value<T: serde::Serialize>(body: &T) -> Value {
    serde_json::to_value(body).unwrap_or_default()
}

fn sample_guest() -> GuestBody {
    GuestBody {
        uuid: Uuid::nil(),
        name: "vm".to_owned(),
        node: "n".to_owned(),
        status: "active".to_owned(),
        state: None,
        reason: None,
        dedicated_cpus: "2-3".to_owned(),
        host_cells: vec![0],
        image: Some(ImageComing {
            stage: "fetch".to_owned(),
            bytes: 0,
            total: Some(1),
        }),
        accelerator_requests: vec![Uuid::nil()],
        devices: vec!["PCI function 0000:81:00.0".to_owned()],
        steps: vec![StepBody {
            step: "bind".to_owned(),
            state: "done".to_owned(),
        }],
    }
}

fn operation(method: &str, path: &str, help: &str) -> Value {
    let names = path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameters: Vec<_> = names
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    let refers = |name: &str| json!({"content": {"application/json": {"schema": {"$ref": format!("#/components/schemas/{name}")}}}});
    let described = |description: &str, mut body: Value| {
        body["description"] = json!(description);
        body
    };
    let (asks, answers) = match (method, path) {
        ("GET", "/v1/guests") => (None, Some(("200", "GuestList"))),
        ("POST", "/v1/guests") => (Some("GuestBuild"), Some(("202", "Guest"))),
        ("GET", "/v1/guests/{uuid}") => (None, Some(("200", "Guest"))),
        ("POST", "/v1/guests/{uuid}/action") => (Some("GuestAction"), Some(("202", "Guest"))),
        _ => (None, None),
    };
    let mut operation = json!({"description": help, "responses": {"default": described("A refusal, in a sentence.", refers("Refusal"))}});
    if !parameters.is_empty() {
        operation["parameters"] = json!(parameters);
    }
    if let Some(name) = asks {
        operation["requestBody"] = refers(name);
        operation["requestBody"]["required"] = json!(true);
    }
    let (status, answer) = match answers {
        Some((status, name)) => (status, described("What was asked for.", refers(name))),
        None => (
            "2XX",
            json!({"description": "It was done, or is under way."}),
        ),
    };
    operation["responses"][status] = answer;
    operation
}

/// The shape of a value called `name`; what `least` has too must be there.
fn schema(name: &str, value: &Value, least: Option<&Value>) -> Value {
    if let Some((_, variants)) = VARIANTS.iter().find(|(field, _)| *field == name) {
        let one = |(key, kind): &(&str, &str)| {
            let kind = match *kind {
                "uuid" => json!({"type": "string", "format": "uuid"}),
                kind => json!({ "type": kind }),
            };
            json!({"type": "object", "properties": {*key: kind}, "required": [key], "additionalProperties": false})
        };
        return json!({"oneOf": variants.iter().map(one).collect::<Vec<_>>()});
    }
    match value {
        Value::Null => json!({"type": ["string", "null"]}),
        Value::Bool(_) => json!({"type": "boolean"}),
        Value::Number(number) if number.is_f64() => {
            json!({"type": "number", "exclusiveMinimum": 0})
        }
        Value::Number(_) => json!({"type": "integer", "minimum": 0}),
        Value::String(text) if text.parse::<Uuid>().is_ok() => {
            json!({"type": "string", "format": "uuid"})
        }
        Value::String(_) => json!({"type": "string"}),
        Value::Array(items) => {
            let least = least
                .and_then(Value::as_array)
                .and_then(|items| items.first());
            let items = items.first().map(|item| schema("", item, least));
            json!({"type": "array", "items": items.unwrap_or_else(|| json!({}))})
        }
        Value::Object(fields) if MAPS.contains(&name) => {
            // Allocations are maps of maps.
            let values = fields.values().next().map(|value| match value {
                Value::Object(_) => schema("allocations", value, None),
                value => schema("", value, None),
            });
            json!({"type": "object", "additionalProperties": values.unwrap_or_else(|| json!({}))})
        }
        Value::Object(fields) => {
            let of_least = |name: &str| least.and_then(|least| least.get(name));
            let properties = fields
                .iter()
                .map(|(name, value)| (name.clone(), schema(name, value, of_least(name))));
            let properties: Map<_, _> = properties.collect();
            let needed = fields
                .keys()
                .filter(|name| of_least(name).is_some() && !OPTIONAL.contains(&name.as_str()));
            let needed: Vec<_> = needed.collect();
            let mut shape = json!({"type": "object", "properties": properties});
            if !needed.is_empty() {
                shape["required"] = json!(needed);
            }
            shape
        }
    }
}

fn actions() -> Value {
    let Ok(whole) = serde_json::from_str::<GuestBuild>(WHOLE_BUILD) else {
        return Value::Null;
    };
    let all = [
        GuestAction::Start {},
        GuestAction::Stop { grace_seconds: 0 },
        GuestAction::Pause {},
        GuestAction::Unpause {},
        GuestAction::SoftReboot {},
        GuestAction::HardReboot {},
        GuestAction::Rescue {
            image: whole.image.clone(),
            kernel: whole.kernel.clone(),
            grace_seconds: 0,
        },
        GuestAction::Unrescue {},
        GuestAction::Suspend {},
        GuestAction::LiveMigrate {
            destination: whole.node.clone(),
        },
    ];
    let rebuild = whole.image.clone().map(|image| GuestAction::Rebuild {
        image,
        preserve_ephemeral: true,
    });
    let one = |action: &GuestAction| {
        let fields = value(action);
        let least = json!({
            "action": "", "destination": "",
            "image": {"location": {}, "format": ""}, "kernel": {"kernel": ""},
        });
        let mut shape = schema("", &fields, Some(&least));
        if matches!(action, GuestAction::Rebuild { .. }) {
            shape["required"] = json!(["action", "image"]);
        }
        shape["properties"]["action"] = json!({ "const": fields["action"] });
        if shape["properties"].get("grace_seconds").is_some() {
            shape["properties"]["grace_seconds"]["maximum"] = json!(600);
        }
        shape
    };
    let all = all.iter().chain(&rebuild);
    json!({"oneOf": all.map(one).collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_a_build_is_there_and_those_that_must_be_are_required() {
        let document: Value = serde_json::from_str(&openapi()).unwrap();
        let build = &document["components"]["schemas"]["GuestBuild"];
        let required = ["flavor", "name", "node", "power", "project_id", "uuid"];
        let least = &build["required"];
        for name in required {
            let listed = least.as_array().unwrap().contains(&json!(name));
            assert_eq!(listed, name != "power", "{name}: {least}");
            assert!(build["properties"].get(name).is_some(), "{name}");
        }
        let flavor = &build["properties"]["flavor"];
        assert_eq!(flavor["required"], json!(["name", "ram_mb", "vcpus"]));
        let allocations = &build["properties"]["allocations"]["additionalProperties"];
        assert_eq!(
            allocations["additionalProperties"],
            json!({"type": "integer", "minimum": 0})
        );
    }

    #[test]
    fn the_least_build_is_one_and_none_of_its_fields_can_be_left_out() {
        let least: Value = serde_json::from_str(LEAST_BUILD).unwrap();
        serde_json::from_value::<GuestBuild>(least.clone()).unwrap();
        for name in ["uuid", "name", "project_id", "node", "flavor"] {
            let mut less = least.clone();
            less.as_object_mut().unwrap().remove(name);
            assert!(
                serde_json::from_value::<GuestBuild>(less).is_err(),
                "{name}"
            );
        }
    }

    #[test]
    fn every_route_has_an_operation() {
        let document: Value = serde_json::from_str(&openapi()).unwrap();
        for (method, path, _) in ROUTES {
            assert!(
                document["paths"][path].get(method.to_lowercase()).is_some(),
                "{method} {path}"
            );
        }
    }
}
