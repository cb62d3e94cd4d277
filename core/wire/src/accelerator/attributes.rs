//! Attributes of deployables: a key and a value.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Link;

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
    pub links: Vec<Link>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributeList {
    pub attributes: Vec<AttributeBody>,
}

/// POST /v2/attributes. OpenStack's client wraps it as `{"attribute": {...}}` and writes numbers as text; both forms
/// are accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct CreateAttribute {
    pub deployable_id: i64,
    pub key: String,
    pub value: String,
}

#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    attribute: Option<Words>,
    #[serde(default)]
    deployable_id: Option<Number>,
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    value: Option<String>,
}

#[derive(Deserialize)]
struct Words {
    deployable_id: Number,
    key: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Number(i64),
    Text(String),
}

impl TryFrom<Written> for CreateAttribute {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let missing = |name: &str| format!("missing field `{name}`");
        let words = match written.attribute {
            Some(words) => words,
            None => Words {
                deployable_id: written
                    .deployable_id
                    .ok_or_else(|| missing("deployable_id"))?,
                key: written.key.ok_or_else(|| missing("key"))?,
                value: written.value.ok_or_else(|| missing("value"))?,
            },
        };
        let deployable_id = match words.deployable_id {
            Number::Number(number) => number,
            Number::Text(text) => text
                .parse()
                .map_err(|_| format!("deployable_id {text:?} is no number"))?,
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
                "no number",
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
