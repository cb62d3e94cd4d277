//! Resource classes, traits and aggregates.

use berth_http::schema::{BodySchema, CUSTOM_NAME, ListOf, ObjectSchema, TextSchema, Unique};

use super::{ANY_TEXT, EXTERNAL_ID, GENERATION, UUID};

/// A class's name in a body.
pub(crate) const RESOURCE_CLASS: BodySchema = BodySchema::Object(&ObjectSchema {
    properties: &[(
        "name",
        BodySchema::Text(TextSchema {
            max: Some(255),
            pattern: Some(CUSTOM_NAME),
            ..TextSchema::ANY
        }),
    )],
    required: &["name"],
});

/// The name of a custom trait.
pub(crate) const CUSTOM_TRAIT: BodySchema = BodySchema::Text(TextSchema {
    min: 1,
    max: Some(255),
    pattern: Some(CUSTOM_NAME),
    format: None,
});

/// PUT of a provider's traits.
pub(crate) const PROVIDER_TRAITS: BodySchema = BodySchema::Object(&ObjectSchema {
    properties: &[
        (
            "traits",
            BodySchema::List(&ListOf {
                items: EXTERNAL_ID,
                min: 0,
                unique: Unique::No,
            }),
        ),
        ("resource_provider_generation", GENERATION),
    ],
    required: &["traits", "resource_provider_generation"],
});

/// The query string of GET /traits.
pub(crate) const LIST_TRAITS: BodySchema = BodySchema::Object(&ObjectSchema {
    properties: &[("name", ANY_TEXT), ("associated", ANY_TEXT)],
    required: &[],
});

/// PUT of aggregates before 1.19: the bare list.
pub(crate) const AGGREGATE_LIST: BodySchema = BodySchema::List(&ListOf {
    items: UUID,
    min: 0,
    unique: Unique::Yes,
});

/// PUT of aggregates from 1.19.
pub(crate) const AGGREGATES: BodySchema = BodySchema::Object(&ObjectSchema {
    properties: &[
        ("aggregates", AGGREGATE_LIST),
        ("resource_provider_generation", GENERATION),
    ],
    required: &["aggregates", "resource_provider_generation"],
});
