//! The shape a JSON body or a query string must have, and what is told when it has not.
//!
//! A schema is a constant of its service. The sentences are those OpenStack's services give
//! (JSON Schema's words: type, required, additionalProperties, pattern, ...), because clients and
//! test-suites look for them. Of several violations the one nearest the root is told.

mod admit;
mod document;
mod python;
mod violation;

use serde_json::Value;

pub use violation::Violation;
use violation::{Place, Step};

#[derive(Debug, Clone, Copy)]
pub enum Schema {
    /// An object with known keys.
    Object(&'static Object),
    /// An object whose keys all follow one pattern.
    Map(&'static MapOf),
    List(&'static ListOf),
    Text(Text),
    /// A whole number between two bounds.
    Integer(Option<i64>, Option<i64>),
    /// A number up to a bound.
    Number(Option<f64>),
    /// A whole number or null.
    IntegerOrNull,
    /// Text with the form of a UUID, or null.
    UuidOrNull,
}

/// An object with known keys; unknown keys are refused.
#[derive(Debug)]
pub struct Object {
    pub properties: &'static [(&'static str, Schema)],
    /// Keys that must be there.
    pub required: &'static [&'static str],
}

/// What happens to keys that do not follow the pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherKeys {
    Ignored,
    Refused,
}

/// An object whose keys follow a pattern.
#[derive(Debug)]
pub struct MapOf {
    /// What a key looks like.
    pub keys: Pattern,
    /// The shape of each value.
    pub values: Schema,
    /// How many keys at least.
    pub min: usize,
    /// Keys that do not follow the pattern.
    pub others: OtherKeys,
}

/// A list of one shape.
#[derive(Debug)]
pub struct ListOf {
    /// The shape of each element.
    pub items: Schema,
    /// How many at least.
    pub min: usize,
    /// Whether an element may be there twice.
    pub unique: Unique,
}

/// Whether the elements of a list must differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unique {
    Yes,
    No,
}

#[derive(Debug, Clone, Copy)]
pub struct Text {
    pub min: usize,
    pub max: Option<usize>,
    /// What it must look like.
    pub pattern: Option<Pattern>,
    pub format: Option<Format>,
}

impl Text {
    pub const ANY: Self = Self {
        min: 0,
        max: None,
        pattern: None,
        format: None,
    };
}

/// A format of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A UUID in any notation: dashes, braces and `urn:uuid:` may be there or not.
    Uuid,
    /// A UUID with its four dashes in place.
    DashedUuid,
}

impl Format {
    fn admits(self, text: &str) -> bool {
        let dashed = |at: usize| text.as_bytes().get(at) == Some(&b'-');
        match self {
            Self::Uuid => is_uuid_like(text),
            Self::DashedUuid => is_uuid_like(text) && [8, 13, 18, 23].into_iter().all(dashed),
        }
    }
}

/// A regular expression as it is shown, and the function that decides it.
#[derive(Debug, Clone, Copy)]
pub struct Pattern {
    /// How messages show it.
    pub shown: &'static str,
    /// Whether a text follows it.
    pub matches: fn(&str) -> bool,
}

/// `[A-Z0-9_]+`: a resource class, a trait or a consumer type.
pub const NAME: Pattern = Pattern {
    shown: "^[A-Z0-9_]+$",
    matches: is_name,
};

/// `CUSTOM_[A-Z0-9_]+`.
pub const CUSTOM_NAME: Pattern = Pattern {
    shown: "^CUSTOM_[A-Z0-9_]+$",
    matches: |text| text.strip_prefix("CUSTOM_").is_some_and(is_name),
};

/// Thirty-six hexadecimal digits or dashes.
pub const UUID_KEY: Pattern = Pattern {
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

impl Schema {
    /// Whether the value has this shape.
    pub fn check(&self, value: &Value) -> Result<(), Violation> {
        let mut found = Vec::new();
        self.walk(value, &Place::default(), &mut found);
        match found.into_iter().min_by_key(Violation::depth) {
            None => Ok(()),
            Some(violation) => Err(violation),
        }
    }

    fn walk(&self, value: &Value, place: &Place, found: &mut Vec<Violation>) {
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

type Members = serde_json::Map<String, Value>;

impl Object {
    fn walk(&self, map: &Members, value: &Value, place: &Place, found: &mut Vec<Violation>) {
        for (key, schema) in self.properties {
            if let Some(member) = map.get(*key) {
                let inner = place.within(&[Step::Word("properties"), Step::Key(key)], key);
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
    fn walk(&self, map: &Members, value: &Value, place: &Place, found: &mut Vec<Violation>) {
        let mut strange: Vec<&String> = Vec::new();
        for (key, member) in map {
            if (self.keys.matches)(key) {
                let steps = [Step::Word("patternProperties"), Step::Key(self.keys.shown)];
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
    fn walk(&self, items: &[Value], value: &Value, place: &Place, found: &mut Vec<Violation>) {
        for (index, item) in items.iter().enumerate() {
            let inner = place.within_item(&[Step::Word("items")], index);
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

impl Text {
    fn walk(&self, text: &str, value: &Value, place: &Place, found: &mut Vec<Violation>) {
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
    place: &Place,
    found: &mut Vec<Violation>,
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

/// A whole JSON number, held at the bounds of 64 bits.
#[must_use]
pub fn whole(value: &Value) -> i64 {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the cast saturates, which is what is wanted"
    )]
    let saturated = |number: f64| number as i64;
    value
        .as_i64()
        .or_else(|| value.as_u64().map(|_| i64::MAX))
        .or_else(|| value.as_f64().map(saturated))
        .unwrap_or_default()
}

fn at_most(max: f64, value: &Value, place: &Place, found: &mut Vec<Violation>) {
    if value.as_f64().is_some_and(|number| number > max) {
        let message = format!(
            "{} is greater than the maximum of {max:e}",
            python::repr(value)
        );
        found.push(place.violation("maximum", message, value));
    }
}
