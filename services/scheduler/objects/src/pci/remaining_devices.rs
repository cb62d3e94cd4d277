//! The devices that remain in a host's pools while several requests are matched one after another.

use smallvec::{SmallVec, smallvec};

use super::narrow::{EligiblePools, PoolOrder, is_near_or_unknown};
use super::providers::Providers;
use super::{DeviceLocality, PciReason, PreparedPciRequest};
use crate::host_state::{PciPool, PciPools, PciSummary};

/// Pools of a host, by index. No heap memory for up to 64 pools.
pub(super) type PoolSet = SmallVec<[bool; 64]>;

/// A host's pools with separate device counts.
pub(super) struct RemainingDevices<'p> {
    pools: &'p PciPools,
    counts: SmallVec<[i64; 16]>,
    /// Pools that requests emptied and thereby removed. Pools that were empty from the start are not included.
    gone: PoolSet,
}

impl<'p> RemainingDevices<'p> {
    /// All devices of the pools.
    pub(super) fn all(pools: &'p PciPools) -> Self {
        Self {
            pools,
            counts: pools.summaries().iter().map(|pool| pool.count).collect(),
            gone: smallvec![false; pools.len()],
        }
    }

    /// The unchanged pools of the host.
    pub(super) fn pools(&self) -> &'p PciPools {
        self.pools
    }

    /// The pools that are not removed, with their indexes.
    fn iter(&self) -> impl Iterator<Item = (usize, &'p PciPool)> {
        let pools = self.pools.iter().enumerate();
        pools.filter(|(place, _)| !self.gone[*place])
    }

    /// The pools that satisfy a predicate.
    pub(super) fn places(&self, holds: impl Fn(usize, &PciSummary) -> bool) -> PoolSet {
        let pools = self.pools.summaries().iter().enumerate();
        pools
            .map(|(place, pool)| !self.gone[place] && holds(place, pool))
            .collect()
    }

    /// The number of devices in one pool.
    pub(super) fn count(&self, place: usize) -> i64 {
        self.counts[place]
    }

    /// The number of devices in several pools.
    pub(super) fn sum(&self, places: &PoolSet) -> i64 {
        let counts = self.counts.iter().zip(places);
        counts
            .filter(|(_, is_in)| **is_in)
            .fold(0, |sum, (count, _)| sum.saturating_add(*count))
    }

    /// Takes the devices of a request out of the eligible pools.
    pub(super) fn take(
        &mut self,
        asked: &PreparedPciRequest<'_>,
        eligible: &EligiblePools,
        near: DeviceLocality<'_>,
        providers: Providers<'_>,
    ) -> Result<(), PciReason> {
        if !providers.is_any() {
            return self.take_allocated(asked, eligible, providers);
        }
        let mut wanted = asked.request.count;
        if eligible.order == PoolOrder::NearFirst {
            self.take_each(&mut wanted, eligible, |pool| is_close(pool, near));
            self.take_each(&mut wanted, eligible, |pool| !is_close(pool, near));
        } else {
            self.take_each(&mut wanted, eligible, |_| true);
        }
        Ok(())
    }

    /// Takes devices in the order of the pools until there are enough.
    fn take_each(
        &mut self,
        wanted: &mut i64,
        eligible: &EligiblePools,
        is_one: impl Fn(&PciSummary) -> bool,
    ) {
        for (place, pool) in self.pools.summaries().iter().enumerate() {
            if *wanted == 0 {
                return;
            }
            if !eligible.places[place] || !is_one(pool) {
                continue;
            }
            if self.counts[place] > *wanted {
                self.counts[place] -= *wanted;
                *wanted = 0;
            } else {
                *wanted -= self.counts[place];
                self.gone[place] = true;
            }
        }
    }

    /// Takes from each provider the number of devices that Placement allocated.
    fn take_allocated(
        &mut self,
        asked: &PreparedPciRequest<'_>,
        eligible: &EligiblePools,
        providers: Providers<'_>,
    ) -> Result<(), PciReason> {
        if let Some(rp_uuid) = self.split_provider() {
            return Err(PciReason::SplitProvider {
                request: asked.name(),
                rp_uuid: rp_uuid.to_owned(),
            });
        }
        for (place, pool) in self.pools.iter().enumerate() {
            if !eligible.places[place] {
                continue;
            }
            self.counts[place] -= pool.rp_uuid().map_or(0, |it| providers.devices_of(it));
            if self.counts[place] == 0 {
                self.gone[place] = true;
            }
        }
        Ok(())
    }

    /// A provider that has several pools.
    fn split_provider(&self) -> Option<&'p str> {
        if !self.pools.has_split_provider() {
            return None;
        }
        let of = |(place, pool): (usize, &'p PciPool)| pool.rp_uuid().map(|it| (place, it));
        self.iter().filter_map(of).find_map(|(place, provider)| {
            let mut others = self.iter().filter_map(of);
            let other = others.find(|(at, it)| *at != place && *it == provider);
            other.map(|_| provider)
        })
    }

    /// The host's pools after all requests.
    pub(super) fn into_pools(self) -> PciPools {
        let with_count = |(place, pool): (usize, &PciPool)| PciPool {
            count: self.counts[place],
            ..pool.clone()
        };
        PciPools::new(self.iter().map(with_count).collect())
    }
}

fn is_close(pool: &PciSummary, near: DeviceLocality<'_>) -> bool {
    match near {
        DeviceLocality::Anywhere => true,
        DeviceLocality::Cells { host, chosen } => is_near_or_unknown(pool, host, chosen),
    }
}
