//! Small clouds at random: never more than a search that tries every order, and each guest that is counted can be claimed.

use std::collections::BTreeMap;

use berth_client::placement::Candidate;
use proptest::prelude::*;
use serde_json::json;

use super::fits::{Amount, Cloud, SHARED, scheduler};
use super::*;

/// A host's candidates are of its root, perhaps one of its two devices, and perhaps the disk that all share.
fn candidate() -> impl Strategy<Value = Vec<Amount>> {
    let device = proptest::option::of(0u128..2);
    (1u128..3, 1u64..3, device, 0u64..3).prop_map(|(host, vcpus, device, disk)| {
        let mut amounts = vec![(host * 10, "VCPU", vcpus)];
        amounts.extend(device.map(|device| (host * 10 + 1 + device, "PGPU", 1)));
        if disk > 0 {
            amounts.push((SHARED, "DISK_GB", disk));
        }
        amounts
    })
}

fn cloud() -> impl Strategy<Value = Cloud> {
    let free = [10, 20, 11, 12, 21, 22, SHARED];
    let units = proptest::collection::vec(0u64..5, free.len());
    let candidates = proptest::collection::vec(candidate(), 0..5);
    (units, candidates).prop_map(move |(units, mut candidates)| {
        candidates.sort();
        candidates.dedup();
        let free = free.into_iter().zip(units).map(|(provider, units)| {
            let class = match provider {
                SHARED => "DISK_GB",
                root if root % 10 == 0 => "VCPU",
                _ => "PGPU",
            };
            (provider, class, units)
        });
        Cloud {
            free: free.collect(),
            candidates,
        }
    })
}

/// The most guests of all orders.
fn most(
    room: &FreeResources,
    candidates: &[Candidate],
    known: &mut BTreeMap<FreeResources, usize>,
) -> usize {
    if let Some(most) = known.get(room) {
        return *most;
    }
    let after = candidates.iter().filter_map(|candidate| {
        let mut after = room.clone();
        after.take(candidate).then_some(after)
    });
    let after: Vec<FreeResources> = after.collect();
    let best = after
        .iter()
        .map(|room| 1 + most(room, candidates, known))
        .max();
    let best = best.unwrap_or_default();
    known.insert(room.clone(), best);
    best
}

proptest! {
    #[test]
    fn what_is_counted_can_be_claimed_and_is_never_more_than_the_best_order_has(cloud in cloud()) {
        let found = cloud.answer();
        let (hosts, request) = cloud.hosts(&json!({}));
        let room = FreeResources::from_candidates(&found);
        let filled = fill_hosts(&scheduler(&["AllHostsFilter"]), &request, &hosts, room.clone());
        let best = most(&room, &found.candidates, &mut BTreeMap::new());
        prop_assert!(filled.guests.len() <= best, "{} of {best}", filled.guests.len());
        // None is only counted where there is none.
        prop_assert_eq!(filled.guests.is_empty(), best == 0);
        let mut left = room.clone();
        for candidate in &filled.guests {
            prop_assert!(left.take(candidate), "{candidate:?} in {left:?}");
        }
        // And no more could be claimed after them.
        let more = found.candidates.iter().find(|candidate| left.has(candidate));
        prop_assert!(more.is_none(), "{more:?}");
        let takes = |host: &&HeadroomHost| host.candidates.iter().any(|it| room.has(it));
        prop_assert_eq!(filled.hosts, hosts.iter().filter(takes).count());
    }

    #[test]
    fn a_filter_that_counts_guests_makes_it_less_and_keeps_to_its_number(cloud in cloud()) {
        let (hosts, request) = cloud.hosts(&json!({}));
        let room = FreeResources::from_candidates(&cloud.answer());
        let all = fill_hosts(&scheduler(&["AllHostsFilter"]), &request, &hosts, room.clone());
        let counted = scheduler(&["NumInstancesFilter"]);
        let some = fill_hosts(&counted, &request, &hosts, room);
        prop_assert_eq!(some.hosts, all.hosts);
        // Three are as many as a host may have.
        prop_assert!(some.guests.len() <= all.hosts * 3);
    }
}
