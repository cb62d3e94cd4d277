//! Schemas for JSON bodies and query strings, and the error messages of a mismatch.
//!
//! A schema is a constant of its service. The messages are those of OpenStack's services (the wording of Python's
//! jsonschema), because clients and test suites match on them. Of several violations the one nearest the root is
//! reported.

mod admit;
mod document;
mod python;
mod violation;

use serde_json::Value;

pub use violation::SchemaViolation;
use violation::{SchemaPath, SchemaStep};

#[derive(Debug, Clone, Copy)]
pub enum BodySchema {
    /// An object with known keys.
    Object(&'static ObjectSchema),
    /// An object with keys of one pattern.
    Map(&'static MapOf),
    List(&'static ListOf),
    Text(TextSchema),
    /// A whole number, with optional bounds.
    Integer(Option<i64>, Option<i64>),
    /// A number up to a bound.
    Number(Option<f64>),
    IntegerOrNull,
    /// Text with the form of a UUID, or null.
    UuidOrNull,
}

/// An object with known keys; unknown keys are refused.
#[derive(Debug)]
pub struct ObjectSchema {
    pub properties: &'static [(&'static str, BodySchema)],
    /// Keys that must be there.
    pub required: &'static [&'static str],
}

/// How to treat keys that do not follow the pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherKeys {
    Ignored,
    Refused,
}

#[derive(Debug)]
pub struct MapOf {
    /// The pattern of the keys.
    pub keys: TextPattern,
    /// The shape of each value.
    pub values: BodySchema,
    /// How many keys at least.
    pub min: usize,
    /// Keys that do not follow the pattern.
    pub others: OtherKeys,
}

/// A list of one shape.
#[derive(Debug)]
pub struct ListOf {
    /// The shape of each element.
    pub items: BodySchema,
    /// How many at least.
    pub min: usize,
    /// Whether elements must differ.
    pub unique: Unique,
}

/// Whether the elements of a list must differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unique {
    Yes,
    No,
}

#[derive(Debug, Clone, Copy)]
pub struct TextSchema {
    pub min: usize,
    pub max: Option<usize>,
    pub pattern: Option<TextPattern>,
    pub format: Option<TextFormat>,
}

impl TextSchema {
    pub const ANY: Self = Self {
        min: 0,
        max: None,
        pattern: None,
        format: None,
    };
}

/// A format of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// A UUID in any notation; dashes, braces and `urn:uuid:` are optional.
    Uuid,
    /// A UUID with its four dashes in place.
    DashedUuid,
}

impl TextFormat {
    fn admits(self, text: &str) -> bool {
        let dashed = |at: usize| text.as_bytes().get(at) == Some(&b'-');
        match self {
            Self::Uuid => is_uuid_like(text),
            Self::DashedUuid => is_uuid_like(text) && [8, 13, 18, 23].into_iter().all(dashed),
        }
    }
}

/// A regular expression for messages, and the function that implements it.
#[derive(Debug, Clone, Copy)]
pub struct TextPattern {
    /// The expression in messages.
    pub shown: &'static str,
    /// Whether a text matches.
    pub matches: fn(&str) -> bool,
}

/// `[A-Z0-9_]+`: a resource class, a trait or a consumer type.
pub const NAME: TextPattern = TextPattern {
    shown: "^[A-Z0-9_]+$",
    matches: is_name,
};

/// `CUSTOM_[A-Z0-9_]+`.
pub const CUSTOM_NAME: TextPattern = TextPattern {
    shown: "^CUSTOM_[A-Z0-9_]+$",
    matches: |text| text.strip_prefix("CUSTOM_").is_some_and(is_name),
};

/// Thirty-six hexadecimal digits or dashes.
pub const UUID_KEY: TextPattern = TextPattern {
    shown: "^[0-9a-fA-F-]{36}$",
    matches: |text| {
        text.len() == 36
            && text
                .bytes()
                .all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    },
};

fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    !text.is_empty() && text.bytes().all(allowed)
}

/// Whether a text is a UUID in any notation.
#[must_use]
pub fn is_uuid_like(text: &str) -> bool {
    normal_uuid(text).is_some()
}

/// The dashed lower-case form of a UUID in any notation.
#[must_use]
pub fn normal_uuid(text: &str) -> Option<String> {
    let bare: String = text
        .to_ascii_lowercase()
        .replace("urn:", "")
        .replace("uuid:", "")
        .trim_matches(['{', '}'])
        .replace('-', "");
    let digits = bare.len() == 32 && bare.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits.then(|| {
        format!(
            "{}-{}-{}-{}-{}",
            &bare[..8],
            &bare[8..12],
            &bare[12..16],
            &bare[16..20],
            &bare[20..]
        )
    })
}

impl BodySchema {
    /// Whether the value has this shape.
    pub fn check(&self, value: &Value) -> Result<(), SchemaViolation> {
        let mut found = Vec::new();
        self.walk(value, &SchemaPath::default(), &mut found);
        match found.into_iter().min_by_key(SchemaViolation::depth) {
            None => Ok(()),
            Some(violation) => Err(violation),
        }
    }

    fn walk(&self, value: &Value, place: &SchemaPath, found: &mut Vec<SchemaViolation>) {
        if !self.has_type(value) {
            let message = if matches!(self, Self::UuidOrNull) {
                format!(
                    "{} is not valid under any of the given schemas",
                    python::repr(value)
                )
            } else {
                format!("{} is not of type {}", python::repr(value), self.types())
            };
            found.push(place.violation("type", message, value));
            return;
        }
        match (self, value) {
            (Self::Object(object), Value::Object(map)) => object.walk(map, value, place, found),
            (Self::Map(map_of), Value::Object(map)) => map_of.walk(map, value, place, found),
            (Self::List(list), Value::Array(items)) => list.walk(items, value, place, found),
            (Self::Text(text), Value::String(string)) => text.walk(string, value, place, found),
            (Self::Integer(min, max), number) => bounds(*min, *max, number, place, found),
            (Self::Number(Some(max)), number) => at_most(*max, number, place, found),
            (Self::UuidOrNull, Value::String(text)) if !is_uuid_like(text) => {
                let message = format!("{} is not a 'uuid'", python::repr(value));
                found.push(place.violation("format", message, value));
            }
            _ => {}
        }
    }

    fn has_type(&self, value: &Value) -> bool {
        match self {
            Self::Object(_) | Self::Map(_) => value.is_object(),
            Self::List(_) => value.is_array(),
            Self::Text(_) => value.is_string(),
            Self::Integer(..) => is_whole(value),
            Self::Number(_) => value.is_number(),
            Self::IntegerOrNull => value.is_null() || is_whole(value),
            Self::UuidOrNull => value.is_null() || value.is_string(),
        }
    }

    fn types(&self) -> &'static str {
        match self {
            Self::Object(_) | Self::Map(_) => "'object'",
            Self::List(_) => "'array'",
            Self::Text(_) | Self::UuidOrNull => "'string'",
            Self::Integer(..) => "'integer'",
            Self::Number(_) => "'number'",
            Self::IntegerOrNull => "'integer', 'null'",
        }
    }
}

type SchemaMembers = serde_json::Map<String, Value>;

impl ObjectSchema {
    fn walk(
        &self,
        map: &SchemaMembers,
        value: &Value,
        place: &SchemaPath,
        found: &mut Vec<SchemaViolation>,
    ) {
        for (key, schema) in self.properties {
            if let Some(member) = map.get(*key) {
                let inner =
                    place.within(&[SchemaStep::Word("properties"), SchemaStep::Key(key)], key);
                schema.walk(member, &inner, found);
            }
        }
        for key in self.required {
            if !map.contains_key(*key) {
                let message = format!("'{key}' is a required property");
                found.push(place.violation("required", message, value));
            }
        }
        let known = |key: &str| self.properties.iter().any(|(name, _)| *name == key);
        let extra: Vec<&String> = map.keys().filter(|key| !known(key)).collect();
        if !extra.is_empty() {
            let verb = if extra.len() == 1 { "was" } else { "were" };
            let message = format!(
                "Additional properties are not allowed ({} {verb} unexpected)",
                python::names(&extra)
            );
            found.push(place.violation("additionalProperties", message, value));
        }
    }
}

impl MapOf {
    fn walk(
        &self,
        map: &SchemaMembers,
        value: &Value,
        place: &SchemaPath,
        found: &mut Vec<SchemaViolation>,
    ) {
        let mut strange: Vec<&String> = Vec::new();
        for (key, member) in map {
            if (self.keys.matches)(key) {
                let steps = [
                    SchemaStep::Word("patternProperties"),
                    SchemaStep::Key(self.keys.shown),
                ];
                self.values.walk(member, &place.within(&steps, key), found);
            } else {
                strange.push(key);
            }
        }
        if !strange.is_empty() && self.others == OtherKeys::Refused {
            let verb = if strange.len() == 1 { "does" } else { "do" };
            let message = format!(
                "{} {verb} not match any of the regexes: '{}'",
                python::names(&strange),
                self.keys.shown
            );
            found.push(place.violation("additionalProperties", message, value));
        }
        if map.len() < self.min {
            let message = too_few(value, "properties", self.min);
            found.push(place.violation("minProperties", message, value));
        }
    }
}

impl ListOf {
    fn walk(
        &self,
        items: &[Value],
        value: &Value,
        place: &SchemaPath,
        found: &mut Vec<SchemaViolation>,
    ) {
        for (index, item) in items.iter().enumerate() {
            let inner = place.within_item(&[SchemaStep::Word("items")], index);
            self.items.walk(item, &inner, found);
        }
        if items.len() < self.min {
            let message = too_few(value, "items", self.min);
            found.push(place.violation("minItems", message, value));
        }
        let twice = |index: usize| items[..index].contains(&items[index]);
        if self.unique == Unique::Yes && (1..items.len()).any(twice) {
            let message = format!("{} has non-unique elements", python::repr(value));
            found.push(place.violation("uniqueItems", message, value));
        }
    }
}

impl TextSchema {
    fn walk(
        &self,
        text: &str,
        value: &Value,
        place: &SchemaPath,
        found: &mut Vec<SchemaViolation>,
    ) {
        let length = text.chars().count();
        let shown = || python::repr(value);
        let mut refuse = |rule, message| found.push(place.violation(rule, message, value));
        if length < self.min {
            let message = if self.min == 1 {
                format!("{} should be non-empty", shown())
            } else {
                format!("{} is too short", shown())
            };
            refuse("minLength", message);
        }
        if self.max.is_some_and(|max| length > max) {
            refuse("maxLength", format!("{} is too long", shown()));
        }
        if let Some(pattern) = self.pattern.filter(|pattern| !(pattern.matches)(text)) {
            refuse(
                "pattern",
                format!("{} does not match '{}'", shown(), pattern.shown),
            );
        }
        if self.format.is_some_and(|format| !format.admits(text)) {
            refuse("format", format!("{} is not a 'uuid'", shown()));
        }
    }
}

fn too_few(value: &Value, of: &str, min: usize) -> String {
    if min == 1 {
        format!("{} should be non-empty", python::repr(value))
    } else {
        format!("{} does not have enough {of}", python::repr(value))
    }
}

fn is_whole(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn bounds(
    min: Option<i64>,
    max: Option<i64>,
    value: &Value,
    place: &SchemaPath,
    found: &mut Vec<SchemaViolation>,
) {
    let number = whole(value);
    if let Some(min) = min.filter(|min| number < *min) {
        let message = format!("{} is less than the minimum of {min}", python::repr(value));
        found.push(place.violation("minimum", message, value));
    }
    if let Some(max) = max.filter(|max| number > *max) {
        let message = format!(
            "{} is greater than the maximum of {max}",
            python::repr(value)
        );
        found.push(place.violation("maximum", message, value));
    }
}

/// A JSON number as `i64`; values out of range saturate.
#[must_use]
pub fn whole(value: &Value) -> i64 {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the cast saturates, as intended"
    )]
    let saturated = |number: f64| number as i64;
    value
        .as_i64()
        .or_else(|| value.as_u64().map(|_| i64::MAX))
        .or_else(|| value.as_f64().map(saturated))
        .unwrap_or_default()
}

fn at_most(max: f64, value: &Value, place: &SchemaPath, found: &mut Vec<SchemaViolation>) {
    if value.as_f64().is_some_and(|number| number > max) {
        let message = format!(
            "{} is greater than the maximum of {max:e}",
            python::repr(value)
        );
        found.push(place.violation("maximum", message, value));
    }
}
