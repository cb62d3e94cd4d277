//! The version document: GET / (no token needed).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Placement's version document: `{"versions": […]}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VersionDocument {
    /// The API's versions; Placement has one, `v1.0`.
    pub versions: Vec<ApiVersion>,
}

/// One version of the API with its range of microversions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApiVersion {
    /// The version's id, always `v1.0`.
    pub id: String,
    /// The highest microversion, `1.39` for instance.
    pub max_version: String,
    /// The lowest microversion, `1.0`.
    pub min_version: String,
}

impl VersionDocument {
    /// The highest minor number of microversion 1.x, if the document has it.
    #[must_use]
    pub fn highest_minor(&self) -> Option<u16> {
        self.versions
            .iter()
            .filter_map(|version| version.max_version.strip_prefix("1.")?.parse().ok())
            .max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode;

    #[test]
    fn the_highest_minor_is_read_from_a_real_document() {
        let document: VersionDocument = decode(
            br#"{"versions":[{"id":"v1.0","max_version":"1.39","min_version":"1.0","status":"CURRENT",
                "links":[{"rel":"self","href":""}]}]}"#,
        )
        .unwrap();
        assert_eq!(document.highest_minor(), Some(39));
        let odd: VersionDocument = decode(br#"{"versions":[]}"#).unwrap();
        assert_eq!(odd.highest_minor(), None);
    }
}
