//! The answer to GET /v3/auth/tokens: whose a token is, as a service that was shown it asks.

use serde::{Deserialize, Serialize};

use super::Role;

/// `{"token": {...}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidatedTokenDocument {
    /// What the token stands for.
    pub token: ValidatedToken,
}

/// What a token stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidatedToken {
    pub user: IdOf,
    /// The project it is good for.
    #[serde(default)]
    pub project: Option<IdOf>,
    /// The domain it is good for.
    #[serde(default)]
    pub domain: Option<IdOf>,
    /// `{"all": true}` where it is good for the cloud itself.
    #[serde(default)]
    pub system: Option<SystemScope>,
    /// The roles, implied ones included.
    #[serde(default)]
    pub roles: Vec<Role>,
    /// When it ends; see [`super::parse_expiry`].
    pub expires_at: String,
}

/// The id of a user, a project or a domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdOf {
    pub id: String,
}

/// The scope of a token that is good for the cloud itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemScope {
    #[serde(default)]
    pub all: bool,
}
