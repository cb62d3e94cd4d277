//! The devices of a host that guests may be given, in pools of like ones.

mod summary;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use summary::{PciDevType, PciId, PciSummary};

/// Pools, in the order in which devices are taken from them: those with the fewest tags first, as less may be asked of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PciPools {
    pools: Vec<PciPool>,
    summaries: Vec<PciSummary>,
    has_split_provider: bool,
    free: i64,
}

impl PciPools {
    /// In the order in which the host tells them, which holds among those with equally many tags. A pool that tells of fewer than no
    /// devices has none.
    #[must_use]
    pub fn new(mut pools: Vec<PciPool>) -> Self {
        for pool in &mut pools {
            pool.count = pool.count.max(0);
        }
        pools.sort_by_key(|pool| pool.tags.len());
        let mut seen = BTreeSet::new();
        let mut providers = pools.iter().filter_map(PciPool::rp_uuid);
        let has_split_provider = !providers.all(|provider| seen.insert(provider));
        Self {
            summaries: pools.iter().map(PciSummary::new).collect(),
            free: pools
                .iter()
                .fold(0, |sum, pool| sum.saturating_add(pool.count)),
            pools,
            has_split_provider,
        }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.pools.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &PciPool> {
        self.pools.iter()
    }

    /// All in short, in the same order.
    pub(crate) fn summaries(&self) -> &[PciSummary] {
        &self.summaries
    }

    /// The one at a place.
    pub(crate) fn at(&self, place: usize) -> &PciPool {
        &self.pools[place]
    }

    /// Devices that are free in all of them.
    #[must_use]
    pub fn free(&self) -> i64 {
        self.free
    }

    /// Whether two pools are of one provider, so that nobody knows from which of them an allocation is.
    #[must_use]
    pub fn has_split_provider(&self) -> bool {
        self.has_split_provider
    }
}

/// Devices that are alike.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PciPool {
    pub vendor_id: String,
    pub product_id: String,
    /// The cell they are at; none where nobody knows.
    pub numa_node: Option<i64>,
    /// How many are free; 0 at least in [`PciPools`].
    pub count: i64,
    /// `dev_type`, `physical_network`, `remote_managed`, `live_migratable`, `rp_uuid` and what `device_spec` gives them.
    pub tags: BTreeMap<String, String>,
}

impl PciPool {
    #[must_use]
    pub fn tag(&self, name: &str) -> Option<&str> {
        self.tags.get(name).map(String::as_str)
    }

    /// The provider in Placement; none where the devices are not in Placement.
    #[must_use]
    pub fn rp_uuid(&self) -> Option<&str> {
        self.tag("rp_uuid")
    }
}
