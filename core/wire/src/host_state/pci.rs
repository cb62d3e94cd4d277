//! A node's devices for passthrough, like Nova's `PciDevicePool`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Devices that are alike and free.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PciPool {
    pub vendor_id: String,
    pub product_id: String,
    /// Their NUMA cell; missing if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<i64>,
    /// How many are free.
    pub count: i64,
    /// `dev_type`, `physical_network`, `remote_managed`, `live_migratable`, `rp_uuid` and tags of `device_spec`.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
}

impl PciPool {
    #[must_use]
    pub fn tag(&self, name: &str) -> Option<&str> {
        self.tags.get(name).map(String::as_str)
    }

    /// The provider in Placement; `None` if the devices are not in Placement.
    #[must_use]
    pub fn rp_uuid(&self) -> Option<&str> {
        self.tag("rp_uuid")
    }
}
