//! Computes the correct allocations of a guest.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{ConsumerAllocations, ProviderTree, ProviderUuid, ResourceClass};
use berth_virt::Resources;

use crate::allocation_audit::on_tree;

/// What a guest should hold on the node's tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DesiredAllocation {
    /// The corrected allocations: missing ones are added, misplaced ones are moved.
    Known(Resources),
    /// The guest lacks units of the class on one provider, and holds unexplained units of it on another one.
    Unclear { class: ResourceClass },
}

/// Computes what a guest should hold on the tree, from what it holds (`here`) and what it uses.
///
/// Device units belong on the device's provider. CPUs and memory of a guest that is placed on NUMA cells belong on these cells' providers;
/// otherwise any provider will do. Units are only taken from a provider in `devices`, because the use of other providers is not observable.
pub(super) fn desired_allocation(
    here: &Resources,
    uses: &Resources,
    is_placed: bool,
    devices: &BTreeSet<(ProviderUuid, ResourceClass)>,
) -> DesiredAllocation {
    let mut wanted = here.clone();
    let classes: BTreeSet<&ResourceClass> = uses.keys().map(|(_, class)| class).collect();
    for class in classes {
        let (has, needs) = (of_class(here, class), of_class(uses, class));
        let (total, needed): (u64, u64) = (has.values().sum(), needs.values().sum());
        let of =
            |all: &BTreeMap<ProviderUuid, u64>, provider| all.get(provider).copied().unwrap_or(0);
        if is_spread(class) && !is_placed {
            // The guest may hold more than is observed: custom resources of the flavor, or a CPU for the emulator
            // threads.
            let at = has.keys().next().or_else(|| needs.keys().next());
            if let Some(provider) = at.filter(|_| total < needed) {
                *wanted.entry((*provider, class.clone())).or_insert(0) += needed - total;
            }
            continue;
        }
        let lacks = needs
            .iter()
            .any(|(provider, amount)| of(&has, provider) < *amount);
        if !lacks {
            continue;
        }
        let mut surplus = has
            .iter()
            .filter(|(provider, amount)| **amount > of(&needs, provider));
        // The CPU of the emulator threads can be on any cell. A device that is not observed can only be behind one of
        // these providers.
        let is_known = |provider: &ProviderUuid| devices.contains(&(*provider, class.clone()));
        let has_surplus = surplus.clone().next().is_some();
        let may_move = !is_spread(class) && total <= needed && surplus.all(|(it, _)| is_known(it));
        if has_surplus && !may_move {
            return DesiredAllocation::Unclear {
                class: class.clone(),
            };
        }
        wanted.retain(|(_, held), _| held != class);
        let needs = needs.into_iter();
        wanted.extend(needs.map(|(provider, amount)| ((provider, class.clone()), amount)));
    }
    DesiredAllocation::Known(wanted)
}

/// Whether units of the class are interchangeable between providers, unless the guest is placed on NUMA cells.
pub(super) fn is_spread(class: &ResourceClass) -> bool {
    [
        ResourceClass::VCPU,
        ResourceClass::PCPU,
        ResourceClass::MEMORY_MB,
    ]
    .contains(class)
}

fn of_class(resources: &Resources, class: &ResourceClass) -> BTreeMap<ProviderUuid, u64> {
    let of_class = resources.iter().filter(|((_, held), _)| held == class);
    of_class
        .map(|((provider, _), amount)| (*provider, *amount))
        .collect()
}

/// The complete allocations of a consumer with its part of the tree replaced by `wanted`.
#[must_use]
pub fn heal_allocations(
    held: &ConsumerAllocations,
    tree: &ProviderTree,
    wanted: &Resources,
) -> ConsumerAllocations {
    let here = on_tree(tree, held);
    let mut healed = held.clone();
    healed
        .resources
        .retain(|place, _| !here.contains_key(place));
    let wanted = wanted.iter().filter(|(_, amount)| **amount > 0);
    let wanted = wanted.map(|(place, amount)| (place.clone(), *amount));
    healed.resources.extend(wanted);
    healed
}
