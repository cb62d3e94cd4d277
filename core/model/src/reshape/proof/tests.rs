//! Canaries: wrong reshapes made by hand. The proof must refuse each one, and for the right reason.

use std::collections::{BTreeMap, BTreeSet};

use super::super::allocation_mover::MovedAllocations;
use super::*;
use crate::{
    Allocation, DesiredTree, Generation, Home, HomelessReason, Homes, Move, Provider, ProviderName,
    ProviderTree, Trait,
};

const ROOT: u128 = 1;
const GPU: u128 = 2;
const CYBORGS: u128 = 3;
const SHARED: u128 = 8;
const OTHER_HOST: u128 = 9;

fn uuid(n: u128) -> ProviderUuid {
    uuid::Uuid::from_u128(n).into()
}

fn consumer(n: u128) -> ConsumerUuid {
    uuid::Uuid::from_u128(n).into()
}

fn name(text: &str) -> ProviderName {
    ProviderName::new(text).unwrap()
}

fn of(total: u64) -> Inventory {
    Inventory::of(total).unwrap()
}

fn place(provider: u128, class: ResourceClass) -> (ProviderUuid, ResourceClass) {
    (uuid(provider), class)
}

/// A host with 4 VGPU, 16 VCPU and 64 GiB of memory on its root, a child of Cyborg's, and shared storage.
fn current() -> ProviderTree {
    let mut root = Provider::root(uuid(ROOT), name("gpu-01"));
    root.inventories.insert(ResourceClass::VGPU, of(4));
    root.inventories.insert(ResourceClass::VCPU, of(16));
    root.inventories
        .insert(ResourceClass::MEMORY_MB, of(65_536));
    let mut tree = ProviderTree::new(root);
    let mut cyborgs = Provider::child(uuid(CYBORGS), name("gpu-01_fpga"), uuid(ROOT));
    cyborgs.traits.insert(Trait::OWNER_CYBORG);
    cyborgs
        .inventories
        .insert(ResourceClass::new("FPGA").unwrap(), of(1));
    tree.insert(cyborgs).unwrap();
    let mut shared = Provider::root(uuid(SHARED), name("nfs"));
    shared.inventories.insert(ResourceClass::DISK_GB, of(100));
    tree.insert(shared).unwrap();
    tree
}

/// The VGPUs move to a child.
fn pending() -> PendingReshape {
    let mut tree = current();
    tree.root_mut().inventories.remove(&ResourceClass::VGPU);
    let mut gpu = Provider::child(uuid(GPU), name("gpu-01_pci_0000_84_00_0"), uuid(ROOT));
    gpu.traits.insert(Trait::OWNER_NOVA);
    gpu.inventories.insert(ResourceClass::VGPU, of(4));
    tree.insert(gpu).unwrap();
    let moves = vec![Move {
        provider: uuid(ROOT),
        class: ResourceClass::VGPU,
        to: BTreeSet::from([ResourceClass::VGPU]),
        reason: "each GPU has a provider of its own",
    }];
    PendingReshape::new(
        current(),
        DesiredTree {
            tree,
            moves,
            held_traits: std::collections::BTreeMap::new(),
        },
    )
}

/// Two consumers, the second with disk on shared storage and memory on another host.
fn before() -> Allocations {
    let holding = |resources: BTreeMap<_, _>| ConsumerAllocations {
        project_id: "p".into(),
        user_id: "u".into(),
        generation: Some(Generation::answered(1)),
        resources,
    };
    [
        (
            consumer(11),
            holding(BTreeMap::from([
                (place(ROOT, ResourceClass::VGPU), 2),
                (place(ROOT, ResourceClass::VCPU), 4),
            ])),
        ),
        (
            consumer(12),
            holding(BTreeMap::from([
                (place(ROOT, ResourceClass::VGPU), 1),
                (place(SHARED, ResourceClass::DISK_GB), 60),
                (place(OTHER_HOST, ResourceClass::MEMORY_MB), 512),
            ])),
        ),
    ]
    .into_iter()
    .collect()
}

fn request() -> ReshapeRequest {
    let whole = |allocation: &Allocation, _: &Allocations| Homes::At {
        homes: vec![Home {
            provider: uuid(GPU),
            class: ResourceClass::VGPU,
            amount: allocation.amount,
        }],
        rest: HomelessReason::Unknown,
    };
    pending().resolve(&before(), whole).unwrap()
}

/// The good request with one consumer's amounts changed by hand.
fn with(consumer_number: u128, changes: &[((ProviderUuid, ResourceClass), u64)]) -> ReshapeRequest {
    let mut request = request();
    let sent = request
        .allocations
        .get_mut(&consumer(consumer_number))
        .unwrap();
    for (place, amount) in changes {
        if *amount == 0 {
            sent.resources.remove(place);
        } else {
            sent.resources.insert(place.clone(), *amount);
        }
    }
    request
}

fn refusal(request: &ReshapeRequest) -> ReshapeRefused {
    prove(&pending(), &before(), request).unwrap_err()
}

#[test]
fn the_right_reshape_is_lawful() {
    assert_eq!(prove(&pending(), &before(), &request()), Ok(()));
}

#[test]
fn a_lost_a_doubled_and_a_renamed_unit_are_caught() {
    let fpga = ResourceClass::new("FPGA").unwrap();
    for changes in [
        vec![(place(GPU, ResourceClass::VGPU), 1)],
        vec![(place(ROOT, ResourceClass::VGPU), 2)],
        vec![
            (place(GPU, ResourceClass::VGPU), 0),
            (place(CYBORGS, fpga), 2),
        ],
        vec![(place(ROOT, ResourceClass::VCPU), 0)],
    ] {
        let refused = refusal(&with(11, &changes));
        assert!(
            matches!(refused, ReshapeRefused::NotConserved { .. }),
            "{refused}"
        );
    }
}

#[test]
fn an_allocation_elsewhere_that_is_forgotten_is_caught() {
    for elsewhere in [
        place(SHARED, ResourceClass::DISK_GB),
        place(OTHER_HOST, ResourceClass::MEMORY_MB),
    ] {
        let refused = refusal(&with(12, &[(elsewhere, 0)]));
        assert!(
            matches!(refused, ReshapeRefused::NotConserved { .. }),
            "{refused}"
        );
    }
}

#[test]
fn units_that_no_move_speaks_of_stay_where_they_are() {
    for (consumer, changes) in [
        (
            11,
            vec![
                (place(ROOT, ResourceClass::VCPU), 0),
                (place(GPU, ResourceClass::VCPU), 4),
            ],
        ),
        (
            12,
            vec![
                (place(SHARED, ResourceClass::DISK_GB), 0),
                (place(ROOT, ResourceClass::DISK_GB), 60),
            ],
        ),
        (
            12,
            vec![
                (place(GPU, ResourceClass::VGPU), 0),
                (place(OTHER_HOST, ResourceClass::VGPU), 1),
            ],
        ),
    ] {
        let refused = refusal(&with(consumer, &changes));
        assert!(
            matches!(refused, ReshapeRefused::OutsideTheMoves { .. }),
            "{refused}"
        );
    }
}

#[test]
fn a_consumer_that_is_another_or_new_is_caught() {
    let mut generation = request();
    let sent = generation.allocations.get_mut(&consumer(11)).unwrap();
    sent.generation = Some(Generation::answered(2));
    let mut project = request();
    let sent = project.allocations.get_mut(&consumer(11)).unwrap();
    sent.project_id = "another".into();
    let mut invented = request();
    let copy = invented.allocations[&consumer(11)].clone();
    invented.allocations.insert(consumer(77), copy);
    for wrong in [generation, project, invented] {
        let refused = refusal(&wrong);
        assert!(
            matches!(refused, ReshapeRefused::ConsumerChanged { .. }),
            "{refused}"
        );
    }
}

#[test]
fn what_is_sent_must_be_what_was_planned() {
    let mut forgotten = request();
    forgotten.inventories.remove(&uuid(ROOT));
    let mut bigger = request();
    let gpu = bigger.inventories.get_mut(&uuid(GPU)).unwrap();
    gpu.insert(ResourceClass::VGPU, of(8));
    let mut cyborgs = request();
    cyborgs.inventories.insert(uuid(CYBORGS), BTreeMap::new());
    let child = cyborgs.tree.get_mut(uuid(CYBORGS)).unwrap();
    child.inventories.clear();
    let mut unknown = request();
    let inventory = BTreeMap::from([(ResourceClass::VCPU, of(1))]);
    unknown.inventories.insert(uuid(OTHER_HOST), inventory);
    for wrong in [forgotten, bigger, cyborgs, unknown] {
        let refused = refusal(&wrong);
        assert!(
            matches!(refused, ReshapeRefused::NotAsPlanned { .. }),
            "{refused}"
        );
    }
}

/// A request with this inventory of this class on the provider, sent and planned alike.
fn offering(
    mut request: ReshapeRequest,
    provider: u128,
    class: &ResourceClass,
    inventory: Option<Inventory>,
) -> ReshapeRequest {
    let planned = request.tree.get_mut(uuid(provider)).unwrap();
    match inventory {
        Some(inventory) => planned.inventories.insert(class.clone(), inventory),
        None => planned.inventories.remove(class),
    };
    let inventories = planned.inventories.clone();
    request.inventories.insert(uuid(provider), inventories);
    request
}

#[test]
fn a_provider_with_too_little_inventory_for_all_its_users_is_caught() {
    let vgpu = ResourceClass::VGPU;
    let [small, closed, too_small_a_hold] = [
        Some(of(2)),
        Some(of(4).reserving(2)),
        Some(Inventory::holding(2).unwrap()),
    ]
    .map(|inventory| offering(request(), GPU, &vgpu, inventory));
    let none = offering(request(), GPU, &vgpu, None);
    let vcpu = offering(request(), ROOT, &ResourceClass::VCPU, Some(of(3)));
    let grown_hold = Some(Inventory::holding(3).unwrap());
    let grown_hold = offering(request(), GPU, &vgpu, grown_hold);
    for wrong in [small, closed, too_small_a_hold, none, vcpu, grown_hold] {
        let refused = refusal(&wrong);
        assert!(
            matches!(refused, ReshapeRefused::OverCapacity { .. }),
            "{refused}"
        );
    }
}

#[test]
fn an_existing_home_is_not_filled_beyond_its_capacity() {
    let small = |mut tree: ProviderTree| {
        let mut gpu = Provider::child(uuid(GPU), name("gpu-01_pci_0000_84_00_0"), uuid(ROOT));
        gpu.traits.insert(Trait::OWNER_NOVA);
        gpu.inventories.insert(ResourceClass::VGPU, of(2));
        tree.remove(uuid(GPU));
        tree.insert(gpu).unwrap();
        tree
    };
    let moves = pending().desired().moves.clone();
    let tree = small(pending().desired().tree.clone());
    let pending = PendingReshape::new(
        small(current()),
        DesiredTree {
            tree,
            moves,
            held_traits: std::collections::BTreeMap::new(),
        },
    );
    let mut wrong = request();
    wrong.current = small(wrong.current);
    wrong.tree = small(wrong.tree);
    wrong.inventories.remove(&uuid(GPU));
    let refused = prove(&pending, &before(), &wrong).unwrap_err();
    assert!(
        matches!(refused, ReshapeRefused::OverCapacity { used: 3, .. }),
        "{refused}"
    );
}

#[test]
fn a_sharing_provider_is_not_shrunk_below_its_known_usages() {
    for inventory in [Some(of(50)), None] {
        let wrong = offering(request(), SHARED, &ResourceClass::DISK_GB, inventory);
        let refused = refusal(&wrong);
        assert!(
            matches!(refused, ReshapeRefused::SharingProviderShrinks { .. }),
            "{refused}"
        );
    }
}

#[test]
fn an_amount_that_the_inventory_does_not_take_at_once_is_caught() {
    let singles = Inventory {
        max_unit: 1,
        ..of(4)
    };
    let wrong = offering(request(), GPU, &ResourceClass::VGPU, Some(singles));
    let refused = refusal(&wrong);
    assert!(
        matches!(refused, ReshapeRefused::UnitSize { .. }),
        "{refused}"
    );
}

#[test]
fn a_hold_that_shrinks_and_an_overage_that_does_not_grow_are_lawful() {
    // Half of consumer 11's units stay on the root, on a hold of exactly them.
    let (root, gpu) = (
        place(ROOT, ResourceClass::VGPU),
        place(GPU, ResourceClass::VGPU),
    );
    let part = with(11, &[(root, 1), (gpu, 1)]);
    let hold = Some(Inventory::holding(1).unwrap());
    let part = offering(part, ROOT, &ResourceClass::VGPU, hold);
    assert_eq!(prove(&pending(), &before(), &part), Ok(()));

    let mut over = before();
    over.insert(consumer(13), {
        let mut fat = over.of(&consumer(11)).unwrap().clone();
        fat.resources = BTreeMap::from([(place(ROOT, ResourceClass::VCPU), 40)]);
        fat
    });
    assert_eq!(prove(&pending(), &over, &request()), Ok(()));
    let vcpus = |inventory| offering(request(), ROOT, &ResourceClass::VCPU, Some(inventory));
    let wider = Inventory {
        max_unit: 40,
        ..of(16)
    };
    assert_eq!(prove(&pending(), &over, &vcpus(wider)), Ok(()));
    let worse = prove(&pending(), &over, &vcpus(of(15))).unwrap_err();
    assert!(
        matches!(worse, ReshapeRefused::OverCapacity { .. }),
        "{worse}"
    );
}

#[test]
fn classes_joined_by_several_moves_count_as_one() {
    let class = |text: &str| ResourceClass::new(text).unwrap();
    let [a, b, c, d] = ["CUSTOM_A", "CUSTOM_B", "CUSTOM_C", "CUSTOM_D"].map(class);
    let to = |from: &ResourceClass, to: &[&ResourceClass]| Move {
        provider: uuid(ROOT),
        class: from.clone(),
        to: to.iter().map(|class| (*class).clone()).collect(),
        reason: "",
    };
    let moves = vec![to(&a, &[&b]), to(&c, &[&d]), to(&b, &[&c])];
    let tree = current();
    let names = renamed_classes(&PendingReshape::new(
        tree.clone(),
        DesiredTree {
            tree,
            moves,
            held_traits: std::collections::BTreeMap::new(),
        },
    ));
    let distinct: BTreeSet<_> = names.values().collect();
    assert_eq!((names.len(), distinct.len()), (4, 1));
}

#[test]
fn a_bug_in_the_placing_cannot_hide() {
    // As if the placing had dropped a consumer's moved units: the request is then made from its wrong account.
    let mut after = before();
    let held = after.of_mut(&consumer(11)).unwrap();
    held.resources.remove(&place(ROOT, ResourceClass::VGPU));
    let placed = MovedAllocations {
        after,
        moved: Vec::new(),
        homeless: Vec::new(),
    };
    let tree = pending().desired().tree.clone();
    let wrong = ReshapeRequest::new(&pending(), tree, &before(), placed, Vec::new());
    assert!(matches!(
        refusal(&wrong),
        ReshapeRefused::NotConserved { .. }
    ));
}
