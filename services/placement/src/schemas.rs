//! The schemas of bodies and query strings by microversion, one file per resource.

macro_rules! by_consumer {
    ($values:expr, $min:literal) => {
        BodySchema::Map(&MapOf {
            keys: UUID_KEY,
            values: $values,
            min: $min,
            others: OtherKeys::Refused,
        })
    };
}

mod allocation_candidates;
mod allocations;
mod inventories;
mod names;
mod providers;
mod reshaper;
mod usages;

use berth_http::schema::{BodySchema, TextFormat, TextSchema};

pub(crate) use allocation_candidates::check_candidates;
pub(crate) use allocations::{post_allocations, put_allocations};
pub(crate) use inventories::{INVENTORIES, INVENTORY, NEW_INVENTORY};
pub(crate) use names::{
    AGGREGATE_LIST, AGGREGATES, CUSTOM_TRAIT, LIST_TRAITS, PROVIDER_TRAITS, RESOURCE_CLASS,
};
pub(crate) use providers::{create_provider, list_providers, update_provider};
pub(crate) use reshaper::reshape;
pub(crate) use usages::total_usages;

const ANY_TEXT: BodySchema = BodySchema::Text(TextSchema::ANY);
const UUID: BodySchema = BodySchema::Text(TextSchema {
    format: Some(TextFormat::Uuid),
    ..TextSchema::ANY
});
const DASHED_UUID: BodySchema = BodySchema::Text(TextSchema {
    format: Some(TextFormat::DashedUuid),
    ..TextSchema::ANY
});
const EXTERNAL_ID: BodySchema = BodySchema::Text(TextSchema {
    min: 1,
    max: Some(255),
    ..TextSchema::ANY
});
const GENERATION: BodySchema = BodySchema::Integer(None, None);
const PROVIDER_NAME: BodySchema = BodySchema::Text(TextSchema {
    max: Some(200),
    ..TextSchema::ANY
});
