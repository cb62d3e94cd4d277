//! Building blocks of the schemas of request bodies, which operations declare for the newest microversion.

use serde_json::{Map, Value, json};

pub(crate) fn object<const N: usize>(required: &[&str], properties: [(&str, Value); N]) -> Value {
    let properties: Map<String, Value> = properties
        .into_iter()
        .map(|(key, shape)| (key.to_owned(), shape))
        .collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// An object with this key only.
pub(crate) fn in_key(key: &str, shape: Value) -> Value {
    object(&[key], [(key, shape)])
}

pub(crate) fn one_of<const N: usize>(actions: [(&str, Value); N]) -> Value {
    let all: Vec<Value> = actions
        .into_iter()
        .map(|(word, shape)| in_key(word, shape))
        .collect();
    json!({ "oneOf": all })
}

pub(crate) fn text(min: usize, max: usize) -> Value {
    json!({"type": "string", "minLength": min, "maxLength": max})
}

pub(crate) fn text_or_null(min: usize, max: usize) -> Value {
    json!({"type": ["string", "null"], "minLength": min, "maxLength": max})
}

/// An object with arbitrary keys and text values.
pub(crate) fn texts() -> Value {
    json!({
        "type": "object", "propertyNames": {"pattern": "^[a-zA-Z0-9_:. -]{1,255}$"}, "additionalProperties": text(0, 255),
    })
}

pub(crate) fn integer(min: i64) -> Value {
    json!({"type": "integer", "minimum": min, "maximum": berth_http::fields::MAX_INTEGER})
}

pub(crate) fn uuid() -> Value {
    json!({"type": "string", "format": "uuid"})
}
