//! Links to documents.

use serde::{Deserialize, Serialize};

/// `{"href": ..., "rel": "self"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentLink {
    pub href: String,
    /// The relation to the containing document.
    pub rel: String,
}

impl DocumentLink {
    #[must_use]
    pub fn own(href: impl Into<String>) -> Self {
        Self {
            href: href.into(),
            rel: "self".to_owned(),
        }
    }
}
