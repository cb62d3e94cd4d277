//! The recorded messages.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use berth_nova::NovaRelease;
use serde_json::{Map, Value};

pub(crate) fn release() -> &'static NovaRelease {
    NovaRelease::newest()
}

static MESSAGES: LazyLock<Vec<Value>> = LazyLock::new(|| {
    include_str!("messages.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is JSON"))
        .collect()
});

/// All messages. `dir` is `out` if nova-compute sent it.
pub(crate) fn messages() -> &'static [Value] {
    &MESSAGES
}

pub(crate) fn messages_of(dir: &str, pattern: &str) -> Vec<&'static Value> {
    let messages: Vec<_> = messages()
        .iter()
        .filter(|message| message["dir"] == dir && message["pattern"] == pattern)
        .collect();
    assert!(!messages.is_empty(), "there are messages {dir} {pattern}");
    messages
}

pub(crate) fn text<'a>(message: &'a Value, key: &str) -> &'a str {
    message[key].as_str().unwrap_or_default()
}

pub(crate) fn map(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().expect("an object")
}

/// The arguments of the request with this method, from nova-api or nova-conductor.
pub(crate) fn request(method: &str) -> Map<String, Value> {
    let message = messages()
        .iter()
        .find(|message| message["dir"] == "in" && message["method"] == method)
        .unwrap_or_else(|| panic!("{method} was recorded"));
    map(&message["args"])
}

/// JSON in which the order of changes does not matter, and an empty list of changes is none.
pub(crate) fn ordered(value: &Value) -> Value {
    const CHANGES: &str = "nova_object.changes";
    match value {
        Value::Array(items) => items.iter().map(ordered).collect(),
        Value::Object(entries) => {
            let mut result: Map<String, Value> = entries
                .iter()
                .map(|(key, value)| (key.clone(), ordered(value)))
                .collect();
            if let Some(Value::Array(changes)) = entries.get(CHANGES) {
                let sorted: BTreeSet<String> = changes.iter().map(Value::to_string).collect();
                result.remove(CHANGES);
                if !sorted.is_empty() {
                    result.insert(CHANGES.to_owned(), sorted.into_iter().collect());
                }
            }
            Value::Object(result)
        }
        other => other.clone(),
    }
}

/// Every object in the JSON, the outermost first.
pub(crate) fn objects_in(value: &Value) -> Vec<&Value> {
    let mut found = Vec::new();
    match value {
        Value::Array(items) => found.extend(items.iter().flat_map(objects_in)),
        Value::Object(entries) => {
            if entries.contains_key("nova_object.name") {
                found.push(value);
            }
            found.extend(entries.values().flat_map(objects_in));
        }
        _ => {}
    }
    found
}
