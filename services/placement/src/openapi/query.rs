//! Query strings in the OpenAPI document: one parameter per key.

use serde_json::{Value, json};

use berth_http::BodySchema;

/// The parameters of a query string that one schema validates.
pub(crate) fn keys_of(schema: &BodySchema) -> Vec<Value> {
    let shape = schema.to_json_schema();
    let required = |name: &str| {
        let names = shape["required"].as_array();
        names.is_some_and(|names| names.iter().any(|one| one == name))
    };
    let properties = shape["properties"].as_object().into_iter().flatten();
    properties
        .map(|(name, shape)| key(name, required(name), shape))
        .collect()
}

fn key(name: &str, required: bool, shape: &Value) -> Value {
    let mut key = json!({"name": name, "in": "query", "schema": shape});
    if required {
        key["required"] = Value::from(true);
    }
    if let Some(description) = description(name) {
        key["description"] = Value::from(description);
    }
    key
}

fn description(name: &str) -> Option<&'static str> {
    Some(match name {
        "resources" => "Amounts by class: `VCPU:2,MEMORY_MB:1024`.",
        "required" => {
            "Traits: `A,!B`: A and not B; from 1.39 also `in:A,B`: one of them. May repeat from 1.39."
        }
        "member_of" => {
            "An aggregate, or `in:` and several: members of one of them; from 1.32 with a leading `!`: members of none. May repeat from 1.24."
        }
        "in_tree" => "Only providers of this provider's tree.",
        "associated" => {
            "`true`: only traits that a provider has; `false`: only traits that no provider has."
        }
        _ => return None,
    })
}

/// The parameters of GET /allocation_candidates. The keys of a group end with its suffix (from 1.25 a number, from 1.33
/// letters, digits, `_` and `-`), so they are described as an object with the query keys as members.
pub(crate) fn candidates() -> Vec<Value> {
    let amounts =
        json!({"type": "string", "pattern": "^[A-Z0-9_]+:[1-9][0-9]*(,[A-Z0-9_]+:[1-9][0-9]*)*$"});
    let text = json!({"type": "string"});
    let uuid = json!({"type": "string", "format": "uuid"});
    let groups = json!({
        "type": "object",
        "patternProperties": {
            "^resources[a-zA-Z0-9_-]{1,64}$": amounts,
            "^(required|member_of)[a-zA-Z0-9_-]{1,64}$": text,
            "^in_tree[a-zA-Z0-9_-]{1,64}$": uuid,
        },
        "additionalProperties": false,
    });
    let limit = json!({"type": "string", "pattern": "^[1-9][0-9]*$"});
    let policy = json!({"type": "string", "enum": ["none", "isolate"]});
    vec![
        key("resources", false, &amounts),
        key("required", false, &text),
        key("member_of", false, &text),
        key("in_tree", false, &uuid),
        json!({
            "name": "groups", "in": "query", "style": "form", "explode": true, "schema": groups,
            "description": "The same keys with a suffix: a request group that one provider serves.",
        }),
        json!({
            "name": "group_policy", "in": "query", "schema": policy,
            "description": "`isolate`: groups with a suffix are served by different providers. Required if there are several such groups.",
        }),
        json!({
            "name": "root_required", "in": "query", "schema": text,
            "description": "Traits of the tree's root, from 1.35.",
        }),
        json!({
            "name": "same_subtree", "in": "query", "schema": text,
            "description": "Suffixes: one of the groups' providers is an ancestor of all the others; from 1.36. May repeat.",
        }),
        json!({
            "name": "limit", "in": "query", "schema": limit,
            "description": "The maximum number of candidates, from 1.16.",
        }),
    ]
}
