//! The host's devices for passthrough, in pools of equal devices.

mod summary;

use std::collections::BTreeSet;

use super::PciPool;

pub use summary::{PciDevType, PciId, PciSummary};

/// Pools in the order in which devices are taken: those with the fewest tags first, because they satisfy fewer
/// requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PciPools {
    pools: Vec<PciPool>,
    summaries: Vec<PciSummary>,
    has_split_provider: bool,
    free: i64,
}

impl PciPools {
    /// Sorts the pools; pools with equally many tags keep the host's order. A negative count becomes 0.
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

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &PciPool> {
        self.pools.iter()
    }

    /// Summaries in the same order.
    pub fn summaries(&self) -> &[PciSummary] {
        &self.summaries
    }

    /// The one at a place.
    pub fn at(&self, place: usize) -> &PciPool {
        &self.pools[place]
    }

    /// Devices that are free in all of them.
    #[must_use]
    pub fn free(&self) -> i64 {
        self.free
    }

    /// Whether two pools have the same provider, so that the pool of an allocation is ambiguous.
    #[must_use]
    pub fn has_split_provider(&self) -> bool {
        self.has_split_provider
    }
}
