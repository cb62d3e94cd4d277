//! A plugin's manifest, as `PROGRAM --manifest` prints it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};

use serde::Deserialize;
use serde_json::Value;

use super::{SCHEMA, is_plugin_name};
use crate::numbers::{float, int};
use crate::text::{is_flag, shortened};

/// The maximum number of extra specs of a plugin.
const MOST_SPECS: usize = 100;

/// The maximum length of an extra spec's name in bytes, as in Nova's API.
const LONGEST_SPEC: usize = 255;

/// The kind of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PluginKind {
    /// It accepts or rejects hosts.
    Filter,
    /// It assigns raw weights to hosts.
    Weigher,
    /// Filter and weigher, in one answer.
    Both,
}

impl PluginKind {
    #[must_use]
    pub fn is_filter(self) -> bool {
        self != Self::Weigher
    }

    #[must_use]
    pub fn is_weigher(self) -> bool {
        self != Self::Filter
    }
}

/// The self-description of a plugin.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginManifest {
    schema: String,
    /// The name in the options.
    pub name: String,
    pub kind: PluginKind,
    /// The extra specs that it reads.
    #[serde(default)]
    pub extra_specs: Vec<ExtraSpec>,
}

/// An extra spec of a plugin.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtraSpec {
    /// The name of the extra spec, for example `rack:power_w`.
    pub name: String,
    /// The type of its values.
    #[serde(rename = "type")]
    pub values: ExtraSpecType,
    /// The allowed values; empty: all values of the type.
    #[serde(default, rename = "enum")]
    pub allowed: Vec<Value>,
    #[serde(default)]
    pub description: String,
}

/// The type of an extra spec's values. Flavors store all values as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExtraSpecType {
    String,
    Integer,
    Number,
    /// `true`, `false` and OpenStack's other boolean words.
    Boolean,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// The manifest is not JSON of the right structure.
    #[error("its manifest cannot be read: {0}")]
    Unreadable(String),
    /// The manifest has another schema.
    #[error("its manifest should have the schema {SCHEMA}, and has {0}")]
    Schema(String),
    /// The name is invalid.
    #[error(
        "its manifest has the name {0:?}: it should be letters, digits and _, the first a letter, 64 at most"
    )]
    Name(String),
    /// It has too many extra specs.
    #[error("its manifest has {0} extra specs, and {MOST_SPECS} are allowed")]
    TooMany(usize),
    /// The name of an extra spec is invalid.
    #[error(
        "its manifest has the extra spec {0:?}: a name has 1 to {LONGEST_SPEC} bytes, and no blank or control character"
    )]
    SpecName(String),
    /// An extra spec is listed twice.
    #[error("its manifest has the extra spec {0} twice")]
    Twice(String),
    /// An allowed value is not of the extra spec's type.
    #[error(
        "its manifest has the extra spec {name}, whose enum has {value}: it should be {wanted}"
    )]
    Enum {
        name: String,
        value: String,
        wanted: ExtraSpecType,
    },
}

/// A flavor's extra spec with a value that the plugin does not accept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: `{value}` is not {wanted}, which the scheduler's plugin {plugin} asks for")]
pub struct ExtraSpecError {
    pub key: String,
    /// The value in the flavor, truncated.
    pub value: String,
    /// A description of the accepted values.
    pub wanted: String,
    pub plugin: String,
}

impl PluginManifest {
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

    /// The flavor's extra specs with values that the plugin does not accept. Extra specs that the manifest does not
    /// list are ignored.
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

    /// A description of the accepted values.
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

    /// Whether two values of the type are equal.
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

/// The value as text, as flavors store it.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
