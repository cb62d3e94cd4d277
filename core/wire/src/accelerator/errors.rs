//! Cyborg's error document: JSON as text inside JSON.

use serde::{Deserialize, Serialize};

/// `{"error_message": "{\"faultcode\": ..., \"faultstring\": ..., \"debuginfo\": null}"}`; a 406 has `code`,
/// `title` and `description` inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceleratorErrorBody {
    /// The inner document, as text.
    pub error_message: String,
}

#[derive(Deserialize)]
struct AcceleratorErrorDetail {
    #[serde(default)]
    faultstring: Option<String>,
    #[serde(default)]
    description: Option<String>,
}

impl AcceleratorErrorBody {
    /// The message; the whole text if it is not JSON.
    #[must_use]
    pub fn message(&self) -> String {
        let inner = serde_json::from_str::<AcceleratorErrorDetail>(&self.error_message).ok();
        inner
            .and_then(|inner| inner.faultstring.or(inner.description))
            .unwrap_or_else(|| self.error_message.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_inner_forms_and_plain_text_are_understood() {
        for (text, message) in [
            (
                r#"{"faultcode": "Client", "faultstring": "no such thing", "debuginfo": null}"#,
                "no such thing",
            ),
            (
                r#"{"code": 406, "title": "Not Acceptable", "description": "too new"}"#,
                "too new",
            ),
            ("gone", "gone"),
        ] {
            let error = AcceleratorErrorBody {
                error_message: text.to_owned(),
            };
            assert_eq!(error.message(), message);
        }
    }
}
