//! [`FieldValue`]: the types that a field of a Nova object can have.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::object::NovaObject;
use crate::time::NovaTime;

/// A type of fields. `null` is a value of `Option` alone.
pub trait FieldValue<'a>: Sized {
    /// The type, for errors.
    const EXPECTED: &'static str;
    const NULLABLE: bool = false;

    /// `None` if the JSON has another type.
    fn read(value: &'a Value) -> Option<Self>;

    fn write(self) -> Value;
}

/// Why a field of an object could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NovaFieldError {
    #[error("the field {field} of the object {object} is not set")]
    NotSet { object: String, field: &'static str },
    #[error("the field {field} of the object {object} is {found}; {expected} is right")]
    Type {
        object: String,
        field: &'static str,
        found: &'static str,
        expected: &'static str,
    },
}

/// What a JSON value is, in words.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(map) if NovaObject::is_marked(map) => "a Nova object",
        Value::Object(_) => "an object",
    }
}

impl<'a> FieldValue<'a> for &'a str {
    const EXPECTED: &'static str = "a string";

    fn read(value: &'a Value) -> Option<Self> {
        value.as_str()
    }

    fn write(self) -> Value {
        self.into()
    }
}

impl FieldValue<'_> for String {
    const EXPECTED: &'static str = "a string";

    fn read(value: &Value) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }

    fn write(self) -> Value {
        self.into()
    }
}

impl FieldValue<'_> for i64 {
    const EXPECTED: &'static str = "an integer";

    fn read(value: &Value) -> Option<Self> {
        value.as_i64()
    }

    fn write(self) -> Value {
        self.into()
    }
}

impl FieldValue<'_> for f64 {
    const EXPECTED: &'static str = "a number";

    fn read(value: &Value) -> Option<Self> {
        value.as_f64()
    }

    /// JSON has no word for infinity: it becomes `null`, which Nova refuses.
    fn write(self) -> Value {
        self.into()
    }
}

impl FieldValue<'_> for bool {
    const EXPECTED: &'static str = "a boolean";

    fn read(value: &Value) -> Option<Self> {
        value.as_bool()
    }

    fn write(self) -> Value {
        self.into()
    }
}

impl FieldValue<'_> for Uuid {
    const EXPECTED: &'static str = "a UUID";

    fn read(value: &Value) -> Option<Self> {
        Self::parse_str(value.as_str()?).ok()
    }

    fn write(self) -> Value {
        self.to_string().into()
    }
}

impl FieldValue<'_> for NovaTime {
    const EXPECTED: &'static str = "a time such as 2026-11-20T15:31:06Z";

    fn read(value: &Value) -> Option<Self> {
        value.as_str()?.parse().ok()
    }

    fn write(self) -> Value {
        self.to_string().into()
    }
}

/// JSON that Berth hands on as it came.
impl<'a> FieldValue<'a> for &'a Map<String, Value> {
    const EXPECTED: &'static str = "an object";

    fn read(value: &'a Value) -> Option<Self> {
        value.as_object()
    }

    fn write(self) -> Value {
        Value::Object(self.clone())
    }
}

impl FieldValue<'_> for NovaObject {
    const EXPECTED: &'static str = "a Nova object";

    fn read(value: &Value) -> Option<Self> {
        Self::from_json(value.clone()).ok()
    }

    fn write(self) -> Value {
        self.into_json()
    }
}

impl<'a, T: FieldValue<'a>> FieldValue<'a> for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;
    const NULLABLE: bool = true;

    fn read(value: &'a Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::read(value).map(Some),
        }
    }

    fn write(self) -> Value {
        self.map_or(Value::Null, T::write)
    }
}

impl<'a, T: FieldValue<'a>> FieldValue<'a> for Vec<T> {
    const EXPECTED: &'static str = "a list of one type";

    fn read(value: &'a Value) -> Option<Self> {
        value.as_array()?.iter().map(T::read).collect()
    }

    fn write(self) -> Value {
        self.into_iter().map(T::write).collect()
    }
}

impl<'a, T: FieldValue<'a>> FieldValue<'a> for BTreeMap<String, T> {
    const EXPECTED: &'static str = "an object with values of one type";

    fn read(value: &'a Value) -> Option<Self> {
        let map = value.as_object()?;
        map.iter()
            .map(|(key, value)| Some((key.clone(), T::read(value)?)))
            .collect()
    }

    fn write(self) -> Value {
        let entries = self.into_iter().map(|(key, value)| (key, value.write()));
        Value::Object(entries.collect())
    }
}
