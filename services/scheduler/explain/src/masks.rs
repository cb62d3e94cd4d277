//! Sets of filters as bit masks, and the minimal ones among them.

use std::collections::{BTreeMap, BTreeSet};

/// Filters by their places: bit 0 is the first.
pub(super) type FilterMask = u64;

/// The maximum size of a recorded set.
pub(super) const LARGEST: u32 = 3;

/// The hosts that pass without a set of filters: how many, and the closest one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PassingHosts {
    pub(super) many: usize,
    /// The index of the closest one; the first of equals.
    pub(super) nearest: usize,
    /// How far it is from passing.
    pub(super) distance: f64,
    /// The index of the last counted host.
    last: usize,
}

/// Sets of filters, with the hosts that pass without them.
#[derive(Debug, Default)]
pub(super) struct HostsByFilters(BTreeMap<FilterMask, PassingHosts>);

impl HostsByFilters {
    /// Counts a host that passes without these filters. Hosts are counted in index order; duplicates count once.
    pub(super) fn count(&mut self, filters: FilterMask, place: usize, distance: f64) {
        let first = PassingHosts {
            many: 0,
            nearest: place,
            distance,
            last: usize::MAX,
        };
        let hosts = self.0.entry(filters).or_insert(first);
        if hosts.last != place {
            hosts.many += 1;
            hosts.last = place;
        }
        if distance < hosts.distance {
            (hosts.nearest, hosts.distance) = (place, distance);
        }
    }

    /// The hosts that pass without any.
    pub(super) fn passing(&self) -> usize {
        self.0.get(&0).map_or(0, |hosts| hosts.many)
    }

    /// The set with the fewest filters; among equals, that of the closest host.
    pub(super) fn nearest(&self) -> Option<(FilterMask, PassingHosts)> {
        let sets = self.0.iter().map(|(filters, hosts)| (*filters, *hosts));
        sets.min_by(|(a, one), (b, other)| {
            let by_distance = || one.distance.total_cmp(&other.distance);
            let by_size = a.count_ones().cmp(&b.count_ones());
            by_size.then_with(by_distance)
        })
    }

    /// The minimal sets of at most [`LARGEST`] filters: smallest first, then those that free most hosts. Empty if some
    /// host passes anyway.
    pub(super) fn smallest(&self) -> Vec<(FilterMask, PassingHosts)> {
        if self.passing() > 0 {
            return Vec::new();
        }
        let small = self.0.iter().filter(|(it, _)| it.count_ones() <= LARGEST);
        let is_smallest = |filters: FilterMask| {
            let mut parts = parts(filters);
            parts.all(|part| !self.0.contains_key(&part))
        };
        let smallest = small.filter(|(filters, _)| is_smallest(**filters));
        let mut smallest: Vec<_> = smallest
            .map(|(filters, hosts)| (*filters, *hosts))
            .collect();
        smallest.sort_by_key(|(filters, hosts)| (filters.count_ones(), usize::MAX - hosts.many));
        smallest
    }
}

/// All proper non-empty subsets. Called with few filters, so there are few.
pub(super) fn parts(filters: FilterMask) -> impl Iterator<Item = FilterMask> {
    let mut next = filters;
    std::iter::from_fn(move || {
        next = next.checked_sub(1)? & filters;
        (next != 0).then_some(next)
    })
}

/// The places of the filters in a set.
pub(super) fn places(filters: FilterMask) -> BTreeSet<usize> {
    (0..64).filter(|place| filters & bit(*place) != 0).collect()
}

/// The set of one filter.
pub(super) fn bit(place: usize) -> FilterMask {
    u32::try_from(place)
        .ok()
        .and_then(|place| 1_u64.checked_shl(place))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_which_a_part_will_do_is_not_reported() {
        for (hosts, smallest) in [
            (&[][..], &[][..]),
            (&[0, 0b1], &[]),
            (&[0b1, 0b11, 0b110], &[0b1, 0b110]),
            (&[0b11, 0b100, 0b111, 0b111], &[0b100, 0b11]),
            (&[0b1111], &[]),
            (&[0b1111, 0b1011], &[0b1011]),
            (&[0b1, 0b10, 0b10], &[0b10, 0b1]),
            (&[1 << 63, 0b1 | 1 << 63], &[1 << 63]),
        ] {
            let mut sets = HostsByFilters::default();
            for (place, filters) in hosts.iter().enumerate() {
                sets.count(*filters, place, 1.0);
            }
            let got: Vec<FilterMask> = sets.smallest().iter().map(|(it, _)| *it).collect();
            assert_eq!(got, smallest, "{hosts:?}");
        }
    }

    #[test]
    fn a_set_has_its_parts() {
        let parts = |filters| parts(filters).collect::<BTreeSet<_>>();
        assert_eq!(parts(0), BTreeSet::new());
        assert_eq!(parts(0b100), BTreeSet::new());
        assert_eq!(parts(0b101), [0b100, 0b1].into());
        assert_eq!(parts(0b111).len(), 6);
        assert_eq!(places(0b1010 | 1 << 63), [1, 3, 63].into());
    }

    #[test]
    fn the_nearest_host_is_the_one_that_lacks_least() {
        let mut sets = HostsByFilters::default();
        for (filters, place, distance) in [
            (0b11, 0, 0.1),
            (0b1, 1, 0.5),
            (0b1, 2, 0.25),
            (0b1, 2, 0.5),
            (0b1, 3, 0.25),
        ] {
            sets.count(filters, place, distance);
        }
        let (filters, hosts) = sets.nearest().expect("a set");
        assert_eq!((filters, hosts.many, hosts.nearest), (0b1, 3, 2));
    }
}
