//! Encoding and decoding of JSON bodies, with errors that name the field.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use crate::{bounded, printable};

/// A text that is in no enum.
const NO_WORD: &str = "\u{0}";

/// Longest piece of a foreign text that an error repeats, in characters.
const EXCERPT: usize = 120;

/// The maximum length of a field path and of a reason in an error, in characters: both may repeat parts of the body.
const MOST: usize = 400;

/// The body does not have the documented form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The bytes are not a complete JSON document.
    #[error("not a JSON document: {reason} (it begins {excerpt:?})")]
    NotJson {
        /// The parser's message, with line and column.
        reason: String,
        excerpt: String,
    },
    /// A field is missing, has the wrong type or is out of range.
    #[error("{}: {}", bounded(field, MOST), bounded(reason, MOST))]
    Field {
        /// The path of the field, for example `inventories.VGPU.total`; `body` for the document itself.
        field: String,
        reason: String,
    },
}

impl BodyError {
    /// An error at `field`. Control characters of the body, which could forge log lines, are replaced.
    pub fn field(field: impl Into<String>, reason: impl fmt::Display) -> Self {
        Self::Field {
            field: printable(&field.into()).into_owned(),
            reason: printable(&reason.to_string()).into_owned(),
        }
    }

    /// Prefixes the field path: `total` under `inventories.VGPU`.
    #[must_use]
    pub fn under(self, parent: impl fmt::Display) -> Self {
        match self {
            Self::Field { field, reason } => Self::field(format!("{parent}.{field}"), reason),
            not_json @ Self::NotJson { .. } => not_json,
        }
    }

    /// The error without any value of the body, which may be a secret.
    #[must_use]
    pub fn without_values(&self) -> String {
        match self {
            Self::NotJson { reason, .. } => format!("not a JSON document: {reason}"),
            // The found value comes before "expected" and may itself contain that string.
            Self::Field { field, reason } => match reason.rsplit_once(", expected ") {
                Some((_, expected)) => {
                    let expected = bounded(expected, MOST);
                    format!("{}: expected {expected}", bounded(field, MOST))
                }
                None => self.to_string(),
            },
        }
    }
}

/// Parses a body.
///
/// Errors: The bytes are not JSON, or a field is missing or has the wrong type; the error names it.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, BodyError> {
    // Tracking the field path is expensive, so it is done only after an error.
    match serde_json::from_slice(bytes) {
        Ok(body) => Ok(body),
        Err(error) if error.is_data() || is_json(bytes) => Err(locate::<T>(bytes, &error)),
        Err(error) => Err(BodyError::NotJson {
            reason: printable(&error.to_string()).into_owned(),
            excerpt: excerpt(bytes),
        }),
    }
}

/// Whether the bytes are valid JSON. Serde reports a number in place of an enum name as a syntax error.
fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

fn locate<T: DeserializeOwned>(bytes: &[u8], plain: &serde_json::Error) -> BodyError {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Err(error) => {
            let path = error.path().to_string();
            let field = if path == "." { "body".to_owned() } else { path };
            match error.inner().is_data() {
                true => BodyError::field(field, error.inner()),
                false => match other_kind::<T>(bytes, error.path()) {
                    Some(reason) => BodyError::field(field, reason),
                    None => BodyError::field(field, error.inner()),
                },
            }
        }
        Ok(_) => BodyError::field("body", plain),
    }
}

/// A message for a value of the wrong type, if that is the error. Only the deserialiser of the expected type knows what
/// is right, and reveals it when given a wrong name.
fn other_kind<T: DeserializeOwned>(bytes: &[u8], path: &Path) -> Option<String> {
    let mut document: Value = serde_json::from_slice(bytes).ok()?;
    let place = at(&mut document, path)?;
    let kind = kind(place);
    *place = Value::from(NO_WORD);
    let error = serde_path_to_error::deserialize::<_, T>(document).err()?;
    if error.path().to_string() != path.to_string() {
        return None;
    }
    let text = error.inner().to_string();
    let (_, expected) = text.split_once(", expected ")?;
    Some(format!("invalid type: {kind}, expected {expected}"))
}

/// The value at a path.
fn at<'a>(document: &'a mut Value, path: &Path) -> Option<&'a mut Value> {
    path.iter()
        .try_fold(document, |value, segment| match segment {
            Segment::Seq { index } => value.get_mut(index),
            Segment::Map { key } | Segment::Enum { variant: key } => value.get_mut(key),
            Segment::Unknown => None,
        })
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "sequence",
        Value::Object(_) => "map",
    }
}

/// The pairs of an object in their order, a key that is there twice among them twice.
pub(crate) fn pairs<'de, D: Deserializer<'de>, V: Deserialize<'de>>(
    deserializer: D,
    expected: &'static str,
) -> Result<Vec<(String, V)>, D::Error> {
    struct Pairs<V>(&'static str, PhantomData<V>);
    impl<'de, V: Deserialize<'de>> Visitor<'de> for Pairs<V> {
        type Value = Vec<(String, V)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut pairs = Vec::new();
            while let Some(pair) = map.next_entry()? {
                pairs.push(pair);
            }
            Ok(pairs)
        }
    }
    deserializer.deserialize_map(Pairs(expected, PhantomData))
}

#[must_use]
pub fn encode<T: Serialize>(body: &T) -> Vec<u8> {
    serde_json::to_vec(body)
        .expect("bodies have text keys and finite numbers only, which JSON can always say")
}

fn excerpt(bytes: &[u8]) -> String {
    let head = bytes
        .get(..bytes.len().min(EXCERPT * 4))
        .unwrap_or_default();
    String::from_utf8_lossy(head)
        .chars()
        .take(EXCERPT)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    type Numbers = BTreeMap<String, BTreeMap<String, u32>>;

    #[test]
    fn a_wrong_type_is_named_by_its_path() {
        let error = decode::<Numbers>(br#"{"usages": {"VGPU": "two"}}"#).unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"usages.VGPU: invalid type: string "two", expected u32 at line 1 column 25"#
        );
        let long = format!(r#"{{"usages": {{"VGPU": "{}"}}}}"#, "a".repeat(70_000));
        let text = decode::<Numbers>(long.as_bytes()).unwrap_err().to_string();
        assert!(text.len() < 500, "{text}");
        assert!(
            text.starts_with("usages.VGPU: invalid type: string \"aaa")
                && text.contains("… (70060 bytes) …")
                && text.ends_with("a\", expected u32 at line 1 column 70022"),
            "{text}"
        );
        let error = decode::<Numbers>(b"[]").unwrap_err().to_string();
        assert_eq!(
            error,
            "body: invalid type: sequence, expected a map at line 1 column 0"
        );
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Known {
        One,
        Two,
    }

    #[test]
    fn a_value_that_is_no_word_of_an_enum_is_reported_with_its_field_and_the_words() {
        type Nested = BTreeMap<String, Vec<Known>>;
        for (value, found) in [
            ("7", "invalid type: number"),
            ("null", "invalid type: null"),
            ("true", "invalid type: boolean"),
            ("[]", "invalid type: sequence"),
            (r#""three""#, "unknown variant `three`"),
        ] {
            let body = format!(r#"{{"a": ["one", {value}]}}"#);
            let error = decode::<Nested>(body.as_bytes()).unwrap_err().to_string();
            let expected = format!("a[1]: {found}, expected `one` or `two`");
            assert!(error.starts_with(&expected), "{error}");
        }
        let error = decode::<Known>(b"7").unwrap_err().to_string();
        assert_eq!(error, "body: invalid type: number, expected `one` or `two`");
        for broken in ["", "{", r#"{"a": [7, }"#, r#"{"a": ["one"]} x"#] {
            let error = decode::<Nested>(broken.as_bytes()).unwrap_err();
            assert!(
                matches!(error, BodyError::NotJson { .. }),
                "{broken}: {error}"
            );
        }
        assert!(matches!(decode::<Known>(br#""two""#), Ok(Known::Two)));
        // Errors that are not about a type keep the parser's message.
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        let error = decode::<Value>(deep.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("recursion limit exceeded"), "{error}");
    }

    #[test]
    fn a_key_with_control_characters_forges_no_line() {
        let body = br#"{"inventories": {"x\nSTOPPING=1\n\u001b[31m": "y"}}"#;
        let error = decode::<Numbers>(body).unwrap_err();
        let value = decode::<Known>(br#""a\nb""#).unwrap_err();
        let parent = BodyError::field("total", "none").under("x\ny");
        for text in [error, value, parent].map(|error| error.to_string()) {
            assert!(!text.chars().any(char::is_control), "{text:?}");
        }
        assert!(matches!(decode::<Known>(br#""one""#), Ok(Known::One)));
    }

    #[test]
    fn no_value_is_in_a_text_without_values() {
        let text_of = |body: &str| {
            let error = decode::<Numbers>(body.as_bytes()).unwrap_err();
            error.without_values()
        };
        for (body, expected) in [
            (
                r#"{"usages": {"VGPU": "x, expected hunter2"}}"#,
                "usages.VGPU: expected u32",
            ),
            (
                r#"{"usages": {"VGPU": -123456}}"#,
                "usages.VGPU: expected u32",
            ),
            (r#"{"usages": "hunter2"#, "not a JSON document: EOF"),
        ] {
            let text = text_of(body);
            assert!(text.starts_with(expected), "{text}");
            assert!(
                !text.contains("hunter2") && !text.contains("123456"),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_not_json_is_shown_in_part() {
        let page = format!("<html>{}</html>", "x".repeat(5000));
        let error = decode::<Numbers>(page.as_bytes()).unwrap_err().to_string();
        assert!(
            error.starts_with("not a JSON document: expected value at line 1 column 1"),
            "{error}"
        );
        assert!(error.len() < 300, "{error}");
        let cut = decode::<Numbers>(br#"{"usages": {"VGPU""#).unwrap_err();
        assert!(matches!(cut, BodyError::NotJson { .. }), "{cut}");
    }
}
