//! Inventories.

use berth_http::schema::{BodySchema, MapOf, NAME, ObjectSchema, OtherKeys, TextSchema};

use super::GENERATION;
use crate::inventory::MAX_INT;

const FROM_ONE: BodySchema = BodySchema::Integer(Some(1), Some(MAX_INT));
const FROM_ZERO: BodySchema = BodySchema::Integer(Some(0), Some(MAX_INT));
/// The range of a single-precision column.
const RATIO: BodySchema = BodySchema::Number(Some(3.402_82e38));

const INVENTORY_FIELDS: &[(&str, BodySchema)] = &[
    ("resource_provider_generation", GENERATION),
    ("total", FROM_ONE),
    ("reserved", FROM_ZERO),
    ("min_unit", FROM_ONE),
    ("max_unit", FROM_ONE),
    ("step_size", FROM_ONE),
    ("allocation_ratio", RATIO),
];

/// PUT of one inventory.
pub(crate) const INVENTORY: BodySchema = BodySchema::Object(&ObjectSchema {
    properties: INVENTORY_FIELDS,
    required: &["total", "resource_provider_generation"],
});

/// POST of one inventory.
pub(crate) const NEW_INVENTORY: BodySchema = BodySchema::Object(&ObjectSchema {
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
            BodySchema::Text(TextSchema {
                pattern: Some(NAME),
                ..TextSchema::ANY
            }),
        ),
    ],
    required: &["total", "resource_class"],
});

const INVENTORY_RECORD: BodySchema = BodySchema::Object(&ObjectSchema {
    properties: INVENTORY_FIELDS,
    required: &["total"],
});

/// PUT of all inventories; also one provider of a reshape.
pub(crate) const INVENTORIES: BodySchema = BodySchema::Object(&ObjectSchema {
    properties: &[
        ("resource_provider_generation", GENERATION),
        (
            "inventories",
            BodySchema::Map(&MapOf {
                keys: NAME,
                values: INVENTORY_RECORD,
                min: 0,
                others: OtherKeys::Ignored,
            }),
        ),
    ],
    required: &["resource_provider_generation", "inventories"],
});
