//! A dry run of placing a guest on a host, before a claim.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::GuestBuild;

/// POST /v1/guests/places: a guest, and the allocations that it could get.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlacesAsked {
    /// The guest; its own allocations are ignored.
    pub build: GuestBuild,
    /// 1 to 64 possible allocations: amounts by provider and class.
    #[schemars(length(min = 1, max = 64))]
    pub allocations: Vec<BTreeMap<Uuid, BTreeMap<String, u64>>>,
}

/// Response of POST /v1/guests/places: one result per allocation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Places {
    /// Name and version of the protocol: `berth/1`.
    pub api: String,
    /// One for each of the allocations, in their order.
    pub places: Vec<PlaceBody>,
}

/// The placement of a guest for one allocation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlaceBody {
    /// The host NUMA cells it would use; empty without NUMA placement.
    #[serde(default)]
    pub host_cells: Vec<u32>,
    /// The number of its devices on other cells, although its flavor wants them near (`hw:pci_numa_affinity_policy`).
    #[serde(default)]
    pub far: usize,
    /// Why it cannot be built; null if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}
