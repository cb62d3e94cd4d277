//! [`BodyFields`]: the fields of a body of Nova's API, taken one by one.
//!
//! Bodies are as strict as Nova's schemas, and refused with Nova's messages. Unknown keys are refused. An error repeats
//! the given value, unless it may be secret.

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::fault::Fault;

/// The largest number of Nova's columns.
pub const MAX_INTEGER: i64 = 0x7FFF_FFFF;

/// The maximum length of a repeated value, in characters.
const REPEATED: usize = 200;

/// An object of a body. Fields are taken one by one; remaining fields are refused at the end.
///
/// A field that is missing is `None`. Errors of each method: 400, if the value is not of the form that is read.
#[derive(Debug)]
pub struct BodyFields<'a> {
    name: &'a str,
    object: &'a Map<String, Value>,
    known: Vec<&'a str>,
}

impl<'a> BodyFields<'a> {
    /// The object of a body with a single key: `{"flavor": {...}}`.
    pub fn of_body(body: &'a Value, name: &'static str) -> Result<Self, Fault> {
        let mut outer = Self::of("body", body)?;
        let inner = outer.value(name);
        let inner = outer.required(name, inner)?;
        outer.end()?;
        Self::of(name, inner)
    }

    /// An object that is called so.
    pub fn of(name: &'a str, value: &'a Value) -> Result<Self, Fault> {
        let object = value.as_object();
        Ok(Self {
            name,
            object: object
                .ok_or_else(|| invalid_field(name, value, "it is not of type 'object'"))?,
            known: Vec::new(),
        })
    }

    /// The raw value of a field.
    pub fn value(&mut self, key: &'a str) -> Option<&'a Value> {
        self.known.push(key);
        self.object.get(key)
    }

    /// The names of all fields.
    pub fn keys(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.object.keys().map(String::as_str)
    }

    /// Refuses a missing field.
    pub fn required<T>(&self, key: &str, value: Option<T>) -> Result<T, Fault> {
        value.ok_or_else(|| {
            let object = Value::Object(self.object.clone());
            invalid_field(
                self.name,
                &object,
                format!("'{key}' is a required property"),
            )
        })
    }

    /// A text with length limits.
    pub fn text(
        &mut self,
        key: &'static str,
        length: RangeInclusive<usize>,
    ) -> Result<Option<&'a str>, Fault> {
        self.value(key)
            .map(|value| text(key, value, length))
            .transpose()
    }

    /// A text with a maximum length, or null.
    pub fn text_or_null(
        &mut self,
        key: &'static str,
        most: usize,
    ) -> Result<Option<&'a str>, Fault> {
        let value = self.value(key).filter(|value| !value.is_null());
        value.map(|value| text(key, value, 0..=most)).transpose()
    }

    /// A UUID, or null.
    pub fn uuid_or_null(&mut self, key: &'static str) -> Result<Option<Uuid>, Fault> {
        let text = self.text_or_null(key, 255)?;
        let uuid = text.map(|text| {
            let uuid = Uuid::try_parse(text);
            uuid.map_err(|_| invalid_field(key, &Value::from(text), "it is not a 'uuid'"))
        });
        uuid.transpose()
    }

    /// A printable text with a maximum length, or null.
    pub fn printable_or_null(
        &mut self,
        key: &'static str,
        most: usize,
    ) -> Result<Option<&'a str>, Fault> {
        let given = self.text_or_null(key, most)?;
        if let Some(text) = given.filter(|text| !is_printable(text)) {
            let reason = "it has characters that are not printable";
            return Err(invalid_field(key, &Value::from(text), reason));
        }
        Ok(given)
    }

    /// A name: 1 to 255 printable characters, with no blanks at its ends.
    pub fn name(&mut self, key: &'static str) -> Result<Option<&'a str>, Fault> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        let name = text(key, value, 1..=255)?;
        if name.trim() != name || !is_printable(name) {
            let reason = "it has characters that are not printable, or blanks at its ends";
            return Err(invalid_field(key, value, reason));
        }
        Ok(Some(name))
    }

    /// A whole number, or a text that contains one.
    pub fn integer(
        &mut self,
        key: &'a str,
        range: RangeInclusive<i64>,
    ) -> Result<Option<i64>, Fault> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        let number = match value {
            Value::Number(number) => number.as_i64(),
            Value::String(text) => {
                let digits = text.strip_prefix('-').unwrap_or(text);
                let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
                is_plain.then(|| text.parse().ok()).flatten()
            }
            _ => None,
        };
        let number = number.ok_or_else(|| invalid_field(key, value, "it is not a whole number"))?;
        if number < *range.start() {
            let reason = format!("{number} is less than the minimum of {}", range.start());
            return Err(invalid_field(key, value, reason));
        }
        if number > *range.end() {
            let reason = format!("{number} is greater than the maximum of {}", range.end());
            return Err(invalid_field(key, value, reason));
        }
        Ok(Some(number))
    }

    /// A boolean, in any of the forms that Nova accepts.
    pub fn boolean(&mut self, key: &'static str) -> Result<Option<bool>, Fault> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        let flag = match value {
            Value::Bool(flag) => Some(*flag),
            Value::String(text) => boolean(text),
            _ => None,
        };
        let flag = flag.ok_or_else(|| invalid_field(key, value, "it is neither true nor false"))?;
        Ok(Some(flag))
    }

    /// A boolean, or an empty text for false.
    pub fn boolean_or_empty(&mut self, key: &'static str) -> Result<Option<bool>, Fault> {
        match self.object.get(key) {
            Some(Value::String(text)) if text.is_empty() => {
                self.known.push(key);
                Ok(Some(false))
            }
            Some(Value::Null) => {
                self.known.push(key);
                Ok(None)
            }
            _ => self.boolean(key),
        }
    }

    /// Refuses fields that were not taken.
    pub fn end(self) -> Result<(), Fault> {
        let unknown = |key: &&String| !self.known.contains(&key.as_str());
        match self.object.keys().find(unknown) {
            None => Ok(()),
            Some(key) => Err(Fault::bad_request(format!(
                "Additional properties are not allowed ('{}' was unexpected)",
                bounded(key)
            ))),
        }
    }
}

/// Checks the length of a text.
pub fn text<'a>(
    key: &str,
    value: &'a Value,
    length: RangeInclusive<usize>,
) -> Result<&'a str, Fault> {
    let text = value.as_str();
    let text = text.ok_or_else(|| invalid_field(key, value, "it is not of type 'string'"))?;
    let count = text.chars().count();
    if count < *length.start() {
        return Err(invalid_field(key, value, "it is too short"));
    }
    if count > *length.end() {
        return Err(invalid_field(key, value, "it is too long"));
    }
    Ok(text)
}

/// Whether Nova would print all of a text: nothing of Unicode's categories C and Z but blanks of any width.
fn is_printable(text: &str) -> bool {
    let is_blank =
        |c: char| c.is_whitespace() && !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}');
    let is_plain = |c: &char| !is_blank(*c) && !matches!(c, '"' | '\'' | '\\');
    // Rust escapes unprintable characters, and combining marks without a letter before them.
    let mut judged = "x".to_owned();
    judged.extend(text.chars().filter(is_plain));
    judged.escape_debug().eq(judged.chars())
}

/// Nova's texts for true and false.
pub fn boolean(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "t" | "true" | "on" | "y" | "yes" => Some(true),
        "0" | "f" | "false" | "off" | "n" | "no" => Some(false),
        _ => None,
    }
}

/// Fields with possibly secret values, which are never repeated in an answer.
const SECRETS: [&str; 4] = ["adminPass", "admin_pass", "personality", "user_data"];

/// A 400 that names the field, the given value and the reason.
pub fn invalid_field(key: &str, value: &Value, reason: impl Display) -> Fault {
    let key = bounded(key);
    if SECRETS.contains(&key.as_str()) {
        return Fault::bad_request(format!("Invalid input for field/attribute {key}. {reason}"));
    }
    let value = without_secrets(value).to_string();
    Fault::bad_request(format!(
        "Invalid input for field/attribute {key}. Value: {}. {reason}",
        bounded(&value)
    ))
}

fn without_secrets(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let fields = object.iter().map(|(key, value)| {
                let shown = match SECRETS.contains(&key.as_str()) {
                    true => Value::from("***"),
                    false => without_secrets(value),
                };
                (key.clone(), shown)
            });
            fields.collect()
        }
        Value::Array(all) => all.iter().map(without_secrets).collect(),
        value => value.clone(),
    }
}

/// A user-supplied text; long ones keep only their beginning and end.
pub fn bounded(text: &str) -> String {
    berth_wire::bounded(text, REPEATED).into_owned()
}
