//! The error document and its codes.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `{"errors": […]}`, the body of every error of Placement itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorDocument {
    /// The errors; Placement always reports one.
    pub errors: Vec<ApiError>,
}

/// One error of an error document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApiError {
    /// The HTTP status, repeated.
    pub status: u16,
    /// The reason phrase of the status.
    #[serde(default)]
    pub title: String,
    /// The HTTP library's text for the status, an empty line, then Placement's own message.
    #[serde(default)]
    pub detail: String,
    /// The request id, as in Placement's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The machine-readable code; from microversion 1.23.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub code: Option<ErrorCode>,
    /// The lowest microversion; in a 406 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_version: Option<String>,
    /// The highest microversion; in a 406 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_version: Option<String>,
}

impl ApiError {
    /// Placement's own message: the detail without the HTTP library's text.
    #[must_use]
    pub fn message(&self) -> &str {
        self.detail
            .split_once("\n\n")
            .map_or(self.detail.as_str(), |(_, message)| message)
            .trim()
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal),+ $(,)?) => {
        /// Placement's error codes (openstack-placement, `errors.py`; from microversion 1.23).
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum ErrorCode {
            $($(#[$doc])* $name,)+
            /// A code that this program does not know.
            Unknown(String),
        }

        impl ErrorCode {
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$name => $text,)+
                    Self::Unknown(text) => text,
                }
            }
        }

        impl From<&str> for ErrorCode {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$name,)+
                    _ => Self::Unknown(text.to_owned()),
                }
            }
        }
    };
}

codes! {
    /// No specific code; a 409 with it on allocations means over capacity.
    Undefined = "placement.undefined_code",
    /// The inventory is in use by allocations.
    InventoryInUse = "placement.inventory.inuse",
    /// A generation was not the current one.
    ConcurrentUpdate = "placement.concurrent_update",
    /// A provider of this name or UUID exists.
    DuplicateName = "placement.duplicate_name",
    /// The provider has allocations.
    ProviderInUse = "placement.resource_provider.inuse",
    /// The provider has children.
    CannotDeleteParent = "placement.resource_provider.cannot_delete_parent",
    /// The body names a provider that does not exist.
    ProviderNotFound = "placement.resource_provider.not_found",
    /// A duplicate query key.
    DuplicateKey = "placement.query.duplicate_key",
    /// A query value is malformed.
    BadValue = "placement.query.bad_value",
    /// A query value is missing.
    MissingValue = "placement.query.missing_value",
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ErrorCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from(String::deserialize(deserializer)?.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{decode, encode};

    #[test]
    fn a_real_conflict_is_read_with_its_code_and_message() {
        let body = br#"{"errors": [{"status": 409, "title": "Conflict", "detail": "There was a conflict when trying to complete your request.\n\n resource provider generation conflict  ", "code": "placement.concurrent_update", "request_id": "req-1"}]}"#;
        let document: ErrorDocument = decode(body).unwrap();
        let error = &document.errors[0];
        assert_eq!(error.code, Some(ErrorCode::ConcurrentUpdate));
        assert_eq!(error.message(), "resource provider generation conflict");
    }

    #[test]
    fn codes_travel_unchanged_known_or_not() {
        for text in ["placement.inventory.inuse", "placement.something_new"] {
            let json = format!("\"{text}\"");
            let code: ErrorCode = decode(json.as_bytes()).unwrap();
            assert_eq!(encode(&code), json.as_bytes());
        }
    }
}
