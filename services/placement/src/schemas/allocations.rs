//! What a consumer is to hold, as each version since 1.0 sends it.

use berth_http::Microversion;
use berth_http::schema::{
    ListOf, MapOf, NAME, Object, OtherKeys, Pattern, Schema, Text, UUID_KEY, Unique,
};

use super::{EXTERNAL_ID, GENERATION, UUID};
use crate::microversions as since;

const RESOURCES: Schema = Schema::Map(&MapOf {
    keys: NAME,
    values: Schema::Integer(Some(1), None),
    min: 1,
    others: OtherKeys::Refused,
});

const LISTED_ALLOCATIONS: Schema = Schema::List(&ListOf {
    items: Schema::Object(&Object {
        properties: &[
            (
                "resource_provider",
                Schema::Object(&Object {
                    properties: &[("uuid", UUID)],
                    required: &["uuid"],
                }),
            ),
            ("resources", RESOURCES),
        ],
        required: &["resource_provider", "resources"],
    }),
    min: 1,
    unique: Unique::No,
});

const AT_PROVIDER: Schema = Schema::Object(&Object {
    properties: &[("generation", GENERATION), ("resources", RESOURCES)],
    required: &["resources"],
});

const SOME_ALLOCATIONS: Schema = Schema::Map(&MapOf {
    keys: UUID_KEY,
    values: AT_PROVIDER,
    min: 1,
    others: OtherKeys::Refused,
});

const ANY_ALLOCATIONS: Schema = Schema::Map(&MapOf {
    keys: UUID_KEY,
    values: AT_PROVIDER,
    min: 0,
    others: OtherKeys::Refused,
});

const MAPPINGS: Schema = Schema::Map(&MapOf {
    keys: Pattern {
        shown: "[a-zA-Z0-9_-]{1,64}",
        matches: |text| {
            text.bytes()
                .any(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
        },
    },
    values: Schema::List(&ListOf {
        items: UUID,
        min: 1,
        unique: Unique::No,
    }),
    min: 1,
    others: OtherKeys::Ignored,
});

const CONSUMER_TYPE: Schema = Schema::Text(Text {
    min: 1,
    max: Some(255),
    pattern: Some(NAME),
    format: None,
});

/// One consumer's body: its allocations, then what later versions added, all of it required but for what stands after `may`.
macro_rules! consumer {
    ($allocations:expr $(, $name:literal: $shape:expr)* $(; may $also:literal: $optional:expr)*) => {
        Schema::Object(&Object {
            properties: &[
                ("allocations", $allocations),
                $(($name, $shape),)*
                $(($also, $optional),)*
            ],
            required: &["allocations", $($name),*],
        })
    };
}

const ALLOCATIONS_1_0: Schema = consumer!(LISTED_ALLOCATIONS);

const ALLOCATIONS_1_8: Schema = consumer!(
    LISTED_ALLOCATIONS, "project_id": EXTERNAL_ID, "user_id": EXTERNAL_ID
);

const ALLOCATIONS_1_12: Schema = consumer!(
    SOME_ALLOCATIONS, "project_id": EXTERNAL_ID, "user_id": EXTERNAL_ID
);

const ALLOCATIONS_1_13: Schema = consumer!(
    ANY_ALLOCATIONS, "project_id": EXTERNAL_ID, "user_id": EXTERNAL_ID
);

pub(super) const ALLOCATIONS_1_28: Schema = consumer!(
    ANY_ALLOCATIONS, "project_id": EXTERNAL_ID, "user_id": EXTERNAL_ID,
    "consumer_generation": Schema::IntegerOrNull
);

pub(super) const ALLOCATIONS_1_34: Schema = consumer!(
    ANY_ALLOCATIONS, "project_id": EXTERNAL_ID, "user_id": EXTERNAL_ID,
    "consumer_generation": Schema::IntegerOrNull;
    may "mappings": MAPPINGS
);

pub(super) const ALLOCATIONS_1_38: Schema = consumer!(
    ANY_ALLOCATIONS, "project_id": EXTERNAL_ID, "user_id": EXTERNAL_ID,
    "consumer_generation": Schema::IntegerOrNull, "consumer_type": CONSUMER_TYPE;
    may "mappings": MAPPINGS
);

pub(crate) fn put_allocations(version: Microversion) -> Schema {
    if version.has(since::CONSUMER_TYPES) {
        ALLOCATIONS_1_38
    } else if version.has(since::MAPPINGS) {
        ALLOCATIONS_1_34
    } else if version.has(since::CONSUMER_GENERATIONS) {
        ALLOCATIONS_1_28
    } else if version.has(since::ALLOCATIONS_BY_PROVIDER) {
        ALLOCATIONS_1_12
    } else if version.has(since::PROJECT_AND_USER) {
        ALLOCATIONS_1_8
    } else {
        ALLOCATIONS_1_0
    }
}

pub(crate) fn post_allocations(version: Microversion) -> Schema {
    if version.has(since::CONSUMER_TYPES) {
        by_consumer!(ALLOCATIONS_1_38, 1)
    } else if version.has(since::MAPPINGS) {
        by_consumer!(ALLOCATIONS_1_34, 1)
    } else if version.has(since::CONSUMER_GENERATIONS) {
        by_consumer!(ALLOCATIONS_1_28, 1)
    } else {
        by_consumer!(ALLOCATIONS_1_13, 1)
    }
}
