//! Classes, traits and aggregates.

use berth_http::schema::{CUSTOM_NAME, ListOf, Object, Schema, Text, Unique};

use super::{ANY_TEXT, EXTERNAL_ID, GENERATION, UUID};

/// A class's name in a body.
pub(crate) const RESOURCE_CLASS: Schema = Schema::Object(&Object {
    properties: &[(
        "name",
        Schema::Text(Text {
            max: Some(255),
            pattern: Some(CUSTOM_NAME),
            ..Text::ANY
        }),
    )],
    required: &["name"],
});

/// An own trait's name.
pub(crate) const CUSTOM_TRAIT: Schema = Schema::Text(Text {
    min: 1,
    max: Some(255),
    pattern: Some(CUSTOM_NAME),
    format: None,
});

/// PUT of a provider's traits.
pub(crate) const PROVIDER_TRAITS: Schema = Schema::Object(&Object {
    properties: &[
        (
            "traits",
            Schema::List(&ListOf {
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
pub(crate) const LIST_TRAITS: Schema = Schema::Object(&Object {
    properties: &[("name", ANY_TEXT), ("associated", ANY_TEXT)],
    required: &[],
});

/// PUT of aggregates before 1.19: the bare list.
pub(crate) const AGGREGATE_LIST: Schema = Schema::List(&ListOf {
    items: UUID,
    min: 0,
    unique: Unique::Yes,
});

/// PUT of aggregates from 1.19.
pub(crate) const AGGREGATES: Schema = Schema::Object(&Object {
    properties: &[
        ("aggregates", AGGREGATE_LIST),
        ("resource_provider_generation", GENERATION),
    ],
    required: &["aggregates", "resource_provider_generation"],
});
