//! The allocations of a consumer, in the formats of all versions since 1.0.

use berth_http::Microversion;
use berth_http::schema::{
    BodySchema, ListOf, MapOf, NAME, ObjectSchema, OtherKeys, TextPattern, TextSchema, UUID_KEY,
    Unique,
};

use super::{EXTERNAL_ID, GENERATION, UUID};
use crate::microversions as since;

const RESOURCES: BodySchema = BodySchema::Map(&MapOf {
    keys: NAME,
    values: BodySchema::Integer(Some(1), None),
    min: 1,
    others: OtherKeys::Refused,
});

const LISTED_ALLOCATIONS: BodySchema = BodySchema::List(&ListOf {
    items: BodySchema::Object(&ObjectSchema {
        properties: &[
            (
                "resource_provider",
                BodySchema::Object(&ObjectSchema {
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

const AT_PROVIDER: BodySchema = BodySchema::Object(&ObjectSchema {
    properties: &[("generation", GENERATION), ("resources", RESOURCES)],
    required: &["resources"],
});

const SOME_ALLOCATIONS: BodySchema = BodySchema::Map(&MapOf {
    keys: UUID_KEY,
    values: AT_PROVIDER,
    min: 1,
    others: OtherKeys::Refused,
});

const ANY_ALLOCATIONS: BodySchema = BodySchema::Map(&MapOf {
    keys: UUID_KEY,
    values: AT_PROVIDER,
    min: 0,
    others: OtherKeys::Refused,
});

const MAPPINGS: BodySchema = BodySchema::Map(&MapOf {
    keys: TextPattern {
        shown: "[a-zA-Z0-9_-]{1,64}",
        matches: |text| {
            text.bytes()
                .any(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
        },
    },
    values: BodySchema::List(&ListOf {
        items: UUID,
        min: 1,
        unique: Unique::No,
    }),
    min: 1,
    others: OtherKeys::Ignored,
});

const CONSUMER_TYPE: BodySchema = BodySchema::Text(TextSchema {
    min: 1,
    max: Some(255),
    pattern: Some(NAME),
    format: None,
});

/// The schema of one consumer's body: its allocations, then what later versions added. Keys after `may` are optional.
macro_rules! consumer {
    ($allocations:expr $(, $name:literal: $shape:expr)* $(; may $also:literal: $optional:expr)*) => {
        BodySchema::Object(&ObjectSchema {
            properties: &[
                ("allocations", $allocations),
                $(($name, $shape),)*
                $(($also, $optional),)*
            ],
            required: &["allocations", $($name),*],
        })
    };
}

const ALLOCATIONS_1_0: BodySchema = consumer!(LISTED_ALLOCATIONS);

const ALLOCATIONS_1_8: BodySchema = consumer!(
    LISTED_ALLOCATIONS, "project_id": EXTERNAL_ID, "user_id": EXTERNAL_ID
);

const ALLOCATIONS_1_12: BodySchema = consumer!(
    SOME_ALLOCATIONS, "project_id": EXTERNAL_ID, "user_id": EXTERNAL_ID
);

const ALLOCATIONS_1_13: BodySchema = consumer!(
    ANY_ALLOCATIONS, "project_id": EXTERNAL_ID, "user_id": EXTERNAL_ID
);

pub(super) const ALLOCATIONS_1_28: BodySchema = consumer!(
    ANY_ALLOCATIONS, "project_id": EXTERNAL_ID, "user_id": EXTERNAL_ID,
    "consumer_generation": BodySchema::IntegerOrNull
);

pub(super) const ALLOCATIONS_1_34: BodySchema = consumer!(
    ANY_ALLOCATIONS, "project_id": EXTERNAL_ID, "user_id": EXTERNAL_ID,
    "consumer_generation": BodySchema::IntegerOrNull;
    may "mappings": MAPPINGS
);

pub(super) const ALLOCATIONS_1_38: BodySchema = consumer!(
    ANY_ALLOCATIONS, "project_id": EXTERNAL_ID, "user_id": EXTERNAL_ID,
    "consumer_generation": BodySchema::IntegerOrNull, "consumer_type": CONSUMER_TYPE;
    may "mappings": MAPPINGS
);

pub(crate) fn put_allocations(version: Microversion) -> BodySchema {
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

pub(crate) fn post_allocations(version: Microversion) -> BodySchema {
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
