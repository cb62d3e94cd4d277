//! Builders for the values of these tests.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    Allocations, ConsumerAllocations, ConsumerUuid, DesiredTree, Generation, Home, HomelessReason,
    Homes, Inventory, Move, Plan, Provider, ProviderName, ProviderTree, ProviderUuid,
    ResourceClass, Usages, plan,
};

/// Prints a failing case instead of saving it next to the code.
pub(crate) fn unsaved() -> proptest::test_runner::Config {
    proptest::test_runner::Config {
        failure_persistence: None,
        ..Default::default()
    }
}

pub(crate) const SHARED: u128 = 0x80;
pub(crate) const OTHER_HOST: u128 = 0x90;

pub(crate) fn uuid(n: u128) -> ProviderUuid {
    uuid::Uuid::from_u128(n).into()
}

pub(crate) fn consumer(n: u128) -> ConsumerUuid {
    uuid::Uuid::from_u128(n).into()
}

pub(crate) fn name(text: &str) -> ProviderName {
    ProviderName::new(text).unwrap()
}

pub(crate) fn class(text: &str) -> ResourceClass {
    ResourceClass::new(text).unwrap()
}

pub(crate) fn of(total: u64) -> Inventory {
    Inventory::of(total).unwrap()
}

pub(crate) fn root_uuid() -> ProviderUuid {
    uuid(1)
}

/// A root with these inventories.
pub(crate) fn root(inventories: &[(&str, u64)]) -> Provider {
    let mut root = Provider::root(root_uuid(), name("gpu-01"));
    for (text, total) in inventories {
        root.inventories.insert(class(text), of(*total));
    }
    root
}

/// The UUID of the child that Berth makes for this device.
pub(crate) fn child_uuid(device: &str) -> ProviderUuid {
    root_uuid().child(&name(&format!("gpu-01_{device}")))
}

/// A child of Berth's with these inventories.
pub(crate) fn child(device: &str, inventories: &[(&str, u64)]) -> Provider {
    let name = name(&format!("gpu-01_{device}"));
    let mut child = Provider::child(child_uuid(device), name, root_uuid());
    for (text, total) in inventories {
        child.inventories.insert(class(text), of(*total));
    }
    child
}

pub(crate) fn shared_storage(total: u64) -> Provider {
    let mut shared = Provider::root(uuid(SHARED), name("nfs"));
    shared.inventories.insert(ResourceClass::DISK_GB, of(total));
    shared
}

pub(crate) fn tree(providers: impl IntoIterator<Item = Provider>) -> ProviderTree {
    ProviderTree::from_providers(root_uuid(), providers).unwrap()
}

pub(crate) fn leaves(provider: ProviderUuid, from: &str, to: &[&str]) -> Move {
    Move {
        provider,
        class: class(from),
        to: to.iter().map(|text| class(text)).collect::<BTreeSet<_>>(),
        reason: "it is modelled elsewhere",
    }
}

/// All that a consumer holds.
pub(crate) fn holding(resources: &[(ProviderUuid, &str, u64)]) -> ConsumerAllocations {
    ConsumerAllocations {
        project_id: "project".into(),
        user_id: "user".into(),
        generation: Some(Generation::answered(3)),
        resources: resources
            .iter()
            .map(|(provider, text, amount)| ((*provider, class(text)), *amount))
            .collect(),
    }
}

pub(crate) fn whole(provider: ProviderUuid, text: &str, amount: u64) -> Homes {
    Homes::At {
        homes: vec![Home {
            provider,
            class: class(text),
            amount,
        }],
        rest: HomelessReason::Unknown,
    }
}

/// What one consumer holds of one class on one provider.
pub(crate) fn amount(
    allocations: &Allocations,
    consumer: ConsumerUuid,
    provider: ProviderUuid,
    text: &str,
) -> u64 {
    allocations
        .of(&consumer)
        .and_then(|held| held.resources.get(&(provider, class(text))))
        .copied()
        .unwrap_or(0)
}

/// Usages as Placement returns them, with a zero for each unused inventory.
pub(crate) fn usages(tree: &ProviderTree, allocations: &Allocations) -> Usages {
    let mut usages: Usages = BTreeMap::new();
    for provider in tree.all() {
        for class in provider.inventories.keys() {
            usages.insert((provider.uuid(), class.clone()), 0);
        }
    }
    usages.extend(allocations.usages());
    usages
}

/// The pending reshape of a plan that must be one.
pub(crate) fn pending(
    current: &ProviderTree,
    desired: &ProviderTree,
    moves: &[Move],
) -> berth_model::PendingReshape {
    let desired = DesiredTree {
        tree: desired.clone(),
        moves: moves.to_vec(),
        held_traits: std::collections::BTreeMap::new(),
    };
    match plan(current, desired, &Usages::new()) {
        Plan::ReshapeNeeded(pending) => pending,
        other => panic!("no reshape is needed:\n{other}"),
    }
}
