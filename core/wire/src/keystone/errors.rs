//! The error document of the Identity API.

use serde::{Deserialize, Serialize};

/// An error document of Keystone: `{"error": {…}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityErrorDocument {
    pub error: IdentityError,
}

/// An error of Keystone, or of its middleware in another service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityError {
    /// The HTTP status, repeated.
    pub code: u16,
    pub message: String,
    /// The reason phrase of the status.
    #[serde(default)]
    pub title: String,
}
