//! What providers have.

use berth_http::schema::{MapOf, NAME, Object, OtherKeys, Schema, Text};

use super::GENERATION;
use crate::inventory::MAX_INT;

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
