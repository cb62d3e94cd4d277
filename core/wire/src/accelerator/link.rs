//! Links to documents.

use serde::{Deserialize, Serialize};

/// `{"href": ..., "rel": "self"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    pub href: String,
    /// What it is to the document it stands in.
    pub rel: String,
}

impl Link {
    /// The document's own URL.
    #[must_use]
    pub fn own(href: impl Into<String>) -> Self {
        Self {
            href: href.into(),
            rel: "self".to_owned(),
        }
    }
}
