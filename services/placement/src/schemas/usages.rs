//! How much is used.

use berth_http::Microversion;
use berth_http::schema::{NAME, Object, Pattern, Schema, Text};

use super::EXTERNAL_ID;
use crate::microversions as since;

/// The query string of GET /usages.
pub(crate) fn total_usages(version: Microversion) -> Schema {
    const CONSUMER_TYPE: Pattern = Pattern {
        shown: "^[A-Z0-9_]+$|^all|^unknown$",
        matches: |text| (NAME.matches)(text) || text.starts_with("all") || text == "unknown",
    };
    if version.has(since::CONSUMER_TYPES) {
        Schema::Object(&Object {
            properties: &[
                ("project_id", EXTERNAL_ID),
                ("user_id", EXTERNAL_ID),
                (
                    "consumer_type",
                    Schema::Text(Text {
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
        Schema::Object(&Object {
            properties: &[("project_id", EXTERNAL_ID), ("user_id", EXTERNAL_ID)],
            required: &["project_id"],
        })
    }
}
