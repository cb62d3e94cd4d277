//! The homes of units, case by case, and the refusals.

use berth_model::{
    Allocation, Allocations, DesiredTree, Home, HomelessReason, Homes, Inventory, PendingReshape,
    Plan, ReshapeRefused, Usages, plan,
};

use super::build::*;

fn one(resources: &[(berth_model::ProviderUuid, &str, u64)]) -> Allocations {
    [(consumer(0x11), holding(resources))].into_iter().collect()
}

fn vgpu_to_two_gpus() -> PendingReshape {
    let current = tree([root(&[("VGPU", 8), ("VCPU", 16)]), shared_storage(100)]);
    let desired = tree([
        root(&[("VCPU", 16)]),
        child("a", &[("VGPU", 4)]),
        child("b", &[("VGPU", 4)]),
        shared_storage(100),
    ]);
    pending(
        &current,
        &desired,
        &[leaves(root_uuid(), "VGPU", &["VGPU"])],
    )
}

#[test]
fn one_allocation_may_be_split_over_several_homes() {
    let before = one(&[
        (root_uuid(), "VGPU", 3),
        (uuid(OTHER_HOST), "VGPU", 3),
        (uuid(SHARED), "DISK_GB", 60),
    ]);
    let homes = |_: &Allocation, _: &Allocations| Homes::At {
        homes: ["a", "b", "a"]
            .map(|gpu| Home {
                provider: child_uuid(gpu),
                class: class("VGPU"),
                amount: 1,
            })
            .to_vec(),
        rest: HomelessReason::Unknown,
    };
    let request = vgpu_to_two_gpus().resolve(&before, homes).unwrap();
    let after = request.afterwards(&before);
    let at = |provider, text| amount(&after, consumer(0x11), provider, text);
    assert_eq!(
        [at(child_uuid("a"), "VGPU"), at(child_uuid("b"), "VGPU")],
        [2, 1]
    );
    assert_eq!(at(root_uuid(), "VGPU"), 0);
    assert_eq!(
        [at(uuid(OTHER_HOST), "VGPU"), at(uuid(SHARED), "DISK_GB")],
        [3, 60]
    );
    assert!(!request.inventories().contains_key(&uuid(SHARED)));
}

#[test]
fn a_driver_that_contradicts_itself_is_refused_and_named() {
    let before = one(&[(root_uuid(), "VGPU", 2)]);
    let any = |text, provider| Homes::AnyOf {
        class: class(text),
        providers: vec![provider],
    };
    for (homes, reason) in [
        (whole(uuid(0x77), "VGPU", 2), "which is not in its tree"),
        (any("VGPU", uuid(0x77)), "which is not in its tree"),
        (
            whole(child_uuid("a"), "PGPU", 2),
            "which the move does not name",
        ),
        (any("PGPU", child_uuid("a")), "which the move does not name"),
        (whole(child_uuid("a"), "VGPU", 3), "which holds 2"),
        (whole(child_uuid("a"), "VGPU", u64::MAX), "which holds 2"),
    ] {
        let refused = vgpu_to_two_gpus()
            .resolve(&before, |_, _| homes.clone())
            .unwrap_err();
        assert!(refused.to_string().contains(reason), "{refused}");
        assert_eq!(refused.disposition(), berth_model::Disposition::Fatal);
    }
}

#[test]
fn a_sharing_provider_is_not_shrunk_below_its_users() {
    let current = tree([root(&[("VGPU", 8)]), shared_storage(100)]);
    let desired = tree([root(&[]), child("a", &[("VGPU", 8)]), shared_storage(50)]);
    let before = one(&[(root_uuid(), "VGPU", 1), (uuid(SHARED), "DISK_GB", 60)]);
    let moves = [leaves(root_uuid(), "VGPU", &["VGPU"])];
    let refused = pending(&current, &desired, &moves)
        .resolve(&before, |_, _| whole(child_uuid("a"), "VGPU", 1))
        .unwrap_err();
    assert!(matches!(
        refused,
        ReshapeRefused::SharingProviderShrinks {
            used: 60,
            capacity: 50,
            ..
        }
    ));
}

#[test]
fn a_shrinking_that_is_no_move_waits_for_the_plain_update() {
    let current = tree([root(&[("VGPU", 8), ("VCPU", 16)])]);
    let desired = tree([root(&[("VCPU", 4)]), child("a", &[("VGPU", 8)])]);
    let before = one(&[(root_uuid(), "VGPU", 1), (root_uuid(), "VCPU", 10)]);
    let moves = [leaves(root_uuid(), "VGPU", &["VGPU"])];
    let request = pending(&current, &desired, &moves)
        .resolve(&before, |_, _| whole(child_uuid("a"), "VGPU", 1))
        .unwrap();
    assert_eq!(
        request.tree().inventory(root_uuid(), &class("VCPU")),
        Some(&of(16))
    );
    let next = DesiredTree {
        tree: desired,
        moves: moves.to_vec(),
        held_traits: std::collections::BTreeMap::new(),
    };
    let usages = usages(request.tree(), &request.afterwards(&before));
    let Plan::Update { diff, .. } = plan(request.tree(), next, &usages) else {
        panic!()
    };
    assert!(
        diff.to_string().contains("inventory VCPU: 16 -> 4"),
        "{diff}"
    );
}

#[test]
fn what_a_consumer_of_the_call_holds_elsewhere_is_still_taken_at_once() {
    // The root shall offer 8 VCPU, at most 8 per allocation; the guest with the moving VGPU has 12 of 16 at a ratio of
    // 4.
    let ratio = berth_model::AllocationRatio::new(4.0).unwrap();
    let vcpus = |total| of(total).with_ratio(ratio);
    let mut current = tree([root(&[("VGPU", 8)])]);
    current
        .root_mut()
        .inventories
        .insert(class("VCPU"), vcpus(16));
    let mut desired = tree([root(&[]), child("a", &[("VGPU", 8)])]);
    desired
        .root_mut()
        .inventories
        .insert(class("VCPU"), vcpus(8));
    let before = one(&[(root_uuid(), "VGPU", 1), (root_uuid(), "VCPU", 12)]);
    let moves = [leaves(root_uuid(), "VGPU", &["VGPU"])];
    let request = pending(&current, &desired, &moves)
        .resolve(&before, |_, _| whole(child_uuid("a"), "VGPU", 1))
        .unwrap();
    let sent = request
        .tree()
        .inventory(root_uuid(), &class("VCPU"))
        .unwrap();
    assert_eq!((sent.total, sent.max_unit), (8, 12));
    let next = DesiredTree {
        tree: desired.clone(),
        moves: Vec::new(),
        held_traits: std::collections::BTreeMap::new(),
    };
    let Plan::Update { diff, .. } = plan(request.tree(), next, &Usages::new()) else {
        panic!()
    };
    assert_eq!(diff.apply(request.tree()).unwrap(), desired);
}

#[test]
fn memory_that_shrank_after_its_claim_does_not_refuse_a_reshape_of_something_else() {
    let shrunk = [("MEMORY_MB", 512)];
    let current = tree([root(&[("VGPU", 8), shrunk[0]])]);
    for (amounts, wanted) in [([1024, 0], 512), ([400, 400], 512), ([1024, 0], 256)] {
        let desired = tree([root(&[("MEMORY_MB", wanted)]), child("a", &[("VGPU", 8)])]);
        let before: Allocations = (0x11..)
            .zip(amounts)
            .filter(|(_, amount)| *amount > 0)
            .map(|(n, amount)| {
                let held = [(root_uuid(), "VGPU", 1), (root_uuid(), "MEMORY_MB", amount)];
                (consumer(n), holding(&held))
            })
            .collect();
        let moves = [leaves(root_uuid(), "VGPU", &["VGPU"])];
        let request = pending(&current, &desired, &moves)
            .resolve(&before, |_, _| whole(child_uuid("a"), "VGPU", 1))
            .unwrap();
        let sent = request.tree().inventory(root_uuid(), &class("MEMORY_MB"));
        let most = amounts[0].max(512);
        let widened = Inventory {
            max_unit: u32::try_from(most).unwrap(),
            ..of(512)
        };
        assert_eq!(sent, Some(&widened), "{amounts:?}");
        assert_eq!(request.moved().len(), before.len());
        assert!(request.held().is_empty(), "{request}");
    }
}

#[test]
fn units_that_a_home_does_not_take_at_once_stay() {
    let current = tree([root(&[("VGPU", 8)])]);
    let mut gpu = child("a", &[("VGPU", 8)]);
    let pairs = Inventory {
        min_unit: 2,
        step_size: 2,
        ..of(8)
    };
    gpu.inventories.insert(class("VGPU"), pairs);
    let desired = tree([root(&[]), gpu]);
    let before: Allocations = [
        (consumer(0x11), holding(&[(root_uuid(), "VGPU", 1)])),
        (consumer(0x12), holding(&[(root_uuid(), "VGPU", 2)])),
    ]
    .into_iter()
    .collect();
    let request = pending(
        &current,
        &desired,
        &[leaves(root_uuid(), "VGPU", &["VGPU"])],
    )
    .resolve(&before, |allocation, _| {
        whole(child_uuid("a"), "VGPU", allocation.amount)
    })
    .unwrap();
    assert_eq!(request.moved().len(), 1);
    let [(stays, reason)] = request.homeless() else {
        panic!()
    };
    assert_eq!(
        (stays.consumer, reason.to_string()),
        (
            consumer(0x11),
            "gpu-01_a takes no such amount at once".into()
        )
    );
}

#[test]
fn vcpu_parts_into_shared_and_dedicated() {
    let current = tree([root(&[("VCPU", 16)])]);
    let desired = tree([root(&[("VCPU", 8), ("PCPU", 8)])]);
    let before: Allocations = (0..3)
        .map(|n| (consumer(0x11 + n), holding(&[(root_uuid(), "VCPU", 4)])))
        .collect();
    // The first is pinned, the second half, the third shares.
    let pinned = [4, 2, 0];
    let homes = |allocation: &Allocation, _: &Allocations| {
        let n = (0..3)
            .find(|n| consumer(0x11 + n) == allocation.consumer)
            .unwrap();
        let dedicated = pinned[usize::try_from(n).unwrap()];
        let home = |text, amount| Home {
            provider: root_uuid(),
            class: class(text),
            amount,
        };
        Homes::At {
            homes: vec![home("PCPU", dedicated), home("VCPU", 4 - dedicated)],
            rest: HomelessReason::Unknown,
        }
    };
    let moves = [leaves(root_uuid(), "VCPU", &["VCPU", "PCPU"])];
    let request = pending(&current, &desired, &moves)
        .resolve(&before, homes)
        .unwrap();
    let after = request.afterwards(&before);
    for (n, dedicated) in (0..3).zip(pinned) {
        let at = |text| amount(&after, consumer(0x11 + n), root_uuid(), text);
        assert_eq!([at("PCPU"), at("VCPU")], [dedicated, 4 - dedicated]);
    }
    assert!(request.homeless().is_empty() && request.held().is_empty());
    assert_eq!(request.tree(), &desired);
}

#[test]
fn a_group_goes_whole_to_the_first_home_with_room_for_all_of_it() {
    let current = tree([root(&[("VCPU", 16), ("MEMORY_MB", 4096)])]);
    let cell = |n, vcpus, memory| child(n, &[("VCPU", vcpus), ("MEMORY_MB", memory)]);
    let desired = tree([root(&[]), cell("numa0", 8, 1024), cell("numa1", 8, 3072)]);
    let guest = |vcpus, memory| {
        holding(&[
            (root_uuid(), "VCPU", vcpus),
            (root_uuid(), "MEMORY_MB", memory),
        ])
    };
    let before: Allocations = [
        (consumer(0x11), guest(4, 1024)),
        (consumer(0x12), guest(4, 1024)),
        (consumer(0x13), guest(6, 1024)),
    ]
    .into_iter()
    .collect();
    let moves = [
        leaves(root_uuid(), "VCPU", &["VCPU"]),
        leaves(root_uuid(), "MEMORY_MB", &["MEMORY_MB"]),
    ];
    let homes = |allocation: &Allocation, _: &Allocations| Homes::AnyOf {
        class: allocation.class.clone(),
        providers: vec![child_uuid("numa0"), child_uuid("numa1")],
    };
    let request = pending(&current, &desired, &moves)
        .resolve(&before, homes)
        .unwrap();
    let after = request.afterwards(&before);
    let vcpus = |n, provider| amount(&after, consumer(n), provider, "VCPU");
    assert_eq!(vcpus(0x11, child_uuid("numa0")), 4);
    assert_eq!(
        vcpus(0x12, child_uuid("numa1")),
        4,
        "its memory does not fit next to the first one's"
    );
    assert_eq!(
        vcpus(0x13, root_uuid()),
        6,
        "neither has room for both its classes"
    );
    let held: Vec<_> = request.held().iter().map(ToString::to_string).collect();
    assert_eq!(
        held,
        ["1024 MEMORY_MB held on gpu-01", "6 VCPU held on gpu-01"]
    );
}

#[test]
fn renames_in_a_chain_make_room_for_each_other() {
    // A becomes B while B becomes C: the B units leave first, whatever the order of the consumers.
    let current = tree([root(&[("CUSTOM_A", 2), ("CUSTOM_B", 2)])]);
    let desired = tree([root(&[("CUSTOM_B", 2), ("CUSTOM_C", 2)])]);
    let before: Allocations = [
        (consumer(0x11), holding(&[(root_uuid(), "CUSTOM_A", 2)])),
        (consumer(0x12), holding(&[(root_uuid(), "CUSTOM_B", 2)])),
    ]
    .into_iter()
    .collect();
    let moves = [
        leaves(root_uuid(), "CUSTOM_A", &["CUSTOM_B"]),
        leaves(root_uuid(), "CUSTOM_B", &["CUSTOM_C"]),
    ];
    let homes = |allocation: &Allocation, _: &Allocations| {
        let new_name = if allocation.class == class("CUSTOM_A") {
            "CUSTOM_B"
        } else {
            "CUSTOM_C"
        };
        whole(root_uuid(), new_name, allocation.amount)
    };
    let request = pending(&current, &desired, &moves)
        .resolve(&before, homes)
        .unwrap();
    assert!(request.homeless().is_empty(), "{request}");
    assert_eq!(request.tree(), &desired);
}

#[test]
fn two_places_that_exchange_their_units_hold_what_cannot_move() {
    let current = tree([
        root(&[]),
        child("a", &[("VGPU", 2)]),
        child("b", &[("VGPU", 2)]),
    ]);
    let before: Allocations = [
        (consumer(0x11), holding(&[(child_uuid("a"), "VGPU", 2)])),
        (consumer(0x12), holding(&[(child_uuid("b"), "VGPU", 2)])),
    ]
    .into_iter()
    .collect();
    let moves = ["a", "b"].map(|gpu| leaves(child_uuid(gpu), "VGPU", &["VGPU"]));
    let homes = |allocation: &Allocation, _: &Allocations| {
        let other = if allocation.provider == child_uuid("a") {
            "b"
        } else {
            "a"
        };
        whole(child_uuid(other), "VGPU", 2)
    };
    let desired = tree([
        root(&[]),
        child("a", &[("VGPU", 2)]),
        child("b", &[("VGPU", 2)]),
        child("c", &[("VGPU", 1)]),
    ]);
    let request = pending(&current, &desired, &moves)
        .resolve(&before, homes)
        .unwrap();
    assert!(
        request.moved().is_empty(),
        "neither has room while the other is there: {request}"
    );
    assert_eq!(request.homeless().len(), 2);
}

#[test]
fn moves_that_change_no_inventory_need_no_reshape() {
    let current = tree([root(&[("VGPU", 2)]), child("a", &[("VGPU", 2)])]);
    let named = |tree: &berth_model::ProviderTree| DesiredTree {
        tree: tree.clone(),
        moves: vec![leaves(root_uuid(), "VGPU", &["VGPU"])],
        held_traits: std::collections::BTreeMap::new(),
    };
    let in_sync = plan(&current, named(&current), &Usages::new());
    assert!(
        matches!(in_sync, Plan::InSync { .. }),
        "a start would find it again: {in_sync}"
    );
    let mut more = current.clone();
    more.root_mut().inventories.insert(class("PCPU"), of(4));
    let plain = plan(&current, named(&more), &Usages::new());
    assert!(matches!(plain, Plan::Update { .. }), "{plain}");
    let room = tree([root(&[("VGPU", 2)]), child("a", &[("VGPU", 4)])]);
    let needed = plan(&current, named(&room), &Usages::new());
    assert!(matches!(needed, Plan::ReshapeNeeded(_)), "{needed}");
}

#[test]
fn held_units_whose_guest_is_known_again_move_at_a_start() {
    let mut current = tree([root(&[("VCPU", 16)]), child("a", &[("VGPU", 4)])]);
    let hold = Inventory::holding(2).unwrap();
    current.root_mut().inventories.insert(class("VGPU"), hold);
    let desired = DesiredTree {
        tree: tree([root(&[("VCPU", 16)]), child("a", &[("VGPU", 4)])]),
        moves: vec![leaves(root_uuid(), "VGPU", &["VGPU"])],
        held_traits: std::collections::BTreeMap::new(),
    };
    let before = one(&[(root_uuid(), "VGPU", 2)]);
    let pending = PendingReshape::rehoming(&current, &desired).unwrap();
    let request = pending
        .clone()
        .resolve(&before, |_, _| whole(child_uuid("a"), "VGPU", 2))
        .unwrap();
    assert_eq!(request.tree(), &desired.tree);
    let nowhere = |_: &Allocation, _: &Allocations| Homes::Nowhere(HomelessReason::NoGuest);
    let request = pending.resolve(&before, nowhere).unwrap();
    assert!(
        request.is_empty(),
        "an orphan's hold is not sent again: {request}"
    );
    assert_eq!(request.held().len(), 1);
}

#[test]
fn inventory_that_goes_without_a_move_is_held_for_those_who_use_it() {
    let current = tree([root(&[("VGPU", 8)]), child("old", &[("SRIOV_NET_VF", 4)])]);
    let desired = tree([root(&[]), child("a", &[("VGPU", 8)])]);
    let before = one(&[
        (root_uuid(), "VGPU", 1),
        (child_uuid("old"), "SRIOV_NET_VF", 2),
    ]);
    let request = pending(
        &current,
        &desired,
        &[leaves(root_uuid(), "VGPU", &["VGPU"])],
    )
    .resolve(&before, |_, _| whole(child_uuid("a"), "VGPU", 1))
    .unwrap();
    let left = request
        .tree()
        .inventory(child_uuid("old"), &class("SRIOV_NET_VF"));
    assert_eq!(left, Some(&Inventory::holding(2).unwrap()));
}

#[test]
fn amounts_beyond_all_reason_are_refused_not_panicked_on() {
    let before: Allocations = [
        (consumer(0x11), holding(&[(root_uuid(), "VGPU", u64::MAX)])),
        (consumer(0x12), holding(&[(root_uuid(), "VGPU", u64::MAX)])),
    ]
    .into_iter()
    .collect();
    let nowhere = |_: &Allocation, _: &Allocations| Homes::Nowhere(HomelessReason::NoGuest);
    assert!(vgpu_to_two_gpus().resolve(&before, nowhere).is_err());
}
