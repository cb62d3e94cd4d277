//! [`NovaObject`]: a versioned object of Nova as a JSON tree.
//!
//! Berth reads and writes few of an object's fields and returns all others as they came. So an object is kept as JSON, and a field
//! that this release of Berth does not know survives a round trip. The types in [`crate::objects`] add accessors.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use crate::field::{FieldValue, NovaFieldError, kind_of};
use crate::version::ObjectVersion;

const NAME: &str = "nova_object.name";
const NAMESPACE: &str = "nova_object.namespace";
const VERSION: &str = "nova_object.version";
const DATA: &str = "nova_object.data";
const CHANGES: &str = "nova_object.changes";
/// The namespace of all objects on Nova's bus.
const NOVA: &str = "nova";

/// A versioned object: its name, its version, the fields that are set, and the names of fields that were changed since it was read.
///
/// A field that is not set is absent. `null` is a value.
#[derive(Clone, PartialEq)]
pub struct NovaObject {
    name: String,
    version: ObjectVersion,
    data: Map<String, Value>,
    changes: BTreeSet<String>,
    /// Keys next to the five of the format.
    other: Map<String, Value>,
}

/// Why JSON is not a Nova object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAnObject {
    #[error("a Nova object is needed here, and there is {found}")]
    Json { found: &'static str },
    #[error("{key} of the object {name} is {found}; {expected} is right")]
    Key {
        key: &'static str,
        name: String,
        found: String,
        expected: &'static str,
    },
    #[error("the object is of the type {found}; {expected} is right")]
    Name {
        found: String,
        expected: &'static str,
    },
}

impl NovaObject {
    /// An object without fields.
    pub(crate) fn new(name: &str, version: ObjectVersion) -> Self {
        Self {
            name: name.to_owned(),
            version,
            data: Map::new(),
            changes: BTreeSet::new(),
            other: Map::new(),
        }
    }

    /// Whether the JSON claims to be an object of Nova.
    pub(crate) fn is_marked(map: &Map<String, Value>) -> bool {
        [NAME, VERSION, DATA]
            .into_iter()
            .any(|key| map.contains_key(key))
    }

    /// The name and the version of an object, read without its fields.
    pub(crate) fn identity(map: &Map<String, Value>) -> Result<(&str, ObjectVersion), NotAnObject> {
        let name = match map.get(NAME) {
            Some(Value::String(name)) => name.as_str(),
            other => return Err(wrong(NAME, "", other, "a string")),
        };
        match map.get(NAMESPACE) {
            Some(Value::String(namespace)) if namespace == NOVA => {}
            other => return Err(wrong(NAMESPACE, name, other, "\"nova\"")),
        }
        let version = map.get(VERSION);
        version
            .and_then(Value::as_str)
            .and_then(|text| text.parse().ok())
            .map(|version| (name, version))
            .ok_or_else(|| wrong(VERSION, name, version, "a version such as \"2.8\""))
    }

    /// Reads an object from JSON.
    pub fn from_json(json: Value) -> Result<Self, NotAnObject> {
        let Value::Object(mut map) = json else {
            return Err(NotAnObject::Json {
                found: kind_of(&json),
            });
        };
        let (name, version) = Self::identity(&map)?;
        let name = name.to_owned();
        let data = match map.remove(DATA) {
            Some(Value::Object(data)) => data,
            other => return Err(wrong(DATA, &name, other.as_ref(), "an object")),
        };
        let changes = match map.remove(CHANGES) {
            None => BTreeSet::new(),
            Some(changes) => names(&changes)
                .ok_or_else(|| wrong(CHANGES, &name, Some(&changes), "a list of strings"))?,
        };
        for key in [NAME, NAMESPACE, VERSION] {
            map.remove(key);
        }
        Ok(Self {
            name,
            version,
            data,
            changes,
            other: map,
        })
    }

    /// The object as it travels. Nova omits an empty list of changes, and so does this.
    #[must_use]
    pub fn into_json(self) -> Value {
        let mut map = self.other;
        map.insert(NAME.to_owned(), self.name.into());
        map.insert(NAMESPACE.to_owned(), NOVA.into());
        map.insert(VERSION.to_owned(), self.version.to_string().into());
        map.insert(DATA.to_owned(), Value::Object(self.data));
        if !self.changes.is_empty() {
            map.insert(CHANGES.to_owned(), self.changes.into_iter().collect());
        }
        Value::Object(map)
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    #[must_use]
    pub fn version(&self) -> ObjectVersion {
        self.version
    }

    /// The fields that are set.
    #[must_use]
    pub fn data(&self) -> &Map<String, Value> {
        &self.data
    }

    pub(crate) fn data_mut(&mut self) -> &mut Map<String, Value> {
        &mut self.data
    }

    /// The names of the fields that a save writes.
    #[must_use]
    pub fn changes(&self) -> &BTreeSet<String> {
        &self.changes
    }

    /// Whether the field is set. Fields of other tables are only set when they were asked for.
    #[must_use]
    pub fn is_set(&self, field: &str) -> bool {
        self.data.contains_key(field)
    }

    /// Reads a field.
    pub fn get<'a, T: FieldValue<'a>>(&'a self, field: &'static str) -> Result<T, NovaFieldError> {
        let value = self.data.get(field).ok_or_else(|| NovaFieldError::NotSet {
            object: self.name.clone(),
            field,
        })?;
        T::read(value).ok_or_else(|| NovaFieldError::Type {
            object: self.name.clone(),
            field,
            found: kind_of(value),
            expected: T::EXPECTED,
        })
    }

    /// Sets a field and records the change.
    pub fn set<'a, T: FieldValue<'a>>(&mut self, field: &str, value: T) {
        self.data.insert(field.to_owned(), value.write());
        self.changes.insert(field.to_owned());
    }

    /// Takes over what an action of the conductor changed: the fields, and which changes remain.
    pub fn merge(&mut self, mut updates: Map<String, Value>) -> Result<(), NovaFieldError> {
        const REMAINING: &str = "obj_what_changed";
        let remaining = match updates.remove(REMAINING) {
            None => BTreeSet::new(),
            Some(value) => names(&value).ok_or_else(|| NovaFieldError::Type {
                object: self.name.clone(),
                field: REMAINING,
                found: kind_of(&value),
                expected: "a list of strings",
            })?,
        };
        self.data.extend(updates);
        self.changes = remaining;
        Ok(())
    }
}

/// Fields may hold passwords, tokens and users' data, so only their names are shown.
impl fmt::Debug for NovaObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(&self.name)
            .field("version", &self.version)
            .field("fields", &self.data.keys().collect::<Vec<_>>())
            .field("changes", &self.changes)
            .finish()
    }
}

fn names(value: &Value) -> Option<BTreeSet<String>> {
    value
        .as_array()?
        .iter()
        .map(|name| name.as_str().map(str::to_owned))
        .collect()
}

fn wrong(
    key: &'static str,
    name: &str,
    found: Option<&Value>,
    expected: &'static str,
) -> NotAnObject {
    let found = match found {
        None => "missing".to_owned(),
        Some(Value::String(text)) => format!("{:?}", shortened(text)),
        Some(value) => kind_of(value).to_owned(),
    };
    let name = match name {
        "" => "without a name".to_owned(),
        name => shortened(name),
    };
    NotAnObject::Key {
        key,
        name,
        found,
        expected,
    }
}

/// The beginning of a text from a message, for an error.
pub(crate) fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}
