//! Where a guest would be, before anything of it is claimed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::GuestBuild;

/// POST /v1/guests/places: a guest that nobody builds yet, and what it could hold in Placement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlacesAsked {
    /// The guest; its own allocations are not looked at.
    pub build: GuestBuild,
    /// What it could hold, 1 to 64 times: amounts by provider and class.
    #[schemars(length(min = 1, max = 64))]
    pub allocations: Vec<BTreeMap<Uuid, BTreeMap<String, u64>>>,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Places {
    /// `berth/1`.
    pub api: String,
    /// One for each of the allocations, in their order.
    pub places: Vec<PlaceBody>,
}

/// Where a guest would be with some allocations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlaceBody {
    /// The host's NUMA cells that it would be on; empty: no NUMA placement.
    #[serde(default)]
    pub host_cells: Vec<u32>,
    /// How many of its devices would be on other cells than it is, although its flavor wants them near
    /// (`hw:pci_numa_affinity_policy`).
    #[serde(default)]
    pub far: usize,
    /// Why it could not be built; null: it could.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}
