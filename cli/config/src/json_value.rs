//! A value of a configuration file as JSON.

use config::{Value, ValueKind};
use serde_json::Value as Json;

pub(super) fn json(value: &Value) -> Json {
    match &value.kind {
        ValueKind::Boolean(flag) => Json::from(*flag),
        ValueKind::I64(number) => Json::from(*number),
        ValueKind::Float(number) => Json::from(*number),
        ValueKind::String(text) => Json::from(text.clone()),
        ValueKind::Array(elements) => Json::from(elements.iter().map(json).collect::<Vec<_>>()),
        ValueKind::Table(entries) => {
            let entries = entries
                .iter()
                .map(|(key, value)| (key.clone(), json(value)));
            Json::Object(entries.collect())
        }
        // No option has a value of another kind.
        _ => Json::Null,
    }
}
