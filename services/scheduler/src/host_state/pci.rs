//! The devices of a host that guests may be given, in pools of like ones.

use std::collections::BTreeMap;

/// Pools, in the order in which devices are taken from them: those with the fewest tags first, as less may be asked of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PciPools(Vec<PciPool>);

impl PciPools {
    /// In the order in which the host tells them, which holds among those with equally many tags.
    #[must_use]
    pub fn new(mut pools: Vec<PciPool>) -> Self {
        pools.sort_by_key(|pool| pool.tags.len());
        Self(pools)
    }

    /// All.
    pub fn iter(&self) -> impl Iterator<Item = &PciPool> {
        self.0.iter()
    }
}

/// Devices that are alike.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PciPool {
    /// Four hexadecimal digits.
    pub vendor_id: String,
    /// Four hexadecimal digits.
    pub product_id: String,
    /// The cell they are at; none where nobody knows.
    pub numa_node: Option<i64>,
    /// How many are free.
    pub count: i64,
    /// `dev_type`, `physical_network`, `remote_managed`, `live_migratable`, `rp_uuid` and what `device_spec` gives them.
    pub tags: BTreeMap<String, String>,
}
