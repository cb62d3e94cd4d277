//! What a consumer holds when it is healed.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{ConsumerAllocations, ProviderTree, ProviderUuid, ResourceClass};
use berth_virt::Resources;

use crate::allocation_audit::on_tree;

/// What a guest should hold of its node's tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// This: what it holds, and what it lacks of what it uses; what it holds in the wrong place is in the right one.
    Known(Resources),
    /// It lacks something where it uses it, and holds something where it is not seen to use any.
    Unclear { class: ResourceClass },
}

/// Units of a device are on the device's provider; processors and memory of a guest with cells of its own on theirs, of another
/// wherever they are. Nothing is taken from a provider that is not among `devices`: what a guest has of it is not seen.
pub(super) fn wanted(
    here: &Resources,
    uses: &Resources,
    is_placed: bool,
    devices: &BTreeSet<(ProviderUuid, ResourceClass)>,
) -> Wanted {
    let mut wanted = here.clone();
    let classes: BTreeSet<&ResourceClass> = uses.keys().map(|(_, class)| class).collect();
    for class in classes {
        let (has, needs) = (of_class(here, class), of_class(uses, class));
        let (total, needed): (u64, u64) = (has.values().sum(), needs.values().sum());
        let of =
            |all: &BTreeMap<ProviderUuid, u64>, provider| all.get(provider).copied().unwrap_or(0);
        if is_spread(class) && !is_placed {
            // More than is seen: a flavor's own resources, or a thread of the emulator's.
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
        // A thread of the emulator's may be on any cell, and a device that is not seen behind any provider but these.
        let is_known = |provider: &ProviderUuid| devices.contains(&(*provider, class.clone()));
        let has_surplus = surplus.clone().next().is_some();
        let may_move = !is_spread(class) && total <= needed && surplus.all(|(it, _)| is_known(it));
        if has_surplus && !may_move {
            return Wanted::Unclear {
                class: class.clone(),
            };
        }
        wanted.retain(|(_, held), _| held != class);
        let needs = needs.into_iter();
        wanted.extend(needs.map(|(provider, amount)| ((provider, class.clone()), amount)));
    }
    Wanted::Known(wanted)
}

/// Whether its units are alike wherever they are, unless the guest has a place of its own.
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

/// The whole of a consumer's allocations once its part of a tree is `wanted`; what it holds elsewhere stays.
#[must_use]
pub fn healed(
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
