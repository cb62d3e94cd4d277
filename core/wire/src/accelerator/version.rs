//! The version documents at `/` and `/v2`.

use serde::{Deserialize, Serialize};

use super::DocumentLink;

/// One version of the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionBody {
    /// `v2` at the root, `v2.0` below it.
    pub id: String,
    /// The status, always `CURRENT`: there is one version.
    pub status: String,
    pub max_version: String,
    pub min_version: String,
    pub links: Vec<DocumentLink>,
}

/// The document at `/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootDocument {
    pub name: String,
    pub description: String,
    pub versions: Vec<VersionBody>,
    /// The one to use.
    pub default_version: VersionBody,
}
