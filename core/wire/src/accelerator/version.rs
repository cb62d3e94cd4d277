//! The version documents at `/` and `/v2`.

use serde::{Deserialize, Serialize};

use super::Link;

/// One version of the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionBody {
    /// `v2` at the root, `v2.0` below it.
    pub id: String,
    /// `CURRENT`.
    pub status: String,
    /// The newest microversion.
    pub max_version: String,
    /// The oldest microversion.
    pub min_version: String,
    /// Where it is.
    pub links: Vec<Link>,
}

/// The document at `/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootDocument {
    /// The API's name.
    pub name: String,
    /// A sentence about it.
    pub description: String,
    /// All versions.
    pub versions: Vec<VersionBody>,
    /// The one to use.
    pub default_version: VersionBody,
}
