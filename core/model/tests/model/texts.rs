//! The texts that an operator reads: a diff, a plan and a reshape.

use berth_model::{
    Allocation, Allocations, DesiredTree, HomelessReason, Homes, Plan, Trait, Usages, diff, plan,
};

use super::build::*;

fn flat() -> berth_model::ProviderTree {
    tree([root(&[("VCPU", 16), ("VGPU", 8)]), shared_storage(100)])
}

fn per_gpu() -> berth_model::ProviderTree {
    let mut gpu = child("pci_0000_84_00_0", &[("VGPU", 4)]);
    gpu.traits.insert(Trait::OWNER_NOVA);
    tree([
        root(&[("VCPU", 16)]),
        gpu,
        child("pci_0000_85_00_0", &[("VGPU", 4)]),
        shared_storage(100),
    ])
}

#[test]
fn a_diff_shows_what_comes_changes_and_goes() {
    let mut current = tree([
        root(&[("VCPU", 16), ("CUSTOM_OLD", 1)]),
        child("gone", &[("VGPU", 1)]),
        child("kept", &[]),
    ]);
    current.root_mut().traits.insert(Trait::COMPUTE_NODE);
    current
        .root_mut()
        .traits
        .insert(Trait::COMPUTE_STATUS_DISABLED);
    let mut desired = tree([
        root(&[("VCPU", 32), ("MEMORY_MB", 1024)]),
        child("kept", &[]),
        child("made", &[("VGPU", 4)]),
    ]);
    desired.root_mut().traits.insert(Trait::COMPUTE_NODE);
    desired.root_mut().traits.insert(Trait::OWNER_NOVA);
    desired.root_mut().name = name("gpu-02");
    desired
        .place_under(child_uuid("kept"), child_uuid("made"))
        .unwrap();
    let made = child_uuid("made");
    let aggregate = uuid::Uuid::from_u128(0xa).into();
    desired.get_mut(made).unwrap().aggregates.insert(aggregate);
    insta::assert_snapshot!(diff(&current, &desired).to_string(), @r"
    + gpu-01_made
        inventory VGPU: 4
        aggregates: +00000000-0000-0000-0000-00000000000a
    ~ gpu-01
        name: gpu-01 -> gpu-02
        inventory MEMORY_MB: none -> 1024
        inventory VCPU: 16 -> 32
        inventory CUSTOM_OLD: 1 -> none
        traits: +OWNER_NOVA
        traits: -COMPUTE_STATUS_DISABLED
    ~ gpu-01_kept
        parent: gpu-01_made
    - gpu-01_gone
    ");
}

#[test]
fn a_plan_says_which_of_the_three_it_is() {
    let same = DesiredTree {
        tree: flat(),
        moves: Vec::new(),
        held_traits: std::collections::BTreeMap::new(),
    };
    insta::assert_snapshot!(plan(&flat(), same, &Usages::new()).to_string(), @"in sync");

    let less = DesiredTree {
        tree: tree([root(&[("VCPU", 16)]), shared_storage(100)]),
        moves: Vec::new(),
        held_traits: std::collections::BTreeMap::new(),
    };
    let used = [((root_uuid(), class("VGPU")), 3)].into();
    insta::assert_snapshot!(plan(&flat(), less, &used).to_string(), @r"
    update
    ~ gpu-01
        inventory VGPU: 8 -> 3 reserved 3 held
    ! 3 VGPU held on gpu-01
    ");

    let moved = DesiredTree {
        tree: per_gpu(),
        moves: vec![leaves(root_uuid(), "VGPU", &["VGPU"])],
        held_traits: std::collections::BTreeMap::new(),
    };
    insta::assert_snapshot!(plan(&flat(), moved, &Usages::new()).to_string(), @r"
    reshape needed
      VGPU leaves gpu-01: it is modelled elsewhere
    + gpu-01_pci_0000_84_00_0
        inventory VGPU: 4
        traits: +OWNER_NOVA
    + gpu-01_pci_0000_85_00_0
        inventory VGPU: 4
    ~ gpu-01
        inventory VGPU: 8 -> none
    ");

    let split = DesiredTree {
        tree: tree([root(&[("VCPU", 8), ("PCPU", 8), ("VGPU", 8)])]),
        moves: vec![leaves(root_uuid(), "VCPU", &["VCPU", "PCPU"])],
        held_traits: std::collections::BTreeMap::new(),
    };
    let Plan::ReshapeNeeded(pending) = plan(&flat(), split, &Usages::new()) else {
        panic!()
    };
    insta::assert_snapshot!(pending.to_string(), @r"
    reshape needed
      VCPU on gpu-01 becomes PCPU and VCPU: it is modelled elsewhere
    ~ gpu-01
        inventory PCPU: none -> 8
        inventory VCPU: 16 -> 8
    ");
}

#[test]
fn a_reshape_shows_every_unit_that_moves_or_stays() {
    let allocations: Allocations = [
        (
            consumer(0x11),
            holding(&[(root_uuid(), "VGPU", 2), (root_uuid(), "VCPU", 4)]),
        ),
        (consumer(0x12), holding(&[(root_uuid(), "VGPU", 1)])),
        (consumer(0x13), holding(&[(root_uuid(), "VGPU", 3)])),
    ]
    .into_iter()
    .collect();
    let homes = |allocation: &Allocation, _: &Allocations| {
        if allocation.consumer == consumer(0x11) {
            whole(child_uuid("pci_0000_84_00_0"), "VGPU", 2)
        } else if allocation.consumer == consumer(0x12) {
            Homes::Nowhere(HomelessReason::NoGuest)
        } else {
            let mut homes = whole(child_uuid("pci_0000_85_00_0"), "VGPU", 1);
            if let Homes::At { rest, .. } = &mut homes {
                *rest = HomelessReason::DeviceGone {
                    device: "gpu-01_pci_0000_86_00_0".into(),
                };
            }
            homes
        }
    };
    let pending = pending(
        &flat(),
        &per_gpu(),
        &[leaves(root_uuid(), "VGPU", &["VGPU"])],
    );
    let request = pending.resolve(&allocations, homes).unwrap();
    insta::assert_snapshot!(request.to_string(), @r"
    reshape: inventory of 3 providers, allocations of 2 consumers
    + gpu-01_pci_0000_84_00_0
        inventory VGPU: 4
        traits: +OWNER_NOVA
    + gpu-01_pci_0000_85_00_0
        inventory VGPU: 4
    ~ gpu-01
        inventory VGPU: 8 -> 3 reserved 3 held
    > 2 VGPU of 00000000-0000-0000-0000-000000000011: gpu-01 -> gpu-01_pci_0000_84_00_0
    > 1 VGPU of 00000000-0000-0000-0000-000000000013: gpu-01 -> gpu-01_pci_0000_85_00_0
    ! 1 VGPU of 00000000-0000-0000-0000-000000000012 stay on gpu-01: no guest of this node is the consumer
    ! 2 VGPU of 00000000-0000-0000-0000-000000000013 stay on gpu-01: its device gpu-01_pci_0000_86_00_0 is gone or not configured
    ");
}

#[test]
fn a_renamed_class_is_named_in_the_reshape() {
    let current = tree([root(&[("CUSTOM_FPGA_BOARD", 2)])]);
    let desired = tree([root(&[("FPGA", 2)])]);
    let allocations: Allocations = [(
        consumer(0x11),
        holding(&[(root_uuid(), "CUSTOM_FPGA_BOARD", 1)]),
    )]
    .into_iter()
    .collect();
    let moves = [leaves(root_uuid(), "CUSTOM_FPGA_BOARD", &["FPGA"])];
    let request = pending(&current, &desired, &moves)
        .resolve(&allocations, |_, _| whole(root_uuid(), "FPGA", 1))
        .unwrap();
    insta::assert_snapshot!(request.to_string(), @r"
    reshape: inventory of 1 provider, allocations of 1 consumer
    ~ gpu-01
        inventory FPGA: none -> 2
        inventory CUSTOM_FPGA_BOARD: 2 -> none
    > 1 CUSTOM_FPGA_BOARD of 00000000-0000-0000-0000-000000000011: gpu-01 -> gpu-01 as FPGA
    ");
}

#[test]
fn a_reserve_that_does_not_move_along_is_reported() {
    let reserving = |mut tree: berth_model::ProviderTree, text, units| {
        let inventories = &mut tree.root_mut().inventories;
        let inventory = inventories[&class(text)].clone().reserving(units);
        inventories.insert(class(text), inventory);
        tree
    };
    let warnings = |current, desired, moves: &[_]| {
        let request = pending(&current, &desired, moves)
            .resolve(&Allocations::none(), |_, _| unreachable!())
            .unwrap();
        let text = request.to_string();
        let warnings = text.lines().filter(|line| line.starts_with('!'));
        warnings.map(str::to_owned).collect::<Vec<_>>()
    };
    let leaves_the_root = [leaves(root_uuid(), "VGPU", &["VGPU"])];
    assert_eq!(
        warnings(reserving(flat(), "VGPU", 2), per_gpu(), &leaves_the_root),
        ["! 2 VGPU reserved on gpu-01 are not reserved where they go"]
    );
    assert!(warnings(flat(), per_gpu(), &leaves_the_root).is_empty());

    let parted = tree([root(&[("VCPU", 8), ("PCPU", 8)]), shared_storage(100)]);
    let current = reserving(flat(), "VCPU", 2);
    let parts = [leaves(root_uuid(), "VCPU", &["VCPU", "PCPU"])];
    let kept = reserving(parted.clone(), "VCPU", 1);
    assert_eq!(
        warnings(current.clone(), kept, &parts),
        ["! 1 VCPU reserved on gpu-01 are not reserved where they go"]
    );
    let kept = reserving(parted, "PCPU", 2);
    assert!(warnings(current, kept, &parts).is_empty());
}
