//! Inventories and allocations of a reshape.

use berth_http::Microversion;
use berth_http::schema::{BodySchema, MapOf, ObjectSchema, OtherKeys, UUID_KEY};

use super::allocations::{ALLOCATIONS_1_28, ALLOCATIONS_1_34, ALLOCATIONS_1_38};
use super::inventories::INVENTORIES;
use crate::microversions as since;

macro_rules! reshape_with {
    ($consumer:expr) => {
        BodySchema::Object(&ObjectSchema {
            properties: &[
                (
                    "inventories",
                    BodySchema::Map(&MapOf {
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

pub(crate) fn reshape(version: Microversion) -> BodySchema {
    if version.has(since::CONSUMER_TYPES) {
        reshape_with!(ALLOCATIONS_1_38)
    } else if version.has(since::MAPPINGS) {
        reshape_with!(ALLOCATIONS_1_34)
    } else {
        reshape_with!(ALLOCATIONS_1_28)
    }
}
