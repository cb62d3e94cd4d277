//! S2: a reshape only moves allocations within the tree.

use std::collections::{BTreeMap, BTreeSet};

use crate::{InvariantId, PlacementSnapshot, Reshape, SystemSnapshot, Violation};
use berth_model::{ConsumerUuid, ProviderUuid, ResourceClass};

pub(crate) fn s2(snapshot: &SystemSnapshot) -> Vec<Violation> {
    let mut violations = Vec::new();
    for reshape in &snapshot.histories.reshapes {
        let tree = tree(reshape);
        amounts(reshape, &tree, &mut violations);
        outside(reshape, &tree, &mut violations);
    }
    violations
}

/// The providers of the tree, before or after.
fn tree(reshape: &Reshape) -> BTreeSet<ProviderUuid> {
    let of = |world: &PlacementSnapshot| -> Vec<ProviderUuid> {
        let providers = world.providers.keys().copied();
        providers
            .filter(|provider| world.top(*provider) == Some(reshape.root))
            .collect()
    };
    of(&reshape.before)
        .into_iter()
        .chain(of(&reshape.after))
        .collect()
}

type Sums = BTreeMap<(ConsumerUuid, ResourceClass), u64>;

/// Per consumer and class, with renamed classes counted as one, the tree's amounts are the same.
fn amounts(reshape: &Reshape, tree: &BTreeSet<ProviderUuid>, violations: &mut Vec<Violation>) {
    let sums = |world: &PlacementSnapshot| {
        let mut sums = Sums::new();
        for (consumer, row) in &world.consumers {
            for ((provider, class), amount) in &row.allocated {
                if tree.contains(provider) {
                    let class = counts_as(reshape, class);
                    *sums.entry((*consumer, class)).or_insert(0) += amount;
                }
            }
        }
        sums
    };
    let (before, after) = (sums(&reshape.before), sums(&reshape.after));
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    for key in keys {
        let [was, is] = [&before, &after].map(|sums| sums.get(key).copied().unwrap_or(0));
        if was != is {
            let (consumer, class) = key;
            let finding =
                format!("consumer {consumer} held {was} {class} before the reshape, {is} after");
            violations.push(Violation::of(InvariantId::S2, finding));
        }
    }
}

fn counts_as(reshape: &Reshape, class: &ResourceClass) -> ResourceClass {
    let group = reshape.one_class.iter().find(|group| group.contains(class));
    group.and_then(BTreeSet::first).unwrap_or(class).clone()
}

/// The consumers, their allocations outside the tree, and the providers outside the tree are unchanged.
fn outside(reshape: &Reshape, tree: &BTreeSet<ProviderUuid>, violations: &mut Vec<Violation>) {
    let of = |world: &PlacementSnapshot| {
        let mut world = world.without_generations();
        world
            .providers
            .retain(|provider, _| !tree.contains(provider));
        for row in world.consumers.values_mut() {
            row.allocated
                .retain(|(provider, _), _| !tree.contains(provider));
        }
        world
    };
    let (before, after) = (of(&reshape.before), of(&reshape.after));
    let providers: BTreeSet<_> = before
        .providers
        .keys()
        .chain(after.providers.keys())
        .collect();
    for provider in providers {
        if before.providers.get(provider) != after.providers.get(provider) {
            let name = reshape.before.name(*provider);
            let finding =
                format!("provider {name} is outside the tree, but the reshape changed it");
            violations.push(Violation::of(InvariantId::S2, finding));
        }
    }
    let consumers: BTreeSet<_> = before
        .consumers
        .keys()
        .chain(after.consumers.keys())
        .collect();
    for consumer in consumers {
        if before.consumers.get(consumer) != after.consumers.get(consumer) {
            let finding = format!(
                "the reshape changed what consumer {consumer} is or holds outside the tree"
            );
            violations.push(Violation::of(InvariantId::S2, finding));
        }
    }
}
