//! The shapes of bodies and query strings, by microversion.

use berth_http::Microversion;
use berth_http::schema::{
    CUSTOM_NAME, Format, ListOf, MapOf, NAME, Object, OtherKeys, Pattern, Schema, Text, UUID_KEY,
    Unique,
};

use crate::inventory::MAX_INT;
use crate::microversions as since;

const ANY_TEXT: Schema = Schema::Text(Text::ANY);
const UUID: Schema = Schema::Text(Text {
    format: Some(Format::Uuid),
    ..Text::ANY
});
const DASHED_UUID: Schema = Schema::Text(Text {
    format: Some(Format::DashedUuid),
    ..Text::ANY
});
const EXTERNAL_ID: Schema = Schema::Text(Text {
    min: 1,
    max: Some(255),
    ..Text::ANY
});
const GENERATION: Schema = Schema::Integer(None, None);
const PROVIDER_NAME: Schema = Schema::Text(Text {
    max: Some(200),
    ..Text::ANY
});

/// POST /resource_providers.
pub(crate) fn create_provider(version: Microversion) -> Schema {
    if version.has(since::NESTED_PROVIDERS) {
        Schema::Object(&Object {
            properties: &[
                ("name", PROVIDER_NAME),
                ("uuid", UUID),
                ("parent_provider_uuid", Schema::UuidOrNull),
            ],
            required: &["name"],
        })
    } else {
        Schema::Object(&Object {
            properties: &[("name", PROVIDER_NAME), ("uuid", UUID)],
            required: &["name"],
        })
    }
}

/// PUT /resource_providers/{uuid}.
pub(crate) fn update_provider(version: Microversion) -> Schema {
    if version.has(since::NESTED_PROVIDERS) {
        Schema::Object(&Object {
            properties: &[
                ("name", PROVIDER_NAME),
                ("parent_provider_uuid", Schema::UuidOrNull),
            ],
            required: &["name"],
        })
    } else {
        Schema::Object(&Object {
            properties: &[("name", PROVIDER_NAME)],
            required: &["name"],
        })
    }
}

/// The query string of GET /resource_providers.
pub(crate) fn list_providers(version: Microversion) -> Schema {
    const ALL: &[(&str, Schema)] = &[
        ("name", ANY_TEXT),
        ("uuid", DASHED_UUID),
        ("member_of", ANY_TEXT),
        ("resources", ANY_TEXT),
        ("in_tree", DASHED_UUID),
        ("required", ANY_TEXT),
    ];
    macro_rules! first {
        ($count:literal) => {{
            const FIRST: Schema = Schema::Object(&Object {
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

const FROM_ONE: Schema = Schema::Integer(Some(1), Some(MAX_INT));
const FROM_ZERO: Schema = Schema::Integer(Some(0), Some(MAX_INT));
/// What a single-precision column takes.
const RATIO: Schema = Schema::Number(Some(3.402_82e38));

const INVENTORY_FIELDS: &[(&str, Schema)] = &[
    ("resource_provider_generation", GENERATION),
    ("total", FROM_ONE),
    ("reserved", FROM_ZERO),
    ("min_unit", FROM_ONE),
    ("max_unit", FROM_ONE),
    ("step_size", FROM_ONE),
    ("allocation_ratio", RATIO),
];

/// PUT of one inventory.
pub(crate) const INVENTORY: Schema = Schema::Object(&Object {
    properties: INVENTORY_FIELDS,
    required: &["total", "resource_provider_generation"],
});

/// POST of one inventory.
pub(crate) const NEW_INVENTORY: Schema = Schema::Object(&Object {
    properties: &[
        ("resource_provider_generation", GENERATION),
        ("total", FROM_ONE),
        ("reserved", FROM_ZERO),
        ("min_unit", FROM_ONE),
        ("max_unit", FROM_ONE),
        ("step_size", FROM_ONE),
        ("allocation_ratio", RATIO),
        (
            "resource_class",
            Schema::Text(Text {
                pattern: Some(NAME),
                ..Text::ANY
            }),
        ),
    ],
    required: &["total", "resource_class"],
});

const INVENTORY_RECORD: Schema = Schema::Object(&Object {
    properties: INVENTORY_FIELDS,
    required: &["total"],
});

/// PUT of all inventories; also one provider of a reshape.
pub(crate) const INVENTORIES: Schema = Schema::Object(&Object {
    properties: &[
        ("resource_provider_generation", GENERATION),
        (
            "inventories",
            Schema::Map(&MapOf {
                keys: NAME,
                values: INVENTORY_RECORD,
                min: 0,
                others: OtherKeys::Ignored,
            }),
        ),
    ],
    required: &["resource_provider_generation", "inventories"],
});

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

const ALLOCATIONS_1_0: Schema = Schema::Object(&Object {
    properties: &[("allocations", LISTED_ALLOCATIONS)],
    required: &["allocations"],
});

const ALLOCATIONS_1_8: Schema = Schema::Object(&Object {
    properties: &[
        ("allocations", LISTED_ALLOCATIONS),
        ("project_id", EXTERNAL_ID),
        ("user_id", EXTERNAL_ID),
    ],
    required: &["allocations", "project_id", "user_id"],
});

const ALLOCATIONS_1_12: Schema = Schema::Object(&Object {
    properties: &[
        ("allocations", SOME_ALLOCATIONS),
        ("project_id", EXTERNAL_ID),
        ("user_id", EXTERNAL_ID),
    ],
    required: &["allocations", "project_id", "user_id"],
});

const ALLOCATIONS_1_13: Schema = Schema::Object(&Object {
    properties: &[
        ("allocations", ANY_ALLOCATIONS),
        ("project_id", EXTERNAL_ID),
        ("user_id", EXTERNAL_ID),
    ],
    required: &["allocations", "project_id", "user_id"],
});

const ALLOCATIONS_1_28: Schema = Schema::Object(&Object {
    properties: &[
        ("allocations", ANY_ALLOCATIONS),
        ("project_id", EXTERNAL_ID),
        ("user_id", EXTERNAL_ID),
        ("consumer_generation", Schema::IntegerOrNull),
    ],
    required: &[
        "allocations",
        "project_id",
        "user_id",
        "consumer_generation",
    ],
});

const ALLOCATIONS_1_34: Schema = Schema::Object(&Object {
    properties: &[
        ("allocations", ANY_ALLOCATIONS),
        ("project_id", EXTERNAL_ID),
        ("user_id", EXTERNAL_ID),
        ("consumer_generation", Schema::IntegerOrNull),
        ("mappings", MAPPINGS),
    ],
    required: &[
        "allocations",
        "project_id",
        "user_id",
        "consumer_generation",
    ],
});

const ALLOCATIONS_1_38: Schema = Schema::Object(&Object {
    properties: &[
        ("allocations", ANY_ALLOCATIONS),
        ("project_id", EXTERNAL_ID),
        ("user_id", EXTERNAL_ID),
        ("consumer_generation", Schema::IntegerOrNull),
        ("mappings", MAPPINGS),
        ("consumer_type", CONSUMER_TYPE),
    ],
    required: &[
        "allocations",
        "project_id",
        "user_id",
        "consumer_generation",
        "consumer_type",
    ],
});

/// PUT /allocations/{consumer}.
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

macro_rules! by_consumer {
    ($values:expr, $min:literal) => {
        Schema::Map(&MapOf {
            keys: UUID_KEY,
            values: $values,
            min: $min,
            others: OtherKeys::Refused,
        })
    };
}

/// POST /allocations.
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

macro_rules! reshape_with {
    ($consumer:expr) => {
        Schema::Object(&Object {
            properties: &[
                (
                    "inventories",
                    Schema::Map(&MapOf {
                        keys: UUID_KEY,
                        values: INVENTORIES,
                        min: 1,
                        others: OtherKeys::Refused,
                    }),
                ),
                ("allocations", by_consumer!($consumer, 0)),
            ],
            required: &["inventories", "allocations"],
        })
    };
}

/// POST /reshaper.
pub(crate) fn reshape(version: Microversion) -> Schema {
    if version.has(since::CONSUMER_TYPES) {
        reshape_with!(ALLOCATIONS_1_38)
    } else if version.has(since::MAPPINGS) {
        reshape_with!(ALLOCATIONS_1_34)
    } else {
        reshape_with!(ALLOCATIONS_1_28)
    }
}
