//! Faults of reshapes on which Nova 34 fails (a guest on a GPU that is no longer configured, an orphan, a consumer with
//! only VGPU, a custom class as target, a child smaller than its usage), as far as the model decides them. Two GPUs,
//! six consumers with one VGPU each; in every case all six units exist afterwards.

use berth_model::{Allocation, Allocations, HomelessReason, Homes, ReshapeRequest};

use super::build::*;

const GPUS: [&str; 2] = ["pci_0000_84_00_0", "pci_0000_85_00_0"];

/// What is wrong in a case.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    GpuNotConfigured,
    Orphan,
    OnlyVgpu,
    CustomClass,
    ChildTooSmall,
}

fn consumers(fault: Fault) -> Allocations {
    (0..6)
        .map(|n| {
            let mut resources = vec![(root_uuid(), "VGPU", 1), (root_uuid(), "VCPU", 2)];
            if fault == Fault::OnlyVgpu && n == 0 {
                resources.pop();
            }
            (consumer(0x10 + n), holding(&resources))
        })
        .collect()
}

fn reshape(fault: Fault) -> ReshapeRequest {
    let current = tree([root(&[("VGPU", 8), ("VCPU", 64)])]);
    let new_class = if fault == Fault::CustomClass {
        "CUSTOM_NVIDIA_11"
    } else {
        "VGPU"
    };
    let second_gpu = match fault {
        Fault::GpuNotConfigured => None,
        Fault::ChildTooSmall => Some(1),
        _ => Some(4),
    };
    let gpus = [Some(4), second_gpu].into_iter().zip(GPUS);
    let children = gpus.filter_map(|(total, gpu)| Some(child(gpu, &[(new_class, total?)])));
    let desired = tree([root(&[("VCPU", 64)])].into_iter().chain(children));
    let homes = |allocation: &Allocation, _: &Allocations| {
        let n = (0..6)
            .find(|n| consumer(0x10 + n) == allocation.consumer)
            .unwrap();
        let gpu = GPUS[usize::try_from(n).unwrap() / 3];
        if fault == Fault::Orphan && n == 4 {
            Homes::Nowhere(HomelessReason::NoGuest)
        } else if desired.get(child_uuid(gpu)).is_none() {
            Homes::Nowhere(HomelessReason::DeviceGone {
                device: format!("gpu-01_{gpu}"),
            })
        } else {
            whole(child_uuid(gpu), new_class, 1)
        }
    };
    pending(
        &current,
        &desired,
        &[leaves(root_uuid(), "VGPU", &[new_class])],
    )
    .resolve(&consumers(fault), homes)
    .unwrap()
}

#[test]
fn every_fault_leaves_every_unit_where_it_can_live() {
    for (fault, on_gpus, held, why) in [
        (Fault::None, [3, 3], 0, ""),
        (
            Fault::GpuNotConfigured,
            [3, 0],
            3,
            "its device gpu-01_pci_0000_85_00_0 is gone or not configured",
        ),
        (
            Fault::Orphan,
            [3, 2],
            1,
            "no guest of this node is the consumer",
        ),
        (Fault::OnlyVgpu, [3, 3], 0, ""),
        (Fault::CustomClass, [3, 3], 0, ""),
        (
            Fault::ChildTooSmall,
            [3, 1],
            2,
            "no room on gpu-01_pci_0000_85_00_0",
        ),
    ] {
        let request = reshape(fault);
        let after = request.afterwards(&consumers(fault)).usages();
        let new_class = if fault == Fault::CustomClass {
            "CUSTOM_NVIDIA_11"
        } else {
            "VGPU"
        };
        let used = |provider, text| after.get(&(provider, class(text))).copied().unwrap_or(0);
        let found = GPUS.map(|gpu| used(child_uuid(gpu), new_class));
        assert_eq!(found, on_gpus, "{fault:?}\n{request}");
        assert_eq!(used(root_uuid(), "VGPU"), held, "{fault:?}\n{request}");
        let inventory = request.tree().inventory(root_uuid(), &class("VGPU"));
        let holds = inventory.map(|inventory| (inventory.is_held(), u64::from(inventory.total)));
        assert_eq!(
            holds,
            (held > 0).then_some((true, held)),
            "{fault:?}\n{request}"
        );
        let reported: u64 = request.held().iter().map(|held| held.used).sum();
        assert_eq!(reported, held, "{fault:?}");
        for (_, reason) in request.homeless() {
            assert_eq!(reason.to_string(), why);
        }
        assert_eq!(request.homeless().len() as u64, held);
    }
}

#[test]
fn a_consumer_with_only_vgpu_is_never_sent_without_resources() {
    let request = reshape(Fault::OnlyVgpu);
    let sent = &request.allocations()[&consumer(0x10)];
    assert_eq!(sent.resources.len(), 1);
    assert!(
        request
            .allocations()
            .values()
            .all(|sent| !sent.resources.is_empty())
    );
}

#[test]
fn a_custom_class_is_named_so_that_it_can_be_made_first() {
    let request = reshape(Fault::CustomClass);
    let diff = request.diff();
    let classes: Vec<_> = diff
        .created
        .iter()
        .flat_map(|p| p.inventories.keys())
        .collect();
    assert!(!classes.is_empty() && classes.iter().all(|class| class.is_custom()));
}
