//! Reading and writing whole bodies, and the error that names the field.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest piece of a foreign text that an error repeats, in characters.
const EXCERPT: usize = 120;

/// A body that is not what its route promises.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The bytes are no JSON document, or one that ends too early.
    #[error("not a JSON document: {reason} (it begins {excerpt:?})")]
    NotJson {
        /// What the parser says, with line and column.
        reason: String,
        /// The first characters.
        excerpt: String,
    },
    /// A field is missing, has a wrong type, or a value out of range.
    #[error("{field}: {reason}")]
    Field {
        /// The path of the field, for example `inventories.VGPU.total`; `body` for the document itself.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl BodyError {
    /// An error at `field`. Both may repeat keys and values of the body: control characters, which could forge a log's line or
    /// paint over a terminal, are replaced.
    pub fn field(field: impl Into<String>, reason: impl fmt::Display) -> Self {
        Self::Field {
            field: printable(&field.into()),
            reason: printable(&reason.to_string()),
        }
    }

    /// The same error seen from one level further out: `total` under `inventories.VGPU`.
    #[must_use]
    pub fn under(self, parent: impl fmt::Display) -> Self {
        match self {
            Self::Field { field, reason } => Self::field(format!("{parent}.{field}"), reason),
            not_json @ Self::NotJson { .. } => not_json,
        }
    }
}

/// Reads a body.
///
/// # Errors
/// The bytes are no JSON document, or a field is missing or of a wrong type; the error names it.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, BodyError> {
    // The path of a field costs time to follow, so it is only looked for once something is wrong.
    match serde_json::from_slice(bytes) {
        Ok(body) => Ok(body),
        Err(error) if error.is_data() => Err(locate::<T>(bytes, &error)),
        Err(error) => Err(BodyError::NotJson {
            reason: printable(&error.to_string()),
            excerpt: excerpt(bytes),
        }),
    }
}

fn locate<T: DeserializeOwned>(bytes: &[u8], plain: &serde_json::Error) -> BodyError {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Err(error) => {
            let path = error.path().to_string();
            let field = if path == "." { "body".to_owned() } else { path };
            BodyError::field(field, error.inner())
        }
        Ok(_) => BodyError::field("body", plain),
    }
}

/// Writes a body.
#[must_use]
pub fn encode<T: Serialize>(body: &T) -> Vec<u8> {
    serde_json::to_vec(body)
        .expect("bodies have text keys and finite numbers only, which JSON can always say")
}

fn printable(text: &str) -> String {
    let replace = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(replace).collect()
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
        let error = decode::<Numbers>(b"[]").unwrap_err().to_string();
        assert_eq!(
            error,
            "body: invalid type: sequence, expected a map at line 1 column 0"
        );
    }

    #[test]
    fn a_key_with_control_characters_forges_no_line() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(rename_all = "lowercase")]
        enum Known {
            One,
        }
        let body = br#"{"inventories": {"x\nSTOPPING=1\n\u001b[31m": "y"}}"#;
        let error = decode::<Numbers>(body).unwrap_err();
        let value = decode::<Known>(br#""a\nb""#).unwrap_err();
        let parent = BodyError::field("total", "none").under("x\ny");
        for said in [error, value, parent].map(|error| error.to_string()) {
            assert!(!said.chars().any(char::is_control), "{said:?}");
        }
        assert!(matches!(decode::<Known>(br#""one""#), Ok(Known::One)));
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
