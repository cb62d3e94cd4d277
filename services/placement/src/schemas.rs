//! The shapes of bodies and query strings, by microversion: a file per noun.

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

mod allocation_candidates;
mod allocations;
mod inventories;
mod names;
mod providers;
mod reshaper;
mod usages;

use berth_http::schema::{Format, Schema, Text};

pub(crate) use allocation_candidates::check_candidates;
pub(crate) use allocations::{post_allocations, put_allocations};
pub(crate) use inventories::{INVENTORIES, INVENTORY, NEW_INVENTORY};
pub(crate) use names::{
    AGGREGATE_LIST, AGGREGATES, CUSTOM_TRAIT, LIST_TRAITS, PROVIDER_TRAITS, RESOURCE_CLASS,
};
pub(crate) use providers::{create_provider, list_providers, update_provider};
pub(crate) use reshaper::reshape;
pub(crate) use usages::total_usages;

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
