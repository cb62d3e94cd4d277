//! A reshape followed by its inverse restores the tree and the allocations.

use berth_model::{Allocation, Allocations, Home, HomelessReason, Homes, ProviderTree};
use proptest::prelude::*;

use super::build::*;

/// Per GPU the units of each consumer: GPUs have exactly what is used and `spare` more.
fn worlds() -> impl Strategy<Value = Vec<(Vec<u64>, u64)>> {
    prop::collection::vec((prop::collection::vec(0..4_u64, 5), 1..4_u64), 1..4)
}

fn gpu(n: usize) -> String {
    format!("pci_0000_8{n}_00_0")
}

fn flat(world: &[(Vec<u64>, u64)]) -> ProviderTree {
    let total = world
        .iter()
        .map(|(units, spare)| units.iter().sum::<u64>() + spare)
        .sum();
    tree([root(&[("VCPU", 64), ("VGPU", total)])])
}

fn per_gpu(world: &[(Vec<u64>, u64)]) -> ProviderTree {
    let gpus = world
        .iter()
        .enumerate()
        .map(|(n, (units, spare))| child(&gpu(n), &[("VGPU", units.iter().sum::<u64>() + spare)]));
    tree([root(&[("VCPU", 64)])].into_iter().chain(gpus))
}

fn consumers(world: &[(Vec<u64>, u64)]) -> Allocations {
    let units_of = |n: usize| world.iter().map(|(units, _)| units[n]).sum::<u64>();
    (0..5)
        .filter(|n| units_of(*n) > 0)
        .map(|n| {
            let resources = [(root_uuid(), "VGPU", units_of(n)), (root_uuid(), "VCPU", 2)];
            (consumer(0x10 + n as u128), holding(&resources))
        })
        .collect()
}

proptest! {
    #![proptest_config(unsaved())]

    #[test]
    fn there_and_back_again(world in worlds()) {
        let (flat, per_gpu, before) = (flat(&world), per_gpu(&world), consumers(&world));
        let there = |allocation: &Allocation, _: &Allocations| {
            let n = (0..5).find(|n| consumer(0x10 + *n as u128) == allocation.consumer).unwrap();
            let homes = world.iter().enumerate().filter(|(_, (units, _))| units[n] > 0);
            Homes::At {
                homes: homes
                    .map(|(at, (units, _))| Home {
                        provider: child_uuid(&gpu(at)),
                        class: class("VGPU"),
                        amount: units[n],
                    })
                    .collect(),
                rest: HomelessReason::Unknown,
            }
        };
        let moves = [leaves(root_uuid(), "VGPU", &["VGPU"])];
        let out = pending(&flat, &per_gpu, &moves).resolve(&before, there).unwrap();
        prop_assert_eq!(out.tree(), &per_gpu);
        prop_assert!(out.homeless().is_empty() && out.held().is_empty());
        let between = out.afterwards(&before);

        let moves: Vec<_> = (0..world.len())
            .map(|n| leaves(child_uuid(&gpu(n)), "VGPU", &["VGPU"]))
            .collect();
        let back = |allocation: &Allocation, _: &Allocations| {
            whole(root_uuid(), "VGPU", allocation.amount)
        };
        let home = pending(&per_gpu, &flat, &moves).resolve(&between, back).unwrap();
        prop_assert_eq!(home.tree(), &flat);
        prop_assert_eq!(home.afterwards(&between), before);
    }
}
