//! What a consumer holds when it is healed.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{ConsumerAllocations, ProviderTree, ProviderUuid, ResourceClass};
use berth_virt::Resources;

use super::on_tree;

/// What a guest should hold of its node's tree: what it holds, and what it uses beside that. Units of a device are on the
/// device's provider; processors and memory of a guest with cells of its own on theirs, of another wherever they are.
pub(super) fn wanted(here: &Resources, uses: &Resources, is_placed: bool) -> Resources {
    let mut wanted = here.clone();
    let classes: BTreeSet<&ResourceClass> = uses.keys().map(|(_, class)| class).collect();
    for class in classes {
        let (has, needs) = (of_class(here, class), of_class(uses, class));
        let (total, needed): (u64, u64) = (has.values().sum(), needs.values().sum());
        let has_its_place = is_placed || !is_spread(class);
        if total > needed {
            // More than is seen: a flavor's own resources, or a thread of the emulator's.
            continue;
        }
        if has_its_place {
            wanted.retain(|(_, held), _| held != class);
            let needs = needs.into_iter();
            wanted.extend(needs.map(|(provider, amount)| ((provider, class.clone()), amount)));
        } else if total < needed {
            let at = has.keys().next().or_else(|| needs.keys().next());
            if let Some(provider) = at {
                *wanted.entry((*provider, class.clone())).or_insert(0) += needed - total;
            }
        }
    }
    wanted
}

/// Whether its units are alike wherever they are, unless the guest has a place of its own.
fn is_spread(class: &ResourceClass) -> bool {
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

/// The whole of a consumer's allocations once its part of a tree is `wanted`; what it holds elsewhere stays.
#[must_use]
pub fn healed(
    held: &ConsumerAllocations,
    tree: &ProviderTree,
    wanted: &berth_virt::Resources,
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
