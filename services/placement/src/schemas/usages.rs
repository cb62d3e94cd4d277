//! Usages.

use berth_http::Microversion;
use berth_http::schema::{BodySchema, NAME, ObjectSchema, TextPattern, TextSchema};

use super::EXTERNAL_ID;
use crate::microversions as since;

/// The query string of GET /usages.
pub(crate) fn total_usages(version: Microversion) -> BodySchema {
    const CONSUMER_TYPE: TextPattern = TextPattern {
        shown: "^[A-Z0-9_]+$|^all|^unknown$",
        matches: |text| (NAME.matches)(text) || text.starts_with("all") || text == "unknown",
    };
    if version.has(since::CONSUMER_TYPES) {
        BodySchema::Object(&ObjectSchema {
            properties: &[
                ("project_id", EXTERNAL_ID),
                ("user_id", EXTERNAL_ID),
                (
                    "consumer_type",
                    BodySchema::Text(TextSchema {
                        min: 1,
                        max: Some(255),
                        pattern: Some(CONSUMER_TYPE),
                        format: None,
                    }),
                ),
            ],
            required: &["project_id"],
        })
    } else {
        BodySchema::Object(&ObjectSchema {
            properties: &[("project_id", EXTERNAL_ID), ("user_id", EXTERNAL_ID)],
            required: &["project_id"],
        })
    }
}
