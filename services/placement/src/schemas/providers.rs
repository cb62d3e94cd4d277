//! Resource providers.

use berth_http::Microversion;
use berth_http::schema::{BodySchema, ObjectSchema};

use super::{ANY_TEXT, DASHED_UUID, PROVIDER_NAME, UUID};
use crate::microversions as since;

pub(crate) fn create_provider(version: Microversion) -> BodySchema {
    if version.has(since::NESTED_PROVIDERS) {
        BodySchema::Object(&ObjectSchema {
            properties: &[
                ("name", PROVIDER_NAME),
                ("uuid", UUID),
                ("parent_provider_uuid", BodySchema::UuidOrNull),
            ],
            required: &["name"],
        })
    } else {
        BodySchema::Object(&ObjectSchema {
            properties: &[("name", PROVIDER_NAME), ("uuid", UUID)],
            required: &["name"],
        })
    }
}

pub(crate) fn update_provider(version: Microversion) -> BodySchema {
    if version.has(since::NESTED_PROVIDERS) {
        BodySchema::Object(&ObjectSchema {
            properties: &[
                ("name", PROVIDER_NAME),
                ("parent_provider_uuid", BodySchema::UuidOrNull),
            ],
            required: &["name"],
        })
    } else {
        BodySchema::Object(&ObjectSchema {
            properties: &[("name", PROVIDER_NAME)],
            required: &["name"],
        })
    }
}

/// The query string of GET /resource_providers.
pub(crate) fn list_providers(version: Microversion) -> BodySchema {
    const ALL: &[(&str, BodySchema)] = &[
        ("name", ANY_TEXT),
        ("uuid", DASHED_UUID),
        ("member_of", ANY_TEXT),
        ("resources", ANY_TEXT),
        ("in_tree", DASHED_UUID),
        ("required", ANY_TEXT),
    ];
    macro_rules! first {
        ($count:literal) => {{
            const FIRST: BodySchema = BodySchema::Object(&ObjectSchema {
                properties: ALL.split_at($count).0,
                required: &[],
            });
            FIRST
        }};
    }
    if version.has(since::REQUIRED_FILTER) {
        first!(6)
    } else if version.has(since::NESTED_PROVIDERS) {
        first!(5)
    } else if version.has(since::RESOURCES_FILTER) {
        first!(4)
    } else if version.has(since::MEMBER_OF) {
        first!(3)
    } else {
        first!(2)
    }
}
