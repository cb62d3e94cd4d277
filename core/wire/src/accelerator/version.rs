//! The version documents of the accelerator API (Cyborg), which clients read to discover its versions: [`RootDocument`] at
//! `/`, and [`VersionBody`] at `/v2`.

use serde::{Deserialize, Serialize};

use super::DocumentLink;

/// One major version of the API, with its range of microversions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionBody {
    /// `v2` in the document at `/`, `v2.0` in the document at `/v2`, as in Cyborg.
    pub id: String,
    /// The status, always `CURRENT`: there is one version.
    pub status: String,
    /// The highest microversion, such as `2.3`.
    pub max_version: String,
    /// The lowest microversion, such as `2.0`.
    pub min_version: String,
    pub links: Vec<DocumentLink>,
}

/// The document at `/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootDocument {
    pub name: String,
    pub description: String,
    pub versions: Vec<VersionBody>,
    /// The version that clients should use.
    pub default_version: VersionBody,
}
