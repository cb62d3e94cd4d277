//! Attributes of deployables: a key and a value.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::DocumentLink;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributeBody {
    pub uuid: Uuid,
    pub deployable_id: i64,
    pub key: String,
    pub value: String,
    /// When it was created.
    #[serde(default)]
    pub created_at: Option<String>,
    /// When it was last changed.
    #[serde(default)]
    pub updated_at: Option<String>,
    /// Links to the document.
    #[serde(default)]
    pub links: Vec<DocumentLink>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributeList {
    pub attributes: Vec<AttributeBody>,
}

/// POST /v2/attributes. OpenStack's client wraps it as `{"attribute": {...}}` and writes numbers as text;
/// both forms are accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "AttributeInput")]
pub struct CreateAttribute {
    pub deployable_id: i64,
    pub key: String,
    pub value: String,
}

#[derive(Deserialize)]
struct AttributeInput {
    #[serde(default)]
    attribute: Option<AttributeWords>,
    #[serde(default)]
    deployable_id: Option<AttributeNumber>,
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    value: Option<String>,
}

#[derive(Deserialize)]
struct AttributeWords {
    deployable_id: AttributeNumber,
    key: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum AttributeNumber {
    Number(i64),
    Text(String),
}

impl TryFrom<AttributeInput> for CreateAttribute {
    type Error = String;

    fn try_from(written: AttributeInput) -> Result<Self, String> {
        let missing = |name: &str| format!("missing field `{name}`");
        let words = match written.attribute {
            Some(words) => words,
            None => AttributeWords {
                deployable_id: written
                    .deployable_id
                    .ok_or_else(|| missing("deployable_id"))?,
                key: written.key.ok_or_else(|| missing("key"))?,
                value: written.value.ok_or_else(|| missing("value"))?,
            },
        };
        let deployable_id = match words.deployable_id {
            AttributeNumber::Number(number) => number,
            AttributeNumber::Text(text) => text
                .parse()
                .map_err(|_| format!("deployable_id {text:?} is not a number"))?,
        };
        Ok(Self {
            deployable_id,
            key: words.key,
            value: words.value,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode;

    #[test]
    fn bare_and_wrapped_numbers_and_texts_are_the_same() {
        for text in [
            r#"{"deployable_id": 7, "key": "k", "value": "v"}"#,
            r#"{"deployable_id": "7", "key": "k", "value": "v"}"#,
            r#"{"attribute": {"deployable_id": "7", "key": "k", "value": "v"}}"#,
        ] {
            let body: CreateAttribute = decode(text.as_bytes()).unwrap();
            assert_eq!((body.deployable_id, body.key.as_str()), (7, "k"), "{text}");
        }
        for (text, word) in [
            (r#"{"key": "k", "value": "v"}"#, "deployable_id"),
            (
                r#"{"deployable_id": "x", "key": "k", "value": "v"}"#,
                "is not a number",
            ),
            (
                r#"{"attribute": {"deployable_id": 7, "key": "k"}}"#,
                "value",
            ),
        ] {
            let refused = decode::<CreateAttribute>(text.as_bytes())
                .unwrap_err()
                .to_string();
            assert!(refused.contains(word), "{refused}");
        }
    }
}
