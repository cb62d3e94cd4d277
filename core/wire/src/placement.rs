//! Bodies of the Placement API (openstack-placement 1.0 to 1.39, as far as an agent needs them).
//!
//! The client's pinned microversion decides which fields exist; if several microversions share a body, the newer fields
//! are `Option`s. Field names and limits are Placement's.

mod aggregates;
mod allocation_candidates;
mod allocations;
mod errors;
#[cfg(test)]
mod fuzz;
mod inventories;
mod names;
mod providers;
mod reshaper;
mod usages;
mod version;

pub use aggregates::ProviderAggregates;
pub use allocation_candidates::{
    AllocationCandidates, AllocationRequest, ProviderSummary, ResourceSummary,
};
pub use allocations::{
    AllocationOnProvider, AllocationsOfConsumer, AllocationsOfProvider, HeldOfProvider,
    PutAllocations,
};
pub use errors::{ApiError, ErrorCode, ErrorDocument};
pub use inventories::{InventoryBody, ProviderInventories, PutInventories};
pub use names::{ProviderTraits, ResourceClassBody, ResourceClassList, TraitList};
pub use providers::{CreateProvider, ProviderBody, ProviderList, UpdateProvider};
pub use reshaper::{GenerationUnknown, ReshaperBody};
pub use usages::ProviderUsages;
pub use version::{ApiVersion, VersionDocument};

use crate::BodyError;

/// The largest integer in Placement (2^31 - 1).
pub const MAX_INTEGER: i64 = i32::MAX as i64;

/// A whole number within `least..=MAX_INTEGER`, or an error that names `field`.
fn bounded(field: &str, value: i64, least: i64) -> Result<u32, BodyError> {
    if (least..=MAX_INTEGER).contains(&value)
        && let Ok(number) = u32::try_from(value)
    {
        return Ok(number);
    }
    Err(BodyError::field(
        field,
        format_args!("{value} is out of range, {least} to {MAX_INTEGER} is allowed"),
    ))
}
