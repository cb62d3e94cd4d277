//! Completes the driver's desired tree with what only the agent knows: allocation ratios, resources reserved for the
//! host, the owner trait, COMPUTE_NODE, and whether the node is disabled. Pure.

use std::collections::BTreeSet;

use berth_model::{
    AllocationRatio, DesiredTree, Inventory, OWNER_TRAITS, ProviderTree, ProviderUuid,
    ResourceClass, Trait,
};

use crate::options::TrackerOptions;

/// Whether the node accepts new guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    Enabled,
    /// The node has the trait COMPUTE_STATUS_DISABLED, so schedulers do not select it.
    Disabled,
}

/// Completes the desired tree. `unknown` are standard traits that this Placement does not know; they are removed.
pub(crate) fn complete(
    mut desired: DesiredTree,
    current: &ProviderTree,
    options: &TrackerOptions,
    service: Service,
    unknown: &BTreeSet<Trait>,
) -> DesiredTree {
    overcommit(&mut desired.tree, current, options);
    reserve(&mut desired.tree, options);
    mark_owned(&mut desired.tree, current, options, service);
    let ours: Vec<ProviderUuid> = writable_providers(&desired.tree, current);
    for uuid in ours {
        if let Some(provider) = desired.tree.get_mut(uuid) {
            provider.traits.retain(|wanted| !unknown.contains(wanted));
        }
    }
    desired
}

/// The node's own providers that Berth writes, root first, children by name.
fn writable_providers(tree: &ProviderTree, current: &ProviderTree) -> Vec<ProviderUuid> {
    tree.own()
        .into_iter()
        .map(berth_model::Provider::uuid)
        .filter(|uuid| tree.is_ours(*uuid) || current.is_ours(*uuid))
        .collect()
}

fn overcommit(tree: &mut ProviderTree, current: &ProviderTree, options: &TrackerOptions) {
    let ratios = &options.ratios;
    for (class, configured, initial) in [
        (ResourceClass::VCPU, ratios.cpu, ratios.initial_cpu),
        (ResourceClass::MEMORY_MB, ratios.ram, ratios.initial_ram),
        (ResourceClass::DISK_GB, ratios.disk, ratios.initial_disk),
    ] {
        for uuid in writable_providers(tree, current) {
            let kept = reported_ratio(current, uuid, &class);
            let ratio = configured.or(kept).unwrap_or(initial);
            if let Some(inventory) = tree
                .get_mut(uuid)
                .and_then(|provider| provider.inventories.get_mut(&class))
            {
                *inventory = inventory.clone().with_ratio(ratio);
            }
        }
    }
}

/// The ratio that Placement has for the class. If the class moves to another provider, its ratio moves with it.
fn reported_ratio(
    current: &ProviderTree,
    uuid: ProviderUuid,
    class: &ResourceClass,
) -> Option<AllocationRatio> {
    let not_held = |inventory: &&Inventory| !inventory.is_held();
    current
        .inventory(uuid, class)
        .filter(not_held)
        .or_else(|| {
            let elsewhere = current
                .own()
                .into_iter()
                .filter(|p| current.is_ours(p.uuid()));
            elsewhere
                .filter_map(|p| p.inventories.get(class))
                .find(not_held)
        })
        .map(|inventory| inventory.allocation_ratio)
}

/// Reserves resources for the host: on the first provider that has the class, then on the next ones until the amount is
/// reached.
fn reserve(tree: &mut ProviderTree, options: &TrackerOptions) {
    let reserved = options.reserved;
    for (class, mut left) in [
        (ResourceClass::VCPU, reserved.cpus),
        (ResourceClass::MEMORY_MB, reserved.memory_mib),
        (ResourceClass::DISK_GB, reserved.disk_mib.div_ceil(1024)),
    ] {
        let providers: Vec<_> = tree
            .own()
            .into_iter()
            .map(berth_model::Provider::uuid)
            .collect();
        for uuid in providers {
            if !tree.is_ours(uuid) {
                continue;
            }
            if let Some(inventory) = tree
                .get_mut(uuid)
                .and_then(|provider| provider.inventories.get_mut(&class))
            {
                let here = left.min(inventory.total);
                *inventory = inventory.clone().reserving(here);
                left -= here;
            }
        }
    }
}

fn mark_owned(
    tree: &mut ProviderTree,
    current: &ProviderTree,
    options: &TrackerOptions,
    service: Service,
) {
    let owner = options.owner.as_trait();
    for uuid in writable_providers(tree, current) {
        // A device of the accelerator service already has its owner trait.
        let ours = tree
            .get_mut(uuid)
            .filter(|provider| !provider.traits.contains(&Trait::OWNER_CYBORG));
        if let Some(provider) = ours {
            provider.traits.retain(|held| !OWNER_TRAITS.contains(held));
            provider.traits.insert(owner.clone());
        }
    }
    let root = tree.root_mut();
    root.traits.insert(Trait::COMPUTE_NODE);
    match service {
        Service::Enabled => root.traits.remove(&Trait::COMPUTE_STATUS_DISABLED),
        Service::Disabled => root.traits.insert(Trait::COMPUTE_STATUS_DISABLED),
    };
}

#[cfg(test)]
mod tests {
    use berth_model::{Provider, ProviderName};

    use super::*;

    fn tree(classes: &[(ResourceClass, u64)]) -> ProviderTree {
        let uuid = "6f2a4c2e-0f0e-4d0f-9d65-2b3c5f3a1c01".parse().unwrap();
        let mut root = Provider::root(uuid, ProviderName::new("node").unwrap());
        for (class, total) in classes {
            root.inventories
                .insert(class.clone(), Inventory::of(*total).unwrap());
        }
        ProviderTree::new(root)
    }

    fn completed(
        current: &ProviderTree,
        wanted: ProviderTree,
        options: &TrackerOptions,
    ) -> ProviderTree {
        let desired = DesiredTree {
            tree: wanted,
            moves: Vec::new(),
            held_traits: std::collections::BTreeMap::new(),
        };
        complete(
            desired,
            current,
            options,
            Service::Enabled,
            &BTreeSet::new(),
        )
        .tree
    }

    #[test]
    fn a_ratio_is_configured_or_kept_or_initial() {
        let empty = tree(&[]);
        let wanted = tree(&[(ResourceClass::VCPU, 8)]);
        let ratio = |tree: &ProviderTree| {
            tree.root().inventories[&ResourceClass::VCPU]
                .allocation_ratio
                .as_f64()
        };
        let mut options = TrackerOptions::default();
        assert!((ratio(&completed(&empty, wanted.clone(), &options)) - 4.0).abs() < 1e-6);
        let mut set = wanted.clone();
        let operators = AllocationRatio::new(2.5).unwrap();
        let vcpu = Inventory::of(8).unwrap().with_ratio(operators);
        set.root_mut().inventories.insert(ResourceClass::VCPU, vcpu);
        assert!((ratio(&completed(&set, wanted.clone(), &options)) - 2.5).abs() < 1e-6);
        options.ratios.cpu = Some(AllocationRatio::new(1.5).unwrap());
        assert!((ratio(&completed(&set, wanted, &options)) - 1.5).abs() < 1e-6);
    }

    #[test]
    fn what_the_host_keeps_is_taken_from_one_provider_after_the_other() {
        let mut wanted = tree(&[]);
        let root = wanted.root().uuid();
        for cell in ["node_numa0", "node_numa1"] {
            let name = ProviderName::new(cell).unwrap();
            let mut child = Provider::child(root.child(&name), name, root);
            child
                .inventories
                .insert(ResourceClass::MEMORY_MB, Inventory::of(300).unwrap());
            wanted.insert(child).unwrap();
        }
        let done = completed(&tree(&[]), wanted, &TrackerOptions::default());
        let reserved: Vec<_> = done
            .children(root)
            .iter()
            .map(|cell| cell.inventories[&ResourceClass::MEMORY_MB].reserved)
            .collect();
        assert_eq!(reserved, [300, 212]);
    }

    #[test]
    fn a_disabled_node_says_so_and_a_foreign_child_keeps_its_traits() {
        let mut current = tree(&[]);
        let root = current.root().uuid();
        let foreign: ProviderUuid = "6f2a4c2e-0f0e-4d0f-9d65-2b3c5f3a1c09".parse().unwrap();
        let mut child = Provider::child(foreign, ProviderName::new("fpga").unwrap(), root);
        child.traits.insert(Trait::OWNER_CYBORG);
        current.insert(child).unwrap();
        let desired = DesiredTree {
            tree: current.clone(),
            moves: Vec::new(),
            held_traits: std::collections::BTreeMap::new(),
        };
        let options = TrackerOptions::default();
        let done = complete(
            desired,
            &current,
            &options,
            Service::Disabled,
            &BTreeSet::new(),
        )
        .tree;
        assert!(done.root().traits.contains(&Trait::COMPUTE_STATUS_DISABLED));
        assert!(done.root().traits.contains(&Trait::OWNER_NOVA));
        assert_eq!(
            done.get(foreign).unwrap().traits,
            BTreeSet::from([Trait::OWNER_CYBORG])
        );
    }

    #[test]
    fn a_device_of_the_accelerator_service_keeps_both_its_marks() {
        let mut current = tree(&[]);
        let root = current.root().uuid();
        let name = ProviderName::new("node_0000:84:00.0").unwrap();
        let uuid = ProviderUuid::of_deployable(&name);
        let mut child = Provider::child(uuid, name, root);
        let marks = BTreeSet::from([Trait::OWNER_CYBORG, Trait::CUSTOM_OWNER_BERTH]);
        child.traits.clone_from(&marks);
        current.insert(child).unwrap();
        let done = completed(&current, current.clone(), &TrackerOptions::default());
        assert_eq!(done.get(uuid).unwrap().traits, marks);
    }
}
