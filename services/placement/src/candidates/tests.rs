//! Compares the search with an exhaustive one, and tests shapes that are expensive for naive searches.

mod everything;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::options::{RequestPart, SearchGroup, SearchGroupPolicy, SearchRequest};
use super::search::{CandidateOrder, search};
use super::snapshot::{Member, Room, SHARES, Snapshot, SnapshotNames, SnapshotTree};
use crate::inventory::InventoryRecord;

const VCPU: i64 = 0;
const VGPU: i64 = 1;
const DISK: i64 = 2;
const FAST: i64 = 1;
const SAFE: i64 = 2;
const SHARING: i64 = 9;

fn names() -> SnapshotNames {
    SnapshotNames::new(
        vec![
            (VCPU, "VCPU".to_owned()),
            (VGPU, "VGPU".to_owned()),
            (DISK, "DISK_GB".to_owned()),
        ],
        vec![
            (FAST, "CUSTOM_FAST".to_owned()),
            (SAFE, "CUSTOM_SAFE".to_owned()),
            (SHARING, SHARES.to_owned()),
        ],
    )
}

fn room(class: i64, total: i64) -> Room {
    let inventory = InventoryRecord {
        total,
        reserved: 0,
        min_unit: 1,
        max_unit: total,
        step_size: 1,
        allocation_ratio: 1.0,
    };
    Room {
        class,
        inventory,
        used: 0,
    }
}

fn member(id: i64, parent: Option<usize>, rooms: Vec<Room>) -> Member {
    Member {
        id,
        uuid: format!("p{id}"),
        parent,
        rooms,
        traits: Vec::new(),
        aggregates: Vec::new(),
    }
}

/// A host with this number of GPUs, one unit each.
fn host(id: i64, gpus: i64) -> SnapshotTree {
    let children = (1..=gpus).map(|gpu| member(id + gpu, Some(0), vec![room(VGPU, 1)]));
    let root = member(id, None, vec![room(VCPU, 64)]);
    let members = std::iter::once(root).chain(children).collect();
    SnapshotTree::new(id, members).unwrap()
}

fn hosts(count: i64, gpus: i64) -> Snapshot {
    Snapshot::new(
        names(),
        (0..count).map(|host_index| host(1 + host_index * 100, gpus)),
    )
}

/// Groups of one class with these amounts.
fn groups(amounts: &[i64], class: i64, policy: SearchGroupPolicy) -> SearchRequest {
    let suffix = |index| format!("{}", index + 1);
    let groups = (0..amounts.len()).map(|index| SearchGroup {
        suffix: suffix(index),
        ..SearchGroup::default()
    });
    let parts = amounts
        .iter()
        .enumerate()
        .map(|(group, amount)| RequestPart {
            group,
            resources: vec![(class, *amount)],
        });
    SearchRequest {
        groups: groups.collect(),
        parts: parts.collect(),
        policy,
        ..SearchRequest::default()
    }
}

fn found(snapshot: &Snapshot, wanted: &SearchRequest, limit: usize) -> Vec<Vec<i64>> {
    let found = search(snapshot, wanted, limit, CandidateOrder::Fixed);
    let ids = |places: &[super::snapshot::MemberRef<'_>]| {
        places.iter().map(|place| place.member().id).collect()
    };
    found.candidates().map(ids).collect()
}

#[test]
fn the_case_that_explodes_elsewhere_is_counted_exactly() {
    let snapshot = hosts(1, 8);
    for (count, candidates) in [(3, 336), (4, 1_680), (5, 6_720), (6, 20_160)] {
        let wanted = groups(&vec![1; count], VGPU, SearchGroupPolicy::None);
        assert_eq!(found(&snapshot, &wanted, usize::MAX).len(), candidates);
        assert_eq!(
            found(&snapshot, &wanted, 1_000).len(),
            candidates.min(1_000)
        );
    }
}

#[test]
fn what_cannot_be_is_seen_without_trying_every_order() {
    // A search by trying alone would take longer than the age of the world.
    for policy in [SearchGroupPolicy::None, SearchGroupPolicy::Isolate] {
        let wanted = groups(&[1; 17], VGPU, policy);
        assert!(found(&hosts(3, 16), &wanted, 1).is_empty());
        let wanted = groups(&[1; 16], VGPU, policy);
        assert_eq!(found(&hosts(3, 16), &wanted, 30).len(), 30);
    }
}

#[test]
fn groups_for_which_few_providers_are_good_do_not_starve() {
    // Any group could use the one fast GPU that the last two need: they cannot both have it.
    let mut tree = host(1, 12);
    tree.members[1].traits = vec![FAST];
    let snapshot = Snapshot::new(names(), [tree]);
    let mut wanted = groups(&[1; 12], VGPU, SearchGroupPolicy::None);
    wanted.groups[11].required = vec![vec![FAST]];
    assert_eq!(found(&snapshot, &wanted, 10).len(), 10);
    wanted.groups[10].required = vec![vec![FAST]];
    assert!(found(&snapshot, &wanted, 10).is_empty());
}

#[test]
fn a_provider_over_its_capacity_in_one_class_serves_another() {
    let mut over = room(DISK, 1);
    over.used = 2;
    let root = member(1, None, vec![room(VCPU, 8), over]);
    let child = member(2, Some(0), vec![room(DISK, 2)]);
    let snapshot = Snapshot::new(names(), [SnapshotTree::new(1, vec![root, child]).unwrap()]);
    let mut wanted = groups(&[1, 1, 1], DISK, SearchGroupPolicy::None);
    wanted.parts[2].resources = vec![(VCPU, 1)];
    assert_eq!(found(&snapshot, &wanted, 10), [[2, 2, 1]]);
}

#[test]
fn a_limit_takes_from_every_tree_before_it_takes_twice_from_one() {
    let snapshot = hosts(50, 4);
    let wanted = groups(&[1, 1], VGPU, SearchGroupPolicy::Isolate);
    let per_tree = |limit| {
        let mut trees: BTreeMap<i64, usize> = BTreeMap::new();
        for candidate in found(&snapshot, &wanted, limit) {
            *trees.entry(candidate[0] / 100).or_default() += 1;
        }
        trees
    };
    assert!(per_tree(50).values().all(|count| *count == 1));
    assert_eq!(per_tree(50).len(), 50);
    assert!(per_tree(100).values().all(|count| *count == 2));
    assert_eq!(per_tree(20).len(), 20);
}

#[test]
fn another_order_is_the_same_set() {
    let snapshot = hosts(3, 3);
    let wanted = groups(&[1, 1], VGPU, SearchGroupPolicy::None);
    let ordered = |order| {
        let found = search(&snapshot, &wanted, usize::MAX, order);
        let ids = |places: &[super::snapshot::MemberRef<'_>]| {
            places
                .iter()
                .map(|place| place.member().id)
                .collect::<Vec<i64>>()
        };
        found.candidates().map(ids).collect::<Vec<_>>()
    };
    let fixed = ordered(CandidateOrder::Fixed);
    let random = ordered(CandidateOrder::Random(7));
    assert_ne!(fixed, random);
    assert_ne!(random, ordered(CandidateOrder::Random(8)));
    let set = |list: Vec<Vec<i64>>| list.into_iter().collect::<BTreeSet<_>>();
    assert_eq!(set(fixed), set(random));
}

fn some_room() -> impl Strategy<Value = Room> {
    let numbers = (0..3_i64, 1..6_i64, 0..3_i64, 1..6_i64, 1..3_i64, 0..3_i64);
    numbers.prop_map(|(class, total, reserved, max_unit, step_size, used)| Room {
        class,
        used,
        inventory: InventoryRecord {
            total,
            reserved: reserved.min(total),
            min_unit: 1,
            max_unit,
            step_size,
            allocation_ratio: if reserved == 2 { 1.5 } else { 1.0 },
        },
    })
}

fn some_of(ids: &'static [i64]) -> impl Strategy<Value = Vec<i64>> {
    proptest::sample::subsequence(ids, 0..=ids.len())
}

fn some_member() -> impl Strategy<Value = (usize, Vec<Room>, Vec<i64>, Vec<i64>)> {
    let rooms = proptest::collection::vec(some_room(), 0..3);
    (
        0..3_usize,
        rooms,
        some_of(&[FAST, SAFE, SHARING]),
        some_of(&[1, 2]),
    )
}

fn some_snapshot() -> impl Strategy<Value = Snapshot> {
    let tree = proptest::collection::vec(some_member(), 1..4);
    proptest::collection::vec(tree, 1..4).prop_map(|trees| {
        let trees = trees.into_iter().enumerate().map(|(number, members)| {
            let first = i64::try_from(number).unwrap() * 10 + 1;
            let members = members.into_iter().enumerate();
            let members = members.map(|(index, (parent, mut rooms, traits, aggregates))| {
                rooms.sort_by_key(|room| room.class);
                rooms.dedup_by_key(|room| room.class);
                Member {
                    traits,
                    aggregates: aggregates
                        .into_iter()
                        .map(|id| id.unsigned_abs().into())
                        .collect(),
                    ..member(
                        first + i64::try_from(index).unwrap(),
                        (index > 0).then(|| parent % index.max(1)),
                        rooms,
                    )
                }
            });
            SnapshotTree::new(first, members.collect()).unwrap()
        });
        Snapshot::new(names(), trees.collect::<Vec<_>>())
    })
}

fn some_group() -> impl Strategy<Value = (SearchGroup, Vec<(i64, i64)>)> {
    let resources = proptest::collection::btree_map(0..3_i64, 1..4_i64, 0..3);
    let rarely = |ids| prop_oneof![4 => Just(Vec::new()), 1 => some_of(ids)];
    let sets = |ids| {
        let set = some_of(ids).prop_filter("a set has members", |set| !set.is_empty());
        prop_oneof![3 => Just(Vec::new()), 1 => proptest::collection::vec(set, 1..3)]
    };
    let in_tree = prop_oneof![6 => Just(None), 1 => Just(Some(1_i64)), 1 => Just(Some(11))];
    (
        resources,
        sets(&[FAST, SAFE]),
        rarely(&[FAST, SAFE]),
        sets(&[1, 2]),
        rarely(&[1, 2]),
        in_tree,
    )
        .prop_map(
            |(resources, required, forbidden, member_of, apart, in_tree)| {
                let aggregates = |ids: Vec<i64>| ids.into_iter().map(|id| id.unsigned_abs().into());
                let group = SearchGroup {
                    suffix: String::new(),
                    required,
                    forbidden,
                    member_of: member_of
                        .into_iter()
                        .map(|set| aggregates(set).collect())
                        .collect(),
                    forbidden_aggregates: aggregates(apart).collect(),
                    in_tree,
                };
                (group, resources.into_iter().collect())
            },
        )
}

fn some_wanted() -> impl Strategy<Value = SearchRequest> {
    let rarely = || prop_oneof![4 => Just(Vec::new()), 1 => some_of(&[FAST, SAFE])];
    (
        proptest::option::of(some_group()),
        proptest::collection::vec(some_group(), 0..4),
        any::<bool>(),
        any::<bool>(),
        (rarely(), rarely()),
        proptest::bool::weighted(0.2),
    )
        .prop_map(|(spread, granular, isolate, subtree, root, blind)| {
            let mut wanted = SearchRequest {
                policy: if isolate {
                    SearchGroupPolicy::Isolate
                } else {
                    SearchGroupPolicy::None
                },
                root_required: root.0,
                root_forbidden: root.1,
                blind,
                ..SearchRequest::default()
            };
            if let Some((group, resources)) = spread.filter(|(_, resources)| !resources.is_empty())
            {
                let parts = resources.into_iter().map(|one| RequestPart {
                    group: 0,
                    resources: vec![one],
                });
                wanted.parts.extend(parts);
                wanted.groups.push(group);
            }
            let first = wanted.parts.len();
            for (number, (group, resources)) in granular.into_iter().enumerate() {
                if resources.is_empty() && (blind || !subtree) {
                    continue;
                }
                wanted.parts.push(RequestPart {
                    group: wanted.groups.len(),
                    resources,
                });
                wanted.groups.push(SearchGroup {
                    suffix: format!("_{number}"),
                    ..group
                });
            }
            if subtree && !blind {
                wanted
                    .same_subtrees
                    .push((first..wanted.parts.len()).collect());
            }
            wanted
        })
        .prop_filter("the request is not empty", |wanted| {
            !wanted.parts.is_empty()
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn exactly_what_is_possible_is_found(snapshot in some_snapshot(), wanted in some_wanted()) {
        let found = found(&snapshot, &wanted, usize::MAX);
        let set: BTreeSet<Vec<i64>> = found.iter().cloned().collect();
        prop_assert_eq!(set.len(), found.len(), "a candidate is there twice");
        prop_assert_eq!(set, everything::possible(&snapshot, &wanted));
    }

    #[test]
    fn a_limit_only_cuts(snapshot in some_snapshot(), wanted in some_wanted(), limit in 1..10_usize) {
        let all = found(&snapshot, &wanted, usize::MAX);
        let some = found(&snapshot, &wanted, limit);
        prop_assert_eq!(some.len(), all.len().min(limit));
        prop_assert!(some.iter().all(|one| all.contains(one)));
    }
}
