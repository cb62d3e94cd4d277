//! What a plugin says of itself, by `PROGRAM --manifest`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};

use serde::Deserialize;
use serde_json::Value;

use super::{SCHEMA, is_plugin_name};
use crate::numbers::{float, int};
use crate::text::{is_flag, shortened};

/// So many extra specs a plugin may have.
const MOST_SPECS: usize = 100;

/// So many bytes the name of an extra spec has at most, as in Nova's API.
const LONGEST_SPEC: usize = 255;

/// What a plugin is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PluginKind {
    /// It says which hosts pass.
    Filter,
    /// It gives hosts raw weights.
    Weigher,
    /// Both of it, in one answer.
    Both,
}

impl PluginKind {
    /// Whether it says which hosts pass.
    #[must_use]
    pub fn is_filter(self) -> bool {
        self != Self::Weigher
    }

    /// Whether it gives hosts weights.
    #[must_use]
    pub fn is_weigher(self) -> bool {
        self != Self::Filter
    }
}

/// What a plugin says of itself.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginManifest {
    schema: String,
    /// As options name it.
    pub name: String,
    pub kind: PluginKind,
    /// The extra specs that it reads.
    #[serde(default)]
    pub extra_specs: Vec<ExtraSpec>,
}

/// An extra spec of a plugin's.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtraSpec {
    /// `rack:power_w`
    pub name: String,
    /// What its values are.
    #[serde(rename = "type")]
    pub values: ExtraSpecType,
    /// The only values; empty: all of the type.
    #[serde(default, rename = "enum")]
    pub allowed: Vec<Value>,
    #[serde(default)]
    pub description: String,
}

/// What values of an extra spec are; in a flavor each of them is a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExtraSpecType {
    String,
    /// A whole number of 64 bits.
    Integer,
    Number,
    /// `true`, `false`, and the other words of OpenStack's for them.
    Boolean,
}

/// A manifest that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// It cannot be read.
    #[error("its manifest cannot be read: {0}")]
    Unreadable(String),
    /// It calls itself otherwise.
    #[error("its manifest should have the schema {SCHEMA}, and has {0}")]
    Schema(String),
    /// Its name is none.
    #[error(
        "its manifest has the name {0:?}: it should be letters, digits and _, the first a letter, 64 at most"
    )]
    Name(String),
    /// It has too many extra specs.
    #[error("its manifest has {0} extra specs, and {MOST_SPECS} are allowed")]
    TooMany(usize),
    /// An extra spec's name is none.
    #[error(
        "its manifest has the extra spec {0:?}: a name has 1 to {LONGEST_SPEC} bytes, and no blank or control character"
    )]
    SpecName(String),
    /// An extra spec is there twice.
    #[error("its manifest has the extra spec {0} twice")]
    Twice(String),
    /// A value of `enum` is not of the type.
    #[error(
        "its manifest has the extra spec {name}, whose enum has {value}: it should be {wanted}"
    )]
    Enum {
        name: String,
        value: String,
        /// What would be right.
        wanted: ExtraSpecType,
    },
}

/// A flavor's extra spec that is not as the plugin reads it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: `{value}` is not {wanted}, which the scheduler's plugin {plugin} asks for")]
pub struct ExtraSpecError {
    pub key: String,
    /// As the flavor has it, by its beginning.
    pub value: String,
    /// What would be right.
    pub wanted: String,
    pub plugin: String,
}

impl PluginManifest {
    /// Reads what a plugin wrote.
    pub fn read(text: &[u8]) -> Result<Self, ManifestError> {
        let read: Self = serde_json::from_slice(text).map_err(|error| {
            ManifestError::Unreadable(shortened(&error.to_string()).into_owned())
        })?;
        read.checked()
    }

    fn checked(self) -> Result<Self, ManifestError> {
        let short = |text: &str| shortened(text).into_owned();
        if self.schema != SCHEMA {
            return Err(ManifestError::Schema(short(&self.schema)));
        }
        if !is_plugin_name(&self.name) {
            return Err(ManifestError::Name(short(&self.name)));
        }
        if self.extra_specs.len() > MOST_SPECS {
            return Err(ManifestError::TooMany(self.extra_specs.len()));
        }
        let mut names = BTreeSet::new();
        for spec in &self.extra_specs {
            spec.check()?;
            if !names.insert(&spec.name) {
                return Err(ManifestError::Twice(spec.name.clone()));
            }
        }
        Ok(self)
    }

    /// What of a flavor's extra specs is not as the plugin reads it. Those that it does not name are not its own.
    #[must_use]
    pub fn check(&self, extra_specs: &BTreeMap<String, String>) -> Vec<ExtraSpecError> {
        let given = self.extra_specs.iter();
        let given = given.filter_map(|spec| Some((spec, extra_specs.get(&spec.name)?)));
        let wrong = given.filter(|(spec, value)| !spec.takes(value));
        wrong
            .map(|(spec, value)| ExtraSpecError {
                key: spec.name.clone(),
                value: shortened(value).into_owned(),
                wanted: spec.wanted(),
                plugin: self.name.clone(),
            })
            .collect()
    }
}

impl ExtraSpec {
    fn check(&self) -> Result<(), ManifestError> {
        let is_bad = |letter: char| letter.is_control() || letter.is_whitespace();
        if self.name.is_empty() || self.name.len() > LONGEST_SPEC || self.name.contains(is_bad) {
            return Err(ManifestError::SpecName(shortened(&self.name).into_owned()));
        }
        let is_right = |value: &&Value| {
            let text = text_of(value);
            text.is_some_and(|text| self.values.takes(&text))
        };
        match self.allowed.iter().find(|value| !is_right(value)) {
            None => Ok(()),
            Some(value) => Err(ManifestError::Enum {
                name: self.name.clone(),
                value: shortened(&value.to_string()).into_owned(),
                wanted: self.values,
            }),
        }
    }

    fn takes(&self, value: &str) -> bool {
        let is_one = |allowed: &Value| {
            text_of(allowed).is_some_and(|allowed| self.values.are_one(&allowed, value))
        };
        self.values.takes(value) && (self.allowed.is_empty() || self.allowed.iter().any(is_one))
    }

    /// What its values should be.
    fn wanted(&self) -> String {
        let texts = self.allowed.iter().filter_map(text_of);
        let texts: Vec<String> = texts.collect();
        match texts.is_empty() {
            true => self.values.to_string(),
            false => shortened(&format!("one of {}", texts.join(", "))).into_owned(),
        }
    }
}

impl ExtraSpecType {
    fn takes(self, value: &str) -> bool {
        match self {
            Self::String => true,
            Self::Integer => int(value).is_some(),
            Self::Number => float(value).is_some_and(f64::is_finite),
            Self::Boolean => is_flag(value),
        }
    }

    /// Whether two values of the type mean the same.
    fn are_one(self, a: &str, b: &str) -> bool {
        match self {
            Self::String => a == b,
            Self::Boolean => a.trim().eq_ignore_ascii_case(b.trim()),
            Self::Integer => int(a) == int(b),
            Self::Number => float(a) == float(b),
        }
    }
}

impl Display for ExtraSpecType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::String => "a text",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Boolean => "true or false",
        })
    }
}

/// As a flavor has it.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
