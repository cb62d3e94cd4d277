//! A node's devices for pass-through, as Nova's `PciDevicePool` has them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Devices that are alike and free.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PciPoolBody {
    pub vendor_id: String,
    pub product_id: String,
    /// The cell they are at; none where nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<i64>,
    /// How many are free.
    pub count: i64,
    /// `dev_type`, `physical_network`, `rp_uuid` and what `device_spec` gives them.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
}
