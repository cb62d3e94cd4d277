//! JSON values in Python's notation, as in the messages of OpenStack's services.

use serde_json::Value;

/// Messages quote at most this much of a body.
const LONGEST: usize = 1_000;

/// The `repr` of a value, truncated if long.
pub(super) fn repr(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    if text.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or_default());
        text.push_str("...");
    }
    text
}

/// `'a', 'b'`.
pub(super) fn names(keys: &[&String]) -> String {
    let quoted: Vec<String> = keys.iter().take(20).map(|key| quote(key)).collect();
    quoted.join(", ")
}

fn quote(text: &str) -> String {
    if text.contains('\'') && !text.contains('"') {
        format!("\"{text}\"")
    } else {
        format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
    }
}

fn write(value: &Value, out: &mut String) {
    if out.len() > LONGEST {
        return;
    }
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Number(number) => out.push_str(&number.to_string()),
        Value::String(text) => out.push_str(&quote(text)),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (index, (key, member)) in map.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                out.push_str(&quote(key));
                out.push_str(": ");
                write(member, out);
            }
            out.push('}');
        }
    }
}
