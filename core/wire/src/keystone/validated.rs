//! The response of GET /v3/auth/tokens: the properties of a token that a service validates.

use serde::{Deserialize, Serialize};

use super::Role;

/// Response of GET /v3/auth/tokens: `{"token": {...}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidatedTokenDocument {
    pub token: ValidatedToken,
}

/// The properties of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidatedToken {
    pub user: ValidatedUser,
    /// The project of its scope.
    #[serde(default)]
    pub project: Option<IdOf>,
    /// The domain of its scope.
    #[serde(default)]
    pub domain: Option<IdOf>,
    /// `{"all": true}` for the system scope.
    #[serde(default)]
    pub system: Option<SystemScope>,
    /// The roles, implied ones included.
    #[serde(default)]
    pub roles: Vec<Role>,
    /// The audit id of the token, and that of the first token of its chain.
    #[serde(default)]
    pub audit_ids: Vec<String>,
    /// The expiry; see [`super::parse_expiry`].
    pub expires_at: String,
}

/// The user of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidatedUser {
    pub id: String,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub domain: Option<IdOf>,
}

/// The id of a project or a domain, and its name if the token has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdOf {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The scope of a token that is good for the cloud itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemScope {
    #[serde(default)]
    pub all: bool,
}
