//! The error document of the Identity API.

use serde::{Deserialize, Serialize};

/// `{"error": {…}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityErrorDocument {
    pub error: IdentityError,
}

/// What went wrong, by Keystone (or by its middleware in front of another service).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityError {
    /// The HTTP status, repeated.
    pub code: u16,
    pub message: String,
    /// The status as words.
    #[serde(default)]
    pub title: String,
}
